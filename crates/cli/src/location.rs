//! The flags that name the node a command talks to, and how they are resolved to a socket or a network address.

use std::env;
use std::fmt;
use std::path::{Path, PathBuf};

use clap::Args;
use meshlock_client::{Connection, ConnectionError, Keeping, NodeEndpoint};
use meshlock_cluster::address::Address;
use meshlock_cluster::names::ClientLabel;
use meshlock_tls::{Bearer, Files, Identity, Security};

use crate::commands::run::keeper;
use crate::output::UsageError;
use crate::settings::places::{self, PlaceError};

/// Environment variable with the address of the node to use if neither `--node` nor `--socket` is given. It takes precedence
/// over [`places::SOCKET_VARIABLE`].
const NODE_VARIABLE: &str = "MESHLOCK_NODE";

/// Environment variable with the directory of the client's certificate if `--certificate` is not given.
const CERTIFICATE_VARIABLE: &str = "MESHLOCK_CERTIFICATE";

/// The flags that name a node.
#[derive(Clone, Debug, Default, Args)]
pub(crate) struct NodeFlags {
    /// The socket of the node to use; default: MESHLOCK_NODE or MESHLOCK_SOCKET from the environment, or the only node that this
    /// user runs
    #[arg(long, value_name = "PATH", conflicts_with = "node")]
    socket: Option<PathBuf>,
    /// A node on another machine: the address under `clients` in its configuration
    #[arg(long, value_name = "HOST:PORT")]
    node: Option<Address>,
    /// With --node: the directory that `meshlock ca issue NAME --client` wrote; default: MESHLOCK_CERTIFICATE from the
    /// environment, or meshlock/client in XDG_CONFIG_HOME or ~/.config
    #[arg(long, value_name = "DIR", conflicts_with = "plain")]
    certificate: Option<PathBuf>,
    /// With --node: connect without TLS, to a node that is configured with tls = "off"
    #[arg(long)]
    plain: bool,
}

/// Where a node is, and the directory of the client's certificate if the connection uses TLS.
#[derive(Clone, Debug)]
pub(crate) struct NodeLocation {
    pub(crate) endpoint: NodeEndpoint,
    certificate: Option<PathBuf>,
}

impl NodeLocation {
    /// Returns the location of a node of this machine that serves this socket.
    pub(crate) fn socket(path: PathBuf) -> Self {
        NodeLocation { endpoint: NodeEndpoint::Socket(path), certificate: None }
    }

    /// Returns the socket if the node is on this machine.
    pub(crate) fn as_socket(&self) -> Option<&Path> {
        match &self.endpoint {
            NodeEndpoint::Socket(path) => Some(path),
            NodeEndpoint::Tcp { .. } => None,
        }
    }

    /// Connects. The session ends with this program.
    pub(crate) fn connect(&self, who: &ClientLabel) -> Result<Connection, ConnectionError> {
        Connection::connect(&self.endpoint, who, &Keeping::Thread)
    }

    /// Connects in such a way that processes which this program starts can keep the session.
    pub(crate) fn connect_for_children(&self, who: &ClientLabel) -> Result<Connection, ConnectionError> {
        let certificate = self.certificate.clone();
        let keeper = Keeping::Process(Box::new(move || keeper::command(certificate.clone())));
        Connection::connect(&self.endpoint, who, &keeper)
    }
}

impl fmt::Display for NodeLocation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.endpoint.fmt(f)
    }
}

impl NodeFlags {
    /// Returns flags for the node at `address`, with the certificate in this directory or, if `plain`, without TLS.
    pub(crate) fn at(address: Address, certificate: Option<PathBuf>, plain: bool) -> Self {
        NodeFlags { socket: None, node: Some(address), certificate, plain }
    }

    /// Finds the node that the flags and the environment name, or the only node that this user runs.
    pub(crate) fn find(&self) -> anyhow::Result<NodeLocation> {
        let named = env::var(NODE_VARIABLE).ok().filter(|address| !address.is_empty());
        let address = match (&self.node, &self.socket, named) {
            (Some(address), ..) => Some(address.clone()),
            (None, Some(_), _) | (None, None, None) => None,
            (None, None, Some(address)) => {
                Some(address.parse().map_err(|error| UsageError::new(format!("{NODE_VARIABLE}: {error}")))?)
            }
        };
        let Some(address) = address else {
            if self.plain || self.certificate.is_some() {
                let why =
                    "--plain and --certificate apply to a node on another machine; add --node HOST:PORT";
                return Err(UsageError::new(why).into());
            }
            return Ok(NodeLocation::socket(places::find_socket(self.socket.as_deref())?));
        };
        if self.plain {
            let endpoint = NodeEndpoint::Tcp { address, security: Security::Plain };
            return Ok(NodeLocation { endpoint, certificate: None });
        }
        let (dir, identity) = self.certificate(&address)?;
        let endpoint = NodeEndpoint::Tcp { address, security: Security::Tls(identity) };
        Ok(NodeLocation { endpoint, certificate: Some(dir) })
    }

    /// Loads the client's certificate, so that a mistake is reported before any connection is made. Returns it with its directory.
    fn certificate(&self, address: &Address) -> Result<(PathBuf, Identity), UsageError> {
        let said = self.certificate.clone();
        let said = said
            .or_else(|| env::var_os(CERTIFICATE_VARIABLE).filter(|dir| !dir.is_empty()).map(PathBuf::from));
        let dir =
            said.or_else(places::client_certificate).filter(|dir| dir.exists() || self.certificate.is_some());
        let dir = dir.ok_or_else(|| {
            UsageError::new(format!(
                "--node {address}: this machine has no client certificate; make one with `meshlock ca issue NAME --client` \
                 and name its directory with --certificate, or use --plain if the node runs without TLS"
            ))
        })?;
        let identity = identity(&dir)?;
        match identity.bearer() {
            Bearer::Client(_) => Ok((dir, identity)),
            site @ Bearer::Site(_) => Err(UsageError::new(format!(
                "{}: is the certificate of {site}, but a client certificate is needed; make one with `meshlock ca issue NAME --client`",
                dir.display()
            ))),
        }
    }
}

/// Loads the client certificate in a directory.
pub(crate) fn identity(dir: &Path) -> Result<Identity, UsageError> {
    Identity::load(&Files::in_directory(dir))
        .map_err(|error| UsageError::new(format!("--certificate: {error}")))
}

/// Returns whether the error says that no node was named and this user runs none.
pub(crate) fn is_none(error: &anyhow::Error) -> bool {
    matches!(error.downcast_ref(), Some(PlaceError::NoNode(_)))
}
