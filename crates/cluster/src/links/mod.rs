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
//! **Window.** At most [`LinkLimits::window`] messages and [`LinkLimits::window_bytes`] bytes are on their way to a peer.
//! Further ones wait in a queue, in order, and every acknowledgement sends as many of them as it makes room for: a backlog drains
//! at the speed of the network, a window in each round trip. A receiver acknowledges several times in a window.
//!
//! **Sending again.** After a timeout, or over a new connection, only the first few unacknowledged messages are sent again, the
//! *probe*. Its acknowledgement says what the peer is missing, and that is sent on. So a peer that has everything, and whose
//! acknowledgements are late, is not sent all of it a second time.
//!
//! **Void messages.** When a view is installed, messages of earlier views that were never sent are dropped. The machines that sent
//! them have stopped. A receiver that has installed the view ignores them; to one that has not, they are messages that have not
//! arrived yet, and it must cope with that anyway until it installs the view. They have no number before they are sent, so that
//! the numbers of what is sent have no gap. What was sent stays, because the receiver waits for its number.
//!
//! **Held back.** A receiver can deliver messages without acknowledging them (`Acceptance::Hold`), because it cannot handle them
//! yet. Then the sender's window fills and it stops. It sends its first messages again from time to time, which are answered with
//! the same acknowledgement as before: so it knows that its peer is there.
//!
//! **Bounds.** At most [`LinkLimits::queue`] messages and [`LinkLimits::queue_bytes`] bytes wait for acknowledgement. With one more
//! the link is *broken*: it forgets them and reports the peer as unreachable until one of the two incarnations ends, because a
//! message that was accepted and dropped cannot be recovered. The limits are far above what one view asks for at once, and what
//! earlier views asked for is dropped, except one window. A peer is also reported as unreachable if for
//! [`LinkTimeouts::unreachable_after`] it has acknowledged nothing and answered nothing. How long a message waits in the queue
//! does not matter: a peer that goes on acknowledging is reached.

mod limits;
mod receiving;
mod round_trip;
mod sending;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;

use crate::mutant::{self, Mutant};
use crate::names::{Member, SiteName};
use crate::time::{Span, Time};
pub(crate) use limits::{Acceptance, Weigh};
pub use limits::{LinkLimits, LinkTally};
use meshlock_protocol::{Epoch, numbered};
use receiving::Receiving;
use round_trip::RoundTrip;
use sending::Sending;

/// The timeouts of links, the same for all links of a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LinkTimeouts {
    /// Maximum time that an acknowledgement waits for a message to travel with.
    pub ack_within: Span,
    /// Time without an acknowledgement after which messages are sent again; doubled once.
    pub resend_after: Span,
    /// Time without any sign that messages reach a peer after which it is reported as unreachable.
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
    limits: LinkLimits,
    peers: BTreeMap<SiteName, Link<B>>,
    tally: LinkTally,
    /// Whether an acknowledgement must be sent now.
    owes_ack: bool,
}

#[derive(Clone, Debug)]
struct Link<B> {
    peer: Member,
    sending: Sending<B>,
    receiving: Receiving,
    round_trip: RoundTrip,
}

impl<B: Clone + Weigh> Links<B> {
    /// Creates the state without any links.
    pub(crate) fn new(timeouts: LinkTimeouts, limits: LinkLimits) -> Self {
        Links { timeouts, limits, peers: BTreeMap::new(), tally: LinkTally::default(), owes_ack: false }
    }

    /// Returns the limits.
    pub(crate) fn limits(&self) -> &LinkLimits {
        &self.limits
    }

    /// Returns what was counted since the start.
    pub(crate) fn tally(&self) -> &LinkTally {
        &self.tally
    }

    /// Follows other timeouts from now on.
    pub(crate) fn agree(&mut self, timeouts: LinkTimeouts) {
        self.timeouts = timeouts;
    }

    /// Sends a message of the view `epoch` to `to`, as soon as the window allows. Nothing is sent to an incarnation that is
    /// older than the known one.
    pub(crate) fn send(&mut self, to: &Member, epoch: Epoch, body: B, now: Time, out: &mut Outgoing<B>) {
        let Some(link) = link(&mut self.peers, to) else { return };
        link.sending.push(epoch, body, now, &self.limits, &mut self.tally);
        link.send_on(now, self.timeouts, &self.limits, &mut self.tally, out);
    }

    /// Returns the number of the last message to this incarnation, sent or not, or 0 if there was none.
    pub(crate) fn last_sent(&self, to: &Member) -> u64 {
        let link = self.peers.get(&to.site).filter(|link| link.peer == *to);
        link.map_or(0, |link| link.sending.last())
    }

    /// Handles a frame from `from`, and sends what its acknowledgement makes room for. Returns its message with the epoch if it is
    /// the next in order and `accepts` does not refuse it.
    pub(crate) fn receive(
        &mut self,
        from: &Member,
        frame: Frame<B>,
        now: Time,
        out: &mut Outgoing<B>,
        accepts: impl FnOnce(Epoch, &B) -> Acceptance,
    ) -> Result<Option<(Epoch, B)>, LinkFault> {
        let (timeouts, careless) = (self.timeouts, mutant::is_on(Mutant::ReconnectDropsOne));
        let Some(link) = link(&mut self.peers, from) else { return Ok(None) };
        let (Frame::Data { ack, .. } | Frame::Ack { ack }) = frame;
        let alone = matches!(frame, Frame::Ack { .. });
        if let Some(answered) = link.sending.on_ack(ack, alone, now, timeouts)? {
            let took = now.since(answered.since);
            if answered.is_certain {
                link.round_trip.measured(took);
            } else {
                link.round_trip.bounded(took);
            }
            if !mutant::is_on(Mutant::AckDoesNotSendOn) {
                link.send_on(now, timeouts, &self.limits, &mut self.tally, out);
            }
        }
        let Frame::Data { number, epoch, body, .. } = frame else { return Ok(None) };
        let delivered = link.receiving.delivered();
        if number > delivered + 1 && !careless {
            return Ok(None);
        }
        if number <= delivered {
            // The peer does not know that this message has arrived.
            link.receiving.answer(now);
            self.owes_ack = true;
            return Ok(None);
        }
        match accepts(epoch, &body) {
            Acceptance::Take => {}
            Acceptance::Hold => self.tally.held += u64::from(link.receiving.hold()),
            Acceptance::Refuse => {
                link.receiving.answer(now);
                self.owes_ack = true;
                self.tally.refused += 1;
                return Ok(None);
            }
        }
        link.receiving.on_delivered(number, body.weight(), now, timeouts, &self.limits);
        self.owes_ack |= link.receiving.ack_due() == Some(now);
        Ok(Some((epoch, body)))
    }

    /// Returns whether an acknowledgement must be sent now, by [`on_time`](Links::on_time).
    pub(crate) fn owes_ack(&self) -> bool {
        self.owes_ack
    }

    /// Ends [`Acceptance::Hold`]: acknowledges all messages of `site` that were delivered.
    pub(crate) fn release(&mut self, site: &SiteName, now: Time) {
        if !mutant::is_on(Mutant::HeldForEver)
            && let Some(link) = self.peers.get_mut(site)
        {
            self.owes_ack |= link.receiving.release(now);
        }
    }

    /// Drops messages of views before `epoch` that were never sent, because that view was installed.
    pub(crate) fn drop_void(&mut self, epoch: Epoch) {
        for link in self.peers.values_mut() {
            link.sending.drop_void(epoch, &mut self.tally);
        }
    }

    /// Reacts to a new connection to `site`: everything that it may have missed is sent again.
    pub(crate) fn on_connected(&mut self, site: &SiteName, now: Time, out: &mut Outgoing<B>) {
        let Some(link) = self.peers.get_mut(site) else { return };
        link.sending.on_connected(now, self.timeouts, &self.limits);
        link.send_on(now, self.timeouts, &self.limits, &mut self.tally, out);
    }

    /// Sends what is due: acknowledgements that no message could carry, and messages that were not acknowledged in
    /// time.
    pub(crate) fn on_time(&mut self, now: Time, out: &mut Outgoing<B>) {
        self.owes_ack = false;
        for link in self.peers.values_mut() {
            if link.receiving.ack_due().is_some_and(|due| due <= now) {
                out.push((link.peer.clone(), Frame::Ack { ack: link.receiving.tell() }));
            }
            if link.sending.due().is_some_and(|due| due <= now) {
                link.sending.on_timeout(now, self.timeouts, &self.limits);
                link.send_on(now, self.timeouts, &self.limits, &mut self.tally, out);
            }
        }
    }

    /// Returns when [`on_time`](Links::on_time) has something to do next.
    pub(crate) fn next_due(&self) -> Option<Time> {
        let due = |link: &Link<B>| [link.receiving.ack_due(), link.sending.due()].into_iter().flatten().min();
        self.peers.values().filter_map(due).min()
    }

    /// Returns the peers that messages have not reached for too long, or whose link is broken.
    pub(crate) fn unreachable(&self, now: Time) -> impl Iterator<Item = &Member> {
        let timeouts = self.timeouts;
        let silent = move |link: &&Link<B>| link.sending.is_unreachable(now, timeouts);
        self.peers.values().filter(silent).map(|link| &link.peer)
    }

    /// Returns the sites that have acknowledged nothing for longer than twice their usual round trip, although messages wait
    /// for it. The time is kept within `limits`: after a long silence the usual round trip is not known.
    pub(crate) fn stalled(&self, now: Time, limits: (Span, Span)) -> impl Iterator<Item = &SiteName> {
        let is_stalled = move |link: &&Link<B>| {
            let usual = link.round_trip.nearly_all().unwrap_or_default().times(2);
            link.sending.silence(now).is_some_and(|silence| silence > usual.clamp(limits.0, limits.1))
        };
        self.peers.values().filter(is_stalled).map(|link| &link.peer.site)
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
}

/// Returns the link to `peer`, which is created if there is none or only one to an older incarnation; `None` if a newer
/// incarnation is known.
fn link<'a, B: Clone + Weigh>(
    peers: &'a mut BTreeMap<SiteName, Link<B>>,
    peer: &Member,
) -> Option<&'a mut Link<B>> {
    let link = peers.entry(peer.site.clone()).or_insert_with(|| Link::new(peer.clone()));
    if link.peer.incarnation < peer.incarnation {
        *link = Link::new(peer.clone());
    }
    (link.peer == *peer).then_some(link)
}

impl<B: Clone + Weigh> Link<B> {
    fn new(peer: Member) -> Self {
        let (receiving, round_trip) = (Receiving::default(), RoundTrip::default());
        Link { peer, sending: Sending::new(), receiving, round_trip }
    }

    /// Sends all messages that may be sent now. They also carry the acknowledgement that is due.
    fn send_on(
        &mut self,
        now: Time,
        timeouts: LinkTimeouts,
        limits: &LinkLimits,
        tally: &mut LinkTally,
        out: &mut Outgoing<B>,
    ) {
        while let Some((number, epoch, body)) = self.sending.take_next(now, timeouts, limits, tally) {
            let ack = self.receiving.tell();
            out.push((self.peer.clone(), Frame::Data { number, ack, epoch, body }));
        }
    }
}
