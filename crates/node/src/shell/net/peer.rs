//! What this site knows of one other site's connection: where packets to it go, and when it is dialled.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::Notify;

use super::super::channel::Channel;
use super::Host;
use super::frame::{put_packet, take_packets};
use crate::names::SiteName;
use crate::node::Packet;

/// How much is kept for a site while it is dialled. What does not fit is lost, as it would be without a connection.
const MOST_BACKLOG: usize = 256 << 10;

/// Another site.
pub(crate) struct Peer {
    pub(super) site: SiteName,
    line: Mutex<Line>,
    /// There is something to send and no connection to send it on.
    pub(super) wanted: Notify,
}

#[derive(Default)]
struct Line {
    current: Option<Current>,
    backlog: Vec<u8>,
}

/// The connection that is in use.
struct Current {
    channel: Arc<Channel>,
    /// Whether the site with the lower name dialled it.
    preferred: bool,
    life: u64,
}

impl Peer {
    pub(super) fn new(site: SiteName) -> Self {
        Peer { site, line: Mutex::default(), wanted: Notify::new() }
    }

    /// Queues a packet; [`flush`](Peer::flush) sends it.
    pub(crate) fn push(&self, packet: &Packet) {
        let mut line = self.line();
        if let Some(current) = &line.current {
            if current.channel.push(|bytes| self.put(packet, bytes)) {
                return;
            }
            line.current = None;
        }
        if line.backlog.len() < MOST_BACKLOG {
            self.put(packet, &mut line.backlog);
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
    pub(crate) fn hear_now<H: Host>(&self, host: &Arc<H>) {
        let channel = self.line().current.as_ref().map(|current| current.channel.clone());
        if let Some(channel) = channel {
            channel.hear_now(|bytes| self.take(&channel, bytes, host));
        }
    }

    /// Takes every whole packet from what has come.
    pub(super) fn take<H: Host>(&self, channel: &Channel, bytes: &mut Vec<u8>, host: &Arc<H>) {
        let mut packets = Vec::new();
        let taken = take_packets(bytes, |packet| packets.push(packet));
        if !packets.is_empty() {
            host.on_packets(&self.site, packets);
        }
        if let Err(error) = taken {
            tracing::warn!(site = %self.site, %error, "a connection is closed");
            channel.close();
        }
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
    pub(super) fn adopt(&self, channel: &Arc<Channel>, preferred: bool, life: u64) -> bool {
        let mut line = self.line();
        if let Some(old) = line.current.as_ref().filter(|old| old.channel.is_open()) {
            if old.life == life && old.preferred && !preferred {
                channel.close();
                return false;
            }
            old.channel.close();
        }
        let backlog = std::mem::take(&mut line.backlog);
        channel.push(|bytes| bytes.extend(backlog));
        line.current = Some(Current { channel: channel.clone(), preferred, life });
        drop(line);
        channel.flush();
        true
    }

    /// A connection has ended.
    pub(super) fn ended(&self, channel: &Arc<Channel>) {
        channel.close();
        self.line().current.take_if(|current| Arc::ptr_eq(&current.channel, channel));
    }

    fn put(&self, packet: &Packet, bytes: &mut Vec<u8>) {
        if let Err(error) = put_packet(packet, bytes) {
            tracing::error!(site = %self.site, %error, "a packet was not sent");
        }
    }

    fn line(&self) -> MutexGuard<'_, Line> {
        self.line.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
