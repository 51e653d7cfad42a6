//! Why a node cannot be talked to.

use std::io;
use std::time::Duration;

use meshlock_wire::clients::{ProtocolError, RefusalKind};

use super::endpoint::Endpoint;

/// Why a node cannot be talked to.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ConnectionError {
    /// Nobody was named.
    #[error("no node was named; give the path of a socket or an address")]
    NoEndpoint,
    /// Nobody serves there.
    #[error("no node serves clients at {0}; start one there, or name another")]
    Nobody(Endpoint),
    /// The system does not let us.
    #[error("cannot talk to the node at {endpoint}: {error}")]
    Io { endpoint: Endpoint, error: io::Error },
    /// The system gives no more threads.
    #[error("cannot start a thread for the connection: {0}")]
    Thread(io::Error),
    /// It has gone, or has cut us off.
    #[error("the node at {0} has closed the connection; look at its log")]
    Closed(Endpoint),
    /// It does not let us in, or we do not trust it.
    #[error("cannot use the node at {endpoint}: {why}")]
    Untrusted { endpoint: Endpoint, why: String },
    /// It does not answer.
    #[error("the node at {endpoint} does not answer within {} s; look whether it is stopped or overloaded", within.as_secs())]
    Silent { endpoint: Endpoint, within: Duration },
    /// It refuses what was asked.
    #[error("the node at {endpoint} refuses: {why}")]
    Refused { endpoint: Endpoint, kind: RefusalKind, why: String },
    /// It says what no node says.
    #[error("the node at {endpoint} is not understood: {error}")]
    Protocol { endpoint: Endpoint, error: ProtocolError },
}

impl ConnectionError {
    /// Whether there is no node that answers, in contrast to one that refuses something.
    pub fn is_unreachable(&self) -> bool {
        !matches!(self, ConnectionError::Refused { .. })
    }
}
