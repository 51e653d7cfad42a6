//! Stays in touch with a node of this machine, which so notices that this program was stopped.

use std::io;
use std::os::unix::net::UnixStream;
use std::sync::{Arc, Mutex, TryLockError};

use meshlock_cluster::time::Time;
use meshlock_wire::clients::{Tag, ToClient, ToNode, put_to_node};
use rustix::net::{SendFlags, send};

use super::estimate::LeaseEstimate;

/// The tag of the first ping. Callers number their requests from one.
const FIRST_PING: Tag = 1 << 63;

/// Sends pings to a node, and knows until when the node keeps the session.
pub(super) struct Touch {
    estimate: LeaseEstimate,
    writer: Arc<Mutex<UnixStream>>,
    pings: u64,
    next_ping: Time,
}

impl Touch {
    /// Promises the node to stay in touch.
    pub(super) fn promise(
        estimate: LeaseEstimate,
        writer: Arc<Mutex<UnixStream>>,
        now: Time,
    ) -> io::Result<Self> {
        let mut touch = Touch { estimate, writer, pings: 0, next_ping: now };
        touch.send(&ToNode::StayInTouch)?;
        Ok(touch)
    }

    /// Returns when the next ping is due.
    pub(super) fn next_ping(&self) -> Time {
        self.next_ping
    }

    /// Returns until when the node certainly keeps the session.
    pub(super) fn session_end(&self) -> Option<Time> {
        self.estimate.session_end()
    }

    /// Sends a ping if one is due. One that cannot be sent without waiting is left out: the node does not read.
    pub(super) fn ping_if_due(&mut self, now: Time) {
        let Some(every) = self.estimate.ping_every().filter(|_| self.next_ping <= now) else { return };
        let tag = FIRST_PING + self.pings;
        self.pings += 1;
        self.next_ping = now + every;
        match self.send(&ToNode::Ping(tag)) {
            Ok(true) => self.estimate.on_ping(tag, now),
            Ok(false) => self.next_ping = now + every.part(8),
            // The end of the connection is noticed by whoever reads.
            Err(_) => {}
        }
    }

    /// Notes the answer to a ping.
    pub(super) fn on_message(&mut self, message: &ToClient) {
        if let ToClient::Pong { tag, time } = message {
            self.estimate.on_pong(*tag, *time);
        }
    }

    /// Sends a message without waiting. Returns whether that was possible.
    fn send(&mut self, message: &ToNode) -> io::Result<bool> {
        let mut bytes = Vec::new();
        put_to_node(message, &mut bytes);
        let writer = match self.writer.try_lock() {
            Ok(writer) => writer,
            Err(TryLockError::Poisoned(writer)) => writer.into_inner(),
            Err(TryLockError::WouldBlock) => return Ok(false),
        };
        match send(&*writer, &bytes, SendFlags::DONTWAIT | SendFlags::NOSIGNAL) {
            Ok(count) if count == bytes.len() => Ok(true),
            // Part of a message cannot be taken back.
            Ok(_) => Err(io::ErrorKind::WriteZero.into()),
            Err(rustix::io::Errno::AGAIN) => Ok(false),
            Err(error) => Err(error.into()),
        }
    }
}
