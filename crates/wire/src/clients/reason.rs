//! The reasons why a request was refused and why a lock was lost: as numbers that programs can tell apart.

use meshlock_cluster::table::LossReason;
use meshlock_protocol::numbered;

/// The reason why a request was refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum RefusalKind {
    /// A reason that has no number, or the node does not say.
    Other,
    /// The site's access rules do not allow it.
    Denied,
    /// The client sends requests too fast.
    TooFast,
    /// The lock has another number of permits, or cannot have the one that was asked for.
    Permits,
    /// The site leaves its cluster and grants nothing more.
    Leaving,
    /// The site keeps the maximum number of locks.
    TooManyLocks,
    /// The site makes room for more locks: ask again in a second.
    MakingRoom,
    /// The site or the connection has too many requests open: end some of them first.
    TooManyOpen,
    /// The node has failed because of a bug.
    Failed,
    /// The message is not valid in this state.
    BadRequest,
    /// The client speaks no version that the node speaks.
    Version,
    /// The cluster cannot do it at present: the site is cut off, or too few others answer. Nobody else is the reason.
    /// Told from version 4 on; earlier ones hear [`Other`](RefusalKind::Other).
    Unavailable,
    /// The request was the youngest one of a deadlock, and the lock's rule says that it does not wait. Told from version 7 on; earlier
    /// ones hear [`Other`](RefusalKind::Other).
    Deadlock,
}

numbered! { RefusalKind {
    0 => Other,
    1 => Denied,
    2 => TooFast,
    3 => Permits,
    4 => Leaving,
    5 => TooManyLocks,
    6 => MakingRoom,
    7 => TooManyOpen,
    8 => Failed,
    9 => BadRequest,
    10 => Version,
    11 => Unavailable,
    12 => Deadlock,
} }

/// The reason why a lock was lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum LossKind {
    /// The node does not say.
    Unknown,
    /// The site could not renew its lease.
    LeaseEnd,
    /// An operator broke the lock.
    Broken,
    /// The site was excluded from the cluster.
    Excluded,
    /// The site leaves the cluster.
    Leaving,
    /// The node has failed because of a bug.
    Failed,
}

numbered! { LossKind {
    0 => Unknown,
    1 => LeaseEnd,
    2 => Broken,
    3 => Excluded,
    4 => Leaving,
    5 => Failed,
} }

impl From<LossReason> for LossKind {
    fn from(reason: LossReason) -> Self {
        match reason {
            LossReason::LeaseEnd => LossKind::LeaseEnd,
            LossReason::Broken => LossKind::Broken,
            LossReason::Excluded => LossKind::Excluded,
            LossReason::Leaving => LossKind::Leaving,
            LossReason::Failed => LossKind::Failed,
            // Only a client that claims locks is told these, and it knows why.
            LossReason::ReservationOver | LossReason::Conflict | LossReason::TakenOver => LossKind::Unknown,
        }
    }
}
