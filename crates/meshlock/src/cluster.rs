//! A whole cluster in one process, for tests and examples.

use std::collections::BTreeMap;
use std::net::{Ipv4Addr, SocketAddr, TcpListener};

use meshlock_cluster::names::SiteName;
use meshlock_cluster::node::Config;
use meshlock_host::{Setup, StartError};

use super::node::Node;

/// Several sites in one process, which talk over the loopback network.
#[derive(Debug)]
pub struct Cluster {
    nodes: Vec<Node>,
}

impl Cluster {
    /// Starts so many sites, named `site-1` and so on.
    pub fn local(sites: usize) -> Result<Self, StartError> {
        Cluster::local_with(sites, |_, _| {})
    }

    /// The same, after `adjust` has had a look at what each site is started with.
    pub fn local_with(
        sites: usize,
        mut adjust: impl FnMut(&SiteName, &mut Setup),
    ) -> Result<Self, StartError> {
        let name = |at: usize| -> SiteName { format!("site-{}", at + 1).parse().expect("a name") };
        let names: Vec<SiteName> = (0..sites).map(name).collect();
        let listeners =
            (0..sites).map(|_| TcpListener::bind((Ipv4Addr::LOCALHOST, 0))).collect::<Result<Vec<_>, _>>()?;
        let addresses: Vec<SocketAddr> =
            listeners.iter().map(TcpListener::local_addr).collect::<Result<_, _>>()?;
        let book: BTreeMap<SiteName, String> =
            names.iter().cloned().zip(addresses.iter().map(SocketAddr::to_string)).collect();
        let mut nodes = Vec::with_capacity(sites);
        for (name, listener) in names.iter().zip(listeners) {
            let mut config = Config::new(name.clone(), names.clone());
            config.address = book[name].parse().expect("an address");
            let mut setup = Setup::new(config);
            setup.listen = Some(listener);
            setup.addresses = book.clone();
            adjust(name, &mut setup);
            nodes.push(Node::start(setup)?);
        }
        Ok(Cluster { nodes })
    }

    /// Waits until all sites are members of one view.
    pub async fn ready(&self) {
        for node in &self.nodes {
            node.engine().until(|stand| stand.open && stand.members == self.nodes.len()).await;
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
