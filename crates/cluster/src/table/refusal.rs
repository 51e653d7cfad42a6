//! The reasons why a client's call is refused, and why a client loses its locks: as types, so that programs can tell
//! them apart.

use std::fmt;

/// The reason why a client's call is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, thiserror::Error)]
pub enum RequestRefusal {
    /// There is no room for another lock, and no way to make some.
    #[error("this site keeps the maximum number of locks; use fewer names")]
    TooManyLocks,
    /// There is no room for another lock until a fresh view has dropped idle ones.
    #[error("this site makes room for more locks; ask again in a second")]
    MakingRoom,
    /// The site leaves its cluster and grants nothing more.
    #[error("this site is leaving the cluster; ask another one")]
    Leaving,
    /// Other clients hold the lock or wait for it, and take it for one with another number of permits.
    #[error("the lock is in use with {} and this request says {wants}; change one of the two, or ask again when the others have gone", PermitCount(*.has))]
    PermitsInUse { has: u32, wants: u32 },
    /// The cluster's rules give the lock another number of permits.
    #[error("the cluster's rules give the lock {} and this request says {wants}; change one of the two", PermitCount(*.has))]
    PermitsByRule { has: u32, wants: u32 },
    /// No lock can have this number of permits.
    #[error("{} are requested; give 1 to {}", PermitCount(*.wants), crate::rules::Rules::MAX_PERMITS)]
    TooManyPermits { wants: u32 },
    /// A member of the cluster runs a program that does not know semaphores without a rule.
    #[error(
        "a site of the cluster runs an older version of Meshlock, which knows {wants} permits only by a rule, and the rules give the lock {has}; upgrade all sites, or set a rule"
    )]
    OlderMember { has: u32, wants: u32 },
    /// The number of the request was used before.
    #[error("this request number is already in use; use a new one")]
    DuplicateRequest,
    /// There is no request with this number.
    #[error("no such request; it may be over")]
    UnknownRequest,
    /// The request still waits, or is finished.
    #[error("this request does not hold the lock")]
    NotHeld,
    /// Too many questions to other sites are open.
    #[error("too many questions wait for replies; ask again in a second")]
    TooManyQuestions,
    /// Too many clients watch this site.
    #[error("this node has the maximum number of watches; end one of them first")]
    TooManyWatches,
    /// The node has panicked.
    #[error("this node has failed because of a bug; its log says more. Start it again, or ask another one")]
    Failed,
}

/// Prints a number of permits for people.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PermitCount(pub u32);

impl fmt::Display for PermitCount {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let plural = if self.0 == 1 { "" } else { "s" };
        write!(f, "{} permit{plural}", self.0)
    }
}

/// The reason why a client lost its lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, thiserror::Error)]
pub enum LossReason {
    /// The site could not renew its lease in time: it was cut off, or paused.
    #[error("the site could not renew its lease")]
    LeaseEnd,
    /// An operator broke the lock.
    #[error("the lock was broken by an operator")]
    Broken,
    /// The site was excluded from a view.
    #[error("the site was excluded from the cluster")]
    Excluded,
    /// The site leaves its cluster, and its clients had their time to stop.
    #[error("the site is leaving the cluster")]
    Leaving,
    /// The node has panicked.
    #[error("the node has failed because of a bug")]
    Failed,
}
