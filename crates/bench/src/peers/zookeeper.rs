//! Locks of three ZooKeeper servers, by its own recipe: each client creates a numbered node that is deleted with its session. The client
//! with the lowest number holds the lock; each other one watches the node before its own.

use std::fmt::Write as _;
use std::net::SocketAddr;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use anyhow::Context;
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use super::jute::{Mode, NO_NODE, NODE_EXISTS, ZooKeeperSession};
use super::{Server, until_ready};
use crate::output::free_addresses;
use crate::system::{LockClient, System};

const SERVERS: usize = 3;

/// The path of the program in the Debian package.
const JAR: &str = "/usr/share/java/zookeeper.jar";

/// Three servers.
pub(crate) struct ZooKeeper {
    servers: Vec<Server>,
    addresses: Vec<SocketAddr>,
    /// The version that the servers report.
    pub(crate) version: String,
    _directory: tempfile::TempDir,
}

/// Returns whether ZooKeeper is installed.
pub(crate) fn is_installed() -> bool {
    Path::new(JAR).exists()
}

impl ZooKeeper {
    pub(crate) async fn start() -> anyhow::Result<Self> {
        let directory = tempfile::tempdir()?;
        let free: Vec<SocketAddr> =
            free_addresses(3 * SERVERS)?.iter().map(|address| address.parse()).collect::<Result<_, _>>()?;
        let (clients, others) = free.split_at(SERVERS);
        let (peers, elections) = others.split_at(SERVERS);
        let mut list = String::new();
        for (at, (peer, election)) in peers.iter().zip(elections).enumerate() {
            writeln!(list, "server.{at}=127.0.0.1:{}:{}", peer.port(), election.port())?;
        }
        let mut servers = Vec::with_capacity(SERVERS);
        for (at, client) in clients.iter().enumerate() {
            let data = directory.path().join(format!("data{at}"));
            std::fs::create_dir(&data)?;
            std::fs::write(data.join("myid"), at.to_string())?;
            let config = directory.path().join(format!("{at}.cfg"));
            let text = format!(
                "tickTime=2000\ninitLimit=10\nsyncLimit=5\nmaxClientCnxns=0\nadmin.enableServer=false\n\
                 dataDir={}\nclientPortAddress=127.0.0.1\nclientPort={}\n{list}",
                data.display(),
                client.port()
            );
            std::fs::write(&config, text)?;
            let mut command = Command::new("java");
            command.args(["-Xmx256m", "-cp", JAR, "org.apache.zookeeper.server.quorum.QuorumPeerMain"]);
            command.arg(&config);
            servers.push(Server::start(command, directory.path(), &format!("zookeeper{at}"))?);
        }
        let mut version = String::new();
        for address in clients {
            let open = || async { ZooKeeperSession::open(*address, Duration::from_secs(5)).await.map(drop) };
            until_ready(&mut servers, open).await.context("starting ZooKeeper")?;
            version = version_at(*address).await?;
        }
        Ok(ZooKeeper { servers, addresses: clients.to_vec(), version, _directory: directory })
    }
}

/// Asks a server for its version.
async fn version_at(address: SocketAddr) -> anyhow::Result<String> {
    let mut stream = tokio::net::TcpStream::connect(address).await?;
    stream.write_all(b"srvr").await?;
    let mut said = String::new();
    stream.read_to_string(&mut said).await?;
    let line = said.lines().next().unwrap_or_default();
    Ok(line.split(['-', ',']).next().unwrap_or_default().to_owned())
}

/// A client of one ZooKeeper server.
pub(crate) struct ZooKeeperClient {
    session: ZooKeeperSession,
    /// The node of this client in the queue of the lock.
    node: String,
}

impl System for ZooKeeper {
    type Client = ZooKeeperClient;

    async fn connect(&self, number: usize, expiry: Duration) -> anyhow::Result<Self::Client> {
        let session = ZooKeeperSession::open(self.addresses[number % SERVERS], expiry).await?;
        Ok(ZooKeeperClient { session, node: String::new() })
    }

    fn processes(&self) -> Vec<u32> {
        self.servers.iter().map(Server::id).collect()
    }

    fn kill_first(&mut self) -> bool {
        self.servers[0].kill();
        true
    }
}

impl ZooKeeperClient {
    /// Creates the client's node in the queue, and the lock's node if it does not exist.
    async fn queue_up(&mut self, lock: &str) -> anyhow::Result<String> {
        let path = format!("/{lock}/turn-");
        loop {
            match self.session.create(&path, Mode::EphemeralSequential).await? {
                Ok(node) => return Ok(node),
                Err(NO_NODE) => match self.session.create(&format!("/{lock}"), Mode::Persistent).await? {
                    Ok(_) | Err(NODE_EXISTS) => {}
                    Err(error) => anyhow::bail!("ZooKeeper does not create /{lock}: error {error}"),
                },
                Err(error) => anyhow::bail!("ZooKeeper does not create {path}: error {error}"),
            }
        }
    }
}

impl LockClient for ZooKeeperClient {
    async fn acquire(&mut self, lock: &str) -> anyhow::Result<Option<i64>> {
        self.node = self.queue_up(lock).await?;
        let mine = self.node.rsplit('/').next().unwrap_or_default().to_owned();
        loop {
            let mut turns = self.session.children(&format!("/{lock}")).await?;
            turns.sort_unstable();
            let at = turns.iter().position(|turn| *turn == mine).context("the session has ended")?;
            let Some(before) = at.checked_sub(1).map(|at| format!("/{lock}/{}", turns[at])) else { break };
            if self.session.watch(&before).await? {
                self.session.until_news(&before).await?;
            }
        }
        let number = mine.rsplit('-').next().unwrap_or_default();
        Ok(Some(number.parse().context("a node in the queue has no number")?))
    }

    async fn release(&mut self) -> anyhow::Result<()> {
        self.session.delete(&std::mem::take(&mut self.node)).await
    }
}
