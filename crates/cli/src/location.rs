//! Which node a command talks to. Every command looks in the same order, and the first that names a node decides:
//!
//! 1. the flags `--socket` and `--node` (one node, or several of one cluster, of which the nearest that answers is used);
//! 2. the environment variables `MESHLOCK_NODE` and `MESHLOCK_SOCKET`;
//! 3. `client.toml` of the user, then that of the machine (`/etc/meshlock/client.toml`);
//! 4. the machine's node, if there is a configuration for it (`/etc/meshlock/node.toml`) or its socket (`/run/meshlock/node.sock`);
//! 5. the nodes that this user runs: the only one, or the first of a `meshlock up`.
//!
//! Only if none of these names a node may a command start one of its own. Whatever is named and cannot be reached is an error: a user
//! or a machine that is configured for a cluster never falls back to a private node.

mod client_file;
mod found;

use std::collections::BTreeSet;
use std::env;
use std::fmt;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::Context;
use clap::Args;
use meshlock_client::{Connection, Keeping, NodeChoice, NodeEndpoint};
use meshlock_cluster::address::Address;
use meshlock_cluster::names::ClientLabel;
use meshlock_tls::{Bearer, Files, Identity, Security};

use crate::commands::run::keeper;
use crate::embedded;
use crate::output::{Printable, UsageError};
use crate::settings::places::{self, PlaceError, UserNodes};
use client_file::ClientFile;
pub(crate) use found::FoundBy;

/// Environment variables with the address (or several, separated by commas) or the socket of the node to use if neither `--node` nor `--socket` is given. The address takes
/// precedence over the socket.
const NODE_VARIABLE: &str = "MESHLOCK_NODE";
const SOCKET_VARIABLE: &str = "MESHLOCK_SOCKET";

/// Environment variable with the directory of the client's certificate if `--certificate` is not given.
const CERTIFICATE_VARIABLE: &str = "MESHLOCK_CERTIFICATE";

/// The flags that name a node.
#[derive(Clone, Debug, Default, Args)]
pub(crate) struct NodeFlags {
    /// The socket of the node to use; default: MESHLOCK_NODE or MESHLOCK_SOCKET from the environment, else what client.toml of this
    /// user or machine names, else the machine's node, else the node that this user runs
    #[arg(long, value_name = "PATH", conflicts_with = "node")]
    socket: Option<PathBuf>,
    /// A node on another machine: the address under `clients` in its configuration. Several nodes of one cluster, separated by
    /// commas: the nearest that answers is used, and another one if it stops answering or leaves
    #[arg(long, value_name = "HOST:PORT", value_parser = node_address, value_delimiter = ',')]
    node: Vec<Address>,
    /// With --node: the directory that `meshlock ca issue NAME --client` wrote; default: MESHLOCK_CERTIFICATE from the
    /// environment, else what client.toml names, else meshlock/client in XDG_CONFIG_HOME or ~/.config
    #[arg(long, value_name = "DIR", conflicts_with = "plain")]
    certificate: Option<PathBuf>,
    /// With --node: connect without TLS, to a node that is configured with tls = "off"
    #[arg(long)]
    plain: bool,
}

/// Where a node is, or several of one cluster; why they were chosen; and the directory of the client's certificate if the connection
/// uses TLS.
#[derive(Clone, Debug)]
pub(crate) struct NodeLocation {
    /// In the order in which they were named; at least one.
    endpoints: Vec<NodeEndpoint>,
    pub(crate) found_by: FoundBy,
    certificate: Option<PathBuf>,
}

impl NodeLocation {
    /// Returns the location of a node of this machine that serves this socket.
    pub(crate) fn socket(path: PathBuf, found_by: FoundBy) -> Self {
        NodeLocation { endpoints: vec![NodeEndpoint::Socket(path)], found_by, certificate: None }
    }

    /// Returns the endpoints, in the order in which they were named.
    pub(crate) fn endpoints(&self) -> &[NodeEndpoint] {
        &self.endpoints
    }

    /// Returns the directory of the client's certificate, if the connection uses one.
    pub(crate) fn certificate(&self) -> Option<&PathBuf> {
        self.certificate.as_ref()
    }

    /// Returns the socket if the node is on this machine.
    pub(crate) fn as_socket(&self) -> Option<&Path> {
        match self.endpoints.as_slice() {
            [NodeEndpoint::Socket(path)] => Some(path),
            _ => None,
        }
    }

    /// Connects to the nearest node that answers. The session ends with this program.
    pub(crate) fn connect(&self, who: &ClientLabel) -> anyhow::Result<Connection> {
        Ok(self.connect_from(NodeChoice::Nearest, who, &Keeping::Thread)?.0)
    }

    /// Connects in such a way that processes which this program starts can keep the session. Returns also the node's index.
    pub(crate) fn connect_for_children(
        &self,
        choice: NodeChoice,
        who: &ClientLabel,
    ) -> anyhow::Result<(Connection, usize)> {
        self.connect_from(choice, who, &kept_for_children(self.certificate.clone()))
    }

    /// Connects, and adds to the error that there is no node why this one was chosen, unless the user has just named it.
    fn connect_from(
        &self,
        choice: NodeChoice,
        who: &ClientLabel,
        keeping: &Keeping,
    ) -> anyhow::Result<(Connection, usize)> {
        match Connection::connect_to_any(&self.endpoints, choice, who, keeping) {
            Err(error) if error.is_unreachable() && self.endpoints.len() > 1 => Err(error)
                .with_context(|| format!("none of the nodes at {self} can be used ({})", self.found_by)),
            Err(error) if error.is_unreachable() && self.found_by != FoundBy::Arguments => {
                Err(error).with_context(|| format!("the node at {self} is needed ({})", self.found_by))
            }
            connected => Ok(connected?),
        }
    }
}

/// Returns how a session is kept that processes which this program starts can keep, too.
pub(crate) fn kept_for_children(certificate: Option<PathBuf>) -> Keeping {
    Keeping::Process(Box::new(move |places, at| keeper::command(certificate.clone(), places, at)))
}

impl fmt::Display for NodeLocation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (at, endpoint) in self.endpoints.iter().enumerate() {
            write!(f, "{}{endpoint}", if at == 0 { "" } else { "," })?;
        }
        Ok(())
    }
}

/// What a node is called where it was named, or several of one cluster.
enum NamedNode {
    Socket(PathBuf),
    Addresses { addresses: Vec<Address>, is_plain: bool },
}

impl NodeFlags {
    /// Returns flags for the nodes at these addresses, with the certificate in this directory or, if `plain`, without TLS.
    pub(crate) fn at(addresses: Vec<Address>, certificate: Option<PathBuf>, plain: bool) -> Self {
        NodeFlags { socket: None, node: addresses, certificate, plain }
    }

    /// Returns flags for the node that serves this socket, or without one for the node that is found otherwise.
    pub(crate) fn at_socket(socket: Option<PathBuf>) -> Self {
        NodeFlags { socket, ..NodeFlags::default() }
    }

    /// Finds the node to use.
    pub(crate) fn find(&self) -> anyhow::Result<NodeLocation> {
        let named = self.named()?;
        // What the files say is not needed for a node that is already known.
        let files = match &named {
            Some((NamedNode::Socket(_) | NamedNode::Addresses { is_plain: true, .. }, _)) => Vec::new(),
            Some((NamedNode::Addresses { is_plain: false, .. }, _)) | None => read_files()?,
        };
        let (named, found_by) = match named.or_else(|| self.named_in(&files)) {
            Some(named) => named,
            None => unnamed()?,
        };
        match named {
            NamedNode::Socket(_) if self.plain || self.certificate.is_some() => Err(UsageError::new(
                "--plain and --certificate apply to a node on another machine; add --node HOST:PORT",
            )
            .into()),
            NamedNode::Socket(path) => Ok(NodeLocation::socket(path, found_by)),
            NamedNode::Addresses { addresses, is_plain: true } => {
                let endpoints = tcp_endpoints(addresses, &Security::Plain);
                Ok(NodeLocation { endpoints, found_by, certificate: None })
            }
            NamedNode::Addresses { addresses, is_plain: false } => {
                let (dir, identity) = self.certificate(&addresses, &files)?;
                let endpoints = tcp_endpoints(addresses, &Security::Tls(identity));
                Ok(NodeLocation { endpoints, found_by, certificate: Some(dir) })
            }
        }
    }

    /// Returns the node that the flags or the environment names.
    fn named(&self) -> Result<Option<(NamedNode, FoundBy)>, UsageError> {
        let at = |addresses: Vec<Address>| NamedNode::Addresses { addresses, is_plain: self.plain };
        if !self.node.is_empty() {
            return Ok(Some((at(self.node.clone()), FoundBy::Arguments)));
        }
        if let Some(path) = &self.socket {
            return Ok(Some((NamedNode::Socket(path.clone()), FoundBy::Arguments)));
        }
        if let Some(addresses) = env::var(NODE_VARIABLE).ok().filter(|addresses| !addresses.is_empty()) {
            let wrong = |error| UsageError::new(format!("{NODE_VARIABLE}: {error}"));
            let addresses = node_addresses(&addresses).map_err(wrong)?;
            return Ok(Some((at(addresses), FoundBy::Variable(NODE_VARIABLE))));
        }
        if let Some(path) = env::var_os(SOCKET_VARIABLE).filter(|path| !path.is_empty()) {
            return Ok(Some((NamedNode::Socket(path.into()), FoundBy::Variable(SOCKET_VARIABLE))));
        }
        Ok(None)
    }

    /// Returns the node that the first of these files names.
    fn named_in(&self, files: &[(PathBuf, ClientFile)]) -> Option<(NamedNode, FoundBy)> {
        files.iter().find_map(|(path, file)| {
            let is_plain = self.plain || file.tls.is_some();
            let named = match (&file.node, &file.socket) {
                (Some(nodes), _) => NamedNode::Addresses { addresses: nodes.addresses().to_vec(), is_plain },
                (None, Some(socket)) => NamedNode::Socket(socket.clone()),
                (None, None) => return None,
            };
            Some((named, FoundBy::File(path.clone())))
        })
    }

    /// Loads the client's certificate, so that a mistake is reported before any connection is made. Returns it with its directory.
    fn certificate(
        &self,
        addresses: &[Address],
        files: &[(PathBuf, ClientFile)],
    ) -> Result<(PathBuf, Identity), UsageError> {
        let said = self.certificate.clone();
        let said = said
            .or_else(|| env::var_os(CERTIFICATE_VARIABLE).filter(|dir| !dir.is_empty()).map(PathBuf::from));
        let said = said.or_else(|| files.iter().find_map(|(_, file)| file.certificate.clone()));
        let dir = said.or_else(|| places::client_certificate().filter(|dir| dir.exists()));
        let dir = dir.ok_or_else(|| {
            let address = &addresses[0];
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

/// Parses the address of a node: the host, which is not looked up here, and the port.
pub(crate) fn node_address(text: &str) -> Result<Address, String> {
    let address: Address = text.parse().map_err(|error| format!("{error}"))?;
    let (host, port) = text.rsplit_once(':').unwrap_or((text, ""));
    let is_host = !host.is_empty() && (!host.contains(':') || (host.starts_with('[') && host.ends_with(']')));
    if is_host && port.parse().is_ok_and(|port: u16| port != 0) {
        return Ok(address);
    }
    Err(format!(
        "'{}' is not of the form HOST:PORT; write for example 'db-1.example:7401' or '[::1]:7401'",
        Printable(text)
    ))
}

/// Parses the addresses of several nodes of one cluster, separated by commas.
pub(crate) fn node_addresses(text: &str) -> Result<Vec<Address>, String> {
    text.split(',').map(|address| node_address(address.trim())).collect()
}

/// Returns the endpoints at these addresses.
fn tcp_endpoints(addresses: Vec<Address>, security: &Security) -> Vec<NodeEndpoint> {
    let endpoint = |address| NodeEndpoint::Tcp { address, security: security.clone() };
    addresses.into_iter().map(endpoint).collect()
}

/// Reads `client.toml` of the user and of the machine, where they exist.
fn read_files() -> Result<Vec<(PathBuf, ClientFile)>, UsageError> {
    let mut files = Vec::new();
    for path in places::client_files() {
        files.extend(client_file::read(&path)?.map(|file| (path, file)));
    }
    Ok(files)
}

/// Finds the node where nothing names one: that of the machine, or that of this user.
fn unnamed() -> Result<(NamedNode, FoundBy), PlaceError> {
    if let Some(because) = places::machine_node() {
        return Ok((NamedNode::Socket(places::machine_socket()), FoundBy::Machine(because)));
    }
    let mut found = places::user_nodes()?;
    // It may have been started where this process cannot see its runtime directory.
    found.extend(embedded::running().map(UserNodes::One));
    // A link leads to the same node as its socket does.
    let mut seen = BTreeSet::new();
    found.retain(|node| {
        node.socket().is_none_or(|path| seen.insert(fs::canonicalize(path).unwrap_or_else(|_| path.clone())))
    });
    match found.as_slice() {
        [] => {
            let searched = places::client_files().chain([places::machine_socket()]);
            Err(PlaceError::NoNode(searched.chain(places::runtime_directories()).collect()))
        }
        [UserNodes::One(socket)] => {
            let is_private = embedded::is_embedded(socket);
            let found_by = if is_private { FoundBy::Embedded } else { FoundBy::OnlyOne };
            Ok((NamedNode::Socket(socket.clone()), found_by))
        }
        [UserNodes::Up { dir, sockets }] => {
            let found_by = FoundBy::FirstOfUp { dir: dir.clone(), sites: sockets.len() };
            let first = sockets.first().cloned().unwrap_or_default();
            Ok((NamedNode::Socket(first), found_by))
        }
        several => Err(PlaceError::Several(several.iter().filter_map(UserNodes::socket).cloned().collect())),
    }
}

/// Loads the client certificate in a directory.
pub(crate) fn identity(dir: &Path) -> Result<Identity, UsageError> {
    Identity::load(&Files::in_directory(dir))
        .map_err(|error| UsageError::new(format!("--certificate: {error}")))
}

/// Returns whether the error says that nothing names a node and none runs.
pub(crate) fn is_none(error: &anyhow::Error) -> bool {
    matches!(error.downcast_ref(), Some(PlaceError::NoNode(_)))
}
