//! The properties that must hold, one file each.
//!
//! | property | reason | module | mutants that break it |
//! |---|---|---|---|
//! | never more valid holders of a lock than permits, on the holders' own clocks, never with different numbers of permits, and several with one permit only if their modes admit each other | the definition of a lock | [`exclusion`] | a census is skipped; a grant without a lease; a lease that ends takes nothing away; a lock that is taken away is free at once; a member allows another number of permits although its clients use the lock; a lock goes back to its rule while permits are out; permits in the census are taken for free; a change of rules forgets who holds; a lock that is held elsewhere starts as if it were free; a client counts on a claim for longer than the former site keeps the lock, or on one that was made too late; a claim is kept beside a holder, or is not in the census; a site lets go of what a client can prove, because its connection was cut, because it was told that it has lost it, or because the site leaves; a site leaves although clients count on claims there |
//! | fences of a lock (slot) strictly increase, across views, crashes and restarts; where clients share it, over all those before whose modes exclude each other | the protection where time gives none | [`fences`] | fences of a view begin as if it were the first; all fences are equal |
//! | a resource that rejects old fences loses no update | the purpose for users | [`updates`] | all fences are equal, where clocks drift further than leases allow for |
//! | no view is agreed on while a member that it excludes may have a lease, and no leader proposes one too early | why recovery is safe | [`leases`] | a lease counts from its receipt; a member is excluded a tick early; a new leader does not wait; a voter forgets whose renewals were confirmed, or says after a restart that it has not; a lease is granted unconfirmed, or by a round that began before the renewal came; a site follows its own terms |
//! | each epoch has one view | otherwise two views would run at once | [`agreement`] | packets of another cluster are accepted |
//! | a client is told that a lock is taken only if another one uses it | a cron job that skips its turn must know why | [`contention`] | an outage is called contention |
//! | a client that is gone holds nothing | crashed clients free their locks at once | [`departed`] | the locks of a client that is gone stay with it |
//! | after faults have stopped every client that wants a lock gets it, in a time that is derived from the terms | no deadlock, no starvation | [`starvation`] | a message is lost with its connection; a lock that is left during a view change is not noticed; a leader with a stuck disk goes on leading; nobody carries packets for two sites that cannot reach each other |
//! | a site that reaches the leader, which reaches a majority, loses no lock because of its lease, however it was stopped, cut off or slowed before | a lock that is lost for a short pause is not used for long | [`needless`] | a former leader that wakes asks itself; a member is refused because of a report from before it woke; a dead member counts against a healthy one |
//! | a member that has died is left out one lease after its death, also if leaders change meanwhile | its locks are free then | [`one_lease`] | a new leader counts all leases from its election |
//! | in every second the number of views is bounded by what can ask for one, and that of events by a constant | a cluster that changes views in circles stalls every lock | [`steps`] | a full site asks for a fresh view in every view |
//! | when nobody wants anything and nothing fails any more, no view is installed | a cluster that changes views in circles does so then, however slowly | [`quiet`] | a site that was full once asks for fresh views for ever |
//! | machines' own invariants hold, what is sent can be read, and no correct peer is reported as misbehaving | our own bugs show early | [`sound`] | messages of an old view are accepted; a member of an older version is not told of holders with another number of permits; a vote is sent before it is written; an incarnation is used twice, because a disk was lost, past incarnations are forgotten or a former leader is believed; a renewal gives lost locks back; a waiter that could not ask, or a name that could be entered again, is not noted |
//! | when a site opens a view, no other member of it runs machines of an earlier one | the view starts from what all of them hold | [`views`] | a census is skipped |
//! | no id of a voter is used with two disks, and each term has at most one leader | otherwise a voter could break what it has promised, and two parts could decide apart | [`voting`] | a voter votes without its disk; a site acts as the voter of another disk |
//! | each version of the access document is one document, all members know the last one in the end, and no leader lets a site in that the document it knows does not admit | one command changes all sites, and a removed site does not come back | [`admission`] | a site joins that is not admitted; a document replaces another one than it was made for |
//! | a claim that is made in time is accepted and not given up, unless somebody else claims the same, and a forged one never is | a client keeps its lock when its site is gone, and nobody else gets it that way | `moving_claims.rs` | claims become holds although the former site is a member; a proof is not checked |
//! | what was acknowledged as released, because the mirror knew it, is not held again by the mirror | a client that has released a lock counts on it | `mirroring.rs` | a release is acknowledged before the mirror knows it |
//! | the same seed gives the same events | otherwise no failure could be reproduced | the tests of [`super`] | – |
//!
//! The tests require, for each pair of mutant and property, a seed that shows it. (A disk that keeps half a batch is
//! caught as well, by the Raft implementation's own checks.)

pub(super) mod admission;
pub(super) mod agreement;
pub(super) mod contention;
pub(super) mod departed;
pub(super) mod exclusion;
pub(super) mod fences;
pub(super) mod leases;
pub(super) mod needless;
pub(super) mod one_lease;
pub(super) mod quiet;
pub(super) mod sound;
pub(super) mod starvation;
pub(super) mod steps;
pub(super) mod updates;
pub(super) mod views;
pub(super) mod voting;

use super::clock::Moment;

/// A property that does not hold.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{property}: {what} (at {:.6} s)", at.0 as f64 / 1e6)]
pub struct PropertyViolation {
    pub property: &'static str,
    pub what: String,
    pub at: Moment,
}

/// The result of a check.
pub(super) type CheckResult = Result<(), PropertyViolation>;

pub(super) fn broken(property: &'static str, at: Moment, what: String) -> CheckResult {
    Err(PropertyViolation { property, what, at })
}
