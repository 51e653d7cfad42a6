//! Delegated hand-over: a leader decides who is next, the holders hand over among themselves.
//!
//! Ours, for practice. The leader of a lock is a function of view and name; here it is the option `leader`.
//!
//! A site that wants to enter asks the leader. The leader grants *chains*: PERM carries the permit and the next waiters
//! in order, so that a holder hands over directly to the next (one message, T), and only the last of a chain reports
//! back (REL). A late waiter is appended to a running chain by one message to its tail (APPEND). If that comes too
//! late, it is ignored there; the leader sees from REL who was not reached, and serves them first. A site that leaves
//! and wants in again lets its request ride on the PERM or REL that it sends anyway.
//!
//! ```text
//!  alone:  S1 ──REQ──▶ S0        contended: S1 is inside, the last of its chain
//!          S1 ◀─PERM── S0                   S2 ──REQ──▶ S0 ──APPEND(S2)──▶ S1
//!          S1 enters, leaves                S1 leaves ──PERM──▶ S2 enters, leaves ──REL──▶ S0
//!          S1 ──REL──▶ S0        too late:  S1 leaves ──REL──▶ S0 ──PERM──▶ S2     S1 ignores the APPEND
//!                                riding:    S0 ─PERM(S2)─▶ S1 ─PERM(again S1)─▶ S2 ─REL(again S1,S2)─▶ S0 …
//! ```
//!
//! | | messages per entry | synchronisation delay | state | words per message |
//! |---|---|---|---|---|
//! | low load | 3 (0 for the leader's own) | – | a number; at the leader N numbers, queue, K chains | 4 to 6 |
//! | heavy load, none rides | 2 to 2 + 1/N | T, between chains 2T | the same | PERM 5 + 2 per waiter |
//! | heavy load, all ride | 1 + 2(K−1)/N, about | T, between chains 2T | the same | PERM 5 + 2 per waiter or rider |
//!
//! Where all ride, every entry needs a PERM, and every chain a REL to come home; the leader spends no PERM on itself,
//! which makes up for one REL a round. Each permit beyond the first has a chain of its own, with a PERM and a REL a
//! round.
//!
//! A chain has at most B entries (option `chain`; N unless given), those appended included. So nobody is bypassed more
//! than B times, counted from when the leader knows of a request, or when it began to ride: who asked is bypassed by
//! those at most who ride on the chain that runs then; who rides by those at most who are appended to the chain that it
//! rides on. That is for one permit. With K permits each running chain may bypass a request in this way, and who is in
//! a chain or rides on it waits for that chain even while another permit is idle. Where a hung holder must not delay
//! others, take `chain=1`: then the leader keeps everyone until a permit is free.
//!
//! **Assumes** reliable channels; FIFO is not needed. The leader does not fail: on a view change all is rebuilt from
//! the view and the holders.
//!
//! **Departures** from the sketch, in which no **choice** is open: the host carries the fence, so PERM does not. Requests are numbered, so that
//! duplicates and late APPENDs are recognised.
//!
//! **Invariants**
//! - I1: the leader and only the leader has a dispatcher.
//! - I2: while a permit is at home nobody is queued.
//! - I3: no chain is longer than B, and a permit at home has none.
//! - I4: the queue is in order and names no site twice.
//! - I5: every permit is in exactly one place.
//! - I6: whoever has a permit or is sent one is in the chain that the leader knows for it, and is followed there by
//!   those that the permit names.
//! - I7: whoever waits and is told what follows it is followed by that in its chain.

mod dispatcher;
mod facts;
mod info;
mod message;
#[cfg(test)]
mod tests;

pub use message::{Message, Permit, Waiter};

use crate::mutant::{self, Mutant};
use crate::shared::Shared;
use crate::{Cluster, NOT_A_PEER, Outbox, Site, SiteId};
use dispatcher::{Dispatcher, Order};

/// One site of the delegated algorithm.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Delegated {
    // This site.
    me: SiteId,
    setup: Shared<DelegatedSetup>,
    // The local process.
    state: DelegatedState,
    /// The number of my last request; 0 before the first.
    number: u64,
    // What this site knows of the others.
    /// Who waits and where the permits are, if I am the leader.
    dispatcher: Option<Box<Dispatcher>>,
}

/// What all sites share: fixed before the first one starts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DelegatedSetup {
    cluster: Cluster,
    leader: SiteId,
    /// Maximum length of a chain: B.
    max_chain: usize,
}

/// State of the local process.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum DelegatedState {
    Idle,
    /// Waits to enter. The leader may already have said who comes next.
    Waiting {
        next: Option<Waiter>,
    },
    /// Is in the critical section, with this permit.
    Executing {
        permit: Box<Permit>,
    },
}

impl Site for Delegated {
    type Message = Message;

    fn request(&mut self, out: &mut Outbox<Message>) {
        assert!(self.state == DelegatedState::Idle, "the host requests only while the process is idle");
        self.number += 1;
        self.state = DelegatedState::Waiting { next: None };
        let waiter = self.waiter();
        if self.dispatcher.is_some() {
            self.on_request(waiter, out);
        } else {
            out.send(self.setup.leader, Message::Request { number: waiter.number });
        }
    }

    fn receive(&mut self, from: SiteId, message: Message, out: &mut Outbox<Message>) {
        if !self.setup.cluster.is_peer(self.me, from) {
            return out.misbehaved(from, NOT_A_PEER);
        }
        match message {
            Message::Request { number } => self.on_request(Waiter { site: from, number }, out),
            Message::Perm { number, permit } => self.on_perm(from, number, permit, out),
            Message::Append { after, next } => self.on_append(from, after, next, out),
            Message::Release { number, permit } => {
                self.on_release(Waiter { site: from, number }, permit, out);
            }
        }
    }

    fn release(&mut self, out: &mut Outbox<Message>) {
        let (served, permit) = self.leave();
        self.hand_on(served, permit, out);
    }

    /// The request rides on the PERM or REL that is sent anyway.
    fn release_and_request(&mut self, out: &mut Outbox<Message>) {
        let (served, mut permit) = self.leave();
        self.number += 1;
        self.state = DelegatedState::Waiting { next: None };
        permit.again.push(self.waiter());
        self.hand_on(served, permit, out);
    }
}

// As a member.
impl Delegated {
    /// My last request.
    fn waiter(&self) -> Waiter {
        Waiter { site: self.me, number: self.number }
    }

    /// Out of the critical section: what it was entered on, and the permit to hand on.
    fn leave(&mut self) -> (Waiter, Box<Permit>) {
        match std::mem::replace(&mut self.state, DelegatedState::Idle) {
            DelegatedState::Executing { permit } => (self.waiter(), permit),
            DelegatedState::Idle | DelegatedState::Waiting { .. } => {
                panic!("the host releases only while the process is inside")
            }
        }
    }

    /// To the next of the chain; from the last back to the leader.
    fn hand_on(&mut self, served: Waiter, mut permit: Box<Permit>, out: &mut Outbox<Message>) {
        if let Some(next) = permit.next.pop_front() {
            out.send(next.site, Message::Perm { number: next.number, permit });
        } else if self.dispatcher.is_some() {
            self.on_release(served, permit, out);
        } else {
            out.send(self.setup.leader, Message::Release { number: served.number, permit });
        }
    }

    /// Enter, if it is meant for the request that waits here.
    fn on_perm(&mut self, from: SiteId, number: u64, permit: Box<Permit>, out: &mut Outbox<Message>) {
        let waits = matches!(self.state, DelegatedState::Waiting { .. }) && number == self.number;
        if !waits || !permit.fits(self.setup.cluster, self.me) {
            return out.misbehaved(from, "a permit that nobody waits for");
        }
        self.become_executing(permit, out);
    }

    /// What the leader said of the next one counts if this is the tail of the chain. Where the chain was issued again,
    /// it names that one itself.
    fn become_executing(&mut self, mut permit: Box<Permit>, out: &mut Outbox<Message>) {
        if let DelegatedState::Waiting { next: Some(next) } = self.state
            && permit.next.is_empty()
        {
            permit.next.push_back(next);
        }
        let slot = permit.slot;
        self.state = DelegatedState::Executing { permit };
        out.enter_slot(slot);
    }

    /// Remember who follows. Too late if the permit is handed on already.
    fn on_append(&mut self, from: SiteId, after: u64, new: Waiter, out: &mut Outbox<Message>) {
        let setup = &self.setup;
        if from != setup.leader || after > self.number || !setup.cluster.is_peer(self.me, new.site) {
            return out.misbehaved(from, "an append that no leader could send");
        }
        if mutant::is_on(Mutant::DelegatedLateRefused) && self.state == DelegatedState::Idle {
            return out.misbehaved(from, "an append that comes too late");
        }
        if after < self.number {
            return;
        }
        match &mut self.state {
            DelegatedState::Idle => {}
            DelegatedState::Waiting { next } => match next {
                None => *next = Some(new),
                Some(known) if *known == new => {}
                Some(_) => out.misbehaved(from, "two that follow the same request"),
            },
            DelegatedState::Executing { permit } => match permit.next.front() {
                None => permit.next.push_back(new),
                Some(known) if *known == new => {}
                Some(_) => out.misbehaved(from, "two that follow the same request"),
            },
        }
    }
}

// As the leader.
impl Delegated {
    fn on_request(&mut self, waiter: Waiter, out: &mut Outbox<Message>) {
        let Some(dispatcher) = &mut self.dispatcher else {
            return out.misbehaved(waiter.site, "a request to a site that does not lead");
        };
        if let Some(why) = dispatcher.refuses_request(waiter) {
            return out.misbehaved(waiter.site, why);
        }
        if let Some(order) = dispatcher.on_request(waiter) {
            self.carry_out(order, out);
        }
    }

    fn on_release(&mut self, last: Waiter, permit: Box<Permit>, out: &mut Outbox<Message>) {
        // My own request cannot ride on a permit that another hands back, unless I made it.
        let asks = matches!(self.state, DelegatedState::Waiting { .. });
        let forged = |rider: &Waiter| rider.site == self.me && !(asks && rider.number == self.number);
        if permit.again.iter().any(forged) {
            return out.misbehaved(last.site, "a permit with requests that cannot be");
        }
        let Some(dispatcher) = &mut self.dispatcher else {
            return out.misbehaved(last.site, "a permit handed back to a site that does not lead");
        };
        if let Some(why) = dispatcher.refuses_release(last, &permit) {
            return out.misbehaved(last.site, why);
        }
        dispatcher.on_release(last, permit);
        while let Some(order) = self.dispatcher.as_mut().and_then(|dispatcher| dispatcher.next_grant()) {
            self.carry_out(order, out);
        }
    }

    /// By a message, or at once where it concerns the leader's own process.
    fn carry_out(&mut self, order: Order, out: &mut Outbox<Message>) {
        match order {
            Order::Grant(first, permit) if first.site == self.me => self.become_executing(permit, out),
            Order::Grant(first, permit) => {
                out.send(first.site, Message::Perm { number: first.number, permit });
            }
            Order::Append { tail, next } if tail.site == self.me => {
                self.on_append(self.me, tail.number, next, out);
            }
            Order::Append { tail, next } => {
                out.send(tail.site, Message::Append { after: tail.number, next });
            }
        }
    }
}
