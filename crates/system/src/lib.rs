//! What a node and its clients both need of the operating system: the clock that leases are counted on, alarms on it, and the
//! end of process groups. Needs no runtime.

mod alarm;
mod clock;
mod group;

pub use alarm::Alarm;
pub use clock::{now, stamp, wall};
pub use group::Group;
