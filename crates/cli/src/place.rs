//! Which node a command talks to: a socket of this machine, or an address.

use std::env;
use std::fmt;
use std::path::{Path, PathBuf};

use clap::Args;
use meshlock_client::{Connection, ConnectionError, Keeping, NodeEndpoint};
use meshlock_cluster::address::Address;
use meshlock_cluster::names::ClientLabel;
use meshlock_tls::{Bearer, Files, Identity, Security};

use crate::commands::run::keeper;
use crate::output::Usage;
use crate::settings::places::{self, PlaceError};

/// Names the node to use, where neither `--node` nor `--socket` does; it comes before [`places::SOCKET_VARIABLE`].
pub(crate) const NODE_VARIABLE: &str = "MESHLOCK_NODE";

/// Names the directory of the client's certificate, where `--certificate` does not.
pub(crate) const CERTIFICATE_VARIABLE: &str = "MESHLOCK_CERTIFICATE";

/// Which node.
#[derive(Clone, Debug, Default, Args)]
pub(crate) struct Where {
    /// The socket of the node to use; otherwise MESHLOCK_NODE or MESHLOCK_SOCKET says which, or it is the only one of this user
    #[arg(long, value_name = "PATH", conflicts_with = "node")]
    socket: Option<PathBuf>,
    /// A node on another machine: the address that its configuration has under `clients`
    #[arg(long, value_name = "HOST:PORT")]
    node: Option<Address>,
    /// For --node: a directory of `meshlock ca issue NAME --client`; otherwise MESHLOCK_CERTIFICATE says which, or it is
    /// meshlock/client in XDG_CONFIG_HOME or ~/.config
    #[arg(long, value_name = "DIR", conflicts_with = "plain")]
    certificate: Option<PathBuf>,
    /// For --node: trust the network, where the node does too (tls = "off")
    #[arg(long)]
    plain: bool,
}

/// A node that was found, and the directory of the client's certificate where its address is protected by one.
#[derive(Clone, Debug)]
pub(crate) struct Place {
    pub(crate) endpoint: NodeEndpoint,
    certificate: Option<PathBuf>,
}

impl Place {
    /// The socket of a node on this machine.
    pub(crate) fn socket(path: PathBuf) -> Self {
        Place { endpoint: NodeEndpoint::Socket(path), certificate: None }
    }

    /// The socket, if the node is on this machine.
    pub(crate) fn as_socket(&self) -> Option<&Path> {
        match &self.endpoint {
            NodeEndpoint::Socket(path) => Some(path),
            NodeEndpoint::Tcp { .. } => None,
        }
    }

    /// Connects for as long as this program runs.
    pub(crate) fn connect(&self, who: &ClientLabel) -> Result<Connection, ConnectionError> {
        Connection::connect(&self.endpoint, who, &Keeping::Thread)
    }

    /// Connects so that processes which this program starts keep the session.
    pub(crate) fn connect_for_children(&self, who: &ClientLabel) -> Result<Connection, ConnectionError> {
        let certificate = self.certificate.clone();
        let keeper = Keeping::Process(Box::new(move || keeper::command(certificate.clone())));
        Connection::connect(&self.endpoint, who, &keeper)
    }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.endpoint.fmt(f)
    }
}

impl Where {
    /// The node at an address, reached with this certificate, or without any.
    pub(crate) fn at(address: Address, certificate: Option<PathBuf>, plain: bool) -> Self {
        Where { socket: None, node: Some(address), certificate, plain }
    }

    /// Which node is meant; an error if none runs for this user and none is named.
    pub(crate) fn find(&self) -> anyhow::Result<Place> {
        let named = env::var(NODE_VARIABLE).ok().filter(|address| !address.is_empty());
        let address = match (&self.node, &self.socket, named) {
            (Some(address), ..) => Some(address.clone()),
            (None, Some(_), _) | (None, None, None) => None,
            (None, None, Some(address)) => {
                Some(address.parse().map_err(|error| Usage::new(format!("{NODE_VARIABLE}: {error}")))?)
            }
        };
        let Some(address) = address else {
            if self.plain || self.certificate.is_some() {
                let why =
                    "--plain and --certificate say how a network is crossed; say --node HOST:PORT as well";
                return Err(Usage::new(why).into());
            }
            return Ok(Place::socket(places::find_socket(self.socket.as_deref())?));
        };
        if self.plain {
            let endpoint = NodeEndpoint::Tcp { address, security: Security::Plain };
            return Ok(Place { endpoint, certificate: None });
        }
        let (dir, identity) = self.certificate(&address)?;
        let endpoint = NodeEndpoint::Tcp { address, security: Security::Tls(identity) };
        Ok(Place { endpoint, certificate: Some(dir) })
    }

    /// The client's certificate and its directory: what is wrong with it is said before anyone is called.
    fn certificate(&self, address: &Address) -> Result<(PathBuf, Identity), Usage> {
        let said = self.certificate.clone();
        let said = said
            .or_else(|| env::var_os(CERTIFICATE_VARIABLE).filter(|dir| !dir.is_empty()).map(PathBuf::from));
        let dir =
            said.or_else(places::client_certificate).filter(|dir| dir.exists() || self.certificate.is_some());
        let dir = dir.ok_or_else(|| {
            Usage::new(format!(
                "--node {address}: this machine has no client certificate; make one with `meshlock ca issue NAME --client` \
                 and name its directory with --certificate, or say --plain where the network is trusted"
            ))
        })?;
        let identity = identity(&dir)?;
        match identity.bearer() {
            Bearer::Client(_) => Ok((dir, identity)),
            site @ Bearer::Site(_) => Err(Usage::new(format!(
                "{}: is the certificate of {site}, and only clients use a node; `meshlock ca issue NAME --client` makes theirs",
                dir.display()
            ))),
        }
    }
}

/// Reads a client's certificate.
pub(crate) fn identity(dir: &Path) -> Result<Identity, Usage> {
    Identity::load(&Files::in_directory(dir)).map_err(|error| Usage::new(format!("--certificate: {error}")))
}

/// Whether no node runs for this user and none was named.
pub(crate) fn is_none(error: &anyhow::Error) -> bool {
    matches!(error.downcast_ref(), Some(PlaceError::NoNode(_)))
}
