//! The network: a connection to each site that this one talks to, dialled when there is something to say.
//!
//! Links make sure that what matters arrives; a connection may lose what was on its way when it ends, and nothing else.

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
pub(super) use peer::Peer;
pub use peer::Traffic;

/// How many connections may be there that have not said which site they are, and how many of one address: sites of one machine may
/// all come at once.
const MAX_PENDING: usize = 256;
const MAX_PENDING_PER_ADDRESS: usize = 64;

/// How long a site that could not be reached is left alone: first, and at most.
const BACKOFF: (Duration, Duration) = (Duration::from_millis(50), Duration::from_secs(1));

/// How much is read from a connection at once.
const READ_BYTES: usize = 64 << 10;

/// Why the port for other sites cannot be opened.
#[derive(Debug, thiserror::Error)]
#[error("cannot listen on {address}: {error}; is another node running there?")]
pub struct ListenError {
    /// As given.
    pub address: String,
    /// What the system says.
    pub error: io::Error,
}

/// Who hears what comes over the network.
pub(super) trait Host: Send + Sync + 'static {
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
    /// Where sites are reached, as the configuration says: that is the operator's word, and the newest.
    configured: BTreeMap<SiteName, String>,
    /// Where the others are, as the view says.
    learnt: Mutex<BTreeMap<SiteName, String>>,
    peers: Mutex<BTreeMap<SiteName, Arc<Peer>>>,
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

    /// What has gone between this site and each that it has had to do with.
    pub(super) fn traffic(&self) -> Vec<Traffic> {
        let peers = self.peers.lock().unwrap_or_else(PoisonError::into_inner);
        peers.values().map(|peer| peer.traffic()).collect()
    }

    /// A view says where a site is reached.
    pub(super) fn learn_address(&self, site: SiteName, address: String) {
        self.learnt.lock().unwrap_or_else(PoisonError::into_inner).insert(site, address);
    }

    pub(super) fn address(&self, site: &SiteName) -> Option<String> {
        let learnt = || self.learnt.lock().unwrap_or_else(PoisonError::into_inner).get(site).cloned();
        self.configured.get(site).cloned().or_else(learnt)
    }

    /// The peer of this name; it is dialled once there is something to send to it.
    pub(super) fn peer<H: Host>(self: &Arc<Self>, site: &SiteName, host: &Arc<H>) -> Arc<Peer> {
        let mut peers = self.peers.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(peer) = peers.get(site) {
            return peer.clone();
        }
        let peer = Arc::new(Peer::new(site.clone()));
        peers.insert(site.clone(), peer.clone());
        self.tasks.spawn(self.clone().keep_dialling(peer.clone(), host.clone()));
        peer
    }

    /// Lets other sites in.
    pub(super) async fn keep_accepting<H: Host>(self: Arc<Self>, listener: TcpListener, host: Arc<H>) {
        let pending = Arc::new(PendingConnections::new(MAX_PENDING, MAX_PENDING_PER_ADDRESS));
        loop {
            let (stream, address) = match listener.accept().await {
                Ok(accepted) => accepted,
                Err(error) => {
                    // Out of descriptors, most likely: wait until some are free again.
                    tracing::warn!(%error, "cannot take a connection");
                    sleep(BACKOFF.1).await;
                    continue;
                }
            };
            let Some(slot) = pending.enter(address.ip()) else {
                tracing::debug!(%address, "too many connections that say nothing: one is not taken");
                continue;
            };
            let (net, host) = (self.clone(), host.clone());
            self.tasks.spawn(async move {
                let greeted = net.welcome(stream, &*host).await;
                drop(slot);
                match greeted {
                    Ok(Some(greeted)) => net.adopt(greeted, false, &host),
                    Ok(None) => {}
                    Err(error) => tracing::warn!(%address, %error, "a connection was refused"),
                }
            });
        }
    }

    async fn welcome(&self, stream: TcpStream, host: &impl Host) -> Result<Option<Greeted>, GreetError> {
        let tls = self.security.accepting()?;
        let welcome = welcome(stream, tls, (&self.me, self.incarnation, self.speaks), || host.introduce());
        timeout(GREET_WITHIN, welcome).await.unwrap_or(Err(GreetError::Silent))
    }

    /// Dials a site whenever something is to be sent to it and there is no connection.
    async fn keep_dialling<H: Host>(self: Arc<Self>, peer: Arc<Peer>, host: Arc<H>) {
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
                    self.adopt(greeted, true, &host);
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

    /// Takes a connection into use, unless there is a better one.
    fn adopt<H: Host>(self: &Arc<Self>, greeted: Greeted, dialled: bool, host: &Arc<H>) {
        let Greeted { channel, hello, version, rest } = greeted;
        let peer = self.peer(&hello.from, host);
        let preferred = dialled == (self.me < hello.from);
        let current = Current { channel, version, preferred, incarnation: hello.incarnation };
        if peer.adopt(current.clone()) {
            host.on_connected(&hello.from);
            self.tasks.spawn(talk(peer, current, rest, host.clone()));
        }
    }
}

/// Talks over a connection until it ends.
async fn talk<H: Host>(peer: Arc<Peer>, current: Current, rest: Vec<u8>, host: Arc<H>) {
    let channel = &current.channel;
    let writing = async {
        channel.keep_writing().await;
    };
    let reading = async {
        channel.hear_first(rest, |bytes| peer.take(&current, bytes, &host));
        while channel.hear(READ_BYTES, |bytes| peer.take(&current, bytes, &host)).await.unwrap_or(false) {}
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
