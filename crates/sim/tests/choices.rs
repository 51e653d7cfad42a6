//! What a paper leaves open is drawn by the seed: the same seed gives the same run, another one other choices, a trace shows them, and
//! everything that the checker holds in every schedule holds.

use meshlock_protocol::registry::ALL;
use meshlock_protocol::registry::info::Permits;
use meshlock_protocol::{Cluster, Spec};
use meshlock_sim::trace::{JsonLines, TraceKind, Written};
use meshlock_sim::{Settings, traced};

/// The choices of a run, in order.
fn choices(spec: &str, seed: u64) -> Vec<(u32, u32)> {
    let spec: Spec = spec.parse().expect("a registered name");
    let permits = if spec.info.permits == Permits::One { 1 } else { 2 };
    let cluster = Cluster::of(7).with_permits(permits);
    let settings = Settings { seed, entries: 300, ..Settings::new(cluster) };
    let mut text = Vec::new();
    let mut trace = JsonLines::new(&mut text, false);
    traced(&spec, &settings, &mut trace).unwrap_or_else(|stopped| panic!("{spec}: {stopped}"));
    trace.finish().expect("it is written to memory");
    let lines = text.split(|&byte| byte == b'\n').filter(|line| !line.is_empty());
    let lines = lines.map(|line| serde_json::from_slice::<Written>(line).expect("a line of a trace"));
    let chosen = lines.filter(|line| line.kind == TraceKind::Choose);
    chosen.map(|line| line.choice.expect("it says what was chosen")).collect()
}

#[test]
fn the_seed_draws_every_choice_and_the_trace_shows_it() {
    let open: Vec<String> = ALL.iter().filter_map(|info| info.open_spec()).collect();
    assert!(open.len() >= 6, "{open:?}");
    for spec in open {
        let drawn = choices(&spec, 1);
        assert!(drawn.iter().all(|&(taken, of)| taken < of), "{spec}");
        assert!(drawn.iter().any(|&(taken, _)| taken > 0), "{spec}: not always the first");
        assert_eq!(drawn, choices(&spec, 1), "{spec}");
        assert_ne!(drawn, choices(&spec, 2), "{spec}");
    }
}

#[test]
fn where_nothing_is_open_nothing_is_chosen() {
    for info in ALL.iter().filter(|info| info.open_spec().is_none()) {
        assert_eq!(choices(info.name, 1), [], "{}", info.name);
    }
}
