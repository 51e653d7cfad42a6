//! The receiving half of a link: what was delivered, and when the peer is told so.

use super::LinkTimeouts;
use super::limits::LinkLimits;
use crate::time::Time;

/// The messages from a peer.
#[derive(Clone, Debug, Default)]
pub(super) struct Receiving {
    /// Every message up to this number has been delivered here.
    delivered: u64,
    /// While the peer is held back, every message up to this number is acknowledged, and no other.
    held_at: Option<u64>,
    /// The acknowledgement that the peer was last told.
    told: u64,
    /// The number of bytes that were delivered since then.
    untold_bytes: usize,
    ack_due: Option<Time>,
}

impl Receiving {
    pub(super) fn delivered(&self) -> u64 {
        self.delivered
    }

    /// Returns when an acknowledgement is due that no message has carried.
    pub(super) fn ack_due(&self) -> Option<Time> {
        self.ack_due
    }

    /// Records that a message was delivered, and when its acknowledgement is due.
    pub(super) fn on_delivered(
        &mut self,
        number: u64,
        weight: usize,
        now: Time,
        timeouts: LinkTimeouts,
        limits: &LinkLimits,
    ) {
        self.delivered = number;
        if self.held_at.is_some() {
            return;
        }
        self.untold_bytes = self.untold_bytes.saturating_add(weight);
        let many = self.delivered.saturating_sub(self.told) >= limits.ack_every
            || self.untold_bytes >= limits.ack_bytes();
        let soon = if many { now } else { now + timeouts.ack_within };
        self.ack_due = Some(self.ack_due.map_or(soon, |due| due.min(soon)));
    }

    /// Answers a message at once that is not delivered: the peer has sent it again, and learns what has arrived, and that this
    /// site is there.
    pub(super) fn answer(&mut self, now: Time) {
        self.ack_due = Some(now);
    }

    /// Acknowledges nothing that is delivered from now on. Returns whether the peer was not held back before.
    pub(super) fn hold(&mut self) -> bool {
        let is_new = self.held_at.is_none();
        self.held_at.get_or_insert(self.delivered);
        is_new
    }

    /// Acknowledges everything again. Returns whether the peer was held back.
    pub(super) fn release(&mut self, now: Time) -> bool {
        let was_held = self.held_at.take().is_some();
        if was_held {
            self.ack_due = Some(now);
        }
        was_held
    }

    /// Returns the acknowledgement for a frame that is sent now.
    pub(super) fn tell(&mut self) -> u64 {
        self.told = self.held_at.unwrap_or(self.delivered);
        self.untold_bytes = 0;
        self.ack_due = None;
        self.told
    }
}
