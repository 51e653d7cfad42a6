//! Whole clusters in one thread, under faults, from one seed.
//!
//! Up to nine nodes, their disks and clocks, the connections between them and their clients live in one queue of events.
//! In the first phase things go wrong: processes crash (disks lose what they had not completed), stand still, are cut off
//! in every shape; packets are lost with their connection, or come seconds late; clocks drift; operators add sites, take them
//! out, let them in again and change the rules; clients cancel and die. Everything that must hold is checked after each
//! event ([`properties`]). Then faults stop, and everyone who still wants in must get in.
//!
//! **What a disk does.** Batches become durable whole and in their order ([`meshlock_cluster::membership::disk`] asks for that). When a
//! process dies, any number of the first batches that were not completed are there, and the rest is not. A batch that was
//! written in part counts as not written: a disk that keeps such parts is a mutant, and is caught.
//!
//! **What a connection does.** It carries packets in their order and loses none but the last ones, when it breaks. What it
//! had carried that far may be read much later, after packets of the next connection. Only partitions that swallow packets
//! lose some in the middle, which TCP would not: links must stand that too.
//!
//! ```
//! use meshlock_cluster_sim::{Options, run};
//!
//! let report = run(7, &Options::default());
//! assert_eq!(report.violation, None);
//! ```

#![allow(
    missing_docs,
    reason = "an internal crate: `xtask tidy` asks for documents of types and functions, not of fields"
)]

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

/// How a seed is run.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// Only so many of the faults happen, the first ones.
    pub faults: Option<usize>,
    /// Whether every event is written down.
    pub trace: bool,
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
    /// How long it took after the faults until everyone was served, in microseconds.
    pub calm_micros: u64,
    /// How long that may take, in microseconds.
    pub bound_micros: u64,
    /// What it exercised.
    pub coverage: Coverage,
    /// Every event, if they were wanted.
    pub trace: Vec<String>,
}

/// Runs one seed.
pub fn run(seed: u64, options: &Options) -> Report {
    World::new(Settings::draw(seed), options).run()
}

/// The smallest number of faults, the first ones, with which the seed still fails, and how it does: `fails` runs it with so
/// many of them.
pub fn fewest_faults<F>(seed: u64, fails: impl Fn(usize) -> Option<F>) -> Option<(usize, F)> {
    let faults = Settings::draw(seed).faults.len();
    (0..=faults).find_map(|count| Some((count, fails(count)?)))
}
