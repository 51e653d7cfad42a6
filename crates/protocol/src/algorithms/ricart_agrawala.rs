//! Ricart and Agrawala's algorithm: ask everyone, and defer to whoever asked first.
//!
//! Kshemkalyani and Singhal, chapter 9, section 9.4, Algorithm 9.2; Lodha and Kshemkalyani, section 2.2, Figure 1.
//!
//! A site that wants to enter sends its timestamp to all others and enters when all have replied. A site that is asked
//! replies at once, unless it is inside or wants to enter itself with the smaller timestamp: then it replies when it
//! leaves. Of any two requesters the later one thus waits for the earlier one, and of all the earliest enters.
//!
//! ```text
//!  alone:      S0 ──REQUEST(1,S0)──▶ S1, S2        contended: S0 asks (1,S0), S1 asks (1,S1)
//!              S0 ◀──REPLY────────── S1, S2                   S1 ──REPLY──▶ S0     S0 precedes: S1 replies
//!              S0 enters                                      S0 enters, leaves
//!                                                             S0 ──REPLY──▶ S1     the deferred reply
//! ```
//!
//! | | messages per entry | synchronisation delay | state | words per message |
//! |---|---|---|---|---|
//! | low load | 2(N−1) | – | N clocks, 2 sets | 4 |
//! | heavy load | 2(N−1) | T | the same | 4 |
//!
//! **Assumes** reliable channels. The chapter also assumes FIFO; it is not needed.
//!
//! **Departures**
//! - No **choice** is open: which deferred reply is sent first makes no difference, since they go to different sites.
//! - The highest clock seen is raised by *every* REQUEST. Figure 1 of the Lodha paper raises it only when it defers
//!   one; as printed two sites get in with N = 2 (`text=printed` keeps that variant for the checker;
//!   erratum `lodha-figure-1-highest-seen`).
//! - A REPLY names the request that it answers, and a site remembers the last request of each other site, so that a
//!   duplicate of either is recognised. The papers' channels do not duplicate.
//!
//! **Invariants**
//! - I1: a reply is deferred only while the site waits or executes.
//! - I2: a waiting site still misses a reply, and never one of its own.
//! - I3: the clock is not behind the site's own request.
//! - I4: of two sites that wait, at least one still misses the other's reply.

use std::fmt;

use crate::mutant::{self, Mutant};
use crate::registry::info::{
    BypassClaim, Channels, ClaimedBypass, Costs, Demands, Failures, Formula, Info, Kind, Memory, MessageInfo,
    OptionInfo, Order, Permits, Span, Text, Tokens,
};
use crate::registry::values::Values;
use crate::site::InFlight;
use crate::{
    Algorithm, Clock, Cluster, Described, Holders, ModelFacts, Modelled, NOT_A_PEER, Numbers, Outbox, Phase,
    PlanError, Site, SiteId, SiteSet, Timestamp, View, invariant,
};

/// One site of Ricart and Agrawala's algorithm.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct RicartAgrawala {
    // This site.
    me: SiteId,
    text: Text,
    // The local process.
    state: RicartAgrawalaState,
    // What this site knows of the others.
    /// `Highest_Sequence_Number_Seen`: no request that I have seen has a larger clock.
    clock: Clock,
    /// The clock of the last request of each site; zero before its first.
    last_request: Box<[Clock]>,
    /// `RD`: whom I owe a reply.
    deferred: SiteSet,
}

/// State of the local process.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum RicartAgrawalaState {
    Idle,
    /// Waits to enter: this request misses the replies of these sites.
    Waiting {
        request: Timestamp,
        missing: SiteSet,
    },
    /// Is in the critical section, on this request.
    Executing {
        request: Timestamp,
    },
}

/// What sites say to each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Message {
    /// From a site that wants to enter, to all others: its clock at the request.
    Request {
        /// The clock; with the sender it is the timestamp.
        clock: Clock,
    },
    /// From a site that does not stand in the way, or no longer: enter as far as I am concerned.
    Reply {
        /// The clock of the request that is answered.
        to: Clock,
    },
}

#[cfg(feature = "serde")]
crate::numbered! { Message {
    0 => Request { clock },
    1 => Reply { to },
} }

impl fmt::Display for Message {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Message::Request { clock } => write!(f, "REQUEST(ts {})", clock.value()),
            Message::Reply { to } => write!(f, "REPLY(to ts {})", to.value()),
        }
    }
}

impl crate::Message for Message {
    fn kind(&self) -> &'static str {
        match self {
            Message::Request { .. } => "REQUEST",
            Message::Reply { .. } => "REPLY",
        }
    }

    fn numbers(&mut self, _: SiteId, _: SiteId, numbers: &mut Numbers<'_>) {
        match self {
            Message::Reply { .. } if mutant::is_on(Mutant::RicartAgrawalaUnnamedNumber) => {}
            Message::Request { clock } | Message::Reply { to: clock } => numbers.clock(clock),
        }
    }

    fn words(&self) -> usize {
        4
    }
}

impl Site for RicartAgrawala {
    type Message = Message;

    /// Algorithm 9.2, requesting, step (a).
    fn request(&mut self, out: &mut Outbox<Message>) {
        assert!(self.state == RicartAgrawalaState::Idle, "the host requests only while the process is idle");
        let request = Timestamp::new(self.clock.tick(), self.me);
        let missing = SiteSet::all_but(self.me, self.last_request.len());
        out.send_all(&missing, &Message::Request { clock: request.clock });
        self.state = RicartAgrawalaState::Waiting { request, missing };
        self.enter_if_all_replied(out);
    }

    fn receive(&mut self, from: SiteId, message: Message, out: &mut Outbox<Message>) {
        if from == self.me || from.index() >= self.last_request.len() {
            return out.misbehaved(from, NOT_A_PEER);
        }
        match message {
            Message::Request { clock } => self.on_request(Timestamp::new(clock, from), out),
            Message::Reply { to } => self.on_reply(from, to, out),
        }
    }

    /// Algorithm 9.2, releasing, step (d): all deferred replies are sent.
    fn release(&mut self, out: &mut Outbox<Message>) {
        assert!(
            matches!(self.state, RicartAgrawalaState::Executing { .. }),
            "the host releases only while the process is inside"
        );
        self.state = RicartAgrawalaState::Idle;
        for site in self.deferred.iter() {
            out.send(site, Message::Reply { to: self.last_request[site.index()] });
        }
        self.deferred.clear();
        if mutant::is_on(Mutant::RicartAgrawalaSameNumber) {
            self.clock = self.last_request.iter().copied().max().unwrap_or_default();
        }
    }
}

impl RicartAgrawala {
    /// Algorithm 9.2, step (b): reply, or defer if this site is inside or precedes.
    fn on_request(&mut self, theirs: Timestamp, out: &mut Outbox<Message>) {
        let from = theirs.site;
        let again = mutant::is_on(Mutant::RicartAgrawalaSameNumber)
            && theirs.clock == self.last_request[from.index()];
        if theirs.clock <= self.last_request[from.index()] && !again {
            return out.misbehaved(from, "a request that is not newer than its last");
        }
        if self.deferred.contains(from) {
            return out.misbehaved(from, "a second request before the first was answered");
        }
        self.last_request[from.index()] = theirs.clock;
        let deferring = match &self.state {
            RicartAgrawalaState::Idle => false,
            RicartAgrawalaState::Waiting { .. } if mutant::is_on(Mutant::RicartAgrawalaEarlyReply) => false,
            RicartAgrawalaState::Waiting { request, .. }
                if mutant::is_on(Mutant::RicartAgrawalaWrongTieBreak) =>
            {
                request.clock < theirs.clock
            }
            RicartAgrawalaState::Waiting { request, .. } => *request < theirs,
            RicartAgrawalaState::Executing { request } => self.text == Text::Repaired || *request < theirs,
        };
        if deferring || self.text == Text::Repaired {
            self.clock.observe(theirs.clock);
        }
        if deferring {
            self.deferred.insert(from);
        } else {
            out.send(from, Message::Reply { to: theirs.clock });
        }
    }

    /// Algorithm 9.2, step (c): enter once all have replied.
    fn on_reply(&mut self, from: SiteId, to: Clock, out: &mut Outbox<Message>) {
        match &mut self.state {
            RicartAgrawalaState::Waiting { request, missing }
                if request.clock == to && missing.contains(from) =>
            {
                missing.remove(from);
                self.enter_if_all_replied(out);
            }
            RicartAgrawalaState::Idle
            | RicartAgrawalaState::Waiting { .. }
            | RicartAgrawalaState::Executing { .. } => {
                out.misbehaved(from, "a reply that nobody waits for");
            }
        }
    }

    fn enter_if_all_replied(&mut self, out: &mut Outbox<Message>) {
        if let RicartAgrawalaState::Waiting { request, missing } = &self.state
            && missing.is_empty()
        {
            self.state = RicartAgrawalaState::Executing { request: *request };
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

impl Described for RicartAgrawala {
    const INFO: Info = Info {
        name: "ricart-agrawala",
        title: "Ricart and Agrawala: ask everyone, defer to whoever asked first",
        source: "Kshemkalyani & Singhal ch. 9, section 9.4; Lodha & Kshemkalyani 2000, section 2.2",
        kind: Kind::Permission,
        permits: Permits::One,
        demands: Demands::PLAIN,
        tokens: Tokens::None,
        channels: Channels::Unordered,
        assumes: "reliable FIFO channels",
        order: Order::Timestamp,
        bypass: ClaimedBypass::AtMost(BypassClaim::each_other_once(
            "ch. 9, section 9.4; Lodha & Kshemkalyani 2000, section 2.2: \"The execution of CS requests in this algorithm is always in the order of their decreasing priority\"",
        )),
        failures: Failures::NONE,
        options: &[OptionInfo::text(
            "printed: Figure 1 of the Lodha paper to the letter, which lets two in; for the checker only",
        )],
        variants: &[],
        messages: &[
            MessageInfo { kind: "REQUEST", about: "from a site that wants to enter, to all others" },
            MessageInfo { kind: "REPLY", about: "from a site that does not stand in the way, or no longer" },
        ],
        costs: Costs {
            lone_least: Formula::new("2(N−1)", |scale| 2.0 * (scale.sites - 1) as f64),
            lone_most: Formula::new("2(N−1)", |scale| 2.0 * (scale.sites - 1) as f64),
            heavy: Formula::new("2(N−1)", |scale| 2.0 * (scale.sites - 1) as f64),
            always: Some(Span {
                least: Formula::new("2(N−1)", |scale| 2.0 * (scale.sites - 1) as f64),
                most: Formula::new("2(N−1)", |scale| 2.0 * (scale.sites - 1) as f64),
            }),
            sync_delay: "T",
        },
        memory: Memory { fixed: 120, per_site: 8 },
        departures: &[
            "every REQUEST raises the highest clock seen (Lodha Figure 1 raises it only when deferring: unsafe)",
            "a REPLY names the request that it answers, so that duplicates are recognised",
        ],
    };
}

impl Algorithm for RicartAgrawala {
    type Plan = Plan;

    fn info(&self) -> &'static Info {
        &Self::INFO
    }

    fn plan(cluster: Cluster, values: &Values) -> Result<Plan, PlanError> {
        Ok(Plan { cluster, text: values.text() })
    }

    /// A holder is inside on a request older than any that can follow; the others need not know of it, because it
    /// will defer whatever they ask.
    fn start(plan: &Plan, me: SiteId, holders: &Holders) -> Self {
        let request = Timestamp::new(Clock::ZERO, me);
        RicartAgrawala {
            me,
            text: plan.text,
            state: if holders.contains(me) {
                RicartAgrawalaState::Executing { request }
            } else {
                RicartAgrawalaState::Idle
            },
            clock: Clock::ZERO,
            last_request: vec![Clock::ZERO; plan.cluster.sites].into(),
            deferred: SiteSet::new(),
        }
    }

    fn phase(&self) -> Phase {
        match self.state {
            RicartAgrawalaState::Idle => Phase::Idle,
            RicartAgrawalaState::Waiting { .. } => Phase::Waiting,
            RicartAgrawalaState::Executing { .. } => Phase::Executing,
        }
    }

    fn is_quiet(&self) -> bool {
        self.state == RicartAgrawalaState::Idle && self.deferred.is_empty()
    }

    fn timestamp(&self) -> Option<Timestamp> {
        match self.state {
            RicartAgrawalaState::Idle => None,
            RicartAgrawalaState::Waiting { request, .. } | RicartAgrawalaState::Executing { request } => {
                Some(request)
            }
        }
    }

    fn numbers(&mut self, numbers: &mut Numbers<'_>) {
        numbers.clock(&mut self.clock);
        match &mut self.state {
            RicartAgrawalaState::Idle => {}
            RicartAgrawalaState::Waiting { request, .. } | RicartAgrawalaState::Executing { request } => {
                numbers.timestamp(request);
            }
        }
        self.last_request.iter_mut().for_each(|clock| numbers.remembered_clock(clock));
    }

    fn view(&self) -> View {
        let view = View::new()
            .set("deferred", &self.deferred)
            .value("highest ts seen", self.clock.value())
            .table("last ts seen", self.last_request.iter().map(|clock| clock.value()));
        match &self.state {
            RicartAgrawalaState::Waiting { missing, .. } => {
                view.set("missing replies", missing).waiting_for(missing.iter())
            }
            RicartAgrawalaState::Idle | RicartAgrawalaState::Executing { .. } => view,
        }
    }

    fn check_invariants(&self) -> Result<(), &'static str> {
        invariant!(
            self.state != RicartAgrawalaState::Idle || self.deferred.is_empty(),
            "I1: a reply is deferred only while the site waits or executes"
        );
        if let RicartAgrawalaState::Waiting { missing, .. } = &self.state {
            invariant!(
                !missing.is_empty() && !missing.contains(self.me),
                "I2: a waiting site still misses a reply, and never one of its own"
            );
        }
        let own = self.timestamp().map_or(Clock::ZERO, |request| request.clock);
        invariant!(own <= self.clock, "I3: the clock is not behind the site's own request");
        Ok(())
    }

    fn check_together(sites: &[&Self], _: &[InFlight<'_, Message>]) -> Result<(), &'static str> {
        let misses = |a: &Self, b: &Self| matches!(&a.state, RicartAgrawalaState::Waiting { missing, .. } if missing.contains(b.me));
        let waiting = || sites.iter().filter(|site| site.phase() == Phase::Waiting);
        for a in waiting() {
            for b in waiting().filter(|b| b.me > a.me) {
                invariant!(
                    misses(a, b) || misses(b, a),
                    "I4: of two that wait, one still misses the other's reply"
                );
            }
        }
        Ok(())
    }
}

/// In the terms of `crates/proof/src/models/ricart_agrawala.rs`.
impl Modelled for RicartAgrawala {
    fn facts(&self, facts: &mut ModelFacts) {
        let me = &self.me;
        facts.value("zero", &[], &Clock::ZERO);
        facts.value("clock", &[me], &self.clock);
        for (peer, last) in SiteId::all(self.last_request.len()).zip(&self.last_request) {
            facts.value("last", &[me, &peer], last);
        }
        self.deferred.iter().for_each(|peer| facts.holds("deferred", &[me, &peer]));
        facts.holds_if(self.phase() == Phase::Waiting, "waiting", &[me]);
        facts.holds_if(self.phase() == Phase::Executing, "executing", &[me]);
        if let Some(request) = self.timestamp() {
            facts.value("request", &[me], &request.clock);
        }
        if let RicartAgrawalaState::Waiting { missing, .. } = &self.state {
            missing.iter().for_each(|peer| facts.holds("missing", &[me, &peer]));
        }
    }

    fn message_facts(from: SiteId, to: SiteId, message: &Message, facts: &mut ModelFacts) {
        match message {
            Message::Request { clock } => facts.holds("request_sent", &[&from, &to, clock]),
            Message::Reply { to: answered } => facts.holds("reply_sent", &[&from, &to, answered]),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::world::{Violation, World, enter, misbehaved, send};

    fn request(clock: u64) -> Message {
        Message::Request { clock: Clock::at(clock) }
    }

    fn reply(to: u64) -> Message {
        Message::Reply { to: Clock::at(to) }
    }

    /// Reference: chapter 9, Figures 9.7 to 9.10, with the timestamps (2,1) and (1,2) of the text. (The captions of
    /// the figures name the other site.)
    #[test]
    fn the_earlier_of_two_requests_enters_first_and_its_exit_lets_the_other_in() {
        let [s1, s2, s3] = SiteId::first();
        let mut world = World::<RicartAgrawala>::of(3);
        world.site_mut(s1).clock = Clock::at(1);
        // Figure 9.7: both ask.
        assert_eq!(world.request(s1), [send(s2, request(2)), send(s3, request(2))]);
        assert_eq!(world.request(s2), [send(s1, request(1)), send(s3, request(1))]);
        // Figure 9.8: S2 precedes, defers S1, and enters with the replies of S1 and S3.
        assert_eq!(world.deliver(s1, s2), []);
        assert_eq!(world.deliver(s2, s1), [send(s2, reply(1))]);
        assert_eq!(world.deliver(s2, s3), [send(s2, reply(1))]);
        assert_eq!(world.deliver(s1, s3), [send(s1, reply(2))]);
        assert_eq!(world.deliver(s1, s2), []);
        assert_eq!(world.deliver(s3, s2), [enter()]);
        // Figure 9.9: it leaves and sends the deferred reply. Figure 9.10: S1 enters.
        assert_eq!(world.deliver(s3, s1), []);
        assert_eq!(world.release(s2), [send(s1, reply(2))]);
        assert_eq!(world.deliver(s2, s1), [enter()]);
        assert_eq!(world.release(s1), []);
        assert!(world.is_quiet());
    }

    #[test]
    fn a_holder_from_the_start_is_waited_for() {
        let [s1, s2] = SiteId::first();
        let mut world = World::<RicartAgrawala>::held_by(2, &[s2]);
        assert_eq!(world.request(s1), [send(s2, request(1))]);
        assert_eq!(world.deliver(s1, s2), []);
        assert_eq!(world.release(s2), [send(s1, reply(1))]);
        assert_eq!(world.deliver(s2, s1), [enter()]);
    }

    #[test]
    fn what_no_correct_peer_sends_changes_nothing_and_is_reported() {
        let [s1, s2, s3] = SiteId::first();
        let mut world = World::<RicartAgrawala>::of(3);
        let stranger = SiteId::new(9);
        assert_eq!(world.inject(stranger, s1, request(1)), [misbehaved(stranger, NOT_A_PEER)]);
        assert_eq!(world.inject(s1, s1, request(1)), [misbehaved(s1, NOT_A_PEER)]);
        assert_eq!(world.inject(s2, s1, reply(0)), [misbehaved(s2, "a reply that nobody waits for")]);
        let _ = world.request(s2);
        world.settle();
        let before = world.site(s1).clone();
        let stale = "a request that is not newer than its last";
        assert_eq!(world.inject(s2, s1, request(1)), [misbehaved(s2, stale)]);
        assert_eq!(world.inject(s3, s2, reply(1)), [misbehaved(s3, "a reply that nobody waits for")]);
        assert_eq!(*world.site(s1), before);
    }

    /// Reference: Lodha and Kshemkalyani, Figure 1, `RcvReq`: the clock is raised in one of three branches only.
    #[test]
    fn as_printed_by_lodha_two_sites_get_in() {
        let [s1, s2] = SiteId::first();
        let mut world = World::<RicartAgrawala>::with(2, &[("text", "printed")]).tolerant();
        // S2 enters twice; S1 replies without noting the clock, so its own request precedes the one that S2 is
        // inside on.
        let _ = world.request(s2);
        world.settle();
        let _ = world.release(s2);
        let _ = world.request(s2);
        world.settle();
        assert_eq!(world.request(s1), [send(s2, request(1))]);
        assert_eq!(world.deliver(s1, s2), [send(s1, reply(1))]);
        assert_eq!(world.deliver(s2, s1), [enter()]);
        assert_eq!(world.violation(), Some(&Violation::TooManyInside { inside: 2, permits: 1 }));
    }
}
