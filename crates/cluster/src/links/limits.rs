//! The limits of links, and how messages are weighed against them.

use crate::mutant::{self, Mutant};

/// The limits of links, the same for all links of a node. They need not be the same at all sites.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LinkLimits {
    /// Maximum number of messages to a peer that are sent and not acknowledged; further ones wait in the queue.
    pub window: usize,
    /// Maximum number of bytes of these messages. A longer message is sent when no other is unacknowledged.
    pub window_bytes: usize,
    /// After this many deliveries without an acknowledgement, one is sent at once.
    pub ack_every: u64,
    /// Maximum number of messages that are kept for a peer, sent or not. With one more the link breaks.
    pub queue: usize,
    /// Maximum number of bytes of these messages.
    pub queue_bytes: usize,
    /// Number of bytes of a peer's messages that wait at this site until they can be handled, before the peer is held back.
    pub early_bytes: usize,
}

impl Default for LinkLimits {
    /// Returns the limits of a node.
    ///
    /// The window lets a link carry 20 MB and 80,000 messages a second if a round trip takes 100 ms, and a renewal of a lease on
    /// the same connection waits for less than the 170 ms that it takes at 100 Mbit/s. The queue takes what a view asks for at
    /// once, which is about one message for each lock that is waited for: a site serves some 50,000 waiters, and keeps a
    /// million locks.
    fn default() -> Self {
        LinkLimits {
            window: 8192,
            window_bytes: 2 << 20,
            ack_every: 64,
            queue: 4 << 20,
            queue_bytes: 512 << 20,
            early_bytes: 8 << 20,
        }
    }
}

impl LinkLimits {
    /// Returns these limits with those changed that would let no message pass, or only one in each `ack_within`.
    #[must_use]
    pub(crate) fn made_sound(self) -> Self {
        let window = self.window.max(2);
        LinkLimits {
            window,
            ack_every: self.ack_every.clamp(1, window as u64 / 2),
            queue: self.queue.max(window),
            queue_bytes: self.queue_bytes.max(self.window_bytes),
            ..self
        }
    }

    /// Returns after how many delivered bytes without an acknowledgement one is sent at once: several times in a window.
    pub(super) fn ack_bytes(&self) -> usize {
        self.window_bytes / 8
    }

    /// Returns the maximum number of bytes of a peer's messages that wait here. A peer that is held back has at most a window
    /// of unacknowledged bytes; one that runs another program may count them differently.
    pub(super) fn max_waiting_bytes(&self) -> usize {
        self.early_bytes.saturating_add(self.window_bytes.saturating_mul(2))
    }

    /// Returns what a link does with a message of `weight` bytes that cannot be handled yet, if `waiting` bytes of the same
    /// peer wait already.
    pub(crate) fn keep(&self, waiting: usize, weight: usize) -> Acceptance {
        let never_holds = mutant::is_on(Mutant::NobodyHeldBack) && waiting <= self.max_waiting_bytes();
        if waiting + weight <= self.early_bytes || never_holds {
            Acceptance::Take
        } else if waiting <= self.max_waiting_bytes() {
            Acceptance::Hold
        } else {
            Acceptance::Refuse
        }
    }
}

/// What the receiver of a message does with it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Acceptance {
    /// The message is delivered, and acknowledged soon.
    Take,
    /// The message is delivered. Neither it nor a later one is acknowledged before
    /// [`Links::release`](super::Links::release), so that the sender's window fills and it stops.
    Hold,
    /// The message is dropped, and will be sent again after a timeout. No correct peer sends one that must be.
    Refuse,
}

/// A message whose length is known without encoding it.
pub(crate) trait Weigh {
    /// Returns about how many bytes the message takes, in memory or on the wire. The same message always weighs the same.
    fn weight(&self) -> usize;
}

/// What all links of a node have counted since its start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LinkTally {
    /// Messages that had to wait because the window was full.
    pub waited: u64,
    /// Those of them that the number of bytes made wait.
    pub waited_for_bytes: u64,
    /// Messages that were dropped before they were sent, because their view had ended.
    pub void: u64,
    /// Messages that were sent again.
    pub sent_again: u64,
    /// Times that a peer was held back because too many of its messages waited here.
    pub held: u64,
    /// Messages that were refused because even more waited.
    pub refused: u64,
    /// Links that broke.
    pub broken: u64,
}
