//! Why something was refused, and why a lock was lost: as numbers that programs can tell apart.

use meshlock_cluster::table::LossReason;
use meshlock_protocol::numbered;

/// Why something was refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum RefusalKind {
    /// For a reason that has no number, or by a node that does not say.
    Other,
    /// The site's access rules do not allow it.
    Denied,
    /// The client asks too fast.
    TooFast,
    /// The lock has another number of permits, or cannot have the one that was asked for.
    Permits,
    /// The site leaves its cluster and grants nothing more.
    Leaving,
    /// The site keeps as many locks as it may.
    TooManyLocks,
    /// The site makes room for more locks: ask again in a second.
    MakingRoom,
    /// The site or the connection has too much open: end some of it first.
    TooManyOpen,
    /// The node has failed because of a bug.
    Failed,
    /// The message makes no sense here.
    BadRequest,
    /// The client speaks no version that the node speaks.
    Version,
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
} }

/// Why a lock was lost.
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
        }
    }
}
