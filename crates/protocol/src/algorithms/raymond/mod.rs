//! Raymond's algorithm: the privilege moves along the edges of a tree, and every edge points to it.
//!
//! Kshemkalyani and Singhal, chapter 9, section 9.12, Tables 9.1 and 9.2.
//!
//! The sites are the nodes of a tree and talk to their neighbours only. HOLDER is the neighbour on the way to the
//! privilege. A site that wants to enter queues itself and asks its HOLDER, which queues the neighbour and asks on,
//! once: ASKED is remembered. The privilege comes back along the queues, and each edge it crosses turns round. Whoever
//! passes the privilege on and still has someone queued asks for it back at once.
//!
//! ```text
//!  alone:      S1 ──REQUEST──▶ S0 ──REQUEST──▶ S2 (has it)     contended: S0 is inside, S1 and S2 ask
//!              S1 ◀─PRIVILEGE─ S0 ◀─PRIVILEGE─ S2              S1 ──REQUEST──▶ S0 ◀──REQUEST── S2   queue: S1, S2
//!              S1 enters                                       S0 leaves: S0 ──PRIVILEGE, REQUEST──▶ S1
//!                                                              S1 enters, leaves: S1 ──PRIVILEGE──▶ S0 ──▶ S2
//! ```
//!
//! | | messages per entry | synchronisation delay | state | words per message |
//! |---|---|---|---|---|
//! | low load, balanced | 2d, d ≤ 2⌊log₂N⌋ the distance of the privilege | – | an entry a neighbour | 4 |
//! | low load, star | up to 4 | – | hub N, others 1 | 4 |
//! | low load, line | 2(N²−1)/(3N) on average | – | 2 | 4 |
//! | heavy load | 4(N−1)/N | T to dT | the same | 4 |
//!
//! The default tree is `balanced`: no path is longer than 2⌊log₂N⌋, no site has more than three neighbours, so that
//! none holds more than a constant or handles every message. A `star` needs fewer messages, at most 4, but its hub
//! takes part in all of them: that is a coordinator.
//!
//! **Assumes** reliable channels. Without failures FIFO is not needed: what overtakes is recognised by its number.
//! Recovery needs FIFO, so that what was sent to a site's former incarnation arrives before the ADVISE that makes up
//! for it, and certain knowledge of failures. Stable storage keeps one number: how often the site has restarted.
//!
//! **Departures**
//! - No **choice** is open while it runs: queues are served in their order, and the tree is fixed before (`tree`).
//! - REQUEST and PRIVILEGE carry how often the privilege has crossed their edge, so that duplicates and what overtakes
//!   are recognised. The chapter's channels do not duplicate.
//! - Recovery waits for the ADVISE of *every* neighbour. The chapter waits for a chosen delay: a missing ADVISE would
//!   then make a second privilege (`text=printed` keeps the delay for the checker; erratum
//!   `raymond-recovery-delay`). RESTART and ADVISE carry the incarnation of the site that asks.
//! - A failed neighbour leaves the queue: its process is gone, and the privilege is not sent where it would be lost. A
//!   recovered site asks again for whoever still waits behind it, so ASKED need not be reconstructed. The queue is
//!   rebuilt in the order in which the ADVISE arrive; the former order is lost with the site.
//! - Neighbours that recover at the same time advise each other once all others have spoken; the chapter does not say
//!   how. If the privilege was lost between them, the smaller id takes it.
//! - Sites start with HOLDER set. [`Raymond::unaware`] and [`Raymond::initialize`] are the start of section 9.12.6.
//!
//! **Invariants**
//! - I1: the queue holds each neighbour that is marked as queued once, the site itself exactly while it wants to enter,
//!   and nothing else.
//! - I2: only the site that has the privilege is inside; if it is not inside, nobody is queued there.
//! - I3: a site that knows its HOLDER and has someone queued has asked it.
//! - I4: of two neighbours at least one has the other for its HOLDER.
//! - I5: the two ends of an edge count its crossings the same, or differ by the one under way.

mod facts;
mod info;
mod message;
mod recovery;
#[cfg(test)]
mod tests;

pub use super::tree::Tree;
pub use message::Message;

use std::collections::VecDeque;

use crate::mutant::{self, Mutant};
use crate::registry::info::Text;
use crate::shared::Shared;
use crate::{NOT_A_PEER, Outbox, Phase, Site, SiteId};

use recovery::Recovery;

/// One site of Raymond's algorithm.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Raymond {
    // This site.
    me: SiteId,
    tree: Shared<Tree>,
    text: Text,
    /// How often I have restarted. The only thing kept on stable storage.
    incarnation: u32,
    // The local process.
    /// `USING`, and whether I am in the queue.
    phase: Phase,
    // What this site knows of the others.
    holder: Holder,
    /// `REQUEST_Q`: the neighbours that wait for the privilege, and myself.
    queue: VecDeque<SiteId>,
    /// One for each neighbour, in the tree's order.
    edges: Box<[Edge]>,
}

/// `HOLDER`: where the privilege is, seen from here.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum Holder {
    /// "Self".
    Me,
    /// With this neighbour or behind it.
    Via {
        neighbour: SiteId,
        /// `ASKED`: it has my REQUEST.
        asked: bool,
    },
    /// INITIALIZE has not come yet.
    Unknown,
    /// I had failed, and ask my neighbours where it is.
    Sought(Box<Recovery>),
}

/// What I know of the edge to one neighbour.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
struct Edge {
    /// How often the privilege has crossed it; it starts again from a higher number, when both ends forget.
    crossings: u64,
    /// The neighbour's last incarnation that I have heard of.
    incarnation: u32,
    /// Whether the neighbour is in my queue.
    queued: bool,
}

impl Site for Raymond {
    type Message = Message;

    /// Table 9.2, "a node wishes to execute critical section".
    fn request(&mut self, out: &mut Outbox<Message>) {
        assert!(self.phase == Phase::Idle, "the host requests only while the process is idle");
        self.phase = Phase::Waiting;
        self.queue.push_back(self.me);
        self.assign_privilege(out);
        self.make_request(out);
    }

    fn receive(&mut self, from: SiteId, message: Message, out: &mut Outbox<Message>) {
        let Some(place) = self.tree.place(self.me, from) else {
            return out.misbehaved(from, NOT_A_PEER);
        };
        match message {
            Message::Request { crossings } => self.on_request(from, place, crossings, out),
            Message::Privilege { crossings } => self.on_privilege(from, place, crossings, out),
            Message::Initialize => self.on_initialize(from, out),
            Message::Restart { incarnation } => self.on_restart(from, place, incarnation, out),
            Message::Advise { incarnation, holder_is_you, asked, crossings } => {
                let advice = recovery::Advice { holder_is_me: holder_is_you, asked, crossings };
                self.on_advise(from, place, incarnation, advice, out);
            }
        }
    }

    /// Table 9.2, "a node exits the critical section".
    fn release(&mut self, out: &mut Outbox<Message>) {
        assert!(self.phase == Phase::Executing, "the host releases only while the process is inside");
        self.phase = Phase::Idle;
        self.assign_privilege(out);
        if !mutant::is_on(Mutant::RaymondForgottenRequest) {
            self.make_request(out);
        }
    }

    fn peer_failed(&mut self, peer: SiteId, _: &mut Outbox<Message>) {
        self.on_failure_of(peer);
    }

    /// Nothing to do: the peer's own RESTART says all.
    fn restart(&mut self, out: &mut Outbox<Message>) {
        self.on_own_restart(out);
    }

    fn wake(&mut self, out: &mut Outbox<Message>) {
        self.on_delay_over(out);
    }
}

impl Raymond {
    /// Table 9.2, "a node receives a REQUEST message": queue the neighbour.
    fn on_request(&mut self, from: SiteId, place: usize, crossings: u64, out: &mut Outbox<Message>) {
        let edge = &mut self.edges[place];
        if edge.queued {
            return out.misbehaved(from, "a second request before the first was served");
        }
        let expected = match &self.holder {
            Holder::Me => Some(edge.crossings),
            // Section 9.12.3, message overtaking: the privilege is behind it, on its way here.
            Holder::Via { neighbour, asked: true } if *neighbour == from => {
                Some(edge.crossings.wrapping_add(1))
            }
            Holder::Via { neighbour, .. } => (*neighbour != from).then_some(edge.crossings),
            Holder::Unknown => None,
            // Whether it is right will be seen when the neighbour's ADVISE comes.
            Holder::Sought(recovery) if !recovery.has_advised(place) => Some(crossings),
            Holder::Sought(recovery) => (!recovery.is_behind(from)).then_some(edge.crossings),
        };
        if expected != Some(crossings) {
            return out.misbehaved(from, "a request for a privilege that is not on this side");
        }
        edge.queued = true;
        if matches!(self.holder, Holder::Sought(_)) {
            edge.crossings = crossings;
        }
        self.queue.push_back(from);
        self.assign_privilege(out);
        self.make_request(out);
    }

    /// Table 9.2, "a node receives a PRIVILEGE message".
    fn on_privilege(&mut self, from: SiteId, place: usize, crossings: u64, out: &mut Outbox<Message>) {
        let edge = &mut self.edges[place];
        match &self.holder {
            Holder::Via { neighbour, asked: true }
                if *neighbour == from && crossings == edge.crossings.wrapping_add(1) => {}
            // It was sent to my former incarnation. The sender's ADVISE will say that I have it.
            Holder::Sought(recovery) if !recovery.has_advised(place) => return,
            Holder::Me | Holder::Via { .. } | Holder::Unknown | Holder::Sought(_) => {
                return out.misbehaved(from, "a privilege that nobody asked for");
            }
        }
        edge.crossings = crossings;
        self.holder = Holder::Me;
        self.assign_privilege(out);
        self.make_request(out);
    }

    /// `ASSIGN_PRIVILEGE`: if it is here and unused, it goes to the head of the queue.
    fn assign_privilege(&mut self, out: &mut Outbox<Message>) {
        if self.holder != Holder::Me || self.phase == Phase::Executing {
            return;
        }
        let Some(head) = self.queue.pop_front() else { return };
        if head == self.me {
            self.phase = Phase::Executing;
            return out.enter();
        }
        let edge = self.edge_mut(head);
        edge.queued = false;
        edge.crossings = edge.crossings.wrapping_add(1);
        out.send(head, Message::Privilege { crossings: edge.crossings });
        self.holder = Holder::Via { neighbour: head, asked: false };
    }

    /// `MAKE_REQUEST`: if someone is queued and the HOLDER has not been asked, ask it.
    fn make_request(&mut self, out: &mut Outbox<Message>) {
        if let Holder::Via { neighbour, asked } = &mut self.holder
            && !*asked
            && !self.queue.is_empty()
        {
            *asked = true;
            let to = *neighbour;
            out.send(to, Message::Request { crossings: self.edge_mut(to).crossings });
        }
    }

    fn edge_mut(&mut self, neighbour: SiteId) -> &mut Edge {
        let place = self.tree.place(self.me, neighbour).expect("only neighbours are queued or asked");
        &mut self.edges[place]
    }

    /// Takes `neighbour` out of the queue, if it is in it.
    fn unqueue(&mut self, neighbour: SiteId, place: usize) {
        if std::mem::take(&mut self.edges[place].queued) {
            self.queue.retain(|&queued| queued != neighbour);
        }
    }
}

/// Section 9.12.6: a start in which only one site knows where the privilege is.
impl Raymond {
    /// This site, chosen to have the privilege first, tells the others.
    pub fn initialize(&mut self, out: &mut Outbox<Message>) {
        assert!(self.holder == Holder::Unknown, "one site is initialized by its host, once");
        self.holder = Holder::Me;
        for neighbour in self.tree.neighbours(self.me) {
            out.send(neighbour, Message::Initialize);
        }
        self.assign_privilege(out);
    }

    /// The privilege is on the sender's side: tell all other neighbours the same.
    fn on_initialize(&mut self, from: SiteId, out: &mut Outbox<Message>) {
        if self.holder != Holder::Unknown {
            return out.misbehaved(from, "an initialization of a site that knows the way");
        }
        self.holder = Holder::Via { neighbour: from, asked: false };
        for neighbour in self.tree.neighbours(self.me).filter(|&neighbour| neighbour != from) {
            out.send(neighbour, Message::Initialize);
        }
        self.make_request(out);
    }
}
