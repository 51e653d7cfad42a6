//! Lamport's algorithm: everyone keeps the queue of all requests, and its head enters.
//!
//! Kshemkalyani and Singhal, chapter 9, section 9.3, Algorithm 9.1; L. Lamport, "Time, clocks, and the ordering of
//! events in a distributed system", 1978.
//!
//! Every message carries its sender's clock, which moves on with each one. A site that wants to enter sends its
//! timestamp to all others, and everybody puts it into a queue ordered by timestamps. What comes from a site with a
//! larger timestamp proves, because channels keep their order, that nothing smaller will follow. So a site enters when
//! its request heads its own queue and it has such a proof from everyone; a REPLY is sent to give it.
//!
//! ```text
//!  alone:  S0 ──REQUEST 1──▶ S1, S2        contended: S0 asks (1,S0), S1 asks (1,S1), all reply
//!          S0 ◀──REPLY────── S1, S2                   S0 heads both queues: S0 enters, leaves
//!          S0 enters, leaves                          S0 ──RELEASE──▶ S1, S2
//!          S0 ──RELEASE────▶ S1, S2                   S1 heads its queue: S1 enters
//! ```
//!
//! | | messages per entry | synchronisation delay | state | words per message |
//! |---|---|---|---|---|
//! | low load | 3(N−1) | – | 2N clocks, the queue | 4, REPLY 5 |
//! | heavy load | 3(N−1) | T | the same | the same |
//! | `omit-replies` | 2(N−1) to 3(N−1) | T | the same | the same |
//!
//! **Assumes** reliable FIFO channels. Without the order two sites get in with N = 2 (see the tests).
//!
//! **Departures**
//! - The one **choice** that is open, by how much a clock moves on, is a fixed policy of ours: by one.
//! - The clock ticks when something is sent; a receipt only raises it. The chapter leaves it open, Lamport's rule ticks
//!   at a receipt too. Requests and proofs come in the same order, and far fewer states differ only in their clocks.
//! - A REPLY names the request that it answers, so that one which nobody asked for is recognised. (Duplicates need no
//!   number of their own: over FIFO channels each message from a site has a larger clock than the one before.)
//!
//! **Invariants**
//! - I1: the queue is in strict order, and each site is in it at most once.
//! - I2: the site's own request is in its queue exactly while it waits or executes.
//! - I3: an executing site heads its queue.
//! - I4: a waiting site misses a proof or does not head its queue; it never misses its own proof.
//! - I5: the clock is not behind anything that the site has heard or asked.
//! - I6: nobody who waits or executes has an earlier request than a site that executes.

mod facts;

use std::fmt;

use crate::mutant::{self, Mutant};
use crate::registry::info::{
    BypassClaim, Channels, ClaimedBypass, Costs, Demands, Failures, Formula, Info, Kind, Memory, MessageInfo,
    OptionInfo, Order, Permits, Range, Span, Tokens,
};
use crate::registry::values::Values;
use crate::site::InFlight;
use crate::{
    Algorithm, Clock, Cluster, Described, Holders, NOT_A_PEER, Numbers, Outbox, Phase, PlanError, Site,
    SiteId, SiteSet, Timestamp, View, invariant,
};

/// One site of Lamport's algorithm.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Lamport {
    // This site.
    me: SiteId,
    replies: Replies,
    // The local process.
    state: LamportState,
    /// The clock of my last request; zero before the first.
    last_request: Clock,
    // What this site knows of the others.
    clock: Clock,
    peers: Box<[PeerClocks]>,
    /// `request_queue`: the requests that are not released yet, smallest first.
    queue: Vec<Timestamp>,
}

/// What a site knows of another one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct PeerClocks {
    /// The clock of its last message.
    last_message: Clock,
    /// The clock of the last request of mine that it answered.
    answered: Clock,
}

/// Which requests are answered: the option `omit-replies`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Replies {
    /// All of them.
    Always,
    /// Those to which my own request is not an answer.
    IfNeeded,
}

/// State of the local process.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum LamportState {
    Idle,
    /// Waits to enter: nothing with a larger timestamp has come from these sites yet (condition L1).
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
    /// From a site that wants to enter, to all others: put me into your queue.
    Request {
        /// The sender's clock; with the sender it is the timestamp of the request.
        clock: Clock,
    },
    /// From a site that has queued a request, to the requester: nothing of mine that is earlier than `clock` will
    /// follow.
    Reply {
        /// The sender's clock.
        clock: Clock,
        /// The clock of the request that is answered.
        to: Clock,
    },
    /// From a site that has left, to all others: take me out of your queue.
    Release {
        /// The sender's clock.
        clock: Clock,
    },
}

#[cfg(feature = "serde")]
crate::numbered! { Message {
    0 => Request { clock },
    1 => Reply { clock, to },
    2 => Release { clock },
} }

impl Message {
    fn clock(self) -> Clock {
        match self {
            Message::Request { clock } | Message::Reply { clock, .. } | Message::Release { clock } => clock,
        }
    }
}

impl fmt::Display for Message {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Message::Request { clock } => write!(f, "REQUEST(ts {})", clock.value()),
            Message::Reply { clock, to } => write!(f, "REPLY(ts {}, to ts {})", clock.value(), to.value()),
            Message::Release { clock } => write!(f, "RELEASE(ts {})", clock.value()),
        }
    }
}

impl crate::Message for Message {
    fn kind(&self) -> &'static str {
        match self {
            Message::Request { .. } => "REQUEST",
            Message::Reply { .. } => "REPLY",
            Message::Release { .. } => "RELEASE",
        }
    }

    fn numbers(&mut self, _: SiteId, _: SiteId, numbers: &mut Numbers<'_>) {
        match self {
            Message::Request { clock } | Message::Release { clock } => numbers.clock(clock),
            Message::Reply { clock, to } => {
                numbers.clock(clock);
                numbers.clock(to);
            }
        }
    }

    fn words(&self) -> usize {
        match self {
            Message::Request { .. } | Message::Release { .. } => 4,
            Message::Reply { .. } => 5,
        }
    }
}

impl Site for Lamport {
    type Message = Message;

    /// Algorithm 9.1, requesting, first rule: broadcast the timestamp and queue it.
    fn request(&mut self, out: &mut Outbox<Message>) {
        assert!(self.state == LamportState::Idle, "the host requests only while the process is idle");
        let request = Timestamp::new(self.clock.tick(), self.me);
        self.last_request = request.clock;
        out.broadcast(self.me, self.peers.len(), &Message::Request { clock: request.clock });
        self.enqueue(request);
        self.state = LamportState::Waiting { request, missing: SiteSet::all_but(self.me, self.peers.len()) };
        self.enter_if_first(out);
    }

    fn receive(&mut self, from: SiteId, message: Message, out: &mut Outbox<Message>) {
        if from == self.me || from.index() >= self.peers.len() {
            return out.misbehaved(from, NOT_A_PEER);
        }
        if message.clock() <= self.peers[from.index()].last_message {
            return out.misbehaved(from, "a message that is not newer than its last");
        }
        match message {
            Message::Request { clock } => self.on_request(Timestamp::new(clock, from), out),
            Message::Reply { clock, to } => self.on_reply(Timestamp::new(clock, from), to, out),
            Message::Release { clock } => self.on_release(Timestamp::new(clock, from), out),
        }
    }

    /// Algorithm 9.1, releasing, first rule: leave the queue and tell everybody.
    fn release(&mut self, out: &mut Outbox<Message>) {
        assert!(
            matches!(self.state, LamportState::Executing { .. }),
            "the host releases only while the process is inside"
        );
        self.state = LamportState::Idle;
        self.dequeue(self.me);
        let clock = self.clock.tick();
        let told = self.peers.len() - usize::from(mutant::is_on(Mutant::LamportReleaseNotToAll));
        out.broadcast(self.me, told, &Message::Release { clock });
    }
}

impl Lamport {
    /// Algorithm 9.1, requesting, second rule: queue the request and reply. With `omit-replies` (section 9.3, "An
    /// optimization") not if my own request has been sent and has the larger timestamp: it is the proof.
    fn on_request(&mut self, theirs: Timestamp, out: &mut Outbox<Message>) {
        let from = theirs.site;
        if self.queue.iter().any(|request| request.site == from) {
            return out.misbehaved(from, "a second request before the first was released");
        }
        self.on_timestamp(theirs);
        self.enqueue(theirs);
        let own_is_later = matches!(&self.state, LamportState::Waiting { request, .. } if theirs < *request);
        let may_omit = self.replies == Replies::IfNeeded || mutant::is_on(Mutant::LamportOmitsUnasked);
        if !(may_omit && own_is_later) {
            out.send(from, Message::Reply { clock: self.clock.tick(), to: theirs.clock });
        }
        self.enter_if_first(out);
    }

    /// Algorithm 9.1, executing, condition L1. It may come after the entry: something else was the proof already.
    fn on_reply(&mut self, sent: Timestamp, to: Clock, out: &mut Outbox<Message>) {
        let peer = &mut self.peers[sent.site.index()];
        if to <= peer.answered || to > self.last_request {
            return out.misbehaved(sent.site, "a reply to no request of mine");
        }
        peer.answered = to;
        self.on_timestamp(sent);
        self.enter_if_first(out);
    }

    /// Algorithm 9.1, releasing, second rule: the sender leaves the queue.
    fn on_release(&mut self, sent: Timestamp, out: &mut Outbox<Message>) {
        let from = sent.site;
        let Some(theirs) = self.queue.iter().copied().find(|request| request.site == from) else {
            return out.misbehaved(from, "a release without a request");
        };
        if self.timestamp().is_some_and(|own| own < theirs) {
            return out.misbehaved(from, "a release before its turn");
        }
        self.on_timestamp(sent);
        self.dequeue(from);
        self.enter_if_first(out);
    }

    /// Notes that something with this timestamp has come: the clock is raised, and it may be the proof that a waiting
    /// site misses.
    fn on_timestamp(&mut self, sent: Timestamp) {
        if mutant::is_on(Mutant::LamportLostMax) {
            self.clock = sent.clock;
        }
        if !mutant::is_on(Mutant::LamportDeafClock) {
            self.clock.observe(sent.clock);
        }
        self.peers[sent.site.index()].last_message = sent.clock;
        if let LamportState::Waiting { request, missing } = &mut self.state
            && sent > *request
        {
            missing.remove(sent.site);
        }
    }

    fn enqueue(&mut self, request: Timestamp) {
        let at = self.queue.partition_point(|earlier| *earlier < request);
        self.queue.insert(at, request);
    }

    fn dequeue(&mut self, site: SiteId) {
        self.queue.retain(|request| request.site != site);
    }

    /// Algorithm 9.1, executing: conditions L1 and L2.
    fn enter_if_first(&mut self, out: &mut Outbox<Message>) {
        if let LamportState::Waiting { request, missing } = &self.state
            && missing.is_empty()
            && self.queue.first() == Some(request)
        {
            self.state = LamportState::Executing { request: *request };
            out.enter();
        }
    }
}

/// What all sites share: fixed before the first one starts.
#[derive(Clone, Debug)]
pub struct Plan {
    cluster: Cluster,
    replies: Replies,
}

impl Described for Lamport {
    const INFO: Info = Info {
        name: "lamport",
        title: "Lamport: everyone keeps the queue of all requests, and its head enters",
        source: "Kshemkalyani & Singhal ch. 9, section 9.3; Lamport 1978",
        kind: Kind::Permission,
        permits: Permits::One,
        demands: Demands::PLAIN,
        tokens: Tokens::None,
        channels: Channels::Fifo,
        assumes: "reliable FIFO channels",
        order: Order::Timestamp,
        bypass: ClaimedBypass::AtMost(BypassClaim::each_other_once(
            "ch. 9, section 9.3: \"The algorithm executes CS requests in the increasing order of timestamps\"",
        )),
        failures: Failures::NONE,
        options: &[OptionInfo {
            name: "omit-replies",
            about: "send no REPLY to a request that precedes my own, which is an answer by itself",
            range: Range::Flag,
            default: "no",
        }],
        variants: &["lamport:omit-replies"],
        messages: &[
            MessageInfo { kind: "REQUEST", about: "from a site that wants to enter, to all others" },
            MessageInfo {
                kind: "REPLY",
                about: "from a site that has queued a request: nothing earlier follows",
            },
            MessageInfo { kind: "RELEASE", about: "from a site that has left, to all others" },
        ],
        costs: Costs {
            lone_least: Formula::new("3(N−1)", |scale| 3.0 * (scale.sites - 1) as f64),
            lone_most: Formula::new("3(N−1)", |scale| 3.0 * (scale.sites - 1) as f64),
            heavy: Formula::new("3(N−1)", |scale| 3.0 * (scale.sites - 1) as f64),
            always: Some(Span {
                least: Formula::new("2(N−1)", |scale| 2.0 * (scale.sites - 1) as f64),
                most: Formula::new("3(N−1)", |scale| 3.0 * (scale.sites - 1) as f64),
            }),
            sync_delay: "T",
        },
        memory: Memory { fixed: 128, per_site: 32 },
        departures: &[
            "the clock ticks when something is sent; a receipt only raises it (fewer states, the same order)",
            "a REPLY names the request that it answers, so that one nobody asked for is recognised",
        ],
    };
}

impl Algorithm for Lamport {
    type Plan = Plan;

    fn info(&self) -> &'static Info {
        &Self::INFO
    }

    fn plan(cluster: Cluster, values: &Values) -> Result<Plan, PlanError> {
        let replies = if values.flag("omit-replies") { Replies::IfNeeded } else { Replies::Always };
        Ok(Plan { cluster, replies })
    }

    /// A holder is inside on a request older than any that can follow, and that is in every queue.
    fn start(plan: &Plan, me: SiteId, holders: &Holders) -> Self {
        let mut queue = Vec::with_capacity(plan.cluster.sites);
        queue.extend(holders.iter().map(|holder| Timestamp::new(Clock::ZERO, holder)));
        let request = Timestamp::new(Clock::ZERO, me);
        Lamport {
            me,
            replies: plan.replies,
            state: if holders.contains(me) {
                LamportState::Executing { request }
            } else {
                LamportState::Idle
            },
            last_request: Clock::ZERO,
            clock: Clock::ZERO,
            peers: vec![PeerClocks { last_message: Clock::ZERO, answered: Clock::ZERO }; plan.cluster.sites]
                .into(),
            queue,
        }
    }

    fn phase(&self) -> Phase {
        match self.state {
            LamportState::Idle => Phase::Idle,
            LamportState::Waiting { .. } => Phase::Waiting,
            LamportState::Executing { .. } => Phase::Executing,
        }
    }

    fn is_quiet(&self) -> bool {
        self.state == LamportState::Idle && self.queue.is_empty()
    }

    /// Without `omit-replies` no message is ever saved.
    fn cost_span(&self) -> Option<Span> {
        let always = Self::INFO.costs.always;
        match self.replies {
            Replies::Always => always.map(|span| Span { least: span.most, ..span }),
            Replies::IfNeeded => always,
        }
    }

    fn timestamp(&self) -> Option<Timestamp> {
        match self.state {
            LamportState::Idle => None,
            LamportState::Waiting { request, .. } | LamportState::Executing { request } => Some(request),
        }
    }

    /// While the process is idle, its last request only bounds what may still be answered, as the clock does.
    fn numbers(&mut self, numbers: &mut Numbers<'_>) {
        match &mut self.state {
            LamportState::Idle => self.last_request = self.clock,
            LamportState::Waiting { request, .. } | LamportState::Executing { request } => {
                numbers.timestamp(request);
            }
        }
        numbers.clock(&mut self.clock);
        numbers.clock(&mut self.last_request);
        self.queue.iter_mut().for_each(|request| numbers.timestamp(request));
        for peer in &mut self.peers {
            numbers.remembered_clock(&mut peer.last_message);
            numbers.remembered_clock(&mut peer.answered);
        }
    }

    fn view(&self) -> View {
        let view = View::new().queue("request queue", &self.queue);
        match &self.state {
            LamportState::Waiting { missing, .. } if !missing.is_empty() => view.waiting_for(missing.iter()),
            LamportState::Waiting { .. } => view.waiting_for(self.queue.first().map(|first| first.site)),
            LamportState::Idle | LamportState::Executing { .. } => view,
        }
    }

    fn check_invariants(&self) -> Result<(), &'static str> {
        let sites: SiteSet = self.queue.iter().map(|request| request.site).collect();
        invariant!(
            self.queue.is_sorted() && sites.len() == self.queue.len(),
            "I1: the queue is in strict order, and each site is in it at most once"
        );
        let own = self.queue.iter().copied().find(|request| request.site == self.me);
        invariant!(
            own == self.timestamp(),
            "I2: the site's own request is in its queue exactly while it waits or executes"
        );
        let heads = own.is_some() && self.queue.first() == own.as_ref();
        match &self.state {
            LamportState::Idle => {}
            LamportState::Executing { .. } => invariant!(heads, "I3: an executing site heads its queue"),
            LamportState::Waiting { missing, .. } => invariant!(
                !missing.contains(self.me) && (!missing.is_empty() || !heads),
                "I4: a waiting site misses a proof or does not head its queue; it never misses its own proof"
            ),
        }
        invariant!(
            self.last_request <= self.clock && self.peers.iter().all(|peer| peer.last_message <= self.clock),
            "I5: the clock is not behind anything that the site has heard or asked"
        );
        Ok(())
    }

    fn check_together(sites: &[&Self], _: &[InFlight<'_, Message>]) -> Result<(), &'static str> {
        let requests = || sites.iter().filter_map(|site| site.timestamp());
        for inside in sites.iter().filter(|site| site.phase() == Phase::Executing) {
            let own = inside.timestamp();
            invariant!(
                requests().all(|request| Some(request) >= own),
                "I6: nobody who waits or executes has an earlier request than a site that executes"
            );
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
