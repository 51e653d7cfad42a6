//! Whole clusters in one thread, under faults, from one seed.
//!
//! Up to nine nodes, their disks and clocks, the connections between them and their clients live in one queue of events.
//! In the first phase things go wrong: processes crash (disks lose what they had not completed), stand still, are cut off
//! in every shape; clocks drift; operators add and remove sites and change the rules; clients cancel and die. Everything
//! that must hold is checked after each event. Then faults stop, and everyone who still wants in must get in.
//!
//! ```
//! use meshlock_node::cluster_sim::{Options, run};
//!
//! let report = run(7, &Options::default());
//! assert_eq!(report.violation, None);
//! ```

mod client;
pub mod clock;
pub mod coverage;
mod event;
pub mod faults;
mod hosts;
mod judges;
mod machine;
mod network;
mod people;
pub mod properties;
pub mod settings;
mod storm;
#[cfg(test)]
mod tests;
mod trace;
mod wires;
mod world;

use coverage::Coverage;
use properties::Violation;
use settings::Settings;
use world::World;

use crate::mutant::Mutants;

/// How a seed is run.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// Only so many of the faults happen, the first ones.
    pub faults: Option<usize>,
    /// Whether every event is written down.
    pub trace: bool,
    /// Deliberate mistakes; none outside of this crate's tests.
    pub mutants: Mutants,
}

/// What came of a seed.
#[derive(Clone, Debug)]
pub struct Report {
    /// The seed.
    pub seed: u64,
    /// What went wrong first, if anything did.
    pub violation: Option<Violation>,
    /// A hash of all events: equal for equal runs.
    pub hash: u64,
    /// How many events there were.
    pub events: u64,
    /// How much time of how many nodes was simulated, in microseconds.
    pub node_micros: u64,
    /// How many faults the seed has.
    pub faults: usize,
    /// What it exercised.
    pub coverage: Coverage,
    /// Every event, if they were wanted.
    pub trace: Vec<String>,
}

/// Runs one seed.
pub fn run(seed: u64, options: &Options) -> Report {
    World::new(Settings::draw(seed), options).run()
}

/// The smallest number of faults, the first ones, with which the seed still fails; it fails with all of them.
pub fn shortest_failure(seed: u64, options: &Options) -> Option<Report> {
    let faults = Settings::draw(seed).faults.len();
    (0..=faults).find_map(|count| {
        let report = run(seed, &Options { faults: Some(count), ..options.clone() });
        report.violation.is_some().then_some(Report { faults: count, ..report })
    })
}
