//! Redlock: a client holds a lock if it has it at three of five independent Redis servers. There are no fences.

use std::time::{Duration, Instant};

use super::redis::Instance;
use super::resp::{Connection, RespReply};
use crate::system::{LockClient, System};

const SERVERS: usize = 5;

/// Deletes a lock if the caller holds it.
const RELEASE: &str =
    "if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('del', KEYS[1]) else return 0 end";

/// Five Redis servers.
pub(crate) struct Redlock(Vec<Instance>);

impl Redlock {
    pub(crate) async fn start() -> anyhow::Result<Self> {
        let mut instances = Vec::with_capacity(SERVERS);
        for _ in 0..SERVERS {
            instances.push(Instance::start().await?);
        }
        Ok(Redlock(instances))
    }
}

/// A client that is connected to all servers.
pub(crate) struct RedlockClient {
    /// `None` for each server that is gone.
    connections: Vec<Option<Connection>>,
    token: String,
    expiry: Duration,
    held: String,
}

impl System for Redlock {
    type Client = RedlockClient;

    async fn connect(&self, number: usize, expiry: Duration) -> anyhow::Result<Self::Client> {
        let mut connections = Vec::with_capacity(SERVERS);
        for instance in &self.0 {
            connections.push(Some(Connection::open(instance.address).await?));
        }
        let token = format!("{number}-{:x}", fastrand::u64(..));
        Ok(RedlockClient { connections, token, expiry, held: String::new() })
    }

    fn processes(&self) -> Vec<u32> {
        self.0.iter().map(|instance| instance.server.id()).collect()
    }

    fn kill_first(&mut self) -> bool {
        self.0[0].server.kill();
        true
    }
}

impl RedlockClient {
    /// Sends a command to all servers at once. Returns how many agree.
    async fn ask_all(&mut self, command: &[&str], agrees: impl Fn(&RespReply) -> bool) -> usize {
        for slot in &mut self.connections {
            if let Some(connection) = slot
                && connection.send(command).await.is_err()
            {
                *slot = None;
            }
        }
        let mut agreed = 0;
        for slot in &mut self.connections {
            let Some(connection) = slot else { continue };
            match connection.receive().await {
                Ok(reply) => agreed += usize::from(agrees(&reply)),
                Err(_) => *slot = None,
            }
        }
        agreed
    }

    async fn release_all(&mut self, lock: &str) -> usize {
        let token = self.token.clone();
        self.ask_all(&["EVAL", RELEASE, "1", lock, &token], |reply| *reply == RespReply::Number(1)).await
    }
}

impl LockClient for RedlockClient {
    async fn acquire(&mut self, lock: &str) -> anyhow::Result<Option<i64>> {
        let (token, expiry) = (self.token.clone(), self.expiry.as_millis().to_string());
        loop {
            let start = Instant::now();
            let command = ["SET", lock, &token, "NX", "PX", &expiry];
            let agreed = self.ask_all(&command, |reply| *reply != RespReply::Nothing).await;
            if agreed > SERVERS / 2 && start.elapsed() < self.expiry {
                lock.clone_into(&mut self.held);
                return Ok(None);
            }
            let reached = self.connections.iter().flatten().count();
            anyhow::ensure!(reached > SERVERS / 2, "only {reached} of {SERVERS} Redis servers answer");
            self.release_all(lock).await;
            // A random pause, so that competing clients do not collide again.
            tokio::time::sleep(Duration::from_micros(fastrand::u64(500..3000))).await;
        }
    }

    async fn release(&mut self) -> anyhow::Result<()> {
        let lock = std::mem::take(&mut self.held);
        self.release_all(&lock).await;
        Ok(())
    }
}
