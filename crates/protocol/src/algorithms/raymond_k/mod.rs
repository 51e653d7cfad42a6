//! Raymond's algorithm for K permits: ask everyone, and enter when all but K−1 have replied.
//!
//! K. Raymond, "A distributed algorithm for multiple entries to a critical section", Information Processing Letters 30
//! (1989), pages 189–193; compared in Bulgannawar and Vaidya's report, section 5.
//!
//! A site that wants to enter sends its timestamp to all others. A site that is asked replies at once, unless it is
//! inside or wants to enter itself with the smaller timestamp: then it replies when it leaves. At most K−1 others can
//! be inside, so N−K replies are enough: those that are missing then can only come from sites that are inside or
//! precede. They still come, perhaps after the next request has been made, and must not be taken for answers to that.
//!
//! ```text
//!  alone, K=2: S0 ──REQUEST(1,S0)──▶ S1, S2      contended, K=2: S1 is inside; S0 and S2 ask
//!              S0 ◀──REPLY────────── S1                      S2 ──REPLY──▶ S0     S0 enters with one of two
//!              S0 enters                                     S2 waits for the first of S0 and S1 to leave
//!              S0 ◀──REPLY────────── S2   too late to matter  S1 ──REPLY──▶ S0, S2   S1 leaves: S2 enters
//! ```
//!
//! | | messages per entry | synchronisation delay | state | words per message |
//! |---|---|---|---|---|
//! | low load | 2(N−1) | – | N clocks, 2 sets | 4 |
//! | heavy load | 2N−K−1 to 2(N−1) | T | the same | 4 |
//!
//! **Assumes** reliable channels; FIFO is not needed.
//!
//! **Departures**
//! - No **choice** is open: the N−K replies that are waited for are those that come first, whichever they are.
//! - A REPLY names the newest request that it answers, instead of counting the deferred requests that it answers. Both
//!   tell a late reply to an old request from one to the new request, in one word; the name also tells a duplicate. So
//!   a requester keeps the set of sites whose reply it misses, not a number for each, and an old request that a newer
//!   one has overtaken needs no answer at all.
//! - With K ≥ N nobody needs to ask, and nobody does.
//!
//! **Invariants**
//! - I1: a reply is deferred only while the site waits or executes.
//! - I2: a waiting site misses K replies or more, one that has asked and executes fewer, and never one of its own.
//! - I3: the clock is not behind the site's own request.
//! - I4: of two sites that have asked and wait or execute, the one with the larger timestamp misses the reply of the
//!   other. (Hence of K+1 inside the last would miss K replies: I2 forbids it.)

mod facts;
#[cfg(test)]
mod tests;

use std::fmt;

use crate::mutant::{self, Mutant};
use crate::registry::info::{
    BypassClaim, Channels, ClaimedBypass, Costs, Demands, Failures, Formula, Info, Kind, Memory, MessageInfo,
    Order, Permits, Scale, Span, Tokens,
};
use crate::registry::values::Values;
use crate::site::InFlight;
use crate::{
    Algorithm, Clock, Cluster, Described, Holders, NOT_A_PEER, Numbers, Outbox, Phase, PlanError, Site,
    SiteId, SiteSet, Timestamp, View, invariant,
};

/// One site of Raymond's algorithm for K permits.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct RaymondK {
    // This site.
    me: SiteId,
    permits: usize,
    // The local process.
    state: RaymondKState,
    /// The clock of my last request; zero before the first.
    request: Clock,
    /// Who has not replied to my last request. Outlives the critical section: the last replies come late.
    missing: SiteSet,
    // What this site knows of the others.
    /// No request that I have seen has a larger clock.
    clock: Clock,
    /// The clock of the newest request of each site; zero before its first.
    last_request: Box<[Clock]>,
    /// Whom I owe a reply.
    deferred: SiteSet,
}

/// State of the local process.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum RaymondKState {
    Idle,
    /// Waits to enter.
    Waiting,
    /// Is in the critical section.
    Executing,
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
        /// The clock of the newest request that is answered; those before it are answered too.
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
            Message::Request { clock } | Message::Reply { to: clock } => numbers.clock(clock),
        }
    }

    fn words(&self) -> usize {
        4
    }
}

impl Site for RaymondK {
    type Message = Message;

    /// Asks all others; with a permit for everyone, nobody.
    fn request(&mut self, out: &mut Outbox<Message>) {
        assert!(self.state == RaymondKState::Idle, "the host requests only while the process is idle");
        self.state = RaymondKState::Waiting;
        let sites = self.last_request.len();
        if self.permits < sites {
            self.request = self.clock.tick();
            self.missing = SiteSet::all_but(self.me, sites);
            out.send_all(&self.missing, &Message::Request { clock: self.request });
        }
        self.enter_if_enough_replied(out);
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

    /// All deferred replies are sent, one to a site, however often it has asked.
    fn release(&mut self, out: &mut Outbox<Message>) {
        assert!(self.state == RaymondKState::Executing, "the host releases only while the process is inside");
        self.state = RaymondKState::Idle;
        for site in self.deferred.iter() {
            out.send(site, Message::Reply { to: self.last_request[site.index()] });
        }
        self.deferred.clear();
    }
}

impl RaymondK {
    /// Reply, or defer if this site is inside or precedes. A site that has asked before without an answer is deferred
    /// already: what it is owed is a reply to its newest request.
    fn on_request(&mut self, theirs: Timestamp, out: &mut Outbox<Message>) {
        let last = &mut self.last_request[theirs.site.index()];
        if theirs.clock == *last {
            return out.misbehaved(theirs.site, "a request that has come before");
        }
        if theirs.clock < *last {
            return; // A newer one has overtaken it; its sender waits for the answer to that one.
        }
        *last = theirs.clock;
        self.clock.observe(theirs.clock);
        let deferring = match self.state {
            RaymondKState::Idle => false,
            RaymondKState::Waiting => Timestamp::new(self.request, self.me) < theirs,
            RaymondKState::Executing => true,
        };
        if deferring {
            self.deferred.insert(theirs.site);
        } else {
            out.send(theirs.site, Message::Reply { to: theirs.clock });
        }
    }

    /// Enter once N−K have replied to this very request.
    fn on_reply(&mut self, from: SiteId, to: Clock, out: &mut Outbox<Message>) {
        if to < self.request && !mutant::is_on(Mutant::RaymondKOldReply) {
            return; // It answers an earlier request, which did without it.
        }
        if to > self.request || !self.missing.remove(from) {
            return out.misbehaved(from, "a reply that nobody waits for");
        }
        self.enter_if_enough_replied(out);
    }

    fn enter_if_enough_replied(&mut self, out: &mut Outbox<Message>) {
        let permits = self.permits + usize::from(mutant::is_on(Mutant::RaymondKOffByOne));
        if self.state == RaymondKState::Waiting && self.missing.len() < permits {
            self.state = RaymondKState::Executing;
            out.enter();
        }
    }
}

fn all_ask_all(scale: Scale) -> f64 {
    if scale.permits < scale.sites { 2.0 * (scale.sites - 1) as f64 } else { 0.0 }
}

impl Described for RaymondK {
    const INFO: Info = Info {
        name: "raymond-k",
        title: "Raymond, K permits: ask everyone, enter when all but K−1 have replied",
        source: "Raymond, Information Processing Letters 30 (1989), 189–193; Bulgannawar & Vaidya 1994, section 5",
        kind: Kind::Permission,
        permits: Permits::Many,
        demands: Demands::PLAIN,
        tokens: Tokens::None,
        channels: Channels::Unordered,
        assumes: "reliable channels",
        order: Order::Fair,
        bypass: ClaimedBypass::AtMost(BypassClaim::each_other_once(
            "with one permit it is Ricart and Agrawala's algorithm; of more permits nothing is claimed, because who needs no \
             reply of the waiting site enters again and again",
        )),
        failures: Failures::NONE,
        options: &[],
        variants: &[],
        messages: &[
            MessageInfo { kind: "REQUEST", about: "from a site that wants to enter, to all others" },
            MessageInfo { kind: "REPLY", about: "from a site that does not stand in the way, or no longer" },
        ],
        costs: Costs {
            lone_least: Formula::new("2(N−1)", all_ask_all),
            lone_most: Formula::new("2(N−1)", all_ask_all),
            heavy: Formula::new("2N−K−1 to 2(N−1)", all_ask_all),
            always: Some(Span {
                least: Formula::new("2N−K−1, 0 if K ≥ N", |scale| {
                    let enough_for_all = scale.permits >= scale.sites;
                    if enough_for_all { 0.0 } else { (2 * scale.sites - scale.permits - 1) as f64 }
                }),
                most: Formula::new("2(N−1)", |scale| 2.0 * (scale.sites - 1) as f64),
            }),
            sync_delay: "T",
        },
        memory: Memory { fixed: 112, per_site: 8 },
        departures: &[
            "a REPLY names the newest request that it answers instead of counting the deferred ones: as long, and it tells duplicates too",
            "with K ≥ N nobody asks",
        ],
    };
}

impl Algorithm for RaymondK {
    type Plan = Cluster;

    fn info(&self) -> &'static Info {
        &Self::INFO
    }

    fn plan(cluster: Cluster, _: &Values) -> Result<Cluster, PlanError> {
        Ok(cluster)
    }

    /// A holder is inside as if all had replied; the others need not know of it, because it will defer whatever they
    /// ask.
    fn start(cluster: &Cluster, me: SiteId, holders: &Holders) -> Self {
        RaymondK {
            me,
            permits: cluster.permits,
            state: if holders.contains(me) { RaymondKState::Executing } else { RaymondKState::Idle },
            request: Clock::ZERO,
            missing: SiteSet::new(),
            clock: Clock::ZERO,
            last_request: vec![Clock::ZERO; cluster.sites].into(),
            deferred: SiteSet::new(),
        }
    }

    fn phase(&self) -> Phase {
        match self.state {
            RaymondKState::Idle => Phase::Idle,
            RaymondKState::Waiting => Phase::Waiting,
            RaymondKState::Executing => Phase::Executing,
        }
    }

    fn is_quiet(&self) -> bool {
        self.state == RaymondKState::Idle && self.deferred.is_empty()
    }

    /// With one permit only.
    fn bypass_claim(&self) -> Option<BypassClaim> {
        Self::INFO.bypass.claim().filter(|_| self.permits == 1)
    }

    fn timestamp(&self) -> Option<Timestamp> {
        (self.state != RaymondKState::Idle).then_some(Timestamp::new(self.request, self.me))
    }

    /// Once all have replied and the process has left, every reply that still comes is an old one.
    fn numbers(&mut self, numbers: &mut Numbers<'_>) {
        if self.state == RaymondKState::Idle && self.missing.is_empty() {
            self.request = self.clock;
        }
        numbers.clock(&mut self.clock);
        numbers.clock(&mut self.request);
        self.last_request.iter_mut().for_each(|clock| numbers.remembered_clock(clock));
    }

    fn view(&self) -> View {
        let view = View::new()
            .set("deferred", &self.deferred)
            .set("missing replies", &self.missing)
            .value("may be missing to enter", self.permits - 1)
            .value("highest ts seen", self.clock.value())
            .table("last ts seen", self.last_request.iter().map(|clock| clock.value()));
        if self.phase() == Phase::Waiting { view.waiting_for(self.missing.iter()) } else { view }
    }

    fn check_invariants(&self) -> Result<(), &'static str> {
        invariant!(
            self.state != RaymondKState::Idle || self.deferred.is_empty(),
            "I1: a reply is deferred only while the site waits or executes"
        );
        let enough = self.missing.len() < self.permits;
        invariant!(
            (self.state == RaymondKState::Idle || enough == (self.state == RaymondKState::Executing))
                && !self.missing.contains(self.me),
            "I2: a waiting site misses K replies or more, an executing one fewer, and never its own"
        );
        invariant!(self.request <= self.clock, "I3: the clock is not behind the site's own request");
        Ok(())
    }

    fn check_together(sites: &[&Self], _: &[InFlight<'_, Message>]) -> Result<(), &'static str> {
        let asked = |site: &&&Self| site.state != RaymondKState::Idle && site.request > Clock::ZERO;
        for later in sites.iter().filter(asked) {
            let precedes = |site: &&&Self| site.timestamp() < later.timestamp();
            for earlier in sites.iter().filter(asked).filter(precedes) {
                invariant!(
                    later.missing.contains(earlier.me),
                    "I4: of two that wait or execute the later misses the reply of the earlier"
                );
            }
        }
        Ok(())
    }
}
