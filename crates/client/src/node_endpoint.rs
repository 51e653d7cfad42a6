//! The address at which a node serves clients.

use std::fmt;
use std::path::PathBuf;

use meshlock_cluster::address::Address;
use meshlock_tls::Security;

/// The address at which a node serves clients.
#[derive(Clone, Debug)]
pub enum NodeEndpoint {
    /// The Unix socket of a node on this machine.
    Socket(PathBuf),
    /// A node on any machine, by the address that its configuration has under `clients`.
    Tcp { address: Address, security: Security },
}

impl fmt::Display for NodeEndpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            NodeEndpoint::Socket(path) => path.display().fmt(f),
            NodeEndpoint::Tcp { address, .. } => address.fmt(f),
        }
    }
}
