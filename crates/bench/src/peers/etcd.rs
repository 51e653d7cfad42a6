//! Locks of three etcd servers: the lock service of its API, over gRPC.

use std::net::SocketAddr;
use std::process::Command;
use std::time::Duration;

use anyhow::Context;

use super::etcd_client::EtcdClient;
use super::{Server, until_healthy, version_of};
use crate::output::free_addresses;
use crate::system::System;

const SERVERS: usize = 3;

/// Three servers.
pub(crate) struct Etcd {
    servers: Vec<Server>,
    addresses: Vec<SocketAddr>,
    _directory: tempfile::TempDir,
}

impl Etcd {
    /// Starts the servers, and waits until each of them says that it is healthy.
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
        until_healthy(&mut servers, &addresses, "/health").await.context("starting etcd")?;
        Ok(Etcd { servers, addresses, _directory: directory })
    }

    /// Returns the address of the first server.
    pub(crate) fn address(&self) -> SocketAddr {
        self.addresses[0]
    }
}

/// Returns the version of etcd that is installed.
pub(crate) fn version() -> String {
    version_of("etcd", "--version")
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
