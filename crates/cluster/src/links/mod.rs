//! Links: exactly-once, in-order delivery between two incarnations of two sites, whatever happens to connections.
//!
//! Messages are numbered from 1. The receiver delivers number n only after n−1, drops duplicates, and says with
//! everything it sends (or, if it has nothing to send, with a [`Frame::Ack`] a little later) up to which number it has
//! delivered. The sender keeps what is not acknowledged and sends it again when a new connection is made, or, where a
//! connection loses messages without breaking, after a timeout.
//!
//! ```text
//!  a ──1 2 3──▶ b         b delivers 1 2 3
//!  a ◀──ack 2── b         the ack of 3 is lost with the connection
//!  a ──3 4────▶ b         reconnected: 3 again; b has had it, delivers 4
//! ```
//!
//! A link belongs to one incarnation of the peer. A newer incarnation gets a new link; frames of an older one are
//! ignored.
//!
//! **Bounds.** At most `MAX_UNACKNOWLEDGED` messages wait for acknowledgement. With one more the link is *broken*: it
//! forgets them and reports the peer as unreachable until one of the two incarnations ends, because a message that was
//! accepted and dropped cannot be recovered. A peer whose oldest message has waited longer than `unreachable_after` is
//! reported too, until it acknowledges.

mod round_trip;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, VecDeque};

use crate::mutant::{self, Mutant};
use crate::names::{Member, SiteName};
use crate::time::{Span, Time};
use meshlock_protocol::{Epoch, numbered};
use round_trip::RoundTrip;

/// Maximum number of messages that wait for acknowledgement before a link breaks.
pub(crate) const MAX_UNACKNOWLEDGED: usize = 1 << 14;

/// Maximum number of messages that are sent again at once; their acknowledgement triggers the next.
const RESEND_WINDOW: usize = 256;

/// After this many deliveries without an acknowledgement, one is sent at once.
const ACK_EVERY: u64 = 64;

/// The timeouts of links, the same for all links of a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LinkTimeouts {
    /// Maximum time that an acknowledgement waits for a message to travel with.
    pub ack_within: Span,
    /// Time without an acknowledgement after which messages are sent again; doubled each time, up to eightfold.
    pub resend_after: Span,
    /// Time without an acknowledgement after which a peer is reported as unreachable.
    pub unreachable_after: Span,
}

/// A unit of transmission on a link.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Frame<B> {
    Data {
        /// Its number on this link, from 1.
        number: u64,
        /// All messages of the other direction up to this number have been delivered.
        ack: u64,
        /// The view that the message belongs to.
        epoch: Epoch,
        body: B,
    },
    /// An acknowledgement alone.
    Ack {
        /// All messages up to this number have been delivered.
        ack: u64,
    },
}

numbered! { Frame<B> {
    0 => Data { number, ack, epoch, body },
    1 => Ack { ack },
} }

/// Something that no correct peer does. It has changed no state.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum LinkFault {
    /// The peer acknowledges messages that were never sent.
    #[error("acknowledges message {ack}, but only {sent} were sent")]
    AcknowledgesTheFuture {
        ack: u64,
        /// Number of messages that were sent.
        sent: u64,
    },
}

/// Frames to send, each with its receiver.
pub(crate) type Outgoing<B> = Vec<(Member, Frame<B>)>;

/// All links of one incarnation of one site.
#[derive(Clone, Debug)]
pub(crate) struct Links<B> {
    timeouts: LinkTimeouts,
    peers: BTreeMap<SiteName, Link<B>>,
}

#[derive(Clone, Debug)]
struct Link<B> {
    peer: Member,
    /// Messages that are sent and not acknowledged.
    unacknowledged: VecDeque<Unacknowledged<B>>,
    /// The number of the first unacknowledged message.
    first: u64,
    /// When messages are sent again next, and how many times in a row they were.
    resent: Resent,
    broken: bool,
    round_trip: RoundTrip,
    /// Every message up to this number has been delivered here.
    delivered: u64,
    /// The value of `delivered` that the peer was last told.
    told: u64,
    ack_due: Option<Time>,
}

#[derive(Clone, Debug)]
struct Unacknowledged<B> {
    /// When it was first sent.
    since: Time,
    /// Whether it was sent again.
    again: bool,
    epoch: Epoch,
    body: B,
}

#[derive(Clone, Copy, Debug)]
struct Resent {
    due: Time,
    times: u32,
}

impl<B: Clone> Links<B> {
    /// Creates the state without any links.
    pub(crate) fn new(timeouts: LinkTimeouts) -> Self {
        Links { timeouts, peers: BTreeMap::new() }
    }

    /// Follows other timeouts from now on.
    pub(crate) fn agree(&mut self, timeouts: LinkTimeouts) {
        self.timeouts = timeouts;
    }

    /// Sends a message of the view `epoch` to `to`. Nothing is sent to an incarnation that is older than the known one.
    pub(crate) fn send(&mut self, to: &Member, epoch: Epoch, body: B, now: Time, out: &mut Outgoing<B>) {
        let timeouts = self.timeouts;
        let Some(link) = self.link(to) else { return };
        if link.broken {
            return;
        }
        if link.unacknowledged.len() == MAX_UNACKNOWLEDGED {
            link.broken = true;
            link.unacknowledged = VecDeque::new();
            return;
        }
        if link.unacknowledged.is_empty() {
            link.resent = Resent { due: now + timeouts.resend_after, times: 0 };
        }
        link.unacknowledged.push_back(Unacknowledged { since: now, again: false, epoch, body: body.clone() });
        let number = link.first + link.unacknowledged.len() as u64 - 1;
        out.push((to.clone(), link.data(number, epoch, body)));
    }

    /// Returns the number of the last message that was sent to this incarnation, or 0 if there was none.
    pub(crate) fn last_sent(&self, to: &Member) -> u64 {
        let link = self.peers.get(&to.site).filter(|link| link.peer == *to);
        link.map_or(0, |link| link.first + link.unacknowledged.len() as u64 - 1)
    }

    /// Handles a frame from `from`. Returns its message with the epoch if it is the next in order and `accepts` returns
    /// true for both; a message that is not accepted now will be sent again.
    pub(crate) fn receive(
        &mut self,
        from: &Member,
        frame: Frame<B>,
        now: Time,
        accepts: impl FnOnce(Epoch, &B) -> bool,
    ) -> Result<Option<(Epoch, B)>, LinkFault> {
        let (timeouts, careless) = (self.timeouts, mutant::is_on(Mutant::ReconnectDropsOne));
        let Some(link) = self.link(from) else { return Ok(None) };
        let (Frame::Data { ack, .. } | Frame::Ack { ack }) = frame;
        link.on_ack(ack, now, timeouts)?;
        let Frame::Data { number, epoch, body, .. } = frame else { return Ok(None) };
        if number <= link.delivered {
            // The peer does not know that this message has arrived: acknowledge it now.
            link.ack_due = Some(now);
            return Ok(None);
        }
        if number > link.delivered + 1 && !careless || !accepts(epoch, &body) {
            return Ok(None);
        }
        link.delivered = number;
        let soon = if link.delivered - link.told >= ACK_EVERY { now } else { now + timeouts.ack_within };
        link.ack_due = Some(link.ack_due.map_or(soon, |due| due.min(soon)));
        Ok(Some((epoch, body)))
    }

    /// Reacts to a new connection to `site`: everything that it may have missed is sent again.
    pub(crate) fn on_connected(&mut self, site: &SiteName, now: Time, out: &mut Outgoing<B>) {
        let Some(link) = self.peers.get_mut(site) else { return };
        if mutant::is_on(Mutant::ReconnectDropsOne) && link.unacknowledged.pop_front().is_some() {
            link.first += 1;
        }
        link.resent = Resent { due: now + self.timeouts.resend_after, times: 0 };
        link.resend(out);
    }

    /// Sends what is due: acknowledgements that no message could carry, and messages that were not acknowledged in
    /// time.
    pub(crate) fn on_time(&mut self, now: Time, out: &mut Outgoing<B>) {
        for link in self.peers.values_mut() {
            if link.ack_due.is_some_and(|due| due <= now) {
                link.told = link.delivered;
                link.ack_due = None;
                out.push((link.peer.clone(), Frame::Ack { ack: link.delivered }));
            }
            if !link.unacknowledged.is_empty() && link.resent.due <= now {
                let times = (link.resent.times + 1).min(3);
                link.resent = Resent { due: now + self.timeouts.resend_after.times(1 << times), times };
                link.resend(out);
            }
        }
    }

    /// Returns when [`on_time`](Links::on_time) has something to do next.
    pub(crate) fn next_due(&self) -> Option<Time> {
        let due = |link: &Link<B>| {
            let resend = (!link.unacknowledged.is_empty()).then_some(link.resent.due);
            [link.ack_due, resend].into_iter().flatten().min()
        };
        self.peers.values().filter_map(due).min()
    }

    /// Returns the peers that have left a message unacknowledged for too long or whose link is broken.
    pub(crate) fn unreachable(&self, now: Time) -> impl Iterator<Item = &Member> {
        let overdue = move |link: &&Link<B>| {
            let oldest = link.unacknowledged.front();
            link.broken
                || oldest.is_some_and(|oldest| now.since(oldest.since) >= self.timeouts.unreachable_after)
        };
        self.peers.values().filter(overdue).map(|link| &link.peer)
    }

    /// Takes the time of a question to a peer and its reply, which travel beside the link.
    pub(crate) fn on_round_trip(&mut self, site: &SiteName, took: Span) {
        if let Some(link) = self.peers.get_mut(site) {
            link.round_trip.measured(took);
        }
    }

    /// Returns within what time nearly all replies of the slowest peer come; `None` before anything was measured.
    pub(crate) fn slowest_round_trip(&self) -> Option<Span> {
        self.peers.values().filter_map(|link| link.round_trip.nearly_all()).max()
    }

    /// Drops the links to all incarnations for which `keep` returns false.
    pub(crate) fn retain(&mut self, keep: impl Fn(&Member) -> bool) {
        self.peers.retain(|_, link| keep(&link.peer));
    }

    /// Returns the link to `peer`, which is created if there is none or only one to an older incarnation; `None` if a
    /// newer incarnation is known.
    fn link(&mut self, peer: &Member) -> Option<&mut Link<B>> {
        let link = self.peers.entry(peer.site.clone()).or_insert_with(|| Link::new(peer.clone()));
        if link.peer.incarnation < peer.incarnation {
            *link = Link::new(peer.clone());
        }
        (link.peer == *peer).then_some(link)
    }
}

impl<B: Clone> Link<B> {
    fn new(peer: Member) -> Self {
        Link {
            peer,
            unacknowledged: VecDeque::new(),
            first: 1,
            resent: Resent { due: Time::ZERO, times: 0 },
            broken: false,
            round_trip: RoundTrip::default(),
            delivered: 0,
            told: 0,
            ack_due: None,
        }
    }

    /// Returns a data frame, which also carries the acknowledgement that is due.
    fn data(&mut self, number: u64, epoch: Epoch, body: B) -> Frame<B> {
        self.told = self.delivered;
        self.ack_due = None;
        Frame::Data { number, ack: self.delivered, epoch, body }
    }

    fn on_ack(&mut self, ack: u64, now: Time, timeouts: LinkTimeouts) -> Result<(), LinkFault> {
        let sent = self.first + self.unacknowledged.len() as u64 - 1;
        if ack > sent {
            // After the link broke, messages that it dropped may still be acknowledged.
            return if self.broken { Ok(()) } else { Err(LinkFault::AcknowledgesTheFuture { ack, sent }) };
        }
        if ack >= self.first {
            let news = usize::try_from(ack + 1 - self.first).unwrap_or(usize::MAX);
            // The last of them is what the acknowledgement answers; those before may have been acknowledged late.
            let last = self.unacknowledged.drain(..news.min(self.unacknowledged.len())).next_back();
            match last {
                Some(last) if last.again => self.round_trip.bounded(now.since(last.since)),
                Some(last) => self.round_trip.measured(now.since(last.since)),
                None => {}
            }
            self.first = ack + 1;
            // The peer makes progress: what is still missing gets the full timeout again.
            self.resent = Resent { due: now + timeouts.resend_after, times: 0 };
        }
        Ok(())
    }

    fn resend(&mut self, out: &mut Outgoing<B>) {
        let numbers = self.first..;
        self.unacknowledged.iter_mut().take(RESEND_WINDOW).for_each(|sent| sent.again = true);
        let again: Vec<(u64, Unacknowledged<B>)> =
            numbers.zip(self.unacknowledged.iter().take(RESEND_WINDOW).cloned()).collect();
        for (number, Unacknowledged { epoch, body, .. }) in again {
            let frame = self.data(number, epoch, body);
            out.push((self.peer.clone(), frame));
        }
    }
}
