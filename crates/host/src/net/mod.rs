//! The network between sites: one connection to each site that this one talks to, dialled when there is something to send.
//!
//! The links of the pure node make sure that messages arrive. A connection that ends may lose what was in transit, and nothing else.

mod greet;
mod introduction;
mod peer;

use std::collections::BTreeMap;
use std::io;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::net::{TcpListener, TcpStream};
use tokio::runtime::Handle;
use tokio::time::{sleep, timeout};

use super::pending::PendingConnections;
pub(super) use greet::UNACKNOWLEDGED;
pub use greet::tune;
use greet::{GREET_WITHIN, GreetError, Greeted, greet, welcome};
pub use introduction::{IntroduceError, learn_of_cluster};
use meshlock_cluster::names::SiteName;
use meshlock_cluster::node::Packet;
use meshlock_tls::Security;
use meshlock_wire::sites::{Hello, Introduction, Versions};
use peer::Current;
pub(super) use peer::PeerConnection;
pub use peer::Traffic;

/// Maximum number of connections that have not identified themselves, in total and from one address. All sites of one machine may connect
/// at once.
const MAX_PENDING: usize = 256;
const MAX_PENDING_PER_ADDRESS: usize = 64;

/// Pause before a site that could not be reached is dialled again: the first one, and the longest.
const BACKOFF: (Duration, Duration) = (Duration::from_millis(50), Duration::from_secs(1));

/// Maximum number of bytes of one read.
const READ_BYTES: usize = 64 << 10;

/// Why the port for other sites cannot be opened.
#[derive(Debug, thiserror::Error)]
#[error("cannot listen on {address}: {error}; is another node running there?")]
pub struct ListenError {
    pub address: String,
    pub error: io::Error,
}

/// Receives what comes over the network.
pub(super) trait PacketHandler: Send + Sync + 'static {
    fn on_packets(self: &Arc<Self>, from: &SiteName, packets: Vec<Packet>);
    fn on_connected(self: &Arc<Self>, site: &SiteName);
    fn introduce(&self) -> Introduction;
}

/// All connections of one site.
pub(super) struct Net {
    me: SiteName,
    incarnation: u64,
    security: Security,
    speaks: Versions,
    tasks: Handle,
    /// Addresses from the configuration. They take precedence, because an operator wrote them.
    configured: BTreeMap<SiteName, String>,
    /// Addresses from the installed view.
    learnt: Mutex<BTreeMap<SiteName, String>>,
    peers: Mutex<BTreeMap<SiteName, Arc<PeerConnection>>>,
}

impl Net {
    pub(super) fn new(
        me: SiteName,
        incarnation: u64,
        (security, speaks): (Security, Versions),
        configured: BTreeMap<SiteName, String>,
        tasks: Handle,
    ) -> Self {
        let (learnt, peers) = (Mutex::default(), Mutex::default());
        Net { me, incarnation, security, speaks, tasks, configured, learnt, peers }
    }

    /// Returns the traffic with each site that this one has talked to.
    pub(super) fn traffic(&self) -> Vec<Traffic> {
        let peers = self.peers.lock().unwrap_or_else(PoisonError::into_inner);
        peers.values().map(|peer| peer.traffic()).collect()
    }

    /// Stores a site's address from a view.
    pub(super) fn learn_address(&self, site: SiteName, address: String) {
        self.learnt.lock().unwrap_or_else(PoisonError::into_inner).insert(site, address);
    }

    pub(super) fn address(&self, site: &SiteName) -> Option<String> {
        let learnt = || self.learnt.lock().unwrap_or_else(PoisonError::into_inner).get(site).cloned();
        self.configured.get(site).cloned().or_else(learnt)
    }

    /// Returns the connection to this site. It is dialled once there is something to send.
    pub(super) fn peer<H: PacketHandler>(
        self: &Arc<Self>,
        site: &SiteName,
        handler: &Arc<H>,
    ) -> Arc<PeerConnection> {
        let mut peers = self.peers.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(peer) = peers.get(site) {
            return peer.clone();
        }
        let peer = Arc::new(PeerConnection::new(site.clone()));
        peers.insert(site.clone(), peer.clone());
        self.tasks.spawn(self.clone().keep_dialling(peer.clone(), handler.clone()));
        peer
    }

    /// Accepts connections of other sites.
    pub(super) async fn keep_accepting<H: PacketHandler>(
        self: Arc<Self>,
        listener: TcpListener,
        handler: Arc<H>,
    ) {
        let pending = Arc::new(PendingConnections::new(MAX_PENDING, MAX_PENDING_PER_ADDRESS));
        loop {
            let (stream, address) = match listener.accept().await {
                Ok(accepted) => accepted,
                Err(error) => {
                    // Probably out of file descriptors: wait until some are free again.
                    tracing::warn!(%error, "cannot accept a connection");
                    sleep(BACKOFF.1).await;
                    continue;
                }
            };
            let Some(slot) = pending.enter(address.ip()) else {
                tracing::debug!(%address, "too many connections that have not identified themselves: this one is refused");
                continue;
            };
            let (net, handler) = (self.clone(), handler.clone());
            self.tasks.spawn(async move {
                let greeted = net.welcome(stream, &*handler).await;
                drop(slot);
                match greeted {
                    Ok(Some(greeted)) => net.adopt(greeted, false, &handler),
                    Ok(None) => {}
                    Err(error) => tracing::warn!(%address, %error, "a connection was refused"),
                }
            });
        }
    }

    async fn welcome(
        &self,
        stream: TcpStream,
        handler: &impl PacketHandler,
    ) -> Result<Option<Greeted>, GreetError> {
        let tls = self.security.accepting()?;
        let welcome = welcome(stream, tls, (&self.me, self.incarnation, self.speaks), || handler.introduce());
        timeout(GREET_WITHIN, welcome).await.unwrap_or(Err(GreetError::Silent))
    }

    /// Dials a site whenever something is to be sent to it and there is no connection.
    async fn keep_dialling<H: PacketHandler>(self: Arc<Self>, peer: Arc<PeerConnection>, handler: Arc<H>) {
        let mut backoff = BACKOFF.0;
        let mut complained = false;
        loop {
            peer.wanted.notified().await;
            if peer.is_connected() {
                continue;
            }
            match self.dial(&peer.site).await {
                Ok(greeted) => {
                    (backoff, complained) = (BACKOFF.0, false);
                    self.adopt(greeted, true, &handler);
                }
                Err(error) => {
                    if !std::mem::replace(&mut complained, true) {
                        tracing::warn!(site = %peer.site, %error, "cannot reach a site");
                    }
                    peer.give_up();
                    sleep(backoff).await;
                    backoff = (backoff * 2).min(BACKOFF.1);
                }
            }
        }
    }

    async fn dial(&self, site: &SiteName) -> Result<Greeted, GreetError> {
        let Some(address) = self.address(site) else {
            return Err(io::Error::new(io::ErrorKind::NotFound, "its address is not known here").into());
        };
        let dial = async {
            let stream = TcpStream::connect(&address).await?;
            let hello = Hello { from: self.me.clone(), to: site.clone(), incarnation: self.incarnation };
            greet(stream, self.security.dialling(site)?, hello, self.speaks).await
        };
        timeout(GREET_WITHIN, dial).await.unwrap_or(Err(GreetError::Silent))
    }

    /// Starts to use a connection, unless a preferred one exists.
    fn adopt<H: PacketHandler>(self: &Arc<Self>, greeted: Greeted, dialled: bool, handler: &Arc<H>) {
        let Greeted { channel, hello, version, rest } = greeted;
        let peer = self.peer(&hello.from, handler);
        let preferred = dialled == (self.me < hello.from);
        let current = Current { channel, version, preferred, incarnation: hello.incarnation };
        if peer.adopt(current.clone()) {
            handler.on_connected(&hello.from);
            self.tasks.spawn(talk(peer, current, rest, handler.clone()));
        }
    }
}

/// Reads from and writes to a connection until it ends.
async fn talk<H: PacketHandler>(peer: Arc<PeerConnection>, current: Current, rest: Vec<u8>, handler: Arc<H>) {
    let channel = &current.channel;
    let writing = async {
        channel.keep_writing().await;
    };
    let reading = async {
        channel.take_first(rest, |bytes| peer.take(&current, bytes, &handler));
        while channel
            .read_frames(READ_BYTES, |bytes| peer.take(&current, bytes, &handler))
            .await
            .unwrap_or(false)
        {}
    };
    tokio::select! {
        () = writing => {}
        () = reading => {}
    }
    peer.ended(channel);
}

/// Opens the port for other sites.
pub fn listen(address: &str) -> Result<std::net::TcpListener, ListenError> {
    std::net::TcpListener::bind(address).map_err(|error| ListenError { address: address.to_owned(), error })
}
