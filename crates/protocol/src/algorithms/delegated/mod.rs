//! Delegated hand-over: a leader decides who is next, the holders hand over among themselves.
//!
//! Ours, for practice; it knows modes and priorities. The leader of a lock is a function of view and name; here it is the option `leader`.
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
//! # Modes
//!
//! Whoever asks to share does not get the permit: while it is at home the leader lets in (SHARE) the head of its queue and all that may be
//! inside together with it and stand before the first that may not, all at the same moment. They report back (DONE), and after the last one
//! the permit is at home again. A chain takes the exclusive requests before the first other one. Who comes while another waits stands
//! behind it, however compatible with those inside: no writer is passed by later readers.
//!
//! ```text
//!  alone:   S1 ──REQ(shared)──▶ S0 ──SHARE(open)──▶ S1 enters, leaves ──DONE──▶ S0
//!  closed:  S2 ──REQ──▶ S0 ──CLOSE──▶ S1         S1 leaves ──DONE──▶ S0 ──PERM──▶ S2
//!  up:      S1 ──UPGRADE──▶ S0 …the others' DONE… S0 ──UPGRADED──▶ S1 is exclusive
//!  down:    S1, with the permit ──DOWNGRADE(permit)──▶ S0 ──SHARE──▶ those who wait first, if they may
//! ```
//!
//! *Open.* SHARE says whether nobody waits. Then others of that site may be inside, too, without a word to the leader, until it sends CLOSE,
//! which it does when somebody has to wait, or an upgrade does. With `share=asked` nobody is open, and there is no CLOSE.
//!
//! *Upgrades.* At most one site is upgradeable. When it wants to be exclusive the leader lets nobody else in, and answers when it is
//! alone. The permit stays with the leader, so whoever follows an upgraded one waits for 2T. If the site leaves before that, DONE says
//! so; the answer that crosses it is known by its number.
//!
//! *Downgrades* are done where they are made. One that has the permit brings it home; the rest of its chain stays a chain, and is
//! served before all others, so nothing that its members were told becomes wrong. News that overtake the permit wait for it at the leader.
//!
//! | | messages | delay |
//! |---|---|---|
//! | to share, alone or in a batch of any size | 3 (0 for the leader's own), and a CLOSE for each that was open when somebody had to wait | 2T after a writer's exit; a writer after the last reader 2T |
//! | an upgrade | 2, and a CLOSE for each that was open | 2T after the call, or T after the last DONE arrives |
//! | a downgrade | 1; then DONE at the end instead of PERM or REL, and a PERM for the rest of the chain | 2T to those who may join |
//!
//! # Priorities
//!
//! The queue is in the order of priority, then of arrival. Who is in a chain keeps its place: a more urgent one waits for the chain that
//! runs, at most B entries; where that is too long, take a small `chain`. By default waiters age: one rises by a level with each chain, and
//! each batch of those who share, that is issued before it. So a request with priority p that comes when c of them have been issued is
//! placed by c − p, once and for all. With `priority=strict` only the priorities count, and the less urgent may wait for ever.
//!
//! # How often a request is passed
//!
//! Passed is who waits while another enters that *excludes* it, counted from when the leader knows of the request, or when it began to
//! ride. (Those who may be inside together do not wait for each other.) With one permit, let A be such a request, with priority p, and let d
//! be how many levels the most urgent of the others is above it.
//! - If A is in a chain, or its SHARE is on its way, only that chain, and those inside together with it, come before it; see above for B.
//! - Otherwise A is queued, so nothing is appended. A later request stands before A only if it comes before d more issues. Each of these d
//!   issues lets in each other site at most once, and after them at most one request of each other site stands before A. So at most
//!   (N−1)(d+1) later ones pass if d > 0, and none if d = 0.
//! - Those that ride on the chain that runs when A comes count as come before A: at most B. Later chains were issued after A came.
//! - Whoever asked before A enters once: at most N−1. An upgrade and a downgrade let in nobody who stands behind A.
//!
//! Together N−1 + B without priorities, as before, and (N−1)(d+1) more with them. Where priorities are strict d issues do not end.
//!
//! **Assumes** reliable channels; FIFO is not needed. The leader does not fail: on a view change all is rebuilt from
//! the view and the holders, whatever their modes.
//!
//! **Departures** from the sketch, in which no **choice** is open: the host carries the fence, so PERM does not. Requests are numbered, so that
//! duplicates and late APPENDs are recognised, and so are changes of mode, which may overtake each other. A request that is not plain
//! does not ride, and with more than one permit all are exclusive.
//!
//! **Invariants**
//! - I1: the leader and only the leader has a dispatcher.
//! - I2: while a permit is at home, and not shared, nobody is queued.
//! - I3: no chain is longer than B, and a permit at home, and not shared, has none.
//! - I4: the queue is in order and names no site twice.
//! - I5: every permit is in exactly one place.
//! - I6: whoever has a permit or is sent one is in the chain that the leader knows for it, and is followed there by
//!   those that the permit names.
//! - I7: whoever waits and is told what follows it is followed by that in its chain.
//! - I8: while the permit is shared somebody is inside, and all who are admit each other, as far as the leader knows.
//! - I9: whoever waits first may not join those who share.
//! - I10: while anyone waits, none of those who share is open, as far as the leader knows.
//! - I11: the leader knows how many in the queue ask to share.
//! - I12: whoever shares is known to the leader to share, or is bringing the permit home.
//! - I13: the mode of whoever shares is what the leader knows, or news of it are on their way.
//! - I14: whoever is open is so for the leader, or is about to be told that somebody waits.
//! - I15: whoever shares for the leader does, or is about to, or has left and said so.
//! - I16: with one permit all who are inside admit each other; so no reader is inside while a writer is, and at most one is upgradeable.

mod dispatcher;
mod facts;
mod info;
mod message;
mod modes;
mod sharing;
#[cfg(test)]
mod tests;
mod together;

pub use message::{Message, Permit, Waiter};

use crate::mutant::{self, Mutant};
use crate::shared::Shared;
use crate::{Cluster, Demand, Mode, NOT_A_PEER, Outbox, Site, SiteId};
use dispatcher::{Dispatcher, Order};
use sharing::News;

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
    /// How many times my process has begun to change its mode.
    changes: u64,
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
    /// Whether those who share may let others of their sites in while nobody waits.
    opens: bool,
    /// Whether priorities are strict; otherwise they age.
    strict: bool,
}

/// State of the local process.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum DelegatedState {
    Idle,
    /// Waits to enter, exclusive. The leader may already have said who comes next.
    Waiting {
        next: Option<Waiter>,
    },
    /// Is in the critical section, with this permit.
    Executing {
        permit: Box<Permit>,
    },
    /// Waits to enter in this mode, not exclusive.
    Asking {
        mode: Mode,
        /// The leader has said already that somebody waits who must not be passed.
        closed: bool,
    },
    /// Is in the critical section in this mode, while the leader has the permit.
    Sharing {
        mode: Mode,
        /// Waits to be exclusive.
        upgrading: bool,
        /// The leader knows of nobody who must not be passed.
        open: bool,
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

    fn request_as(&mut self, demand: Demand, out: &mut Outbox<Message>) {
        if demand == Demand::PLAIN { self.request(out) } else { self.ask(demand, out) }
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
            Message::Ask { number, demand } => self.on_ask(Waiter { site: from, number }, demand, out),
            Message::Share { number, open } => self.on_share(from, number, open, out),
            Message::Close { number } => self.on_close(from, number, out),
            Message::Done { number } => self.on_news(Waiter { site: from, number }, News::Left, out),
            Message::Upgrade { number, change } => {
                self.on_news(Waiter { site: from, number }, News::Upgrades { change }, out);
            }
            Message::Upgraded { number, change } => self.on_upgraded(from, number, change, out),
            Message::Downgrade { number, change, to, permit: None } => {
                self.on_news(Waiter { site: from, number }, News::Lowered { change, to }, out);
            }
            Message::Downgrade { number, change, to, permit: Some(permit) } => {
                self.on_downgrade(Waiter { site: from, number }, change, to, permit, out);
            }
        }
    }

    fn release(&mut self, out: &mut Outbox<Message>) {
        match self.leave() {
            (served, Some(permit)) => self.hand_on(served, permit, out),
            (served, None) => self.tell(served, News::Left, out),
        }
    }

    /// The request rides on the PERM or REL that is sent anyway. Who has no permit sends none.
    fn release_and_request(&mut self, out: &mut Outbox<Message>) {
        let (served, permit) = self.leave();
        let Some(mut permit) = permit else {
            self.tell(served, News::Left, out);
            return self.request(out);
        };
        self.number += 1;
        self.state = DelegatedState::Waiting { next: None };
        permit.again.push(self.waiter());
        self.hand_on(served, permit, out);
    }

    fn change_mode(&mut self, to: Mode, out: &mut Outbox<Message>) {
        self.begin_change(to, out);
    }
}

// As a member.
impl Delegated {
    /// My last request.
    fn waiter(&self) -> Waiter {
        Waiter { site: self.me, number: self.number }
    }

    /// Out of the critical section: what it was entered on, and the permit to hand on, if it is here.
    fn leave(&mut self) -> (Waiter, Option<Box<Permit>>) {
        match std::mem::replace(&mut self.state, DelegatedState::Idle) {
            DelegatedState::Executing { permit } => (self.waiter(), Some(permit)),
            DelegatedState::Sharing { .. } => (self.waiter(), None),
            DelegatedState::Idle | DelegatedState::Waiting { .. } | DelegatedState::Asking { .. } => {
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
            // Who shares has handed the permit back already.
            DelegatedState::Idle | DelegatedState::Sharing { .. } => {}
            DelegatedState::Asking { .. } => out.misbehaved(from, "an append to what asks to share"),
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
        let Some(dispatcher) = self.accept_release(last, &permit, out) else { return };
        dispatcher.on_release(last, permit);
        while let Some(order) = self.dispatcher.as_mut().and_then(|dispatcher| dispatcher.next_grant()) {
            self.carry_out(order, out);
        }
    }

    /// Reports a permit that no correct site could hand back now, or gives the dispatcher that takes it.
    #[inline]
    fn accept_release(
        &mut self,
        last: Waiter,
        permit: &Permit,
        out: &mut Outbox<Message>,
    ) -> Option<&mut Dispatcher> {
        // My own request cannot ride on a permit that another hands back, unless I made it.
        let asks = matches!(self.state, DelegatedState::Waiting { .. });
        let forged = |rider: &Waiter| rider.site == self.me && !(asks && rider.number == self.number);
        if permit.again.iter().any(forged) {
            out.misbehaved(last.site, "a permit with requests that cannot be");
            return None;
        }
        let Some(dispatcher) = self.dispatcher.as_deref_mut() else {
            out.misbehaved(last.site, "a permit handed back to a site that does not lead");
            return None;
        };
        if let Some(why) = dispatcher.refuses_release(last, permit) {
            out.misbehaved(last.site, why);
            return None;
        }
        Some(dispatcher)
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
            Order::Settle => self.settle(out),
            Order::Share(waiter, open) if waiter.site == self.me => self.become_sharing(open, out),
            Order::Share(Waiter { site, number }, open) => out.send(site, Message::Share { number, open }),
            Order::Close(waiter) if waiter.site == self.me => self.become_closed(),
            Order::Close(Waiter { site, number }) => out.send(site, Message::Close { number }),
            Order::Upgraded(waiter, _) if waiter.site == self.me => self.become_exclusive(out),
            Order::Upgraded(Waiter { site, number }, change) => {
                out.send(site, Message::Upgraded { number, change });
            }
        }
    }
}
