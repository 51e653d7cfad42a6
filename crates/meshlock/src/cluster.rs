//! A whole cluster in one process, for tests and examples.

use std::net::{Ipv4Addr, SocketAddr, TcpListener};

use crate::builder::NodeBuilder;
use crate::error::StartError;
use crate::node::Node;

/// Several sites in one process, which talk over the loopback network: for tests.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let cluster = meshlock::Cluster::local(3)?;
/// cluster.ready().await;
/// let guard = cluster[0].lock("orders").await?;
/// assert!(cluster[1].try_lock("orders").await.is_err());
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct Cluster {
    nodes: Vec<Node>,
}

impl Cluster {
    /// Starts so many sites, named `site-1` and so on.
    pub fn local(sites: usize) -> Result<Self, StartError> {
        Cluster::local_with(sites, |_, builder| builder)
    }

    /// The same, after `adjust` has had a look at how each site is described.
    ///
    /// ```
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let cluster = meshlock::Cluster::local_with(2, |_site, builder| builder.local_turns(1))?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn local_with(
        sites: usize,
        mut adjust: impl FnMut(&str, NodeBuilder) -> NodeBuilder,
    ) -> Result<Self, StartError> {
        // The system gives free ports; they are bound again by the sites, which nobody else on loopback gets in between.
        let listeners =
            (0..sites).map(|_| TcpListener::bind((Ipv4Addr::LOCALHOST, 0))).collect::<Result<Vec<_>, _>>()?;
        let addresses =
            listeners.iter().map(TcpListener::local_addr).collect::<Result<Vec<SocketAddr>, _>>()?;
        let name = |at: usize| format!("site-{}", at + 1);
        let book: Vec<(String, String)> =
            addresses.iter().enumerate().map(|(at, address)| (name(at), address.to_string())).collect();
        let mut nodes = Vec::with_capacity(sites);
        for ((site, _), listener) in book.iter().zip(listeners) {
            let builder = Node::builder().site(site).sites(book.clone()).plaintext().in_memory();
            nodes.push(adjust(site, builder).start_on(Some(listener))?);
        }
        Ok(Cluster { nodes })
    }

    /// Waits until all sites are members of one view.
    pub async fn ready(&self) {
        for node in &self.nodes {
            node.front().node().until(|state| state.open && state.members == self.nodes.len()).await;
        }
    }

    /// The sites.
    pub fn nodes(&self) -> &[Node] {
        &self.nodes
    }
}

impl std::ops::Index<usize> for Cluster {
    type Output = Node;
    fn index(&self, at: usize) -> &Node {
        &self.nodes[at]
    }
}
