//! Many sites: how much slower an event is when the sites no longer fit the caches.

use meshlock_protocol::{Cluster, Spec};
use meshlock_sim::settings::Rates;
use meshlock_sim::{Settings, measure};

use crate::{ROUNDS, median, timed};

/// Millions of events per CPU second of one run under open load, the start of all sites included.
fn speed(spec: &str, sites: usize, rate: f64, entries: u64) -> f64 {
    let spec: Spec = spec.parse().expect("a registered name");
    let settings = Settings { entries, rates: Rates::Same(rate), ..Settings::new(Cluster::of(sites)) };
    let (report, seconds) = timed(|| measure(&spec, &settings));
    report.expect("the algorithm is correct").events as f64 / seconds / 1e6
}

pub(crate) fn print() {
    println!("many sites, open load: million events per CPU second");
    // In turns, so that other work of the machine slows all of them down alike.
    let mut speeds = vec![Vec::new(); RUNS.len()];
    for _ in 0..ROUNDS {
        for ((spec, sites, rate, entries), speeds) in RUNS.iter().zip(&mut speeds) {
            speeds.push(speed(spec, *sites, *rate, *entries));
        }
    }
    for ((spec, sites, ..), speeds) in RUNS.iter().zip(speeds) {
        println!("  {spec:<16} {sites:>9} sites {:>6.2}", median(speeds));
    }
    println!();
}

/// Algorithm, sites, requests of each site per unit of time, entries.
const RUNS: [(&str, usize, f64, u64); 5] = [
    ("naimi-trehel", 10, 0.1, 500_000),
    ("naimi-trehel", 10_000, 0.1, 500_000),
    ("naimi-trehel", 1_000_000, 0.1, 100_000),
    ("suzuki-kasami", 10_000, 0.000_01, 500),
    ("maekawa", 10_000, 0.000_01, 2_000),
];
