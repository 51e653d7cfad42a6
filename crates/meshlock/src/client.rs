//! A program's way to a node that runs in another process.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::time::Duration;

use meshlock_client::{Client as NodeClient, Endpoint as NodeEndpoint};
use meshlock_cluster::names::{ClientLabel, LockName};
use meshlock_cluster::table::Wait;
use meshlock_system::now;
use meshlock_tls::Security;

use crate::blocking::wait_for;
use crate::error::{AcquireError, ConnectError};
use crate::guard::{Guard, Guards};
use crate::locking::locking_methods;
use crate::node::within;
use crate::semaphore::{Semaphore, Source};
use crate::tls::Tls;

/// Where a node serves clients.
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

    /// A node on any machine whose network is trusted: nothing is protected.
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

/// A program's way to a node that runs in another process, on this machine or another. Clones share one session; what it holds is
/// free when the program ends, however it ends.
///
/// It talks to the first of its endpoints that answers, and to another one when that is gone. Locks that it held then are
/// [lost](Guard::lost); whoever waits goes on waiting at the other node.
///
/// ```
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let dir = tempfile::tempdir()?;
/// # let path = dir.path().join("node.sock");
/// # let node = meshlock::Node::builder().in_memory().socket(&path).start()?; // mostly `meshlock node`, elsewhere
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
    /// Connects to the first of these nodes that answers.
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

    /// Connects to the first of these nodes that answers, and says how operators and other clients are to know this program.
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
        let client = NodeClient::connect_async(endpoints, label_of(label)).await?;
        Ok(Client { client })
    }

    /// [`connect`](Client::connect) without async.
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

    /// The name of the site that it talks to; none while it talks to nobody.
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

/// How this program is known if it does not say: by its file and its process.
fn default_label() -> String {
    let program = std::env::current_exe().ok();
    let program =
        program.as_deref().and_then(Path::file_name).map(|name| name.to_string_lossy().into_owned());
    let program: String = program.unwrap_or_else(|| "program".to_owned()).chars().take(40).collect();
    format!("{program}, process {}", std::process::id())
}

/// A label that others can print, whatever the program calls itself.
fn label_of(text: &str) -> ClientLabel {
    let plain: String = text.chars().map(|c| if c.is_control() { '?' } else { c }).take(100).collect();
    plain
        .parse()
        .unwrap_or_else(|_| format!("process {}", std::process::id()).parse().expect("short and printable"))
}
