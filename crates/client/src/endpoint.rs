//! Where a node serves clients.

use std::fmt;
use std::path::PathBuf;

use meshlock_cluster::address::Address;
use meshlock_tls::Security;

/// Where a node serves clients.
#[derive(Clone, Debug)]
pub enum Endpoint {
    /// The Unix socket of a node on this machine.
    Socket(PathBuf),
    /// The address of a node on any machine: what its configuration has under `clients`.
    Tcp {
        /// Host and port.
        address: Address,
        /// How the connection is protected.
        security: Security,
    },
}

impl Endpoint {
    /// Whether both lead to the same door.
    pub fn is_same(&self, other: &Endpoint) -> bool {
        match (self, other) {
            (Endpoint::Socket(one), Endpoint::Socket(other)) => one == other,
            (Endpoint::Tcp { address, .. }, Endpoint::Tcp { address: other, .. }) => address == other,
            (Endpoint::Socket(_), Endpoint::Tcp { .. }) | (Endpoint::Tcp { .. }, Endpoint::Socket(_)) => {
                false
            }
        }
    }
}

impl fmt::Display for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Endpoint::Socket(path) => path.display().fmt(f),
            Endpoint::Tcp { address, .. } => address.fmt(f),
        }
    }
}
