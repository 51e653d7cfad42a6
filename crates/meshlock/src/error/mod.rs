//! Errors, as types that a program can match.

mod connect;
#[cfg(feature = "node")]
mod start;

use std::sync::Arc;

use meshlock_client::{NotAcquired, NotGranted as NotGrantedByNode};
use meshlock_wire::clients::RefusalKind;

pub use connect::ConnectError;
pub use meshlock_cluster::names::NameError;
#[cfg(feature = "node")]
pub(crate) use start::client_name;
#[cfg(feature = "node")]
pub use start::{DataFault, FoundingFault, StartError};

/// Why a lock was not acquired.
///
/// ```
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use meshlock::{AcquireError, Refusal};
///
/// # let node = meshlock::Node::local()?;
/// match node.try_lock_blocking("orders") {
///     Ok(guard) => guard.release(),
///     Err(AcquireError::Busy { lock }) => eprintln!("someone else holds {lock}"),
///     Err(AcquireError::Unavailable { why, .. }) => eprintln!("nobody can say who holds it: {why}"),
///     Err(AcquireError::Refused { cause: Refusal::Leaving, .. }) => eprintln!("ask another node"),
///     Err(error) => return Err(error.into()),
/// }
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum AcquireError {
    /// The name is not valid for a lock.
    #[error(transparent)]
    Name(#[from] NameError),
    /// Another client holds the lock, and the caller did not want to wait.
    #[error("the lock '{lock}' is held by someone else")]
    Busy {
        /// The lock that was asked for.
        lock: String,
    },
    /// The lock did not become free within the caller's time limit.
    #[error("did not get the lock '{lock}' in time")]
    TimedOut {
        /// The lock that was asked for.
        lock: String,
    },
    /// The cluster could not say whether the lock is free: this site is cut off, or others do not answer. Nobody is known to hold it.
    #[error("the lock '{lock}' is not available now: {why}")]
    #[non_exhaustive]
    Unavailable {
        /// The lock that was asked for.
        lock: String,
        /// What is known about the outage, for people.
        why: String,
    },
    /// The node refuses the lock.
    #[error("cannot have the lock '{lock}': {why}")]
    #[non_exhaustive]
    Refused {
        /// The lock that was asked for.
        lock: String,
        /// The reason, for programs.
        cause: Refusal,
        /// The reason and the remedy, for people.
        why: String,
    },
    /// No node can be reached. Only a [`Client`](crate::Client) returns this.
    #[error("cannot have the lock '{lock}': {why}")]
    #[non_exhaustive]
    Unreachable {
        /// The lock that was asked for.
        lock: String,
        /// What was tried and how it failed, for people.
        why: String,
        /// The same for programs.
        source: Arc<ConnectError>,
    },
}

/// Why a node refuses a lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Refusal {
    /// The node's access rules do not allow it.
    Denied,
    /// The client exceeds its rate limit.
    TooFast,
    /// The lock has another number of permits, or cannot have the one that was asked for.
    Permits,
    /// The node is leaving its cluster: ask another one.
    Leaving,
    /// The node has reached its maximum number of locks.
    TooManyLocks,
    /// The node is making room for more locks: ask again in a second.
    MakingRoom,
    /// Too many requests are open at once.
    TooManyOpen,
    /// The node has failed because of a bug: its log says more.
    NodeFailed,
    /// The request was the youngest one of a deadlock between locks, and the lock's rule says that it does not wait: release what you
    /// hold, and ask again.
    Deadlock,
    /// The lock was lost or released at the moment it was granted: ask again.
    GoneAgain,
    /// Another reason; the text says which.
    Other,
}

const GONE_AGAIN: &str = "it was lost as it was granted; ask again";

impl AcquireError {
    pub(crate) fn gone_again(lock: &str) -> Self {
        let (lock, why) = (lock.to_owned(), GONE_AGAIN.to_owned());
        AcquireError::Refused { lock, cause: Refusal::GoneAgain, why }
    }

    #[cfg(feature = "node")]
    pub(crate) fn of_node(lock: &str, error: &meshlock_host::front::NotGranted) -> Self {
        use meshlock_cluster::table::RequestRefusal as NodeRefusal;
        use meshlock_host::front::NotGranted;

        let (lock, why) = (lock.to_owned(), error.to_string());
        let cause = match error {
            NotGranted::Busy => return AcquireError::Busy { lock },
            NotGranted::TimedOut => return AcquireError::TimedOut { lock },
            NotGranted::Unavailable(_) | NotGranted::Unaudited(_) => {
                return AcquireError::Unavailable { lock, why };
            }
            NotGranted::Denied(_) => Refusal::Denied,
            NotGranted::Permits(_)
            | NotGranted::Refused(
                NodeRefusal::PermitsInUse { .. }
                | NodeRefusal::PermitsByRule { .. }
                | NodeRefusal::TooManyPermits { .. }
                | NodeRefusal::OlderMember { .. },
            ) => Refusal::Permits,
            NotGranted::Refused(NodeRefusal::Leaving) => Refusal::Leaving,
            NotGranted::NotClaimed(_) => Refusal::GoneAgain,
            NotGranted::Refused(NodeRefusal::TooManyLocks) => Refusal::TooManyLocks,
            NotGranted::Refused(NodeRefusal::MakingRoom) => Refusal::MakingRoom,
            NotGranted::Refused(NodeRefusal::Deadlock) => Refusal::Deadlock,
            NotGranted::Refused(NodeRefusal::Failed) => Refusal::NodeFailed,
            NotGranted::Limit(_)
            | NotGranted::Refused(NodeRefusal::TooManyQuestions | NodeRefusal::TooManyWatches) => {
                Refusal::TooManyOpen
            }
            NotGranted::Refused(
                NodeRefusal::DuplicateRequest
                | NodeRefusal::UnknownRequest
                | NodeRefusal::NotHeld
                | NodeRefusal::ExclusiveOnly { .. }
                | NodeRefusal::NoPriorities { .. }
                | NodeRefusal::ModeOfMany { .. }
                | NodeRefusal::OlderMemberModes
                | NodeRefusal::UpgradeOfShared { .. },
            ) => Refusal::Other,
        };
        AcquireError::Refused { lock, cause, why }
    }

    pub(crate) fn of_client(lock: &str, error: NotAcquired) -> Self {
        let lock = lock.to_owned();
        let why = match error {
            NotAcquired::NotGranted(why) => why,
            NotAcquired::Unreachable(error) => {
                let source = Arc::new(ConnectError::of(&error));
                return AcquireError::Unreachable { lock, why: error.to_string(), source };
            }
        };
        match why {
            NotGrantedByNode::Busy => AcquireError::Busy { lock },
            NotGrantedByNode::TimedOut => AcquireError::TimedOut { lock },
            NotGrantedByNode::Refused { kind: RefusalKind::Unavailable, why } => {
                AcquireError::Unavailable { lock, why }
            }
            NotGrantedByNode::Refused { kind, why } => {
                AcquireError::Refused { lock, cause: refusal_of(kind), why }
            }
            NotGrantedByNode::Cancelled | NotGrantedByNode::Disconnected => AcquireError::gone_again(&lock),
        }
    }
}

fn refusal_of(kind: RefusalKind) -> Refusal {
    match kind {
        RefusalKind::Denied => Refusal::Denied,
        RefusalKind::TooFast => Refusal::TooFast,
        RefusalKind::Permits => Refusal::Permits,
        RefusalKind::Leaving => Refusal::Leaving,
        RefusalKind::TooManyLocks => Refusal::TooManyLocks,
        RefusalKind::MakingRoom => Refusal::MakingRoom,
        RefusalKind::TooManyOpen => Refusal::TooManyOpen,
        RefusalKind::Failed => Refusal::NodeFailed,
        RefusalKind::Deadlock => Refusal::Deadlock,
        RefusalKind::Other | RefusalKind::BadRequest | RefusalKind::Version | RefusalKind::Unavailable => {
            Refusal::Other
        }
    }
}
