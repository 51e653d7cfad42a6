//! Why a node could not be started.

use std::io;
use std::path::PathBuf;

use meshlock_cluster::access::ClientName;
use meshlock_cluster::founding::FoundingError;
use meshlock_host::{EngineError, ListenError, StoreError, door};

/// Why a node could not be started.
///
/// ```
/// use meshlock::{Node, StartError};
///
/// # let dir = tempfile::tempdir().unwrap();
/// # let socket = dir.path().join("taken.sock");
/// # std::fs::write(&socket, "").unwrap();
/// match Node::builder().in_memory().socket(&socket).start() {
///     Ok(_node) => {}
///     Err(StartError::Setting { key, why, .. }) => eprintln!("set {key}: {why}"),
///     Err(StartError::Listen { address, source, .. }) => eprintln!("cannot use {address}: {:?}", source.kind()),
///     Err(error) => eprintln!("{error}"),
/// }
/// ```
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
    #[error("{why}")]
    #[non_exhaustive]
    Listen {
        /// The address of the port, or the path of the socket.
        address: String,
        /// What is wrong and what to do, for people.
        why: String,
        /// The error of the operating system: `AddrInUse` if another node is there, `PermissionDenied` if the API would be open to everyone.
        source: io::Error,
    },
    /// The data directory cannot be used.
    #[error("{why}")]
    #[non_exhaustive]
    Data {
        /// The directory or the file in it.
        path: PathBuf,
        /// The reason, for programs.
        cause: DataFault,
        /// What is wrong and what to do, for people.
        why: String,
        /// The error of the operating system, if there was one.
        source: Option<io::Error>,
    },
    /// The disk was founded with another cluster's name, or with other voters.
    #[error("{why}")]
    #[non_exhaustive]
    Founding {
        /// The reason, for programs.
        cause: FoundingFault,
        /// What is on the disk, what was configured and what to do, for people.
        why: String,
    },
    /// No site of the cluster that is to be joined answers.
    #[error("{why}")]
    #[non_exhaustive]
    Join {
        /// The first of the addresses.
        address: String,
        /// How it failed, for people.
        why: String,
    },
    /// The operating system provides no more threads or file descriptors.
    #[error("cannot start the node: {0}")]
    System(#[from] io::Error),
}

/// Why a data directory cannot be used.
///
/// ```
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use meshlock::{DataFault, Node, StartError};
///
/// # let dir = tempfile::tempdir()?;
/// let first = Node::builder().data(dir.path()).start()?;
/// let second = Node::builder().data(dir.path()).start();
/// assert!(matches!(second, Err(StartError::Data { cause: DataFault::InUse, .. })));
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum DataFault {
    /// The operating system refuses it: see the error's source.
    Io,
    /// The disk is full.
    Full,
    /// Another process uses it.
    InUse,
    /// It belongs to another site.
    OtherSite,
    /// Another program has written it.
    Foreign,
    /// A newer version of Meshlock has written it.
    Newer,
    /// Its content is not what was written.
    Damaged,
}

/// Why a disk does not fit a site's configuration.
///
/// ```
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use meshlock::{FoundingFault, Node, StartError};
///
/// # let dir = tempfile::tempdir()?;
/// drop(Node::builder().cluster("shop").data(dir.path()).start()?);
/// let renamed = Node::builder().cluster("store").data(dir.path()).start();
/// assert!(matches!(renamed, Err(StartError::Founding { cause: FoundingFault::OtherCluster, .. })));
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum FoundingFault {
    /// It belongs to a cluster of another name.
    OtherCluster,
    /// The cluster was founded by other voters, or by the same in another order.
    OtherVoters,
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
            StartError::Listen { .. }
            | StartError::Data { .. }
            | StartError::Founding { .. }
            | StartError::Join { .. }
            | StartError::System(_) => None,
        }
    }

    pub(crate) fn of_host(error: EngineError) -> Self {
        match error {
            EngineError::Config(error) => StartError::setting("site", error),
            EngineError::Store(error) => StartError::of_store(error),
            EngineError::Founding(error) => {
                let cause = match error {
                    FoundingError::OtherCluster { .. } => FoundingFault::OtherCluster,
                    FoundingError::OtherVoters { .. } => FoundingFault::OtherVoters,
                };
                StartError::Founding { cause, why: error.to_string() }
            }
            EngineError::Threads(error) => StartError::System(error),
        }
    }

    fn of_store(error: StoreError) -> Self {
        let why = error.to_string();
        let (path, cause, source) = match error {
            StoreError::Io { path, error, .. } => (path, DataFault::Io, Some(error)),
            StoreError::Full { file, error } => (file, DataFault::Full, Some(error)),
            StoreError::InUse { dir, .. } => (dir, DataFault::InUse, None),
            StoreError::OtherSite { dir, .. } => (dir, DataFault::OtherSite, None),
            StoreError::Foreign { file, .. } => (file, DataFault::Foreign, None),
            StoreError::Newer { file, .. } => (file, DataFault::Newer, None),
            StoreError::Damaged { file, .. } | StoreError::Closed { file } => {
                (file, DataFault::Damaged, None)
            }
        };
        StartError::Data { path, cause, why, source }
    }

    pub(crate) fn of_listen(error: ListenError) -> Self {
        let why = error.to_string();
        StartError::Listen { address: error.address, why, source: error.error }
    }

    pub(crate) fn of_socket(error: door::ServeError) -> Self {
        let why = error.to_string();
        let (path, source) = match error {
            door::ServeError::Taken(path) => (path, io::ErrorKind::AddrInUse.into()),
            door::ServeError::Bind { path, error } => (path, error),
        };
        StartError::Listen { address: path.display().to_string(), why, source }
    }

    #[cfg(feature = "api")]
    pub(crate) fn of_api(address: String, error: meshlock_service::ServeError) -> Self {
        let why = error.to_string();
        let source = match error {
            meshlock_service::ServeError::Open(_) => io::ErrorKind::PermissionDenied.into(),
            meshlock_service::ServeError::System(error) => error,
        };
        StartError::Listen { address, why, source }
    }

    /// Returns the error that nobody answers at the places to join, with what was tried.
    pub(crate) fn of_join(tried: &[(String, String)]) -> Self {
        let all: Vec<String> = tried.iter().map(|(place, why)| format!("{place}: {why}")).collect();
        let address = tried.first().map(|(place, _)| place.clone()).unwrap_or_default();
        let why = format!(
            "no site of a cluster answers; tried {}. Start one of its sites, or correct where to look for them",
            all.join("; ")
        );
        StartError::Join { address, why }
    }
}

/// Parses the name of a client, as in certificates and tokens.
pub(crate) fn client_name(key: &str, name: &str) -> Result<ClientName, StartError> {
    name.parse().map_err(|error| StartError::setting(key, error))
}
