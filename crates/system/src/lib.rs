//! What nodes and clients need of the operating system: the clock that leases are counted on, alarms on it, and killing process
//! groups. It needs no async runtime.

#![allow(
    missing_docs,
    reason = "an internal crate: `xtask tidy` asks for documents of types and functions, not of fields"
)]

mod clock;
mod clock_alarm;
mod process_group;

pub use clock::{now, stamp, wall};
pub use clock_alarm::ClockAlarm;
pub use process_group::ProcessGroup;
