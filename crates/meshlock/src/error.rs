//! Errors, as types that a program can match.

use meshlock_client::{ConnectionError, NotGranted as NotGrantedByNode};
use meshlock_cluster::access::ClientName;
use meshlock_cluster::table::RequestRefusal as NodeRefusal;
use meshlock_host::front::NotGranted;
use meshlock_wire::clients::RefusalKind;

pub use meshlock_cluster::names::NameError;

/// Why a lock was not acquired.
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
            error @ (NotGrantedByNode::Disconnected | NotGrantedByNode::Unreachable { .. }) => {
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
    /// Returns whether no node could be used. It is false only if a node of this machine answered over its socket and refused; over a
    /// network it is true also for a node that refused the connection, for example because of the certificate.
    ///
    /// ```
    /// let error = meshlock::Client::connect_blocking([meshlock::Endpoint::socket("/nowhere.sock")]).unwrap_err();
    /// assert!(error.is_unreachable());
    /// ```
    pub fn is_unreachable(&self) -> bool {
        self.0.is_unreachable()
    }
}

/// Why a node could not be started.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StartError {
    /// A setting is invalid, or contradicts another one.
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
    /// The data directory cannot be used.
    #[error("{0}")]
    Data(String),
    /// The disk belongs to another cluster, or has other voters.
    #[error("{0}")]
    Founding(String),
    /// No site of the cluster that is to be joined answers.
    #[error("{0}")]
    Join(String),
    /// The operating system provides no more threads or file descriptors.
    #[error("cannot start the node: {0}")]
    System(#[from] std::io::Error),
}

impl StartError {
    pub(crate) fn setting(key: impl Into<String>, why: impl std::fmt::Display) -> Self {
        StartError::Setting { key: key.into(), why: why.to_string() }
    }

    /// Returns the setting that is wrong, by its name in a configuration file.
    ///
    /// ```
    /// let error = meshlock::Node::builder().in_memory().local_turns(0).start().unwrap_err();
    /// assert_eq!(error.key(), Some("local_turns"));
    /// ```
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

/// Parses the name of a client, as in certificates and tokens.
pub(crate) fn client_name(key: &str, name: &str) -> Result<ClientName, StartError> {
    name.parse().map_err(|error| StartError::setting(key, error))
}
