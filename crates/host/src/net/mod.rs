//! The network between sites: one connection to each site that this one talks to, dialled when there is something to send.
//!
//! The links of the pure node make sure that messages arrive. A connection that ends may lose what was in transit, and nothing else.

mod contest;
mod dialling;
mod greet;
mod introduction;
mod peer;
mod places;

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::net::{TcpListener, TcpStream, lookup_host};
use tokio::runtime::Handle;
use tokio::time::{Instant, sleep, timeout};

use super::find::JoinPlace;
use super::pending::{Evictions, PLACES, PendingConnections, PendingSlot, Port};
use super::trust::Trust;
pub(super) use greet::UNACKNOWLEDGED;
pub use greet::tune;
use greet::{GREET_WITHIN, GreetError, Greeted, welcome};
pub use introduction::{IntroduceError, ask_diagnosis, learn_of_cluster};
use meshlock_cluster::names::{Incarnation, SiteName};
use meshlock_cluster::node::Packet;
use meshlock_wire::diagnosis::PeerReport;
use meshlock_wire::sites::{Introduction, SiteQuestion, Versions};
pub(super) use peer::PeerConnection;
pub use peer::Traffic;
use peer::{Adoption, Current};
use places::Places;

/// Maximum number of addresses of other sites that are remembered.
const MAX_KNOWN: usize = 1024;

/// Pause before a site that could not be reached is dialled again: the first one, and the longest.
const BACKOFF: (Duration, Duration) = (Duration::from_millis(50), Duration::from_secs(1));

/// A connection that ended earlier than this may have been refused: the pause before the next one is longer.
const SHORT: Duration = Duration::from_secs(3);

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
    /// Reacts to a new connection, on which this version of the protocol is spoken.
    fn on_connected(self: &Arc<Self>, site: &SiteName, version: u16);
    /// Returns whether the site is a member of the installed view.
    fn is_member(&self, site: &SiteName) -> bool;
    fn introduce(&self) -> Introduction;
    /// Returns the bytes that answer a question; the introduction comes first.
    fn answer(&self, question: SiteQuestion) -> Vec<u8>;
    /// Returns whether this incarnation of a site is a member of the installed view.
    fn takes_part(&self, site: &SiteName, incarnation: Incarnation) -> bool;
    /// Returns a packet that any site answers at once.
    fn probe(&self) -> Packet;
    /// Returns what to tell a process that is refused because another one runs under its name, and what to tell that one.
    fn refusal(&self, refused: Incarnation, in_use: Incarnation) -> (Vec<Packet>, Packet);
}

/// All connections of one site.
pub(super) struct Net {
    me: SiteName,
    /// A number that tells this process apart from others under the same name.
    process: u64,
    trust: Trust,
    speaks: Versions,
    tasks: Handle,
    /// Where the other sites are.
    places: Mutex<Places>,
    /// Where to look for the cluster, besides the sites that are known.
    seeds: Vec<JoinPlace>,
    /// When other sites were last asked where the ones are that cannot be reached.
    asked_around: Mutex<Option<Instant>>,
    peers: Mutex<BTreeMap<SiteName, Arc<PeerConnection>>>,
    /// Addresses of machines on which other sites run: those of the configuration, and those of sites that were connected. Connections
    /// from there have places of their own, which strangers cannot take.
    known: Mutex<BTreeSet<IpAddr>>,
    pub(super) evictions: Evictions,
}

impl Net {
    pub(super) fn new(
        me: SiteName,
        process: u64,
        (trust, speaks): (Trust, Versions),
        (configured, seeds): (BTreeMap<SiteName, String>, Vec<JoinPlace>),
        tasks: Handle,
    ) -> Self {
        let (peers, known, asked_around) = (Mutex::default(), Mutex::default(), Mutex::default());
        let (places, evictions) = (Mutex::new(Places::new(configured)), Evictions::default());
        Net { me, process, trust, speaks, tasks, places, seeds, asked_around, peers, known, evictions }
    }

    /// Returns what the connections rely on.
    pub(super) fn trust(&self) -> &Trust {
        &self.trust
    }

    /// Looks up the configured addresses. Those that cannot be looked up now are learnt when their site is dialled.
    async fn look_up_sites(self: Arc<Self>) {
        let configured = self.places().configured();
        for address in &configured {
            let Ok(Ok(found)) = timeout(GREET_WITHIN, lookup_host(address)).await else { continue };
            found.for_each(|address| self.know(address.ip()));
        }
    }

    /// Remembers that another site runs at this address.
    fn know(&self, address: IpAddr) {
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        if known.len() < MAX_KNOWN {
            known.insert(address.to_canonical());
        }
    }

    fn is_known(&self, address: IpAddr) -> bool {
        self.known.lock().unwrap_or_else(PoisonError::into_inner).contains(&address.to_canonical())
    }

    /// Returns the traffic with each site that this one has talked to.
    pub(super) fn traffic(&self) -> Vec<Traffic> {
        let peers = self.peers.lock().unwrap_or_else(PoisonError::into_inner);
        peers.values().map(|peer| peer.traffic()).collect()
    }

    fn places(&self) -> MutexGuard<'_, Places> {
        self.places.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Stores a site's address from a view.
    pub(super) fn learn_address(&self, site: &SiteName, address: String) {
        self.places().on_view(site, address);
    }

    /// Returns where a site most likely is.
    pub(super) fn address(&self, site: &SiteName) -> Option<String> {
        self.places().best(site)
    }

    /// Returns the other sites of which an address is known.
    pub(super) fn known_sites(&self) -> Vec<SiteName> {
        let mut sites = self.places().sites();
        sites.retain(|site| *site != self.me);
        sites
    }

    /// Returns what is known of the connection to another site, except when something was heard from it.
    pub(super) fn report(&self, site: &SiteName) -> PeerReport {
        let peer = self.peers.lock().unwrap_or_else(PoisonError::into_inner).get(site).cloned();
        let version = peer.and_then(|peer| peer.traffic().version);
        let places = self.places();
        let failures = places.failures(site);
        let error = (!failures.is_empty() && version.is_none()).then(|| dialling::shown(failures));
        let address = places.best(site).and_then(|address| address.parse().ok());
        PeerReport { site: site.clone(), address, heard: None, version, error }
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
        let places = || PendingConnections::new(Port::Sites, PLACES, self.evictions.clone());
        let (of_sites, of_strangers) = (places(), places());
        self.tasks.spawn(self.clone().look_up_sites());
        loop {
            let (stream, address) = match listener.accept().await {
                Ok(accepted) => accepted,
                Err(error) => {
                    // Probably out of file descriptors: wait until some are free again.
                    tracing::warn!(%error, "cannot accept a connection");
                    of_strangers.make_room();
                    sleep(BACKOFF.1).await;
                    continue;
                }
            };
            let is_known = self.is_known(address.ip());
            let slot = if is_known { &of_sites } else { &of_strangers }.enter(address.ip());
            let (net, handler) = (self.clone(), handler.clone());
            self.tasks.spawn(async move {
                let evicted = slot.evicted();
                let greeted = tokio::select! {
                    greeted = net.welcome(stream, &slot, &*handler) => greeted,
                    () = evicted.notified() => Err(GreetError::Evicted),
                };
                drop(slot);
                match greeted {
                    Ok(Some(greeted)) => net.adopt(greeted, false, &handler),
                    Ok(None) => {}
                    // Many of these may come at once, and must not fill the log.
                    Err(error) if error.is_silence() && !is_known => {
                        tracing::debug!(%address, %error, "a connection was refused");
                    }
                    Err(error) => tracing::warn!(%address, %error, "a connection was refused"),
                }
            });
        }
    }

    async fn welcome(
        &self,
        stream: TcpStream,
        slot: &PendingSlot,
        handler: &impl PacketHandler,
    ) -> Result<Option<Greeted>, GreetError> {
        let (tls, address) = (self.trust.accepting()?, stream.peer_addr()?.ip());
        let is_certified = tls.is_some();
        if is_certified && !self.is_known(address) {
            slot.turn().await?;
        }
        let me = (&self.me, self.process, self.speaks);
        let welcome = welcome(stream, tls, me, &self.trust, |question| handler.answer(question));
        let greeted = timeout(GREET_WITHIN, welcome).await.unwrap_or(Err(GreetError::Silent))?;
        if is_certified {
            self.know(address);
        }
        Ok(greeted)
    }

    /// Starts to use a connection, unless a preferred one exists.
    fn adopt<H: PacketHandler>(self: &Arc<Self>, greeted: Greeted, dialled: bool, handler: &Arc<H>) {
        let Greeted { channel, hello, version, rest, address, relied_on } = greeted;
        let peer = self.peer(&hello.from, handler);
        let preferred = dialled == (self.me < hello.from);
        let (process, sender) = (hello.incarnation, Arc::default());
        let current = Current { channel, version, preferred, process, address, sender, relied_on };
        match peer.adopt(current.clone()) {
            Adoption::Closed => {}
            Adoption::Adopted => {
                self.places().on_connected(&peer.site);
                handler.on_connected(&peer.site, version);
                self.tasks.spawn(talk(peer, current, rest, handler.clone()));
            }
            Adoption::Contested => {
                self.tasks.spawn(contend(peer, current, rest, handler.clone()));
            }
        }
    }
}

/// Uses a connection if it wins against that of another process under the same name.
async fn contend<H: PacketHandler>(
    peer: Arc<PeerConnection>,
    current: Current,
    rest: Vec<u8>,
    handler: Arc<H>,
) {
    let received = contest::decide(&peer, &current, rest, &handler).await;
    peer.settle(received.as_ref().map(|_| current.clone()));
    if let Some(received) = received {
        handler.on_connected(&peer.site, current.version);
        talk(peer, current, received, handler).await;
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
        why = current.relied_on.ending.happened() => {
            tracing::warn!(site = %peer.site, %why, "a connection is ended, and made anew when there is something to send");
        }
    }
    peer.ended(channel);
}

/// Opens the port for other sites.
pub fn listen(address: &str) -> Result<std::net::TcpListener, ListenError> {
    std::net::TcpListener::bind(address).map_err(|error| ListenError { address: address.to_owned(), error })
}
