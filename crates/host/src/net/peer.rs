//! The connection to one other site: where its packets are queued, and when it is dialled.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::Notify;

use super::super::channel::Channel;
use super::PacketHandler;
use super::greet::ReliedOn;
use meshlock_cluster::names::{Incarnation, SiteName};
use meshlock_cluster::node::Packet;
use meshlock_wire::sites::{VERSIONS, encode_packet, put_packet, take_packets};

/// Maximum number of bytes kept for a site while it is dialled. Further packets are lost, as they would be without a connection.
const MAX_BACKLOG: usize = 256 << 10;

/// The connection to another site, whether or not it is established.
pub(crate) struct PeerConnection {
    pub(super) site: SiteName,
    state: Mutex<PeerState>,
    /// Notified when there is something to send and no connection.
    pub(super) wanted: Notify,
    sent: TrafficCount,
    received: TrafficCount,
}

/// Counts frames and bytes in one direction. Relaxed atomics suffice, because nothing is ordered by these counters.
#[derive(Default)]
struct TrafficCount {
    frames: AtomicU64,
    bytes: AtomicU64,
}

impl TrafficCount {
    fn add(&self, frames: usize, bytes: usize) {
        self.frames.fetch_add(frames as u64, Ordering::Relaxed);
        self.bytes.fetch_add(bytes as u64, Ordering::Relaxed);
    }

    fn now(&self) -> (u64, u64) {
        (self.frames.load(Ordering::Relaxed), self.bytes.load(Ordering::Relaxed))
    }
}

/// Traffic between this site and another one since the start.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Traffic {
    pub site: SiteName,
    /// The version of the wire format that they speak; `None` while there is no connection.
    pub version: Option<u16>,
    /// Frames and bytes that were queued for it, including those that a closed connection did not carry.
    pub sent: (u64, u64),
    /// Frames and bytes received from it.
    pub received: (u64, u64),
}

/// The established connection, if there is one, and what waits for it.
#[derive(Default)]
struct PeerState {
    current: Option<Current>,
    /// Kept as packets: how they are written depends on the version, which is not known before the greeting.
    backlog: Vec<Packet>,
    /// About how many bytes these take.
    backlog_bytes: usize,
    /// Whether somebody decides between the established connection and another one.
    is_contested: bool,
    /// The process that was refused last because another one runs under its name.
    refused: Option<u64>,
}

/// What becomes of a new connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Adoption {
    /// It is used from now on.
    Adopted,
    /// It is closed, because the same process has a preferred one.
    Closed,
    /// There is one to another process: somebody must decide between the two.
    Contested,
}

/// An established connection.
#[derive(Clone)]
pub(super) struct Current {
    pub(super) channel: Arc<Channel>,
    /// The version of the wire format spoken on it.
    pub(super) version: u16,
    /// Whether the site with the lower name dialled it.
    pub(super) preferred: bool,
    /// The number of the process at the other end.
    pub(super) process: u64,
    pub(super) address: Option<SocketAddr>,
    /// The number of the incarnation that sent the last packet; 0, which nobody has, before the first one.
    pub(super) sender: Arc<AtomicU64>,
    /// What its peer has shown.
    pub(super) relied_on: Arc<ReliedOn>,
}

impl PeerConnection {
    pub(super) fn new(site: SiteName) -> Self {
        let (sent, received) = Default::default();
        PeerConnection { site, state: Mutex::default(), wanted: Notify::new(), sent, received }
    }

    /// Queues a packet; [`flush`](PeerConnection::flush) sends it.
    pub(crate) fn push(&self, packet: &Packet) {
        let mut state = self.state();
        if let Some(current) = &state.current {
            if current.channel.push(|bytes| self.put(packet, current.version, bytes)) {
                return;
            }
            state.current = None;
        }
        if state.backlog_bytes < MAX_BACKLOG {
            state.backlog_bytes += encode_packet(packet, VERSIONS.1).len();
            state.backlog.push(packet.clone());
        }
        self.wanted.notify_one();
    }

    /// Writes what is queued.
    pub(crate) fn flush(&self) {
        let channel = self.state().current.as_ref().map(|current| current.channel.clone());
        if let Some(channel) = channel {
            channel.flush();
        }
    }

    /// Reads what this site has sent, without waiting for the task that normally reads.
    pub(crate) fn read_now<H: PacketHandler>(&self, handler: &Arc<H>) {
        let current = self.state().current.clone();
        if let Some(current) = current {
            current.channel.read_now(|bytes| self.take(&current, bytes, handler));
        }
    }

    /// Takes every complete packet from the received bytes and passes it to the handler.
    pub(super) fn take<H: PacketHandler>(&self, from: &Current, bytes: &mut Vec<u8>, handler: &Arc<H>) {
        let (mut packets, before) = (Vec::new(), bytes.len());
        let taken = take_packets(bytes, from.version, |packet| packets.push(packet));
        self.received.add(packets.len(), before - bytes.len());
        if let Some(sender) = packets.iter().rev().find_map(Packet::incarnation_of_neighbour) {
            from.sender.store(sender.number(), Ordering::Relaxed);
        }
        if !packets.is_empty() {
            handler.on_packets(&self.site, packets);
        }
        if let Err(error) = taken {
            tracing::warn!(site = %self.site, %error, "a connection is closed");
            from.channel.close();
        }
    }

    /// Returns the traffic in both directions.
    pub(super) fn traffic(&self) -> Traffic {
        let current = self.state().current.clone().filter(|current| current.channel.is_open());
        let (version, site) = (current.map(|current| current.version), self.site.clone());
        Traffic { site, version, sent: self.sent.now(), received: self.received.now() }
    }

    pub(super) fn is_connected(&self) -> bool {
        self.state().current.as_ref().is_some_and(|current| current.channel.is_open())
    }

    /// Drops what was kept for the site, because it cannot be reached.
    pub(super) fn give_up(&self) {
        let mut state = self.state();
        (state.backlog, state.backlog_bytes) = (Vec::new(), 0);
    }

    /// Adopts a new connection. If two to the same process exist, the one that was dialled by the site with the lower name stays; if the
    /// same side dialled both, it has lost the older one. For two processes see [`contest`](super::contest).
    pub(super) fn adopt(&self, new: Current) -> Adoption {
        let mut state = self.state();
        let old = state.current.as_ref().filter(|old| old.channel.is_open());
        if let Some((process, preferred)) = old.map(|old| (old.process, old.preferred)) {
            let is_other = process != new.process;
            if is_other && !std::mem::replace(&mut state.is_contested, true) {
                return Adoption::Contested;
            }
            if is_other || preferred && !new.preferred {
                new.channel.close();
                return Adoption::Closed;
            }
        }
        self.establish(new, state);
        Adoption::Adopted
    }

    /// Ends the decision between the established connection and `new`, which replaces it if it is given.
    pub(super) fn settle(&self, new: Option<Current>) {
        let mut state = self.state();
        state.is_contested = false;
        if let Some(new) = new {
            self.establish(new, state);
        }
    }

    /// Uses a connection from now on.
    fn establish(&self, new: Current, mut state: MutexGuard<'_, PeerState>) {
        if let Some(old) = &state.current {
            old.channel.close();
        }
        let channel = new.channel.clone();
        let backlog = std::mem::take(&mut state.backlog);
        state.backlog_bytes = 0;
        let version = new.version;
        channel.push(|bytes| backlog.iter().for_each(|packet| self.put(packet, version, bytes)));
        state.current = Some(new);
        drop(state);
        channel.flush();
    }

    /// Returns the incarnation that sends on the established connection, and its address.
    pub(super) fn sender(&self) -> Option<(Incarnation, Option<SocketAddr>)> {
        let state = self.state();
        let current = state.current.as_ref()?;
        let sender = current.sender.load(Ordering::Relaxed);
        (sender > 0).then(|| (Incarnation::new(sender), current.address))
    }

    /// Returns whether this process was not refused just before, and remembers it.
    pub(super) fn is_first_refusal(&self, of: &Current) -> bool {
        self.state().refused.replace(of.process) != Some(of.process)
    }

    /// Closes a connection that has ended and stops using it.
    pub(super) fn ended(&self, channel: &Arc<Channel>) {
        channel.close();
        self.state().current.take_if(|current| Arc::ptr_eq(&current.channel, channel));
    }

    pub(super) fn put(&self, packet: &Packet, version: u16, bytes: &mut Vec<u8>) {
        let before = bytes.len();
        match put_packet(packet, version, bytes) {
            Ok(()) => self.sent.add(1, bytes.len() - before),
            Err(error) => tracing::error!(site = %self.site, %error, "a packet was not sent"),
        }
    }

    fn state(&self) -> MutexGuard<'_, PeerState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
