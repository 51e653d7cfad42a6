//! A whole cluster in one process, for tests and examples.

use std::net::{Ipv4Addr, SocketAddr, TcpListener};

use crate::blocking::wait_for;
use crate::builder::NodeBuilder;
use crate::error::StartError;
use crate::node::Node;

/// Several sites in one process, connected over the loopback network, for tests.
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
    /// Starts this number of sites, named `site-1` and so on.
    ///
    /// ```
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let cluster = meshlock::Cluster::local(3)?;
    /// assert_eq!(cluster[0].site(), "site-1");
    /// # Ok(())
    /// # }
    /// ```
    pub fn local(sites: usize) -> Result<Self, StartError> {
        Cluster::local_with(sites, |_, builder| builder)
    }

    /// Like [`local`](Cluster::local), with changes that `adjust` makes to each site's builder.
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
        // The system picks free ports. The sites use these listeners, so no other program can take a port in between.
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
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let cluster = meshlock::Cluster::local(2)?;
    /// cluster.ready().await;
    /// assert_eq!(cluster[0].view().members.len(), 2);
    /// # Ok(())
    /// # }
    /// ```
    pub async fn ready(&self) {
        for node in &self.nodes {
            node.front().node().until(|state| state.open && state.members == self.nodes.len()).await;
        }
    }

    /// Like [`ready`](Cluster::ready), without async.
    ///
    /// ```
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let cluster = meshlock::Cluster::local(2)?;
    /// cluster.ready_blocking();
    /// assert_eq!(cluster[1].view().members.len(), 2);
    /// # Ok(())
    /// # }
    /// ```
    pub fn ready_blocking(&self) {
        wait_for(self.ready());
    }

    /// Returns the sites.
    ///
    /// ```
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let cluster = meshlock::Cluster::local(2)?;
    /// for node in cluster.nodes() {
    ///     println!("{}", node.site());
    /// }
    /// # Ok(())
    /// # }
    /// ```
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
