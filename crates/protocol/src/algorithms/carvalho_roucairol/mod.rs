//! Carvalho and Roucairol's algorithm: a permission stays mine until its giver wants it back.
//!
//! Sanders, "The information structure of distributed mutual exclusion algorithms", 1987, section 8; O. Carvalho and
//! G. Roucairol, 1983, as an improvement of Ricart and Agrawala's algorithm.
//!
//! A site that has the permission of another one need not ask it again until it has granted it one itself. So between
//! any two sites one permission lies with one of them, once they have talked: whoever entered last has it. A site asks
//! only those whose permission it lacks, and one that enters again alone asks nobody. In Sanders' terms, the
//! permissions that a site holds are those of its status set, and it requests from the rest.
//!
//! ```text
//!  alone:  S0 ──REQUEST (1,S0)──▶ S1, S2      contended: S1 holds S0's permission, waits for S2 with (5,S1)
//!          S0 ◀──GRANT─────────── S1, S2                 S0 ──REQUEST (4,S0)──▶ S1, S2     S0 precedes
//!          S0 enters, leaves                             S0 ◀──GRANT─────────── S1, S2
//!  again:  S0 enters, leaves                             S0 ◀──REQUEST (5,S1)── S1         it lacks S0's again
//! ```
//!
//! | | messages per entry | synchronisation delay | state | words per message |
//! |---|---|---|---|---|
//! | low load | 0 to 2(N−1) | – | 2N numbers, 2 sets | REQUEST 5, GRANT 4 |
//! | heavy load | up to 2(N−1) | T | the same | the same |
//!
//! **Assumes** reliable channels; order is not needed. It does not serve in timestamp order: a site that holds all
//! permissions enters before it hears of an earlier request.
//!
//! **Departures**
//! - No **choice** is open while it runs. Who has which permission at the start is: nobody has one but a holder (ours).
//! - A waiting site that grants an earlier request asks its sender for the permission back at once, with its own old
//!   timestamp. Sanders' rules change the sets and do not say so; without it the site waits for ever (`text=printed`
//!   keeps that variant for the checker; erratum `carvalho-sanders-section-8`).
//! - A site that leaves tells only those it deferred. Sanders' general algorithm also sends RELEASE to the inform set;
//!   here the deferred GRANT is that RELEASE.
//! - Each site numbers its requests to each other one, and a GRANT names the one it answers, so that a duplicate of
//!   either is recognised; the timestamp alone does not tell, because a site may ask twice with the same one.
//!
//! **Invariants**
//! - I1: a request is deferred only while the site waits or executes.
//! - I2: an executing site holds all permissions, a waiting one lacks some, and none holds its own.
//! - I3: the clock is not behind the site's own request.
//! - I4: between two sites there is at most one permission: held by one of them, or on its way.

mod facts;

use std::fmt;

use crate::algorithms::request::RequestState;
use crate::mutant::{self, Mutant};
use crate::registry::info::{
    Channels, ClaimedBypass, Costs, Demands, Failures, Formula, Info, Kind, Memory, MessageInfo, OptionInfo,
    Order, Permits, Span, Text, Tokens,
};
use crate::registry::values::Values;
use crate::site::InFlight;
use crate::{
    Algorithm, Clock, Cluster, Count, Described, Family, Holders, NOT_A_PEER, Numbers, Outbox, Phase,
    PlanError, Site, SiteId, SiteSet, Timestamp, View, invariant,
};

/// One site of Carvalho and Roucairol's algorithm.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct CarvalhoRoucairol {
    // This site.
    me: SiteId,
    text: Text,
    // The local process.
    state: RequestState,
    // What this site knows of the others.
    /// No request that I have seen has a larger clock.
    clock: Clock,
    /// `S`, the status set, without myself: whose permission I hold. The others are `R`, the request set.
    held: SiteSet,
    /// Whom I owe a grant.
    deferred: SiteSet,
    peers: Box<[RequestCounts]>,
}

/// How often two sites have asked each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct RequestCounts {
    asked_by_me: Count,
    asked_me: Count,
}

/// What sites say to each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Message {
    /// From a site that wants to enter, to one whose permission it lacks: its clock at the request.
    Request {
        /// The clock; with the sender it is the timestamp.
        clock: Clock,
        /// How often the sender has asked the receiver, with this time.
        ask: Count,
    },
    /// From a site that does not stand in the way, or no longer: I shall ask you before I enter again.
    Grant {
        /// Which request it answers.
        ask: Count,
    },
}

#[cfg(feature = "serde")]
crate::numbered! { Message {
    0 => Request { clock, ask },
    1 => Grant { ask },
} }

impl fmt::Display for Message {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Message::Request { clock, ask } => {
                write!(f, "REQUEST(ts {}, ask {})", clock.value(), ask.value())
            }
            Message::Grant { ask } => write!(f, "GRANT(to ask {})", ask.value()),
        }
    }
}

impl crate::Message for Message {
    fn kind(&self) -> &'static str {
        match self {
            Message::Request { .. } => "REQUEST",
            Message::Grant { .. } => "GRANT",
        }
    }

    fn numbers(&mut self, from: SiteId, to: SiteId, numbers: &mut Numbers<'_>) {
        match self {
            Message::Request { clock, ask } => {
                numbers.clock(clock);
                numbers.count(Family::Pair(from, to), ask);
            }
            Message::Grant { ask } => numbers.count(Family::Pair(to, from), ask),
        }
    }

    fn words(&self) -> usize {
        match self {
            Message::Request { .. } => 5,
            Message::Grant { .. } => 4,
        }
    }
}

impl Site for CarvalhoRoucairol {
    type Message = Message;

    /// Sanders section 3.2, entry code, with section 8's request set: ask whoever's permission is lacking.
    fn request(&mut self, out: &mut Outbox<Message>) {
        assert!(self.state == RequestState::Idle, "the host requests only while the process is idle");
        let request = Timestamp::new(self.clock.tick(), self.me);
        self.state = RequestState::Waiting(request);
        for site in SiteId::all(self.peers.len()) {
            if site != self.me && !self.held.contains(site) {
                self.ask(site, request, out);
            }
        }
        self.enter_if_all_granted(out);
    }

    fn receive(&mut self, from: SiteId, message: Message, out: &mut Outbox<Message>) {
        if from == self.me || from.index() >= self.peers.len() {
            return out.misbehaved(from, NOT_A_PEER);
        }
        match message {
            Message::Request { clock, ask } => self.on_request(Timestamp::new(clock, from), ask, out),
            Message::Grant { ask } => self.on_grant(from, ask, out),
        }
    }

    /// Sanders section 3.2, exit code: whoever waits for me is granted.
    fn release(&mut self, out: &mut Outbox<Message>) {
        assert!(
            matches!(self.state, RequestState::Executing(_)),
            "the host releases only while the process is inside"
        );
        self.state = RequestState::Idle;
        for site in std::mem::take(&mut self.deferred).iter() {
            if mutant::is_on(Mutant::CarvalhoForgottenDeferred) {
                continue;
            }
            self.grant(site, out);
        }
    }
}

impl CarvalhoRoucairol {
    /// Sanders section 3.2, on receiving a REQUEST: grant, or defer if this site is inside or precedes.
    fn on_request(&mut self, theirs: Timestamp, ask: Count, out: &mut Outbox<Message>) {
        let from = theirs.site;
        let peer = &mut self.peers[from.index()];
        if ask != peer.asked_me.next() {
            return out.misbehaved(from, "a request that is not its next");
        }
        if self.deferred.contains(from) {
            return out.misbehaved(from, "a second request before the first was answered");
        }
        peer.asked_me = ask;
        self.clock.observe(theirs.clock);
        match self.state {
            RequestState::Idle => self.grant(from, out),
            RequestState::Waiting(mine) if theirs < mine => {
                let held = self.held.contains(from);
                self.grant(from, out);
                if held && self.text == Text::Repaired {
                    self.ask(from, mine, out);
                }
            }
            RequestState::Waiting(_) | RequestState::Executing(_) => {
                self.deferred.insert(from);
            }
        }
    }

    /// Sanders section 8, rule (2): the giver moves from my request set to my status set. Enter once all have given.
    fn on_grant(&mut self, from: SiteId, ask: Count, out: &mut Outbox<Message>) {
        let waiting = matches!(self.state, RequestState::Waiting(_)) && !self.held.contains(from);
        if !waiting || ask != self.peers[from.index()].asked_by_me {
            return out.misbehaved(from, "a grant that nobody waits for");
        }
        self.held.insert(from);
        self.enter_if_all_granted(out);
    }

    /// Sanders section 8, rule (1): the receiver moves from my status set to my request set.
    fn grant(&mut self, to: SiteId, out: &mut Outbox<Message>) {
        self.held.remove(to);
        out.send(to, Message::Grant { ask: self.peers[to.index()].asked_me });
    }

    fn ask(&mut self, site: SiteId, request: Timestamp, out: &mut Outbox<Message>) {
        let peer = &mut self.peers[site.index()];
        peer.asked_by_me = peer.asked_by_me.next();
        out.send(site, Message::Request { clock: request.clock, ask: peer.asked_by_me });
    }

    fn holds_all(&self) -> bool {
        self.held.len() + 1 == self.peers.len()
    }

    fn enter_if_all_granted(&mut self, out: &mut Outbox<Message>) {
        if let RequestState::Waiting(request) = self.state
            && self.holds_all()
        {
            self.state = RequestState::Executing(request);
            out.enter();
        }
    }
}

/// What all sites share: fixed before the first one starts.
#[derive(Clone, Debug)]
pub struct Plan {
    cluster: Cluster,
    text: Text,
}

impl Described for CarvalhoRoucairol {
    const INFO: Info = Info {
        name: "carvalho-roucairol",
        title: "Carvalho and Roucairol: a permission stays mine until its giver wants it back",
        source: "Sanders 1987, section 8; Carvalho & Roucairol 1983",
        kind: Kind::Permission,
        permits: Permits::One,
        demands: Demands::PLAIN,
        tokens: Tokens::None,
        channels: Channels::Unordered,
        assumes: "reliable channels",
        order: Order::Fair,
        bypass: ClaimedBypass::Nothing(
            "Sanders does not say it: a site that keeps the permissions of all others enters again and asks nobody",
        ),
        failures: Failures::NONE,
        options: &[OptionInfo::text(
            "printed: a waiting site that grants does not ask again, and deadlocks; for the checker only",
        )],
        variants: &[],
        messages: &[
            MessageInfo {
                kind: "REQUEST",
                about: "from a site that wants to enter, to those whose permission it lacks",
            },
            MessageInfo { kind: "GRANT", about: "from a site that does not stand in the way, or no longer" },
        ],
        costs: Costs {
            // From a quiet start; whoever was in last and enters again pays nothing.
            lone_least: Formula::new("2(N−1), again 0", |scale| 2.0 * (scale.sites - 1) as f64),
            lone_most: Formula::new("2(N−1), again 0", |scale| 2.0 * (scale.sites - 1) as f64),
            heavy: Formula::new("2(N−1)", |scale| 2.0 * (scale.sites - 1) as f64),
            always: Some(Span {
                least: Formula::new("0", |_| 0.0),
                most: Formula::new("2(N−1)", |scale| 2.0 * (scale.sites - 1) as f64),
            }),
            sync_delay: "T",
        },
        memory: Memory { fixed: 128, per_site: 16 },
        departures: &[
            "a waiting site that grants an earlier request asks for the permission back (else it deadlocks)",
            "a site that leaves tells only those it deferred",
            "requests between two sites are numbered, and a GRANT names the one it answers",
        ],
    };
}

impl Algorithm for CarvalhoRoucairol {
    type Plan = Plan;

    fn info(&self) -> &'static Info {
        &Self::INFO
    }

    fn plan(cluster: Cluster, values: &Values) -> Result<Plan, PlanError> {
        Ok(Plan { cluster, text: values.text() })
    }

    /// Section 8: at first nobody holds a permission, and everyone asks all. A holder has the permission of all
    /// others, on a request older than any that can follow.
    fn start(plan: &Plan, me: SiteId, holders: &Holders) -> Self {
        let sites = plan.cluster.sites;
        let inside = holders.contains(me);
        CarvalhoRoucairol {
            me,
            text: plan.text,
            state: if inside {
                RequestState::Executing(Timestamp::new(Clock::ZERO, me))
            } else {
                RequestState::Idle
            },
            clock: Clock::ZERO,
            held: if inside { SiteSet::all_but(me, sites) } else { SiteSet::new() },
            deferred: SiteSet::new(),
            peers: vec![RequestCounts { asked_by_me: Count::ZERO, asked_me: Count::ZERO }; sites].into(),
        }
    }

    fn phase(&self) -> Phase {
        self.state.phase()
    }

    fn is_quiet(&self) -> bool {
        self.state == RequestState::Idle && self.deferred.is_empty()
    }

    fn timestamp(&self) -> Option<Timestamp> {
        self.state.timestamp()
    }

    fn numbers(&mut self, numbers: &mut Numbers<'_>) {
        let me = self.me;
        numbers.clock(&mut self.clock);
        self.state.numbers(numbers);
        for (site, peer) in SiteId::all(self.peers.len()).zip(&mut self.peers) {
            numbers.count(Family::Pair(me, site), &mut peer.asked_by_me);
            numbers.count(Family::Pair(site, me), &mut peer.asked_me);
        }
    }

    fn view(&self) -> View {
        let mut asked = SiteSet::all_but(self.me, self.peers.len());
        asked.subtract(&self.held);
        let view = View::new()
            .set("status set S", &self.held)
            .set("request set R", &asked)
            .set("deferred", &self.deferred)
            .value("highest ts seen", self.clock.value());
        match self.state {
            RequestState::Waiting(_) => view.waiting_for(asked.iter()),
            RequestState::Idle | RequestState::Executing(_) => view,
        }
    }

    fn check_invariants(&self) -> Result<(), &'static str> {
        invariant!(
            self.state != RequestState::Idle || self.deferred.is_empty(),
            "I1: a request is deferred only while the site waits or executes"
        );
        let right = match self.state {
            RequestState::Idle => true,
            RequestState::Waiting(_) => !self.holds_all(),
            RequestState::Executing(_) => self.holds_all(),
        };
        invariant!(
            right && !self.held.contains(self.me),
            "I2: an executing site holds all permissions, a waiting one lacks some, and none holds its own"
        );
        let own = self.timestamp().map_or(Clock::ZERO, |request| request.clock);
        invariant!(own <= self.clock, "I3: the clock is not behind the site's own request");
        Ok(())
    }

    fn check_together(sites: &[&Self], in_flight: &[InFlight<'_, Message>]) -> Result<(), &'static str> {
        let is_grant = |message: &Message| matches!(message, Message::Grant { .. });
        for a in sites {
            for b in sites.iter().filter(|b| b.me > a.me) {
                let held = usize::from(a.held.contains(b.me)) + usize::from(b.held.contains(a.me));
                let between = |from, to| (from, to) == (a.me, b.me) || (from, to) == (b.me, a.me);
                let moving = in_flight.iter().filter(|&&(from, to, m)| between(from, to) && is_grant(m));
                invariant!(
                    held + moving.count() <= 1,
                    "I4: between two sites there is at most one permission: held by one of them, or on its way"
                );
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
