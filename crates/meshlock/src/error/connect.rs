//! Why a client cannot connect.

use std::io;

use meshlock_client::ConnectionError;

use super::{Refusal, refusal_of};

/// Why a [`Client`](crate::Client) cannot connect. If several endpoints were given, it is about the first of them.
///
/// ```
/// use meshlock::{Client, ConnectError, Endpoint};
///
/// match Client::connect_blocking([Endpoint::socket("/nowhere.sock")]) {
///     Ok(_client) => {}
///     Err(ConnectError::Unreachable { endpoint, source, .. }) => {
///         assert_eq!(endpoint, "/nowhere.sock");
///         assert_eq!(source.kind(), std::io::ErrorKind::NotFound); // try again later, or elsewhere
///     }
///     Err(ConnectError::Refused { cause, .. }) => eprintln!("the node refuses: {cause:?}"),
///     Err(error) => eprintln!("{error}"),
/// }
/// ```
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ConnectError {
    /// No endpoint was given.
    #[error("no node was named; give the path of a socket or an address")]
    NoEndpoint,
    /// No node answers: nobody listens there, the connection broke, or the answer took too long (`TimedOut`).
    #[error("{why}")]
    #[non_exhaustive]
    Unreachable {
        /// The path or the address.
        endpoint: String,
        /// What was tried and what to do, for people.
        why: String,
        /// The error of the operating system, or the nearest to it.
        source: io::Error,
    },
    /// A node of another machine answers, and one of the two does not trust the other: certificates of different authorities, one that has
    /// expired, or TLS on one side only.
    #[error("{why}")]
    #[non_exhaustive]
    Untrusted {
        /// The address.
        endpoint: String,
        /// What is wrong and what to do, for people.
        why: String,
    },
    /// The node answers, and refuses this client.
    #[error("{why}")]
    #[non_exhaustive]
    Refused {
        /// The path or the address.
        endpoint: String,
        /// The reason, for programs.
        cause: Refusal,
        /// The reason and the remedy, for people.
        why: String,
    },
    /// What answers is not understood: it is not a node, or one of an unknown version.
    #[error("{why}")]
    #[non_exhaustive]
    NotUnderstood {
        /// The path or the address.
        endpoint: String,
        /// What was received, for people.
        why: String,
    },
    /// The operating system provides no more threads or file descriptors.
    #[error("cannot start a thread for the connection: {0}")]
    System(#[source] io::Error),
}

impl ConnectError {
    /// Returns whether no node answered ([`NoEndpoint`](ConnectError::NoEndpoint), [`Unreachable`](ConnectError::Unreachable)), as opposed
    /// to one that refused this client, is not trusted or not understood.
    ///
    /// ```
    /// let error = meshlock::Client::connect_blocking([meshlock::Endpoint::socket("/nowhere.sock")]).unwrap_err();
    /// assert!(error.is_unreachable());
    /// ```
    pub fn is_unreachable(&self) -> bool {
        matches!(self, ConnectError::NoEndpoint | ConnectError::Unreachable { .. })
    }

    pub(crate) fn of(error: &ConnectionError) -> Self {
        let why = error.to_string();
        match error {
            ConnectionError::NoEndpoint => ConnectError::NoEndpoint,
            ConnectionError::Nobody { endpoint, error } | ConnectionError::Io { endpoint, error } => {
                ConnectError::Unreachable { endpoint: endpoint.to_string(), why, source: copy(error) }
            }
            ConnectionError::Closed(endpoint) => {
                let source = io::ErrorKind::UnexpectedEof.into();
                ConnectError::Unreachable { endpoint: endpoint.to_string(), why, source }
            }
            ConnectionError::Silent { endpoint, .. } => {
                let source = io::ErrorKind::TimedOut.into();
                ConnectError::Unreachable { endpoint: endpoint.to_string(), why, source }
            }
            ConnectionError::Untrusted { endpoint, kind, .. }
            | ConnectionError::Refused { endpoint, kind, .. } => {
                let (endpoint, cause) = (endpoint.to_string(), refusal_of(*kind));
                let is_untrusted = matches!(error, ConnectionError::Untrusted { .. });
                if is_untrusted && cause == Refusal::Other {
                    ConnectError::Untrusted { endpoint, why }
                } else {
                    ConnectError::Refused { endpoint, cause, why }
                }
            }
            ConnectionError::Protocol { endpoint, .. } | ConnectionError::Version { endpoint, .. } => {
                ConnectError::NotUnderstood { endpoint: endpoint.to_string(), why }
            }
            ConnectionError::Thread(error) => ConnectError::System(copy(error)),
            _ => ConnectError::System(io::Error::other(why)),
        }
    }
}

/// Copies an error of the operating system, which cannot be cloned.
fn copy(error: &io::Error) -> io::Error {
    match error.raw_os_error() {
        Some(code) => io::Error::from_raw_os_error(code),
        None => io::Error::new(error.kind(), error.to_string()),
    }
}
