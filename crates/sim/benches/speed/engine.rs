//! The event loop, with all its checks and metrics on.

use meshlock_protocol::{Cluster, Spec};
use meshlock_sim::settings::Load;
use meshlock_sim::{Settings, measure};

use crate::{ROUNDS, median, timed};

/// Events per CPU second of one run with ten sites.
pub(crate) fn speed(spec: &str, load: Load, entries: u64) -> f64 {
    let spec: Spec = spec.parse().expect("a registered name");
    let settings = Settings { load, entries, ..Settings::new(Cluster::of(10)) };
    let (report, seconds) = timed(|| measure(&spec, &settings));
    report.expect("the algorithm is correct").events as f64 / seconds
}

pub(crate) fn print() {
    println!("ten sites, 500,000 entries: million events per CPU second");
    for spec in ["suzuki-kasami", "ricart-agrawala"] {
        for load in [Load::Saturated, Load::Open] {
            let speed = median((0..ROUNDS).map(|_| speed(spec, load, 500_000)));
            println!("  {spec:<16} {:<10} {:6.1}", format!("{load:?}").to_lowercase(), speed / 1e6);
        }
    }
    println!();
}
