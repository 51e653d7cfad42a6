//! Errors of connections to nodes.

use std::io;
use std::time::Duration;

use meshlock_cluster::printable::Printable;
use meshlock_wire::clients::{ProtocolError, RefusalKind};

use super::node_endpoint::NodeEndpoint;

/// Why the connection to a node failed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ConnectionError {
    /// No endpoint was given.
    #[error("no node was named; give the path of a socket or an address")]
    NoEndpoint,
    /// No node serves clients there.
    #[error("no node serves clients at {endpoint}; start one there, or name another")]
    Nobody { endpoint: NodeEndpoint, error: io::Error },
    /// An operation of the operating system failed.
    #[error("cannot talk to the node at {endpoint}: {error}")]
    Io { endpoint: NodeEndpoint, error: io::Error },
    /// The operating system provides no more threads.
    #[error("cannot start a thread for the connection: {0}")]
    Thread(io::Error),
    /// The node has stopped, or has closed the connection.
    #[error("the node at {0} has closed the connection; look at its log")]
    Closed(NodeEndpoint),
    /// A node of another machine does not accept us, or we do not trust its certificate. `kind` is
    /// [`Other`](RefusalKind::Other) unless the node itself said why.
    #[error("cannot use the node at {endpoint}: {}", Printable(why))]
    Untrusted { endpoint: NodeEndpoint, kind: RefusalKind, why: String },
    /// The node does not answer in time.
    #[error("the node at {endpoint} does not answer within {} s; look whether it is stopped or overloaded", within.as_secs())]
    Silent { endpoint: NodeEndpoint, within: Duration },
    /// The node refuses the request.
    #[error("the node at {endpoint} refuses: {}", Printable(why))]
    Refused { endpoint: NodeEndpoint, kind: RefusalKind, why: String },
    /// The node answered in a version that was not offered to it.
    #[error(
        "the node at {endpoint} speaks version {theirs} to clients, and this program versions {} to {}; run versions of meshlock that \
         are at most one apart",
        ours.0,
        ours.1
    )]
    Version {
        endpoint: NodeEndpoint,
        /// The version that the node chose.
        theirs: u16,
        /// The lowest and the highest version that it was offered.
        ours: (u16, u16),
    },
    /// The node sent something invalid.
    #[error("cannot decode a message of the node at {endpoint}: {error}")]
    Protocol { endpoint: NodeEndpoint, error: ProtocolError },
}

impl ConnectionError {
    /// Returns whether no node answered. A node that answered and refused, that is not trusted or not understood was reached.
    pub fn is_unreachable(&self) -> bool {
        match self {
            ConnectionError::NoEndpoint
            | ConnectionError::Nobody { .. }
            | ConnectionError::Io { .. }
            | ConnectionError::Closed(_)
            | ConnectionError::Silent { .. } => true,
            ConnectionError::Thread(_)
            | ConnectionError::Untrusted { .. }
            | ConnectionError::Refused { .. }
            | ConnectionError::Version { .. }
            | ConnectionError::Protocol { .. } => false,
        }
    }

    /// Returns whether there is no session with a node, for whatever reason, or the node's cluster cannot do it at present, as opposed to
    /// a node that refused a request. The commands exit with 69 in this case (`docs/exit-codes.md`).
    pub fn is_unavailable(&self) -> bool {
        let ConnectionError::Refused { kind, .. } = self else { return true };
        matches!(kind, RefusalKind::Unavailable | RefusalKind::Failed)
    }
}
