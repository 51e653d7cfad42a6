//! Locks of one Redis server that writes nothing to disk, acquired with `SET NX PX`. A client that does not get the lock polls every
//! millisecond, or waits until the release is published. There are no fences.

use std::net::SocketAddr;
use std::process::Command;
use std::time::Duration;

use anyhow::Context;
use tokio::time::timeout;

use super::resp::{Connection, RespReply};
use super::{Server, until_ready, version_of};
use crate::output::free_addresses;
use crate::system::{LockClient, System};

/// How long a polling client waits before it tries again.
const POLL: Duration = Duration::from_millis(1);

/// Deletes a lock if the caller holds it, and notifies the waiters.
const RELEASE: &str = "if redis.call('get', KEYS[1]) == ARGV[1] then \
                       redis.call('del', KEYS[1]) redis.call('publish', KEYS[1], '') return 1 else return 0 end";

/// A Redis server.
pub(super) struct Instance {
    pub(super) server: Server,
    pub(super) address: SocketAddr,
    _directory: tempfile::TempDir,
}

impl Instance {
    pub(super) async fn start() -> anyhow::Result<Self> {
        let directory = tempfile::tempdir()?;
        let address: SocketAddr = free_addresses(1)?.remove(0).parse()?;
        let mut command = Command::new("redis-server");
        command.args(["--bind", "127.0.0.1", "--port", &address.port().to_string()]);
        command.args(["--save", "", "--appendonly", "no", "--loglevel", "warning"]);
        let mut server = [Server::start(command, directory.path(), "redis")?];
        until_ready(&mut server, || async move { Connection::open(address).await?.ask(&["PING"]).await })
            .await
            .context("starting Redis")?;
        let [server] = server;
        Ok(Instance { server, address, _directory: directory })
    }
}

/// One Redis server. Its clients wait for published releases if `TOLD`, and poll otherwise.
pub(crate) struct Redis<const TOLD: bool>(Instance);

impl<const TOLD: bool> Redis<TOLD> {
    pub(crate) async fn start() -> anyhow::Result<Self> {
        Ok(Redis(Instance::start().await?))
    }
}

/// Returns the version of Redis that is installed.
pub(crate) fn version() -> String {
    version_of("redis-server", "--version")
}

/// A client of one Redis server.
pub(crate) struct RedisClient<const TOLD: bool> {
    connection: Connection,
    /// The connection that receives published releases.
    news: Connection,
    /// The lock to which the second connection is subscribed.
    subscribed: String,
    token: String,
    expiry: String,
    held: String,
}

impl<const TOLD: bool> System for Redis<TOLD> {
    type Client = RedisClient<TOLD>;

    async fn connect(&self, number: usize, expiry: Duration) -> anyhow::Result<Self::Client> {
        Ok(RedisClient {
            connection: Connection::open(self.0.address).await?,
            news: Connection::open(self.0.address).await?,
            subscribed: String::new(),
            token: format!("{number}-{:x}", fastrand::u64(..)),
            expiry: expiry.as_millis().to_string(),
            held: String::new(),
        })
    }

    fn processes(&self) -> Vec<u32> {
        vec![self.0.server.id()]
    }

    fn kill_first(&mut self) -> bool {
        false
    }
}

impl<const TOLD: bool> RedisClient<TOLD> {
    async fn attempt(&mut self, lock: &str) -> anyhow::Result<bool> {
        let reply = self.connection.ask(&["SET", lock, &self.token, "NX", "PX", &self.expiry]).await?;
        Ok(reply != RespReply::Nothing)
    }

    /// Subscribes to the releases of this lock, and of no other.
    async fn subscribe(&mut self, lock: &str) -> anyhow::Result<()> {
        if self.subscribed == lock {
            return Ok(());
        }
        if !self.subscribed.is_empty() {
            self.news.send(&["UNSUBSCRIBE", &self.subscribed]).await?;
        }
        self.news.send(&["SUBSCRIBE", lock]).await?;
        // Messages about the previous lock may arrive first.
        while !is_subscription(&self.news.receive().await?, lock) {}
        lock.clone_into(&mut self.subscribed);
        Ok(())
    }
}

impl<const TOLD: bool> LockClient for RedisClient<TOLD> {
    async fn acquire(&mut self, lock: &str) -> anyhow::Result<Option<i64>> {
        while !self.attempt(lock).await? {
            if !TOLD {
                tokio::time::sleep(POLL).await;
                continue;
            }
            self.subscribe(lock).await?;
            // The lock may have been released before the subscription took effect.
            if self.attempt(lock).await? {
                break;
            }
            // The expiry of a lock is not published.
            if let Ok(published) = timeout(Duration::from_millis(500), self.news.receive()).await {
                published?;
            }
        }
        lock.clone_into(&mut self.held);
        Ok(None)
    }

    async fn release(&mut self) -> anyhow::Result<()> {
        self.connection.ask(&["EVAL", RELEASE, "1", &self.held, &self.token]).await.map(drop)
    }
}

fn is_subscription(reply: &RespReply, lock: &str) -> bool {
    let RespReply::Many(words) = reply else { return false };
    matches!(&words[..], [RespReply::Text(kind), RespReply::Text(name), ..] if kind == "subscribe" && name == lock)
}
