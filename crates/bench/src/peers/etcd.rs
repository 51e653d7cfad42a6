//! Locks of three etcd servers: the lock service of its API, through the JSON gateway of each server. The cost of the gateway itself is
//! measured as well, by reading a key from the memory of a server ([`Etcd::gateway`]).

use std::net::SocketAddr;
use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::Context;
use serde_json::{Value, json};

use super::http::Http;
use super::{Server, until_ready, version_of};
use crate::output::free_addresses;
use crate::system::{LockClient, System};

const SERVERS: usize = 3;

/// Three servers.
pub(crate) struct Etcd {
    servers: Vec<Server>,
    addresses: Vec<SocketAddr>,
    _directory: tempfile::TempDir,
}

impl Etcd {
    pub(crate) async fn start() -> anyhow::Result<Self> {
        let directory = tempfile::tempdir()?;
        let free = free_addresses(2 * SERVERS)?;
        let (clients, peers) = free.split_at(SERVERS);
        let url = |address: &String| format!("http://{address}");
        let cluster: Vec<String> =
            peers.iter().enumerate().map(|(at, peer)| format!("node{at}={}", url(peer))).collect();
        let mut servers = Vec::with_capacity(SERVERS);
        for (at, (client, peer)) in clients.iter().zip(peers).enumerate() {
            let name = format!("node{at}");
            let mut command = Command::new("etcd");
            command.arg("--name").arg(&name).arg("--data-dir").arg(directory.path().join(&name));
            for flag in ["--listen-client-urls", "--advertise-client-urls"] {
                command.arg(flag).arg(url(client));
            }
            for flag in ["--listen-peer-urls", "--initial-advertise-peer-urls"] {
                command.arg(flag).arg(url(peer));
            }
            command.arg("--initial-cluster").arg(cluster.join(",")).args(["--log-level", "error"]);
            servers.push(Server::start(command, directory.path(), &name)?);
        }
        let addresses: Vec<SocketAddr> =
            clients.iter().map(|client| client.parse()).collect::<Result<_, _>>()?;
        for address in &addresses {
            until_ready(&mut servers, || EtcdClient::connect(*address, Duration::from_secs(5)))
                .await
                .context("starting etcd")?;
        }
        Ok(Etcd { servers, addresses, _directory: directory })
    }

    /// Returns the address of the first server.
    pub(crate) fn address(&self) -> SocketAddr {
        self.addresses[0]
    }

    /// Returns an upper bound for the cost of the JSON gateway, in microseconds: the mean of reads that the server answers from memory.
    pub(crate) async fn gateway(&self, times: u32) -> anyhow::Result<f64> {
        let mut http = Http::open(self.addresses[0]).await?;
        let read = json!({ "key": base64(b"bench"), "serializable": true });
        http.post("/v3/kv/range", &read).await?;
        let start = Instant::now();
        for _ in 0..times {
            http.post("/v3/kv/range", &read).await?;
        }
        Ok(start.elapsed().as_secs_f64() * 1e6 / f64::from(times))
    }
}

/// Returns the version of etcd that is installed.
pub(crate) fn version() -> String {
    version_of("etcd", "--version")
}

/// A client of etcd with a lease.
pub(crate) struct EtcdClient {
    http: Http,
    lease: Value,
    /// The key that holds the lock, named by the server.
    key: Value,
}

impl EtcdClient {
    async fn connect(address: SocketAddr, expiry: Duration) -> anyhow::Result<Self> {
        let mut http = Http::open(address).await?;
        let granted = http.post("/v3/lease/grant", &json!({ "TTL": expiry.as_secs() })).await?;
        Ok(EtcdClient { http, lease: granted["ID"].clone(), key: Value::Null })
    }
}

impl System for Etcd {
    type Client = EtcdClient;

    async fn connect(&self, number: usize, expiry: Duration) -> anyhow::Result<Self::Client> {
        EtcdClient::connect(self.addresses[number % SERVERS], expiry).await
    }

    fn processes(&self) -> Vec<u32> {
        self.servers.iter().map(Server::id).collect()
    }

    fn kill_first(&mut self) -> bool {
        self.servers[0].kill();
        true
    }
}

impl LockClient for EtcdClient {
    async fn acquire(&mut self, lock: &str) -> anyhow::Result<Option<i64>> {
        let request = json!({ "name": base64(lock.as_bytes()), "lease": self.lease });
        let granted = self.http.post("/v3/lock/lock", &request).await?;
        self.key = granted["key"].clone();
        let revision = granted["header"]["revision"].as_str().context("a grant without a revision")?;
        Ok(Some(revision.parse()?))
    }

    async fn release(&mut self) -> anyhow::Result<()> {
        let key = json!({ "key": self.key });
        self.http.post("/v3/lock/unlock", &key).await.map(drop)
    }
}

/// Encodes bytes for etcd's JSON.
fn base64(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut text = String::new();
    for three in bytes.chunks(3) {
        let word =
            three.iter().fold(0_u32, |word, byte| word << 8 | u32::from(*byte)) << (8 * (3 - three.len()));
        for digit in 0..4 {
            let value = (word >> (18 - 6 * digit)) & 63;
            text.push(if digit <= three.len() { char::from(DIGITS[value as usize]) } else { '=' });
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::base64;

    #[test]
    fn base64_is_that_of_the_rfc() {
        let pairs = [("", ""), ("f", "Zg=="), ("fo", "Zm8="), ("foo", "Zm9v"), ("foobar", "Zm9vYmFy")];
        for (plain, coded) in pairs {
            assert_eq!(base64(plain.as_bytes()), coded);
        }
    }
}
