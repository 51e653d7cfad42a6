//! What nodes and clients need of the operating system: the clock that leases are counted on, alarms on it, the processes
//! that run under a lock, and the number of descriptors.
//!
//! This crate isolates the clock of leases, which the pure crates must not read, and forbids an async runtime, which clients
//! do without.

#![allow(
    missing_docs,
    reason = "an internal crate: `xtask tidy` asks for documents of types and functions, not of fields"
)]

mod clock;
mod clock_alarm;
mod descriptors;
mod process;
mod process_tree;

pub use clock::{now, stamp, wall};
pub use clock_alarm::ClockAlarm;
pub use descriptors::{max_descriptors, raise_max_descriptors};
pub use process::{Process, ancestors};
pub use process_tree::{
    ProcessOwner, ProcessTree, children_of, hang_up_stopped, kill_descendants, signal_descendants,
};
