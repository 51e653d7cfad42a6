//! What this site knows of one other site's connection: where packets to it go, and when it is dialled.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::Notify;

use super::super::channel::Channel;
use super::Host;
use meshlock_cluster::names::SiteName;
use meshlock_cluster::node::Packet;
use meshlock_wire::sites::VERSIONS;
use meshlock_wire::sites::{put_packet, take_packets};

/// How much is kept for a site while it is dialled. What does not fit is lost, as it would be without a connection.
const MAX_BACKLOG: usize = 256 << 10;

/// Another site.
pub(crate) struct Peer {
    pub(super) site: SiteName,
    line: Mutex<Line>,
    /// There is something to send and no connection to send it on.
    pub(super) wanted: Notify,
    sent: Count,
    received: Count,
}

/// How much has gone one way. Only counted, so that order does not payload.
#[derive(Default)]
struct Count {
    frames: AtomicU64,
    bytes: AtomicU64,
}

impl Count {
    fn add(&self, frames: usize, bytes: usize) {
        self.frames.fetch_add(frames as u64, Ordering::Relaxed);
        self.bytes.fetch_add(bytes as u64, Ordering::Relaxed);
    }

    fn now(&self) -> (u64, u64) {
        (self.frames.load(Ordering::Relaxed), self.bytes.load(Ordering::Relaxed))
    }
}

/// What has gone between this site and another one since it started.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Traffic {
    /// The other one.
    pub site: SiteName,
    /// The version of the wire that they speak; none while there is no connection.
    pub version: Option<u16>,
    /// Frames and bytes that were queued for it. What a connection that ends has not carried is counted too.
    pub sent: (u64, u64),
    /// Frames and bytes that came from it.
    pub received: (u64, u64),
}

#[derive(Default)]
struct Line {
    current: Option<Current>,
    backlog: Vec<u8>,
}

/// The connection that is in use.
#[derive(Clone)]
pub(super) struct Current {
    pub(super) channel: Arc<Channel>,
    /// Which version of the wire is spoken on it.
    pub(super) version: u16,
    /// Whether the site with the lower name dialled it.
    pub(super) preferred: bool,
    pub(super) incarnation: u64,
}

impl Peer {
    pub(super) fn new(site: SiteName) -> Self {
        let (sent, received) = Default::default();
        Peer { site, line: Mutex::default(), wanted: Notify::new(), sent, received }
    }

    /// Queues a packet; [`flush`](Peer::flush) sends it.
    pub(crate) fn push(&self, packet: &Packet) {
        let mut line = self.line();
        if let Some(current) = &line.current {
            if current.channel.push(|bytes| self.put(packet, current.version, bytes)) {
                return;
            }
            line.current = None;
        }
        if line.backlog.len() < MAX_BACKLOG {
            // Whoever it will be can read the oldest version.
            self.put(packet, VERSIONS.0, &mut line.backlog);
        }
        self.wanted.notify_one();
    }

    /// Writes what is queued.
    pub(crate) fn flush(&self) {
        let channel = self.line().current.as_ref().map(|current| current.channel.clone());
        if let Some(channel) = channel {
            channel.flush();
        }
    }

    /// Hears what has come from this site, without waiting for the task that does so.
    pub(crate) fn read_now<H: Host>(&self, host: &Arc<H>) {
        let current = self.line().current.clone();
        if let Some(current) = current {
            current.channel.read_now(|bytes| self.take(&current, bytes, host));
        }
    }

    /// Takes every whole packet from what has come.
    pub(super) fn take<H: Host>(&self, from: &Current, bytes: &mut Vec<u8>, host: &Arc<H>) {
        let (mut packets, before) = (Vec::new(), bytes.len());
        let taken = take_packets(bytes, from.version, |packet| packets.push(packet));
        self.received.add(packets.len(), before - bytes.len());
        if !packets.is_empty() {
            host.on_packets(&self.site, packets);
        }
        if let Err(error) = taken {
            tracing::warn!(site = %self.site, %error, "a connection is closed");
            from.channel.close();
        }
    }

    /// What has gone both ways.
    pub(super) fn traffic(&self) -> Traffic {
        let current = self.line().current.clone().filter(|current| current.channel.is_open());
        let (version, site) = (current.map(|current| current.version), self.site.clone());
        Traffic { site, version, sent: self.sent.now(), received: self.received.now() }
    }

    pub(super) fn is_connected(&self) -> bool {
        self.line().current.as_ref().is_some_and(|current| current.channel.is_open())
    }

    /// The site cannot be reached: what was kept for it is lost.
    pub(super) fn give_up(&self) {
        self.line().backlog = Vec::new();
    }

    /// There is a new connection. Of two, the one that the lower name dialled stays, unless the other end of the old one has
    /// gone; two of one kind mean that whoever dialled has lost the older. Says whether the new one stays.
    pub(super) fn adopt(&self, new: Current) -> bool {
        let mut line = self.line();
        let channel = new.channel.clone();
        if let Some(old) = line.current.as_ref().filter(|old| old.channel.is_open()) {
            if old.incarnation == new.incarnation && old.preferred && !new.preferred {
                channel.close();
                return false;
            }
            old.channel.close();
        }
        let backlog = std::mem::take(&mut line.backlog);
        channel.push(|bytes| bytes.extend(backlog));
        line.current = Some(new);
        drop(line);
        channel.flush();
        true
    }

    /// A connection has ended.
    pub(super) fn ended(&self, channel: &Arc<Channel>) {
        channel.close();
        self.line().current.take_if(|current| Arc::ptr_eq(&current.channel, channel));
    }

    fn put(&self, packet: &Packet, version: u16, bytes: &mut Vec<u8>) {
        let before = bytes.len();
        match put_packet(packet, version, bytes) {
            Ok(()) => self.sent.add(1, bytes.len() - before),
            Err(error) => tracing::error!(site = %self.site, %error, "a packet was not sent"),
        }
    }

    fn line(&self) -> MutexGuard<'_, Line> {
        self.line.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
