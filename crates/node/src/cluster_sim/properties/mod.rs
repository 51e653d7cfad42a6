//! What must hold, one file a property.
//!
//! | property | reason | module |
//! |---|---|---|
//! | never more valid holders of a lock than permits, on the clocks they go by | what a lock is | [`exclusion`] |
//! | fences of a lock (slot) strictly increase, across views, crashes and restarts | what protects where time does not | [`fences`] |
//! | a resource that rejects old fences loses no update | what users need it for | [`updates`] |
//! | no view is agreed on while someone whom it leaves out may have a lease, and no leader proposes one too early | why recovery is safe | [`leases`] |
//! | of each epoch there is one view | or two views would run at once | [`agreement`] |
//! | a client that is gone holds nothing | crashed clients free their locks at once | [`departed`] |
//! | after faults have stopped everyone who wants in gets in | no deadlock, no starvation | [`starvation`] |
//! | machines' own invariants hold, and no correct peer is blamed | our own bugs show early | [`sound`] |
//! | the same seed gives the same events | or nothing found could be found again | the tests of [`super`] |

pub mod agreement;
pub mod departed;
pub mod exclusion;
pub mod fences;
pub mod leases;
pub mod sound;
pub mod starvation;
pub mod updates;

use super::clock::Moment;

/// Something that must never happen, and did.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{property}: {what} (at {:.6} s)", at.0 as f64 / 1e6)]
pub struct Violation {
    /// Which property.
    pub property: &'static str,
    /// What happened.
    pub what: String,
    /// When.
    pub at: Moment,
}

/// What a check gives back.
pub(super) type Verdict = Result<(), Violation>;

pub(super) fn broken(property: &'static str, at: Moment, what: String) -> Verdict {
    Err(Violation { property, what, at })
}
