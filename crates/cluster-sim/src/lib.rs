//! Simulation of whole clusters in one thread, under faults, from one seed.
//!
//! Up to nine nodes, their disks and clocks, the connections between them and their clients share one queue of events.
//! In the first phase faults happen: processes crash (disks lose what they had not completed), pause, or are cut off in
//! every shape; packets are lost with their connection or inside it, or arrive seconds late; clocks drift, change and
//! jump; disks are stuck, lost, unreadable or old; operators add sites, remove them, add them again and change the rules;
//! clients cancel and crash. `host_faults.rs` says what is promised under which of them. Every property that must hold is checked
//! after each event (`properties/`). Then faults stop: in this second phase, the *calm*, every client that still wants
//! a lock must get it.
//!
//! **Disks.** Batches become durable whole and in their order (as [`meshlock_cluster::membership::disk`] requires).
//! When a process crashes, any number of the first batches that were not completed survive, and the rest does not. A
//! batch that was written in part counts as not written: a disk that keeps such parts is a mutant, and is caught.
//!
//! **Connections.** A connection delivers packets in order and loses only the last ones, when it breaks. What it had
//! transmitted may be read much later, after packets of the next connection. Only partitions that drop packets lose
//! some in the middle, which TCP would not: links must cope with that too.
//!
//! ```
//! use meshlock_cluster_sim::{RunOptions, run};
//!
//! let report = run(7, &RunOptions::default());
//! assert_eq!(report.violation, None);
//! ```

#![allow(
    missing_docs,
    reason = "an internal crate: `xtask tidy` asks for documents of types and functions, not of fields"
)]

mod access_faults;
mod client;
mod clock;
mod coverage;
mod disks;
mod environment;
mod event;
mod faults;
mod host_faults;
mod hosts;
mod inject;
mod machine;
mod mirror_effects;
mod mirror_faults;
mod mirror_questions;
mod mirroring;
mod movers;
mod moving;
mod moving_claims;
mod network;
mod observe;
mod properties;
mod second_process;
mod settings;
mod sharing;
mod site_sessions;
mod telling;
#[cfg(test)]
mod tests;
mod trace;
mod transport;
mod voter_faults;
mod wire_clients;
mod workload;
mod world;

pub use clock::Moment;
pub use coverage::{Coverage, CoverageGroup};
pub use properties::PropertyViolation;
use settings::SeedSettings;
use world::World;

/// The options of a run.
#[derive(Clone, Debug, Default)]
pub struct RunOptions {
    /// If set, only this many of the faults happen, the first ones.
    pub faults: Option<usize>,
    /// Whether every event is recorded.
    pub trace: bool,
}

/// The result of a run.
#[derive(Clone, Debug)]
pub struct SeedReport {
    pub seed: u64,
    /// The first violation, if there was one.
    pub violation: Option<PropertyViolation>,
    /// A hash of all events: equal for equal runs.
    pub hash: u64,
    pub events: u64,
    /// Simulated time in microseconds, multiplied by the number of nodes.
    pub node_micros: u64,
    /// Time from the last fault until every client was served, in microseconds; `None` if that did not happen, because a property did
    /// not hold. (After a voter's disk was put back from an old copy that is no violation.)
    pub served_micros: Option<u64>,
    /// Upper bound of that time, in microseconds.
    pub bound_micros: u64,
    /// Longest time from the death of a member's process until a view left the member out, in microseconds.
    pub left_out_micros: u64,
    pub coverage: Coverage,
    /// Every event, if requested.
    pub trace: Vec<String>,
}

/// Runs one seed.
pub fn run(seed: u64, options: &RunOptions) -> SeedReport {
    World::new(SeedSettings::draw(seed), options).run()
}

/// Returns the kinds of the faults that a seed has, in the order of time.
pub fn fault_kinds(seed: u64) -> Vec<&'static str> {
    SeedSettings::draw(seed).faults.iter().map(|(_, fault)| fault.kind()).collect()
}

/// Returns the smallest number of faults, the first ones, with which the seed still fails, and the failure. `fails`
/// runs the seed with the given number of faults.
pub fn fewest_faults<F>(seed: u64, fails: impl Fn(usize) -> Option<F>) -> Option<(usize, F)> {
    (0..=fault_kinds(seed).len()).find_map(|count| Some((count, fails(count)?)))
}
