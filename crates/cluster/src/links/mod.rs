//! Links: between two lives of two sites, every message exactly once and in order, whatever connections do.
//!
//! Messages are numbered from 1. The receiver delivers number n only after n−1, drops what it has had, and says with
//! everything it sends (or, if it has nothing to send, with an [`Frame::Ack`] a little later) up to which number it has
//! delivered. The sender keeps what is not acknowledged and sends it again when a new connection is made, or, where a
//! connection swallows messages without breaking, after a while.
//!
//! ```text
//!  a ──1 2 3──▶ b         b delivers 1 2 3
//!  a ◀──ack 2── b         the ack of 3 is lost with the connection
//!  a ──3 4────▶ b         reconnected: 3 again; b has had it, delivers 4
//! ```
//!
//! A link belongs to one incarnation of the peer. A newer incarnation gets a new link; frames of an older one are not looked at.
//!
//! **Bounds.** At most [`MAX_UNACKNOWLEDGED`] messages wait for acknowledgement. One more, and the link is *broken*: it
//! forgets them and reports the peer as unreachable until one of the two lives is over, because a message that was
//! promised and dropped cannot be made good. A peer whose oldest message waits longer than the patience is reported too,
//! until it acknowledges.

#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, VecDeque};

use serde::{Deserialize, Serialize};

use crate::mutant::{self, Mutant};
use crate::names::{Member, SiteName};
use crate::time::{Span, Time};
use meshlock_protocol::numbered;

/// How many messages may wait for their acknowledgement before a link breaks.
pub const MAX_UNACKNOWLEDGED: usize = 1 << 14;

/// How many messages are sent again at once; the acknowledgement of these asks for the next.
const RESEND_WINDOW: usize = 256;

/// After so many deliveries without one, an acknowledgement is sent at once.
const ACK_EVERY: u64 = 64;

/// How patient links are; the same for all of a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Patience {
    /// How long an acknowledgement may wait for something to ride on.
    pub ack_within: Span,
    /// After how long without an acknowledgement messages are sent again; doubled each time, up to eightfold.
    pub resend_after: Span,
    /// After how long without an acknowledgement a peer is reported as unreachable.
    pub unreachable_after: Span,
}

/// What travels on a link.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Frame<B> {
    /// A message.
    Data {
        /// Its number on this link, from 1.
        number: u64,
        /// All messages of the other direction up to this number have been delivered.
        ack: u64,
        /// The message itself.
        body: B,
    },
    /// Nothing but an acknowledgement.
    Ack {
        /// All messages up to this number have been delivered.
        ack: u64,
    },
}

numbered! { Frame<B> {
    0 => Data { number, ack, body },
    1 => Ack { ack },
} }

/// What a peer did that no correct peer does; nothing has changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Fault {
    /// It acknowledges what was never sent.
    #[error("acknowledges message {ack}, but only {sent} were sent")]
    AcknowledgesTheFuture {
        /// What it says it has.
        ack: u64,
        /// How many there are.
        sent: u64,
    },
}

/// What is to be put on the wire, to whom.
pub type Outgoing<B> = Vec<(Member, Frame<B>)>;

/// All links of one incarnation of one site.
#[derive(Clone, Debug)]
pub struct Links<B> {
    patience: Patience,
    peers: BTreeMap<SiteName, Link<B>>,
}

#[derive(Clone, Debug)]
struct Link<B> {
    peer: Member,
    /// What is sent and not acknowledged, with when it was sent first.
    unacknowledged: VecDeque<(Time, B)>,
    /// The number of the first of them.
    first: u64,
    /// When and how often in a row messages were sent again.
    resent: Resent,
    broken: bool,
    /// Everything up to this number has been delivered here.
    delivered: u64,
    /// What the peer was last told about that.
    told: u64,
    ack_due: Option<Time>,
}

#[derive(Clone, Copy, Debug)]
struct Resent {
    due: Time,
    times: u32,
}

impl<B: Clone> Links<B> {
    /// No links yet.
    pub fn new(patience: Patience) -> Self {
        Links { patience, peers: BTreeMap::new() }
    }

    /// Sends `body` to `to`. To an older incarnation than the one that is known, nothing is sent.
    pub fn send(&mut self, to: &Member, body: B, now: Time, out: &mut Outgoing<B>) {
        let patience = self.patience;
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
            link.resent = Resent { due: now + patience.resend_after, times: 0 };
        }
        link.unacknowledged.push_back((now, body.clone()));
        let number = link.first + link.unacknowledged.len() as u64 - 1;
        out.push((to.clone(), link.data(number, body)));
    }

    /// The number of the last message to this incarnation, or of the next if it is still to be the first.
    pub(crate) fn last_sent(&self, to: &Member) -> u64 {
        let link = self.peers.get(&to.site).filter(|link| link.peer == *to);
        link.map_or(0, |link| link.first + link.unacknowledged.len() as u64 - 1)
    }

    /// A frame has come from `from`. Gives back its message if it is the next in order and `accepts` takes it: one that is
    /// not taken now will be sent again.
    pub fn receive(
        &mut self,
        from: &Member,
        frame: Frame<B>,
        now: Time,
        accepts: impl FnOnce(&B) -> bool,
    ) -> Result<Option<B>, Fault> {
        let (patience, careless) = (self.patience, mutant::is_on(Mutant::ReconnectDropsOne));
        let Some(link) = self.link(from) else { return Ok(None) };
        let (Frame::Data { ack, .. } | Frame::Ack { ack }) = frame;
        link.on_ack(ack, now, patience)?;
        let Frame::Data { number, body, .. } = frame else { return Ok(None) };
        if number <= link.delivered {
            // The peer does not know that this one has come: tell it now.
            link.ack_due = Some(now);
            return Ok(None);
        }
        if number > link.delivered + 1 && !careless || !accepts(&body) {
            return Ok(None);
        }
        link.delivered = number;
        let soon = if link.delivered - link.told >= ACK_EVERY { now } else { now + patience.ack_within };
        link.ack_due = Some(link.ack_due.map_or(soon, |due| due.min(soon)));
        Ok(Some(body))
    }

    /// There is a new connection to `site`: all that it may have missed is sent again.
    pub fn on_connected(&mut self, site: &SiteName, now: Time, out: &mut Outgoing<B>) {
        let Some(link) = self.peers.get_mut(site) else { return };
        if mutant::is_on(Mutant::ReconnectDropsOne) && link.unacknowledged.pop_front().is_some() {
            link.first += 1;
        }
        link.resent = Resent { due: now + self.patience.resend_after, times: 0 };
        link.resend(out);
    }

    /// Sends what is due: acknowledgements that found nothing to ride on, messages that nobody acknowledged.
    pub fn on_time(&mut self, now: Time, out: &mut Outgoing<B>) {
        for link in self.peers.values_mut() {
            if link.ack_due.is_some_and(|due| due <= now) {
                link.told = link.delivered;
                link.ack_due = None;
                out.push((link.peer.clone(), Frame::Ack { ack: link.delivered }));
            }
            if !link.unacknowledged.is_empty() && link.resent.due <= now {
                let times = (link.resent.times + 1).min(3);
                link.resent = Resent { due: now + self.patience.resend_after.times(1 << times), times };
                link.resend(out);
            }
        }
    }

    /// When [`on_time`](Links::on_time) has something to do next.
    pub fn next_due(&self) -> Option<Time> {
        let due = |link: &Link<B>| {
            let resend = (!link.unacknowledged.is_empty()).then_some(link.resent.due);
            [link.ack_due, resend].into_iter().flatten().min()
        };
        self.peers.values().filter_map(due).min()
    }

    /// Who has left a message unacknowledged for too long, or with whom the link is broken.
    pub fn unreachable(&self, now: Time) -> impl Iterator<Item = &Member> {
        let overdue = move |link: &&Link<B>| {
            let oldest = link.unacknowledged.front();
            link.broken || oldest.is_some_and(|(sent, _)| now.since(*sent) >= self.patience.unreachable_after)
        };
        self.peers.values().filter(overdue).map(|link| &link.peer)
    }

    /// Ends the links to all lives that `keep` does not name.
    pub fn retain(&mut self, keep: impl Fn(&Member) -> bool) {
        self.peers.retain(|_, link| keep(&link.peer));
    }

    /// The link to `peer`, made if there is none or only one to an older incarnation; none if a newer incarnation is known.
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
            delivered: 0,
            told: 0,
            ack_due: None,
        }
    }

    /// A message, with the acknowledgement that is due riding on it.
    fn data(&mut self, number: u64, body: B) -> Frame<B> {
        self.told = self.delivered;
        self.ack_due = None;
        Frame::Data { number, ack: self.delivered, body }
    }

    fn on_ack(&mut self, ack: u64, now: Time, patience: Patience) -> Result<(), Fault> {
        let sent = self.first + self.unacknowledged.len() as u64 - 1;
        if ack > sent {
            // After breaking, what was dropped may still be acknowledged.
            return if self.broken { Ok(()) } else { Err(Fault::AcknowledgesTheFuture { ack, sent }) };
        }
        if ack >= self.first {
            let news = usize::try_from(ack + 1 - self.first).unwrap_or(usize::MAX);
            self.unacknowledged.drain(..news.min(self.unacknowledged.len()));
            self.first = ack + 1;
            // It moves: whatever is still missing has just as long again.
            self.resent = Resent { due: now + patience.resend_after, times: 0 };
        }
        Ok(())
    }

    fn resend(&mut self, out: &mut Outgoing<B>) {
        let numbers = self.first..;
        let again: Vec<(u64, B)> = numbers
            .zip(self.unacknowledged.iter().take(RESEND_WINDOW).map(|(_, body)| body.clone()))
            .collect();
        for (number, body) in again {
            let frame = self.data(number, body);
            out.push((self.peer.clone(), frame));
        }
    }
}
