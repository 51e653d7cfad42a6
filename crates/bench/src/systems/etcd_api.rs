//! Three sites as processes of their own, used through their etcd API by the client with which etcd itself is measured.

use std::path::Path;
use std::time::Duration;

use anyhow::Context;

use super::node_processes::{NodeProcesses, SITES};
use crate::peers::etcd_client::EtcdClient;
use crate::peers::until_healthy;
use crate::system::System;

/// Three processes `meshlock node` with the API.
pub(crate) struct EtcdApi(NodeProcesses);

impl EtcdApi {
    /// Starts the sites, and waits until each of them says that it grants locks.
    pub(crate) async fn start(program: &Path) -> anyhow::Result<Self> {
        let mut nodes = NodeProcesses::start_with_api(program)?;
        until_healthy(&mut nodes.sites, &nodes.apis, "/readyz").await.context("starting three sites")?;
        Ok(EtcdApi(nodes))
    }
}

impl System for EtcdApi {
    type Client = EtcdClient;

    async fn connect(&self, number: usize, expiry: Duration) -> anyhow::Result<Self::Client> {
        EtcdClient::connect(self.0.apis[number % SITES], expiry).await
    }

    fn processes(&self) -> Vec<u32> {
        self.0.ids()
    }

    fn kill_first(&mut self) -> bool {
        self.0.sites[0].kill();
        true
    }
}
