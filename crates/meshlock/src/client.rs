//! A client of a node that runs in another process.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::time::Duration;

use meshlock_client::{NodeClient, NodeEndpoint};
use meshlock_cluster::names::{ClientLabel, LockName};
use meshlock_cluster::table::Wait;
use meshlock_system::now;
use meshlock_tls::Security;

use crate::blocking::wait_for;
use crate::error::{AcquireError, ConnectError};
use crate::guard::Guard;
use crate::guards::Guards;
use crate::locking::{locking_methods, within};
use crate::semaphore::{PermitSource, Semaphore};
use crate::tls::Tls;

/// The address at which a node serves clients.
///
/// ```
/// use std::path::Path;
///
/// let endpoint: meshlock::Endpoint = Path::new("/run/meshlock/db-1.sock").into();
/// ```
#[derive(Clone, Debug)]
pub struct Endpoint(NodeEndpoint);

impl Endpoint {
    /// The Unix socket of a node on this machine.
    ///
    /// ```
    /// let endpoint = meshlock::Endpoint::socket("/run/meshlock/db-1.sock");
    /// ```
    pub fn socket(path: impl Into<PathBuf>) -> Self {
        Endpoint(NodeEndpoint::Socket(path.into()))
    }

    /// A node on any machine, by the address that its configuration has under `clients`, protected by TLS.
    ///
    /// ```no_run
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let tls = meshlock::Tls::from_dir("client-laptop")?;
    /// let endpoint = meshlock::Endpoint::tcp("db-1.example:7401", &tls)?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn tcp(address: &str, tls: &Tls) -> Result<Self, AddressError> {
        let security = Security::Tls(tls.identity().clone());
        Ok(Endpoint(NodeEndpoint::Tcp { address: address.parse()?, security }))
    }

    /// A node on any machine, without TLS: only for a network that is trusted.
    ///
    /// ```
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let endpoint = meshlock::Endpoint::tcp_plaintext("127.0.0.1:7401")?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn tcp_plaintext(address: &str) -> Result<Self, AddressError> {
        Ok(Endpoint(NodeEndpoint::Tcp { address: address.parse()?, security: Security::Plain }))
    }
}

/// Why a text is not an address.
pub use meshlock_cluster::address::AddressError;

impl From<&Path> for Endpoint {
    fn from(path: &Path) -> Self {
        Endpoint::socket(path)
    }
}

impl From<PathBuf> for Endpoint {
    fn from(path: PathBuf) -> Self {
        Endpoint::socket(path)
    }
}

/// A client of a node that runs in another process, on this machine or another. Clones share one session. Its locks are released when
/// the program ends, however it ends.
///
/// Of several endpoints it uses the nearest: all are asked at once, the first that answers is taken, and between those that answer within
/// 10 ms of it the order of the list decides. When that node dies, leaves or is cut off, the client goes on at another one. Calls that
/// were waiting go on waiting there. Locks are kept, with the same fences, if the client is connected over TCP and reaches another
/// endpoint over TCP while they are safe; locks that it holds through a node's socket are [lost](Guard::lost) with that node.
///
/// ```
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let dir = tempfile::tempdir()?;
/// # let path = dir.path().join("node.sock");
/// # let node = meshlock::Node::builder().in_memory().socket(&path).start()?; // usually a separate `meshlock node`
/// let client = meshlock::Client::connect_blocking([meshlock::Endpoint::socket(&path)])?;
/// let guard = client.lock_blocking("orders")?;
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct Client {
    client: NodeClient,
}

impl Client {
    /// Connects to the nearest of these nodes that answers.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let dir = tempfile::tempdir()?;
    /// # let path = dir.path().join("node.sock");
    /// # let node = meshlock::Node::builder().in_memory().socket(&path).start()?;
    /// let client = meshlock::Client::connect([meshlock::Endpoint::socket(&path)]).await?;
    /// # Ok(())
    /// # }
    /// ```
    pub async fn connect(
        endpoints: impl IntoIterator<Item = impl Into<Endpoint>>,
    ) -> Result<Self, ConnectError> {
        Client::connect_as(endpoints, &default_label()).await
    }

    /// Connects to the nearest of these nodes that answers. `label` identifies this program to operators and other clients.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let dir = tempfile::tempdir()?;
    /// # let path = dir.path().join("node.sock");
    /// # let node = meshlock::Node::builder().in_memory().socket(&path).start()?;
    /// let client = meshlock::Client::connect_as([meshlock::Endpoint::socket(&path)], "billing").await?;
    /// # Ok(())
    /// # }
    /// ```
    pub async fn connect_as(
        endpoints: impl IntoIterator<Item = impl Into<Endpoint>>,
        label: &str,
    ) -> Result<Self, ConnectError> {
        let endpoints = endpoints.into_iter().map(|endpoint| endpoint.into().0).collect();
        let connected = NodeClient::connect_async(endpoints, label_of(label)).await;
        Ok(Client { client: connected.map_err(|error| ConnectError::of(&error))? })
    }

    /// Like [`connect`](Client::connect), without async.
    ///
    /// ```
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let dir = tempfile::tempdir()?;
    /// # let path = dir.path().join("node.sock");
    /// # let node = meshlock::Node::builder().in_memory().socket(&path).start()?;
    /// let client = meshlock::Client::connect_blocking([meshlock::Endpoint::socket(&path)])?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn connect_blocking(
        endpoints: impl IntoIterator<Item = impl Into<Endpoint>>,
    ) -> Result<Self, ConnectError> {
        wait_for(Client::connect(endpoints))
    }

    /// Like [`connect_as`](Client::connect_as), without async.
    ///
    /// ```
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let dir = tempfile::tempdir()?;
    /// # let path = dir.path().join("node.sock");
    /// # let node = meshlock::Node::builder().in_memory().socket(&path).start()?;
    /// let client = meshlock::Client::connect_as_blocking([meshlock::Endpoint::socket(&path)], "billing")?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn connect_as_blocking(
        endpoints: impl IntoIterator<Item = impl Into<Endpoint>>,
        label: &str,
    ) -> Result<Self, ConnectError> {
        wait_for(Client::connect_as(endpoints, label))
    }

    /// Returns the name of the site that it is connected to; `None` while it is not connected.
    ///
    /// ```
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let dir = tempfile::tempdir()?;
    /// # let path = dir.path().join("node.sock");
    /// # let node = meshlock::Node::builder().in_memory().socket(&path).start()?;
    /// # let client = meshlock::Client::connect_blocking([meshlock::Endpoint::socket(&path)])?;
    /// assert_eq!(client.site().as_deref(), Some("local"));
    /// # Ok(())
    /// # }
    /// ```
    pub fn site(&self) -> Option<String> {
        self.client.site().map(|site| site.to_string())
    }

    locking_methods!(
        Client,
        "client",
        "# let dir = tempfile::tempdir()?;\n\
         # let path = dir.path().join(\"node.sock\");\n\
         # let node = meshlock::Node::builder().in_memory().socket(&path).start()?;\n\
         # let client = meshlock::Client::connect([meshlock::Endpoint::socket(&path)]).await?;"
    );

    pub(crate) async fn acquire(
        &self,
        lock: LockName,
        wait: Wait,
        permits: Option<u32>,
    ) -> Result<Guard, AcquireError> {
        let name = lock.clone();
        let held = self.client.acquire(lock, wait, permits).await;
        let held = held.map_err(|error| AcquireError::of_client(name.as_str(), error))?;
        Guard::of_client(held).ok_or_else(|| AcquireError::gone_again(name.as_str()))
    }
}

impl std::fmt::Debug for Client {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Client").field("site", &self.site()).finish_non_exhaustive()
    }
}

/// Returns the default label: the name of the program's file and its process number.
fn default_label() -> String {
    let program = std::env::current_exe().ok();
    let program =
        program.as_deref().and_then(Path::file_name).map(|name| name.to_string_lossy().into_owned());
    let program: String = program.unwrap_or_else(|| "program".to_owned()).chars().take(40).collect();
    format!("{program}, process {}", std::process::id())
}

/// Converts any text to a label that others can print.
fn label_of(text: &str) -> ClientLabel {
    let plain: String = text.chars().map(|c| if c.is_control() { '?' } else { c }).take(100).collect();
    plain
        .parse()
        .unwrap_or_else(|_| format!("process {}", std::process::id()).parse().expect("short and printable"))
}
