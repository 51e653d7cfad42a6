//! What can go wrong, as types that a program can match.

use meshlock_client::{ConnectionError, NotGranted as NotGrantedByNode};
use meshlock_cluster::access::ClientName;
use meshlock_cluster::table::RequestRefusal as NodeRefusal;
use meshlock_host::front::NotGranted;
use meshlock_wire::clients::RefusalKind;

pub use meshlock_cluster::names::NameError;

/// Why there is no lock.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum AcquireError {
    /// The name cannot be a lock's.
    #[error(transparent)]
    Name(#[from] NameError),
    /// Someone else holds the lock, and the caller did not want to wait.
    #[error("the lock '{lock}' is held by someone else")]
    Busy {
        /// The lock that was asked for.
        lock: String,
    },
    /// The lock was not free in the time that the caller was ready to wait.
    #[error("did not get the lock '{lock}' in time")]
    TimedOut {
        /// The lock that was asked for.
        lock: String,
    },
    /// The node refuses.
    #[error("cannot have the lock '{lock}': {why}")]
    #[non_exhaustive]
    Refused {
        /// The lock that was asked for.
        lock: String,
        /// The reason, for programs.
        cause: Refusal,
        /// The reason and what would be right, for people.
        why: String,
    },
    /// No node can be reached. Only a [`Client`](crate::Client) meets this.
    #[error("cannot have the lock '{lock}': {why}")]
    #[non_exhaustive]
    Unreachable {
        /// The lock that was asked for.
        lock: String,
        /// What was tried and how it failed, for people.
        why: String,
    },
}

/// Why a node refuses a lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Refusal {
    /// The node's access rules do not allow it.
    Denied,
    /// The client asks too fast.
    TooFast,
    /// The lock has another number of permits, or cannot have the one that was asked for.
    Permits,
    /// The node leaves its cluster: ask another one.
    Leaving,
    /// The node keeps as many locks as it may.
    TooManyLocks,
    /// The node makes room for more locks: ask again in a second.
    MakingRoom,
    /// Too much is open at once.
    TooManyOpen,
    /// The node has failed because of a bug: its log says more.
    NodeFailed,
    /// The lock was lost, or given back, in the moment in which it was granted: ask again.
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

    pub(crate) fn of_node(lock: &str, error: &NotGranted) -> Self {
        let (lock, why) = (lock.to_owned(), error.to_string());
        let cause = match error {
            NotGranted::Busy => return AcquireError::Busy { lock },
            NotGranted::TimedOut => return AcquireError::TimedOut { lock },
            NotGranted::Denied(_) => Refusal::Denied,
            NotGranted::Permits(_) => Refusal::Permits,
            NotGranted::Refused(NodeRefusal::Leaving) => Refusal::Leaving,
            NotGranted::Refused(NodeRefusal::TooManyLocks) => Refusal::TooManyLocks,
            NotGranted::Refused(NodeRefusal::MakingRoom) => Refusal::MakingRoom,
            NotGranted::Refused(NodeRefusal::Failed) => Refusal::NodeFailed,
            NotGranted::Refused(NodeRefusal::TooManyQuestions | NodeRefusal::TooManyWatches) => {
                Refusal::TooManyOpen
            }
            NotGranted::Refused(
                NodeRefusal::DuplicateRequest | NodeRefusal::UnknownRequest | NodeRefusal::NotHeld,
            ) => Refusal::Other,
        };
        AcquireError::Refused { lock, cause, why }
    }

    pub(crate) fn of_client(lock: &str, error: NotGrantedByNode) -> Self {
        let lock = lock.to_owned();
        match error {
            NotGrantedByNode::Busy => AcquireError::Busy { lock },
            NotGrantedByNode::TimedOut => AcquireError::TimedOut { lock },
            NotGrantedByNode::Refused { kind, why } => {
                AcquireError::Refused { lock, cause: of_kind(kind), why }
            }
            NotGrantedByNode::Cancelled => AcquireError::gone_again(&lock),
            NotGrantedByNode::Disconnected(error) => {
                AcquireError::Unreachable { lock, why: error.to_string() }
            }
        }
    }
}

fn of_kind(kind: RefusalKind) -> Refusal {
    match kind {
        RefusalKind::Denied => Refusal::Denied,
        RefusalKind::TooFast => Refusal::TooFast,
        RefusalKind::Permits => Refusal::Permits,
        RefusalKind::Leaving => Refusal::Leaving,
        RefusalKind::TooManyLocks => Refusal::TooManyLocks,
        RefusalKind::MakingRoom => Refusal::MakingRoom,
        RefusalKind::TooManyOpen => Refusal::TooManyOpen,
        RefusalKind::Failed => Refusal::NodeFailed,
        RefusalKind::Other | RefusalKind::BadRequest | RefusalKind::Version => Refusal::Other,
    }
}

/// Why a [`Client`](crate::Client) cannot connect.
#[derive(Debug, thiserror::Error)]
#[error(transparent)]
pub struct ConnectError(#[from] pub(crate) ConnectionError);

impl ConnectError {
    /// Whether no node answers, in contrast to one that refuses.
    pub fn is_unreachable(&self) -> bool {
        self.0.is_unreachable()
    }
}

/// Why a node does not start.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StartError {
    /// A setting makes no sense, or contradicts another one.
    #[error("{key}: {why}")]
    #[non_exhaustive]
    Setting {
        /// The setting, by the name that it has in a configuration file, such as `lease.length`.
        key: String,
        /// What is wrong and what would be right.
        why: String,
    },
    /// A port or a socket cannot be opened.
    #[error("{0}")]
    Listen(String),
    /// The directory for what must not be forgotten cannot be used.
    #[error("{0}")]
    Data(String),
    /// The disk belongs to another cluster, or has other voters.
    #[error("{0}")]
    Founding(String),
    /// No site of the cluster that is to be joined answers.
    #[error("{0}")]
    Join(String),
    /// The machine gives no more threads or descriptors.
    #[error("cannot start the node: {0}")]
    System(#[from] std::io::Error),
}

impl StartError {
    pub(crate) fn setting(key: impl Into<String>, why: impl std::fmt::Display) -> Self {
        StartError::Setting { key: key.into(), why: why.to_string() }
    }

    /// The setting that is wrong, by its name in a configuration file.
    pub fn key(&self) -> Option<&str> {
        match self {
            StartError::Setting { key, .. } => Some(key),
            StartError::Listen(_)
            | StartError::Data(_)
            | StartError::Founding(_)
            | StartError::Join(_)
            | StartError::System(_) => None,
        }
    }
}

/// The name of a client, as certificates and tokens have it.
pub(crate) fn client_name(key: &str, name: &str) -> Result<ClientName, StartError> {
    name.parse().map_err(|error| StartError::setting(key, error))
}
