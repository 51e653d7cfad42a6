//! A sweep, which drops levels of the search when the memory limit is reached, has the same result as a search with enough memory.

use meshlock_check::{Bounds, Property, Report, Verdict, explore_spec};
use meshlock_protocol::Spec;

use crate::toy;

/// Explores without a memory limit, and with this percentage of the memory that this took. Returns both reports.
fn with_less_memory(percent: usize, bounds: &Bounds, explored: impl Fn(&Bounds) -> Report) -> [Report; 2] {
    let whole = explored(bounds);
    assert_eq!(whole.swept, None);
    let less = explored(&Bounds { max_memory: whole.memory / 100 * percent, ..bounds.clone() });
    [whole, less]
}

fn whole_and_swept(spec: &str, bounds: &Bounds, percent: usize) -> [Report; 2] {
    let spec: Spec = spec.parse().expect("a registered name");
    let [whole, swept] = with_less_memory(percent, bounds, |bounds| explore_spec(&spec, bounds));
    assert!(swept.swept.is_some(), "{spec}: {:?} within {} bytes", swept.verdict, swept.memory);
    [whole, swept]
}

/// Explores, with and without enough memory, a model whose server and one site exchange `echo` messages after all requests were served.
fn toy_with_echo(echo: &str, percent: usize) -> [Report; 2] {
    with_less_memory(percent, &Bounds::new(4, 2), |bounds| toy::explored(&[("echo", echo)], bounds))
}

#[test]
fn a_sweep_counts_as_many_states_as_a_whole_search() {
    let told = |report: &Report| {
        let Report { verdict, states, depth, edges, local_states, messages, .. } = report;
        format!("{verdict:?} {states} {depth} {edges} {local_states} {messages:?}")
    };
    for (spec, bounds, percent) in [
        ("lamport", Bounds::new(3, 1), 70),
        ("lamport:omit-replies", Bounds::new(3, 1), 80),
        ("ricart-agrawala", Bounds::new(3, 2).unordered(), 80),
        ("raymond-k", Bounds::new(3, 2).unordered(), 80),
        ("suzuki-kasami", Bounds::new(3, 2).unordered(), 90),
        ("raymond", Bounds::new(4, 3).unordered(), 50),
        ("token-ring", Bounds::new(4, 3).unordered(), 50),
    ] {
        let [whole, swept] = whole_and_swept(spec, &bounds, percent);
        assert_eq!(whole.verdict, Verdict::Holds);
        assert_eq!(told(&swept), told(&whole), "{spec}");
    }
}

/// The path to the violation is searched for again, and is a shortest one.
#[test]
fn a_sweep_finds_a_shortest_path_to_a_violation() {
    let bounds = Bounds::new(3, 3).unordered();
    let [whole, swept] = whole_and_swept("carvalho-roucairol:text=printed", &bounds, 90);
    assert_eq!(whole.verdict.property(), Some(Property::Deadlock));
    assert_eq!((swept.verdict.property(), swept.path.len()), (Some(Property::Deadlock), whole.path.len()));
}

/// To leave and to request again takes one step or two, with the same final state.
#[test]
fn a_state_that_is_reached_again_is_counted_again_only_if_its_level_was_dropped() {
    let bounds = Bounds::new(3, 2).unordered().with_returns();
    let [whole, swept] = whole_and_swept("ricart-agrawala", &bounds, 90);
    assert_eq!((&whole.verdict, &swept.verdict), (&Verdict::Holds, &Verdict::Holds));
    assert_eq!(swept.states, whole.states);
    let [_, narrow] = whole_and_swept("ricart-agrawala", &bounds, 80);
    assert_eq!(narrow.verdict, Verdict::Holds);
    assert!(narrow.states > whole.states && narrow.states < 2 * whole.states, "{}", narrow.states);
}

/// Longer paths to a known state are not followed, so the cost of the most expensive run is unknown.
#[test]
fn a_sweep_with_steps_between_states_of_one_level_reports_no_costs() {
    let [whole, swept] = whole_and_swept("lodha-kshemkalyani", &Bounds::new(3, 2), 90);
    assert_eq!((&whole.verdict, &swept.verdict), (&Verdict::Holds, &Verdict::Holds));
    assert_eq!(swept.states, whole.states);
    assert_eq!((whole.messages, swept.messages), (Some((16, 24)), None));
}

/// Its sites return to earlier states, so a sweep might never end.
#[test]
fn no_sweep_begins_if_runs_may_have_cycles() {
    let spec: Spec = "sanders".parse().expect("a registered name");
    let bounds = Bounds::new(3, 1).unordered().with_crashes(1);
    let [whole, limited] = with_less_memory(90, &bounds, |bounds| explore_spec(&spec, bounds));
    assert_eq!((whole.verdict, whole.swept), (Verdict::Holds, None));
    assert_eq!((limited.verdict, limited.swept), (Verdict::Unfinished, None));
}

/// Whether a site starves in a cycle that begins after the sweep cannot be decided, because the graph is dropped.
#[test]
fn a_sweep_that_finds_a_cycle_is_abandoned() {
    let [whole, swept] = toy_with_echo("for-ever", 95);
    assert_eq!(whole.verdict, Verdict::Holds);
    assert!(swept.swept.is_some() && swept.memory < whole.memory / 100 * 95, "memory was not the reason");
    assert_eq!(swept.verdict, Verdict::Unfinished);
}

#[test]
fn a_sweep_of_a_thousand_levels_is_abandoned() {
    let [whole, swept] = toy_with_echo("500", 90);
    assert_eq!((whole.verdict, swept.verdict), (Verdict::Holds, Verdict::Holds));
    let [whole, swept] = toy_with_echo("3000", 90);
    assert_eq!((whole.verdict, whole.depth > 3000), (Verdict::Holds, true));
    let begun = swept.swept.expect("memory ended");
    assert_eq!((swept.verdict, swept.depth), (Verdict::Unfinished, begun + 1001));
}
