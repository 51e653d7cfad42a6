//! Locks of one Redis server that keeps nothing on disk, taken with `SET NX PX`. Whoever does not get one asks again after a
//! millisecond, or waits until its release is published. There are no fences.

use std::net::SocketAddr;
use std::process::Command;
use std::time::Duration;

use anyhow::Context;
use tokio::time::timeout;

use super::resp::{Connection, Reply};
use super::{Server, until_ready, version_of};
use crate::output::free_addresses;
use crate::system::{Client, System};

/// How long whoever polls waits before it asks again.
const POLL: Duration = Duration::from_millis(1);

/// Deletes a lock if it is the caller's, and tells those who wait.
const RELEASE: &str = "if redis.call('get', KEYS[1]) == ARGV[1] then \
                       redis.call('del', KEYS[1]) redis.call('publish', KEYS[1], '') return 1 else return 0 end";

/// One server.
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

/// One Redis server, whose clients poll or wait to be told.
pub(crate) struct Redis<const TOLD: bool>(Instance);

impl<const TOLD: bool> Redis<TOLD> {
    pub(crate) async fn start() -> anyhow::Result<Self> {
        Ok(Redis(Instance::start().await?))
    }
}

/// Which Redis is installed.
pub(crate) fn version() -> String {
    version_of("redis-server", "--version")
}

/// A client.
pub(crate) struct RedisClient<const TOLD: bool> {
    connection: Connection,
    /// Where releases are told of.
    news: Connection,
    /// What the second connection hears of.
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
        Ok(reply != Reply::Nothing)
    }

    /// Hears of the releases of this lock, and of no other.
    async fn subscribe(&mut self, lock: &str) -> anyhow::Result<()> {
        if self.subscribed == lock {
            return Ok(());
        }
        if !self.subscribed.is_empty() {
            self.news.say(&["UNSUBSCRIBE", &self.subscribed]).await?;
        }
        self.news.say(&["SUBSCRIBE", lock]).await?;
        // What is still told of the other lock comes first.
        while !is_subscription(&self.news.hear().await?, lock) {}
        lock.clone_into(&mut self.subscribed);
        Ok(())
    }
}

impl<const TOLD: bool> Client for RedisClient<TOLD> {
    async fn acquire(&mut self, lock: &str) -> anyhow::Result<Option<i64>> {
        while !self.attempt(lock).await? {
            if !TOLD {
                tokio::time::sleep(POLL).await;
                continue;
            }
            self.subscribe(lock).await?;
            // It may have been given back before that was heard.
            if self.attempt(lock).await? {
                break;
            }
            // A lock that expires is not told of.
            if let Ok(heard) = timeout(Duration::from_millis(500), self.news.hear()).await {
                heard?;
            }
        }
        lock.clone_into(&mut self.held);
        Ok(None)
    }

    async fn release(&mut self) -> anyhow::Result<()> {
        self.connection.ask(&["EVAL", RELEASE, "1", &self.held, &self.token]).await.map(drop)
    }
}

fn is_subscription(reply: &Reply, lock: &str) -> bool {
    let Reply::Many(words) = reply else { return false };
    matches!(&words[..], [Reply::Text(kind), Reply::Text(name), ..] if kind == "subscribe" && name == lock)
}
