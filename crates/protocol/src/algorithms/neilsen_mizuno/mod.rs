//! Neilsen and Mizuno's algorithm: requests walk a tree whose edges turn round under them, and the token comes straight back.
//!
//! Neilsen and Mizuno 1991, "A DAG-based algorithm for distributed mutual exclusion" (ICDCS, pages 354 to 360).
//!
//! The sites are the nodes of a tree, which never changes; each edge has a direction, which does. NEXT is the neighbour at
//! the other end of the edge that leads away from here; following it leads to the *sink*, the site that asked last. A
//! REQUEST walks to the sink and turns every edge of its way round, so that its originator becomes the new sink. The old
//! sink keeps the originator in FOLLOW, or, if HOLDING is set there, sends the PRIVILEGE at once. Whoever leaves sends it
//! to its FOLLOW, in one message, whatever lies between them in the tree.
//!
//! ```text
//!  a star with S0 in its middle; S2 has the privilege
//!  alone:      S1 ──REQUEST(S1)──▶ S0 ──REQUEST(S1)──▶ S2    contended: S2 is inside, S1 asks, then S3
//!              S1 ◀─────────────PRIVILEGE───────────── S2    S1 ──REQUEST(S1)──▶ S0 ──REQUEST(S1)──▶ S2    FOLLOW S1
//!              S1 enters; NEXT of S2 is S0, of S0 is S1      S3 ──REQUEST(S3)──▶ S0 ──REQUEST(S3)──▶ S1    FOLLOW S3
//!                                                            S2 leaves: S2 ──PRIVILEGE──▶ S1, then S1 ──▶ S3
//! ```
//!
//! | | messages per entry | synchronisation delay | state | words per message |
//! |---|---|---|---|---|
//! | low load | 0 to D+1, D the diameter of the tree; star: at most 3 | – | two pointers, a count for each neighbour | REQUEST 6, PRIVILEGE 4 |
//! | heavy load, star | 3 − 2/N | T | the same | the same |
//!
//! The default tree is the star, the paper's best topology: "three messages per critical section entry" (its abstract). Its
//! middle hears of every request, but only non-neighbours need it: PRIVILEGEs do not pass it. `balanced` spreads that over
//! more sites, for longer ways.
//!
//! **Assumes** reliable channels; FIFO is not needed. The physical network is fully connected: the PRIVILEGE goes to sites that
//! are no neighbours.
//!
//! **Departures**. We have the paper's abstract, not its text: the rules are as they are usually given for it (HOLDING, NEXT,
//! FOLLOW; REQUEST with its sender and its originator; PRIVILEGE), and its worked example is not among the tests.
//! - No **choice** is open while it runs: each request has one way to go, and the privilege one next site. The tree is fixed
//!   before (`tree`).
//! - A REQUEST does not name its sender X, whom the network names, and carries how many REQUESTs have crossed the edge; its
//!   originator Y numbers its requests, and a PRIVILEGE says which one it serves. So duplicates are recognised, which the
//!   channels of the paper do not make. The price is a number for each neighbour: the paper's site has three variables.
//! - Sites start with their NEXT set; no message is sent for that.
//!
//! **Invariants**
//! - I1: a site has no NEXT exactly if it is the sink: it has the privilege unused, or wants to enter or is inside and has no
//!   FOLLOW.
//! - I2: NEXT is a neighbour, and FOLLOW another site.
//! - I3: of each edge exactly one of three holds: it leads one way, it leads the other way, one REQUEST is on it.
//! - I4: the two ends of an edge count its crossings the same, or differ by the one under way.

use std::fmt;

use super::request::RequestId;
use super::tree::Tree;
use crate::mutant::{self, Mutant};
use crate::registry::info::{
    Channels, ClaimedBypass, Costs, Demands, Failures, Formula, Info, Kind, Memory, MessageInfo, Order,
    Permits, Span, Tokens,
};
use crate::registry::values::Values;
use crate::shared::Shared;
use crate::site::InFlight;
use crate::{
    Algorithm, Cluster, Described, Family, Holders, NOT_A_PEER, Numbers, Outbox, Phase, PlanError, Site,
    SiteId, View, invariant,
};

/// One site of Neilsen and Mizuno's algorithm.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct NeilsenMizuno {
    // This site.
    me: SiteId,
    tree: Shared<Tree>,
    // The local process.
    state: NeilsenMizunoState,
    /// How many requests I have made.
    requests: u64,
    // What this site knows of the others.
    /// `NEXT`: the neighbour on the way to the sink; none if that is me.
    next: Option<SiteId>,
    /// How many REQUESTs have crossed the edge to each neighbour, in the tree's order.
    crossings: Box<[u64]>,
}

/// State of the local process, and where the privilege is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum NeilsenMizunoState {
    /// Idle, the privilege is elsewhere.
    Away,
    /// `HOLDING`: idle, the privilege is here.
    Holding,
    /// Waits to enter; the privilege goes to `follow` afterwards.
    Waiting { follow: Option<RequestId> },
    /// Inside; the privilege goes to `follow` afterwards.
    Inside { follow: Option<RequestId> },
}

/// What sites say to each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Message {
    /// `REQUEST(X, Y)`, from X to its NEXT: Y wants the privilege after whoever asked last. X is on the way to the sink now.
    Request {
        /// Y, and which of its requests.
        originator: RequestId,
        /// How many REQUESTs have crossed the edge between the two, this one included.
        crossing: u64,
    },
    /// From the site that was served before, to the originator that it keeps in FOLLOW: enter.
    Privilege {
        /// The number of the receiver's request that is served.
        serves: u64,
    },
}

#[cfg(feature = "serde")]
crate::numbered! { Message {
    0 => Request { originator, crossing },
    1 => Privilege { serves },
} }

impl fmt::Display for Message {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Message::Request { originator: RequestId { site, number }, .. } => {
                write!(f, "REQUEST({site}, number {number})")
            }
            Message::Privilege { serves } => write!(f, "PRIVILEGE(for request {serves})"),
        }
    }
}

impl crate::Message for Message {
    fn kind(&self) -> &'static str {
        match self {
            Message::Request { .. } => "REQUEST",
            Message::Privilege { .. } => "PRIVILEGE",
        }
    }

    /// Both ends of an edge count its crossings.
    fn numbers(&mut self, from: SiteId, to: SiteId, numbers: &mut Numbers<'_>) {
        match self {
            Message::Request { originator, crossing } => {
                originator.numbers(numbers);
                numbers.number(Family::Pair(from.min(to), from.max(to)), crossing);
            }
            Message::Privilege { serves } => numbers.number(Family::Site(to), serves),
        }
    }

    fn words(&self) -> usize {
        match self {
            Message::Request { .. } => 6,
            Message::Privilege { .. } => 4,
        }
    }

    fn tokens(&self) -> usize {
        match self {
            Message::Request { .. } => 0,
            Message::Privilege { .. } => 1,
        }
    }
}

impl Site for NeilsenMizuno {
    type Message = Message;

    /// Procedure P1, up to the critical section: enters if HOLDING, else asks NEXT and becomes the sink.
    fn request(&mut self, out: &mut Outbox<Message>) {
        assert!(self.phase() == Phase::Idle, "the host requests only while the process is idle");
        self.requests += 1;
        if let Some(next) = self.next.take() {
            self.state = NeilsenMizunoState::Waiting { follow: None };
            self.send_request(next, RequestId { site: self.me, number: self.requests }, out);
        } else {
            self.state = NeilsenMizunoState::Inside { follow: None };
            out.enter();
        }
    }

    fn receive(&mut self, from: SiteId, message: Message, out: &mut Outbox<Message>) {
        if from == self.me || from.index() >= self.tree.sites() {
            return out.misbehaved(from, NOT_A_PEER);
        }
        match message {
            Message::Request { originator, crossing } => self.on_request(from, originator, crossing, out),
            Message::Privilege { serves } => self.on_privilege(from, serves, out),
        }
    }

    /// Procedure P1, after the critical section: the privilege goes to FOLLOW, if there is one.
    fn release(&mut self, out: &mut Outbox<Message>) {
        let NeilsenMizunoState::Inside { follow } = self.state else {
            panic!("the host releases only while the process is inside");
        };
        match follow {
            Some(follow) => self.give_privilege(follow, out),
            None => self.state = NeilsenMizunoState::Holding,
        }
    }
}

impl NeilsenMizuno {
    /// Procedure P2: the request goes on to NEXT, or ends here; either way the edge that it came by leads back.
    fn on_request(&mut self, from: SiteId, originator: RequestId, crossing: u64, out: &mut Outbox<Message>) {
        let Some(place) = self.tree.place(self.me, from) else {
            return out.misbehaved(from, "a request of a site that is no neighbour");
        };
        let asks = originator.site;
        let is_other = asks != self.me && asks.index() < self.tree.sites();
        if !is_other || self.tree.toward(self.me, asks) != from {
            return out.misbehaved(from, "a request of no site on that side");
        }
        if crossing != self.crossings[place].wrapping_add(1) || self.next == Some(from) {
            return out.misbehaved(from, "a request along an edge that does not lead here");
        }
        self.crossings[place] = crossing;
        match self.next.replace(from) {
            Some(next) => self.send_request(next, originator, out),
            None => self.on_request_at_the_sink(originator, out),
        }
    }

    fn on_request_at_the_sink(&mut self, originator: RequestId, out: &mut Outbox<Message>) {
        match &mut self.state {
            NeilsenMizunoState::Waiting { .. } if mutant::is_on(Mutant::NeilsenMizunoForgottenFollow) => {}
            NeilsenMizunoState::Waiting { follow } | NeilsenMizunoState::Inside { follow } => {
                *follow = Some(originator);
            }
            NeilsenMizunoState::Holding => self.give_privilege(originator, out),
            NeilsenMizunoState::Away => {
                unreachable!("I1: a site without the privilege that wants nothing has a NEXT")
            }
        }
    }

    fn on_privilege(&mut self, from: SiteId, serves: u64, out: &mut Outbox<Message>) {
        match self.state {
            NeilsenMizunoState::Waiting { follow } if serves == self.requests => {
                self.state = NeilsenMizunoState::Inside { follow };
                out.enter();
            }
            NeilsenMizunoState::Away
            | NeilsenMizunoState::Holding
            | NeilsenMizunoState::Waiting { .. }
            | NeilsenMizunoState::Inside { .. } => {
                out.misbehaved(from, "a privilege that nobody waits for");
            }
        }
    }

    fn send_request(&mut self, to: SiteId, originator: RequestId, out: &mut Outbox<Message>) {
        let place = self.tree.place(self.me, to).expect("I2: NEXT is a neighbour");
        self.crossings[place] = self.crossings[place].wrapping_add(1);
        out.send(to, Message::Request { originator, crossing: self.crossings[place] });
    }

    fn give_privilege(&mut self, to: RequestId, out: &mut Outbox<Message>) {
        if !mutant::is_on(Mutant::NeilsenMizunoPrivilegeKept) {
            self.state = NeilsenMizunoState::Away;
        }
        out.send(to.site, Message::Privilege { serves: to.number });
    }

    fn follow(&self) -> Option<RequestId> {
        match self.state {
            NeilsenMizunoState::Away | NeilsenMizunoState::Holding => None,
            NeilsenMizunoState::Waiting { follow } | NeilsenMizunoState::Inside { follow } => follow,
        }
    }
}

impl Described for NeilsenMizuno {
    const INFO: Info = Info {
        name: "neilsen-mizuno",
        title: "Neilsen and Mizuno: ask along a tree whose edges turn round, the token comes straight back",
        source: "Neilsen & Mizuno 1991",
        kind: Kind::Token,
        permits: Permits::One,
        demands: Demands::PLAIN,
        tokens: Tokens::One,
        channels: Channels::Unordered,
        assumes: "a reliable, fully connected network",
        order: Order::Fair,
        bypass: ClaimedBypass::Nothing(
            "its abstract, which is what we have, gives no number; while others forward the request, sites enter without end",
        ),
        failures: Failures::NONE,
        options: &[Tree::option("star")],
        variants: &["neilsen-mizuno:tree=balanced", "neilsen-mizuno:tree=line"],
        messages: &[
            MessageInfo {
                kind: "REQUEST",
                about: "from a site that wants to enter, passed on along the tree to the site that asked last",
            },
            MessageInfo {
                kind: "PRIVILEGE",
                about: "from the site that was served before, straight to the next",
            },
        ],
        costs: Costs {
            lone_least: Formula::new("0", |_| 0.0),
            lone_most: Formula::new("2 at the start, 3 at worst later", |scale| {
                if scale.sites == 1 { 0.0 } else { 2.0 }
            }),
            heavy: Formula::new("3 − 2/N", |scale| {
                if scale.sites == 1 { 0.0 } else { 3.0 - 2.0 / scale.sites as f64 }
            }),
            always: Some(Span {
                least: Formula::new("0", |_| 0.0),
                most: Formula::new("D+1, which is at most N", |scale| scale.sites as f64),
            }),
            sync_delay: "T",
        },
        memory: Memory { fixed: size_of::<NeilsenMizuno>(), per_site: size_of::<u64>() },
        departures: &[
            "a REQUEST counts the crossings of its edge, and a PRIVILEGE names the request it serves: duplicates are recognised",
            "sites start with NEXT set",
        ],
    };
}

impl Algorithm for NeilsenMizuno {
    type Plan = Shared<Tree>;

    fn info(&self) -> &'static Info {
        &Self::INFO
    }

    fn plan(cluster: Cluster, values: &Values) -> Result<Shared<Tree>, PlanError> {
        Tree::chosen(cluster, values).map(Shared::new)
    }

    /// The privilege is at its home, and all edges lead there.
    fn start(tree: &Shared<Tree>, me: SiteId, holders: &Holders) -> Self {
        let home = holders.token_home();
        NeilsenMizuno {
            me,
            state: match me {
                _ if holders.contains(me) => NeilsenMizunoState::Inside { follow: None },
                _ if me == home => NeilsenMizunoState::Holding,
                _ => NeilsenMizunoState::Away,
            },
            requests: 0,
            next: (me != home).then(|| tree.toward(me, home)),
            crossings: vec![0; tree.degree(me)].into(),
            tree: tree.clone(),
        }
    }

    fn phase(&self) -> Phase {
        match self.state {
            NeilsenMizunoState::Away | NeilsenMizunoState::Holding => Phase::Idle,
            NeilsenMizunoState::Waiting { .. } => Phase::Waiting,
            NeilsenMizunoState::Inside { .. } => Phase::Executing,
        }
    }

    fn is_quiet(&self) -> bool {
        self.phase() == Phase::Idle
    }

    /// A star's diameter is two.
    fn cost_span(&self) -> Option<Span> {
        let three = Formula::new("3", |scale| scale.sites.min(3) as f64);
        let general = Self::INFO.costs.always;
        if self.tree.is_star() { general.map(|span| Span { most: three, ..span }) } else { general }
    }

    fn tokens(&self) -> usize {
        usize::from(matches!(self.state, NeilsenMizunoState::Holding | NeilsenMizunoState::Inside { .. }))
    }

    fn numbers(&mut self, numbers: &mut Numbers<'_>) {
        let me = self.me;
        numbers.number(Family::Site(me), &mut self.requests);
        for (neighbour, crossings) in self.tree.neighbours(me).zip(&mut self.crossings) {
            numbers.number(Family::Pair(me.min(neighbour), me.max(neighbour)), crossings);
        }
        if let NeilsenMizunoState::Waiting { follow: Some(follow) }
        | NeilsenMizunoState::Inside { follow: Some(follow) } = &mut self.state
        {
            follow.numbers(numbers);
        }
    }

    fn view(&self) -> View {
        let neighbours = self.tree.neighbours(self.me);
        let view = neighbours.fold(View::new(), |view, neighbour| view.pointer("tree", neighbour));
        let view = self.next.into_iter().fold(view, |view, next| view.pointer("NEXT", next));
        self.follow().into_iter().fold(view, |view, follow| view.pointer("FOLLOW", follow.site))
    }

    fn check_invariants(&self) -> Result<(), &'static str> {
        let is_sink = match self.state {
            NeilsenMizunoState::Away => false,
            NeilsenMizunoState::Holding => true,
            NeilsenMizunoState::Waiting { follow } | NeilsenMizunoState::Inside { follow } => {
                follow.is_none()
            }
        };
        invariant!(self.next.is_none() == is_sink, "I1: a site has no NEXT exactly if it is the sink");
        let is_neighbour = |next: SiteId| self.tree.place(self.me, next).is_some();
        invariant!(
            self.next.is_none_or(is_neighbour) && self.follow().is_none_or(|follow| follow.site != self.me),
            "I2: NEXT is a neighbour, and FOLLOW another site"
        );
        Ok(())
    }

    fn check_together(sites: &[&Self], in_flight: &[InFlight<'_, Message>]) -> Result<(), &'static str> {
        let Some(first) = sites.first() else { return Ok(()) };
        let requests = |a: SiteId, b: SiteId| {
            let is_one = |message: &Message| matches!(message, Message::Request { .. });
            in_flight.iter().filter(|(from, to, message)| (*from, *to) == (a, b) && is_one(message)).count()
        };
        for a in sites {
            for (place, b) in first.tree.neighbours(a.me).enumerate().filter(|(_, b)| *b > a.me) {
                let (b, back) = (sites[b.index()], first.tree.place(b, a.me).expect("neighbours are mutual"));
                let leads = usize::from(a.next == Some(b.me)) + usize::from(b.next == Some(a.me));
                let under_way = requests(a.me, b.me) + requests(b.me, a.me);
                invariant!(
                    leads + under_way == 1,
                    "I3: an edge leads one way, or the other way, or one REQUEST is on it"
                );
                let apart = a.crossings[place].abs_diff(b.crossings[back]);
                invariant!(
                    apart == under_way as u64,
                    "I4: the ends of an edge count its crossings the same, but for the one under way"
                );
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
