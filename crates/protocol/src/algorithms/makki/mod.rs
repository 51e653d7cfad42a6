//! Makki's algorithm for K permits: one token that carries a queue and a semaphore.
//!
//! K. Makki, P. Banta, K. Been, N. Pissinou and E. Park, "A token based distributed k mutual exclusion algorithm", IEEE
//! Symposium on Parallel and Distributed Processing (1992), pages 408–411; compared in Bulgannawar and Vaidya's report,
//! section 5. Only its outline is public.
//!
//! The token goes round by its queue. A site that has it enters when the semaphore is above 0, or at 0 after a RELEASE,
//! and passes the token on at once, while it is still inside. When it leaves it sends a RELEASE after the token. The
//! last site of the queue collects requests. When the token has come to it, it waits 2T; then what it has collected
//! becomes the next queue, or, if nobody has asked, it announces itself to all and keeps the token until someone does.
//!
//! ```text
//!  alone, S0 rests with the token:            contended, K=1: the queue is S1, S2; S2 collects
//!    S1 ──REQUEST──▶ S0 ──TOKEN(1)──▶ S1        S1 enters ──TOKEN(0)──▶ S2
//!    S1 enters, leaves, waits 2T                S3 ──REQUEST──▶ S2
//!    S1 ──ANNOUNCE──▶ S2, S3, …                 S1 leaves ──RELEASE──▶ S2 enters, waits 2T ──TOKEN(0)──▶ S3
//! ```
//!
//! | | messages per entry | synchronisation delay | state | words per message |
//! |---|---|---|---|---|
//! | low load | N (0 for the site with the token) | – | 4N numbers | 4 to 6 |
//! | heavy load | about 3 | T, between rounds 3T | the token: 2 per waiter | TOKEN 8 + 2 per waiter |
//!
//! **Assumes** reliable channels; FIFO is not needed, and no bound on delays: 2T only saves messages. (The report notes
//! that the published algorithm relies on it.)
//!
//! **Ours**, where the outline is silent. All of it is fixed; no **choice** is left to the host, but the checker lets the timer
//! run out at any moment.
//! - Rounds are numbered. A REQUEST that reaches a site that collects no longer is forwarded to the one that it knows
//!   to collect, so that no request is lost whenever the timer runs out.
//! - Who collects is seen from the token by those that it visits; only the others are told by ANNOUNCE, and only if the
//!   token is going to rest. Under load everybody is in the queue, and nobody needs to be told: about 3 messages.
//! - A RELEASE goes to the site where the token will stop if no permit is given back: whoever passes it on sees which
//!   that is from semaphore and queue. If the token is not there yet, the RELEASE waits for it; if it has gone on, the
//!   RELEASE goes on in the same way. (The report speaks of a RELEASE that is "propagated through all other nodes".
//!   From each site to the next, it costs K messages under load.)
//! - A RELEASE carries a total for sender and receiver, a REQUEST and the token carry numbers, so that duplicates, and
//!   RELEASEs that overtake one another, do no harm.
//! - A site that wants to enter again while it collects and others have asked queues behind them.
//!
//! **Invariants**
//! - I1: a site whose turn it is has the token, with semaphore 0.
//! - I2: only a site that collects, or waits to be the one that does, has collected requests.
//! - I3: the timer runs only at the last site of the queue.
//! - I4: nobody has seen a later move of the token than the token itself.
//! - I5: permits are conserved: free at the token, in use, or on their way back to it.
//! - I6: every request that waits is in exactly one place.

mod info;
mod message;
#[cfg(test)]
mod tests;

pub use message::{MakkiToken, Message, Waiter};

use std::collections::VecDeque;

use crate::mutant::{self, Mutant};
use crate::{Cluster, NOT_A_PEER, Outbox, Site, SiteId, SiteSet};

/// One site of Makki's algorithm.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Makki {
    // This site.
    me: SiteId,
    cluster: Cluster,
    // The local process.
    state: MakkiState,
    /// The number of my last request; 0 before the first.
    number: u64,
    // What this site knows of the token.
    place: Place,
    /// Its moves when it last came or left; 0 before.
    moves: u64,
    /// Permits given back that have overtaken the token on their way here.
    early: usize,
    // What this site knows of the others.
    /// Who collects, as far as I know.
    collector: Collector,
    /// The requests that I have collected, in order.
    collected: VecDeque<Waiter>,
    /// What I have been sent by and have sent to each site.
    peers: Box<[MakkiPeer]>,
}

/// State of the local process.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum MakkiState {
    Idle,
    /// Waits to enter: its request is on its way, collected or in the queue.
    InLine,
    /// Waits to enter: the token is here, a permit is missing.
    Turn,
    /// Is in the critical section.
    Executing,
}

/// Where the token is.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum Place {
    /// I passed it on, or it began elsewhere. Without another permit it stops at `stop`, where its `at`-th move brings
    /// it.
    Away {
        stop: SiteId,
        at: u64,
    },
    Here {
        token: Box<MakkiToken>,
        stay: Stay,
    },
}

/// Why the token stays here.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Stay {
    /// Only until I enter: others follow in the queue.
    InPassing,
    /// I am the last of the queue, and the timer runs.
    Collecting,
    /// I am the last of the queue, and the timer has run out: it goes to whoever asks.
    Resting,
}

/// Who collects the requests, from which round on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Collector {
    round: u64,
    site: SiteId,
}

/// What has passed between this site and another.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
struct MakkiPeer {
    /// The number of its last request that came here, and the round it came for.
    request: (u64, u64),
    /// How many permits it has given back to me.
    given: u64,
    /// How many permits I have given back to it.
    returned: u64,
}

impl Site for Makki {
    type Message = Message;

    /// With the token here it is my turn at once, unless I have collected requests of others.
    fn request(&mut self, out: &mut Outbox<Message>) {
        assert!(self.state == MakkiState::Idle, "the host requests only while the process is idle");
        self.number += 1;
        let waiter = Waiter { site: self.me, number: self.number };
        self.state = MakkiState::InLine;
        match self.place {
            Place::Here { .. } if self.collected.is_empty() => {
                self.state = MakkiState::Turn;
                self.go_on(out);
            }
            Place::Here { .. } => self.collected.push_back(waiter),
            Place::Away { .. } => {
                let Collector { round, site } = self.collector;
                out.send(site, Message::Request { waiter, round });
            }
        }
    }

    fn receive(&mut self, from: SiteId, message: Message, out: &mut Outbox<Message>) {
        if !self.cluster.is_peer(self.me, from) {
            return out.misbehaved(from, NOT_A_PEER);
        }
        match message {
            Message::Request { waiter, round } => self.on_request(from, waiter, round, out),
            Message::Token { number, token } => self.on_token(from, number, token, out),
            Message::Release { at, total } => self.on_release(from, at, total, out),
            Message::Announce { round } => self.on_announce(from, round),
        }
    }

    /// The permit goes back to the token: here, or along the way that it took.
    fn release(&mut self, out: &mut Outbox<Message>) {
        assert!(self.state == MakkiState::Executing, "the host releases only while the process is inside");
        self.state = MakkiState::Idle;
        self.give_back(1 + usize::from(mutant::is_on(Mutant::MakkiTwoPermits)), out);
    }

    /// 2T are over: what has been collected is the next queue. If it is nobody, those who cannot know are told that I
    /// collect.
    fn wake(&mut self, out: &mut Outbox<Message>) {
        let Place::Here { token, stay } = &mut self.place else { return };
        if *stay != Stay::Collecting {
            return;
        }
        if mutant::is_on(Mutant::MakkiEndlessTimer) {
            return out.set_timer(2);
        }
        *stay = Stay::Resting;
        if self.collected.is_empty() {
            let mut others = SiteSet::all(self.cluster.sites);
            others.subtract(&token.told);
            out.send_all(&others, &Message::Announce { round: token.round });
        }
        self.go_on(out);
    }
}

impl Makki {
    /// Collect it, or forward it to whom I know to collect.
    fn on_request(&mut self, from: SiteId, waiter: Waiter, round: u64, out: &mut Outbox<Message>) {
        if !self.cluster.is_peer(self.me, waiter.site) {
            return out.misbehaved(from, "a request of nobody");
        }
        let collects = if round > self.collector.round {
            self.state == MakkiState::InLine // I am the last of the queue, and the token has yet to tell me.
        } else {
            round < self.collector.round || self.collector.site == self.me
        };
        if !collects {
            return out.misbehaved(from, "a request to a site that does not collect");
        }
        let last = &mut self.peers[waiter.site.index()].request;
        if (waiter.number, round) <= *last {
            return out.misbehaved(from, "a request that has come before");
        }
        *last = (waiter.number, round);
        if round < self.collector.round && self.collector.site != self.me {
            let Collector { round, site } = self.collector;
            return out.send(site, Message::Request { waiter, round });
        }
        // A site has one request at a time: a later one of the same site says that the earlier is over.
        self.collected.retain(|known| known.site != waiter.site);
        self.collected.push_back(waiter);
        self.go_on(out);
    }

    /// It is my turn. If nobody follows I am the one that collects, and the timer starts.
    fn on_token(&mut self, from: SiteId, number: u64, mut token: Box<MakkiToken>, out: &mut Outbox<Message>) {
        if let Some(why) = self.refuses(number, &token) {
            return out.misbehaved(from, why);
        }
        token.semaphore += std::mem::take(&mut self.early);
        self.moves = token.moves;
        let site = token.queue.back().map_or(self.me, |last| last.site);
        self.collector = Collector { round: token.round, site };
        let stay = if token.queue.is_empty() { Stay::Collecting } else { Stay::InPassing };
        if stay == Stay::Collecting {
            out.set_timer(2);
        }
        self.place = Place::Here { token, stay };
        self.state = MakkiState::Turn;
        self.go_on(out);
    }

    /// Why no correct site could have sent this token now, if so.
    fn refuses(&self, number: u64, token: &MakkiToken) -> Option<&'static str> {
        let Cluster { sites, permits } = self.cluster;
        let here = matches!(self.place, Place::Here { .. });
        if here || token.moves <= self.moves || self.state != MakkiState::InLine || number != self.number {
            return Some("a token that nobody waits for");
        }
        let free = token.semaphore.checked_add(self.early);
        let stranger = |waiter: &Waiter| !self.cluster.is_peer(self.me, waiter.site);
        let misfit = free.is_none_or(|free| free > permits)
            || token.round < self.collector.round
            || token.round == u64::MAX
            || token.moves >= u64::MAX - sites as u64
            || token.queue.len() > sites
            || token.queue.iter().any(stranger)
            || token.told.iter().any(|site| site.index() >= sites);
        misfit.then_some("a token that cannot be")
    }

    /// Permits are free again. If the token has gone on from here, so do they; if it is yet to come, they wait for it.
    fn on_release(&mut self, from: SiteId, at: u64, total: u64, out: &mut Outbox<Message>) {
        let given = self.peers[from.index()].given;
        if total <= given {
            return; // A later one has overtaken it, and counted it too.
        }
        let known = match &self.place {
            Place::Here { token, .. } => token.semaphore,
            Place::Away { .. } => self.early,
        };
        let room = self.cluster.permits.saturating_sub(known);
        let Some(count) = usize::try_from(total - given).ok().filter(|&count| count <= room) else {
            return out.misbehaved(from, "more permits than there are");
        };
        self.peers[from.index()].given = total;
        match self.place {
            Place::Away { .. } if at > self.moves => self.early += count,
            Place::Away { .. } | Place::Here { .. } => self.give_back(count, out),
        }
    }

    /// Whoever collects in a later round is the one to ask.
    fn on_announce(&mut self, from: SiteId, round: u64) {
        if round > self.collector.round {
            self.collector = Collector { round, site: from };
        }
    }

    /// To the token if it is here, else to where it stops; if that is here again, they wait for it.
    fn give_back(&mut self, count: usize, out: &mut Outbox<Message>) {
        match &mut self.place {
            Place::Here { token, .. } => {
                token.semaphore += count;
                self.go_on(out);
            }
            Place::Away { stop, .. } if *stop == self.me => self.early += count,
            Place::Away { stop, at } => {
                let returned = &mut self.peers[stop.index()].returned;
                *returned += count as u64;
                out.send(*stop, Message::Release { at: *at, total: *returned });
            }
        }
    }

    /// Whatever the token here allows: enter if it is my turn and a permit is free; then pass the token on, if someone
    /// follows or the collected requests may be the next queue.
    fn go_on(&mut self, out: &mut Outbox<Message>) {
        let Place::Here { token, stay } = &mut self.place else { return };
        if self.state == MakkiState::Turn && token.semaphore > 0 {
            token.semaphore -= 1;
            self.state = MakkiState::Executing;
            out.enter();
        }
        if self.state == MakkiState::Turn {
            return;
        }
        if *stay == Stay::Resting && !self.collected.is_empty() {
            token.round += 1;
            token.queue.extend(self.collected.drain(..));
            token.told = token.queue.iter().map(|waiter| waiter.site).collect();
            token.told.insert(self.me);
            let site = token.queue.back().map_or(self.me, |last| last.site);
            self.collector = Collector { round: token.round, site };
        }
        self.pass_on(out);
    }

    /// To the first of the queue, if there is one. As many as the semaphore says enter with what there is; the one
    /// after them needs a permit that is given back, and the last of the queue keeps the token for a while anyway.
    fn pass_on(&mut self, out: &mut Outbox<Message>) {
        let Place::Here { token, .. } = &mut self.place else { return };
        let enough_for = token.semaphore.min(token.queue.len().saturating_sub(1));
        let Some(&Waiter { site: stop, .. }) = token.queue.get(enough_for) else { return };
        let Some(first) = token.queue.pop_front() else { return };
        token.moves += 1;
        self.moves = token.moves;
        let at = token.moves.saturating_add(enough_for as u64);
        let place = std::mem::replace(&mut self.place, Place::Away { stop, at });
        if let Place::Here { token, .. } = place {
            out.send(first.site, Message::Token { number: first.number, token });
        }
    }
}
