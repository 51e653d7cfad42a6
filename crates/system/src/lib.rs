//! What a node and its clients both need of the operating system: the clock that leases are counted on, alarms on it, and the
//! end of process groups. Needs no runtime.

#![allow(
    missing_docs,
    reason = "an internal crate: `xtask tidy` asks for documents of types and functions, not of fields"
)]

mod alarm;
mod clock;
mod group;

pub use alarm::Alarm;
pub use clock::{now, stamp, wall};
pub use group::Group;
