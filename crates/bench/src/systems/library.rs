//! Three sites of the library in this process: clients call their site, and the sites are connected over loopback TCP.

use std::time::Duration;

use meshlock::{Cluster, Guard, Node};

use crate::system::{LockClient, System};

const SITES: usize = 3;

/// A cluster of three sites.
pub(crate) struct Library(Cluster);

impl Library {
    pub(crate) async fn start() -> anyhow::Result<Self> {
        let cluster = Cluster::local(SITES)?;
        cluster.ready().await;
        Ok(Library(cluster))
    }
}

/// A client of one site.
pub(crate) struct LibraryClient {
    node: Node,
    held: Option<Guard>,
}

impl System for Library {
    type Client = LibraryClient;

    const TAKES_OVER: bool = false;

    async fn connect(&self, number: usize, _expiry: Duration) -> anyhow::Result<Self::Client> {
        Ok(LibraryClient { node: self.0[number % SITES].clone(), held: None })
    }

    fn processes(&self) -> Vec<u32> {
        Vec::new()
    }

    fn kill_first(&mut self) -> bool {
        false
    }
}

impl LockClient for LibraryClient {
    async fn acquire(&mut self, lock: &str) -> anyhow::Result<Option<i64>> {
        let guard = self.held.insert(self.node.lock(lock).await?);
        Ok(Some(guard.fence()))
    }

    async fn release(&mut self) -> anyhow::Result<()> {
        self.held = None;
        Ok(())
    }
}
