//! What must hold, one file a property.
//!
//! | property | reason | module | mutants that break it |
//! |---|---|---|---|
//! | never more valid holders of a lock than permits, on the clocks they go by | what a lock is | [`exclusion`] | a census is skipped; a grant without a lease; a lease that ends takes nothing away; a lock that is taken away is free at once |
//! | fences of a lock (slot) strictly increase, across views, crashes and restarts | what protects where time does not | [`fences`] | fences of a view begin as if it were the first; all fences are equal |
//! | a resource that rejects old fences loses no update | what users need it for | [`updates`] | all fences are equal, where clocks drift further than leases allow for |
//! | no view is agreed on while someone whom it leaves out may have a lease, and no leader proposes one too early | why recovery is safe | [`leases`] | a lease counts from its receipt; a member is left out a tick early; a new leader does not wait; a lease is granted unconfirmed; a site goes by its own terms |
//! | of each epoch there is one view | or two views would run at once | [`agreement`] | packets of another cluster are accepted |
//! | a client that is gone holds nothing | crashed clients free their locks at once | [`departed`] | the locks of a client that is gone stay with it |
//! | after faults have stopped everyone who wants in gets in, in a time that is derived from the terms | no deadlock, no starvation | [`starvation`] | a message is lost with its connection |
//! | machines' own invariants hold, what is sent can be read, and no correct peer is blamed | our own bugs show early | [`sound`] | messages of an old view are accepted; a vote is sent before it is written; a voter votes without its disk; a incarnation is lived twice, because a disk was lost or past lives are forgotten |
//! | the same seed gives the same events | or nothing found could be found again | the tests of [`super`] | – |
//!
//! The tests ask for each pair of mutant and property that a seed shows it. (A disk that keeps half a batch is caught as well,
//! by the Raft implementation's own checks.)

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
