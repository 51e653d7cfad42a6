//! The reasons why a client's call is refused, and why a client loses its locks: as types, so that programs can tell
//! them apart.

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
