//! Singhal's dynamic information structure: ask only those who may have entered since you did.
//!
//! Kshemkalyani and Singhal, chapter 9, section 9.5, Algorithm 9.3.
//!
//! A site asks the sites of its *request set* only. Of every two sites at least one has the other in its request set,
//! so one of two requesters always learns of the other. Whoever gives its permission puts the receiver into its own
//! request set, whoever gets a permission takes the giver out: the sites sort themselves into a *staircase*, the last
//! one to enter at its lower end, asking nobody, and each site above asking all those below.
//!
//! ```text
//!  alone:  S2 ──REQUEST(1,S2)──▶ S0, S1            contended: S2 asks (1,S2) from S0, S1; S1 asks (2,S1) from S0
//!          S2 ◀──REPLY────────── S0, S1                       S1 ──REPLY──▶ S2     S2 precedes: S1 replies
//!          S2 enters; it asks nobody,                         S1 ──REQUEST(2,S1)──▶ S2     and asks in turn
//!          S0 and S1 ask it from now on                       S2 enters, leaves
//!                                                             S2 ──REPLY──▶ S1     S1 enters
//! ```
//!
//! | | messages per entry | synchronisation delay | state | words per message |
//! |---|---|---|---|---|
//! | low load | 0 to 2(N−1), N−1 on average | – | N+1 clocks, 2 sets | 4 or 5 |
//! | heavy load | 2(N−1) | T | the same | 4 or 5 |
//!
//! The chapter gives 3(N−1)/2 for heavy load. That rests on an average over priorities which saturation does not give:
//! where every site asks again as it leaves, whoever has just left owed everyone, so it asks everyone. With
//! `meshlock sim singhal-dynamic --load saturated --cs 2`, N = 10, an entry costs 18.00 messages, 2(N−1); with
//! `--delay exponential:1` 17.95.
//!
//! **Assumes** reliable channels. The chapter also assumes FIFO; it is not needed.
//!
//! **Departures**
//! - No **choice** is open while it runs. The staircase at the start is that of the chapter, from the holder on.
//! - A site is not in its own request set, nor in its own inform set. The chapter puts it there and then must wait for
//!   the set to become empty although no site replies to itself.
//! - A REQUEST that is sent after the first ones (because a request that precedes has come) carries the clock of the
//!   site's one request. The chapter prints the clock of the moment, which would give one request two timestamps.
//! - A REPLY names the request that it answers, and a site remembers the last request of each other site, so that a
//!   duplicate of either is recognised. The chapter's channels do not duplicate.
//!
//! Requests are not served in the order of their timestamps: a site that need not ask enters past an earlier request
//! that is still on its way.
//!
//! **Invariants**
//! - I1: no site is in its own request set or inform set.
//! - I2: a site that is inside asks nobody.
//! - I3: a permission is owed only while the site waits or executes.
//! - I4: the clock is not behind the site's own request.
//! - I5: of every two sites one has the other in its request set. (With I2: no two are inside.)
//! - I6: whatever answer a waiting site misses, its request is on its way, or the answer is owed or on its way.
//! - I7: when all is quiet the request sets are a staircase: each is contained in the next larger one, and their sizes
//!   are 0, 1, …, N−1.

mod facts;
#[cfg(test)]
mod tests;

use std::fmt;

use crate::algorithms::request::RequestState;
use crate::mutant::{self, Mutant};
use crate::registry::info::{
    Channels, ClaimedBypass, Costs, Demands, Failures, Formula, Info, Kind, Memory, MessageInfo, Order,
    Permits, Span, Tokens,
};
use crate::registry::values::Values;
use crate::site::InFlight;
use crate::{
    Algorithm, Clock, Cluster, Described, Holders, NOT_A_PEER, Numbers, Outbox, Phase, PlanError, Site,
    SiteId, SiteSet, Timestamp, View, invariant,
};

/// One site of Singhal's dynamic information structure algorithm.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct SinghalDynamic {
    // This site.
    me: SiteId,
    // The local process.
    state: RequestState,
    // What this site knows of the others.
    /// `C_i`: no message that I have seen has a larger clock.
    clock: Clock,
    /// The clock of the last request of each site; zero before its first.
    last_request: Box<[Clock]>,
    /// `R_i`: whom I must ask; while I wait, who has not yet replied.
    request_set: SiteSet,
    /// `I_i`: whom I owe my permission when I leave.
    inform_set: SiteSet,
}

/// What sites say to each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Message {
    /// From a site that wants to enter, to those in its request set, and to whoever comes into it while the site waits.
    Request {
        /// The clock of the request; with the sender it is the timestamp.
        clock: Clock,
    },
    /// From a site that does not stand in the way, or no longer: enter as far as I am concerned. I shall ask you before
    /// I enter again, so you need not ask me.
    Reply {
        /// The clock of the request that is answered.
        to: Clock,
        /// The sender's clock.
        clock: Clock,
    },
}

#[cfg(feature = "serde")]
crate::numbered! { Message {
    0 => Request { clock },
    1 => Reply { to, clock },
} }

impl fmt::Display for Message {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Message::Request { clock } => write!(f, "REQUEST(ts {})", clock.value()),
            Message::Reply { to, clock } => {
                write!(f, "REPLY(to ts {}, clock {})", to.value(), clock.value())
            }
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
            Message::Request { clock } => numbers.clock(clock),
            Message::Reply { to, clock } => {
                numbers.clock(to);
                numbers.clock(clock);
            }
        }
    }

    fn words(&self) -> usize {
        match self {
            Message::Request { .. } => 4,
            Message::Reply { .. } => 5,
        }
    }
}

impl Site for SinghalDynamic {
    type Message = Message;

    /// Algorithm 9.3, step 1: ask the request set, wait until it is empty.
    fn request(&mut self, out: &mut Outbox<Message>) {
        assert!(self.state == RequestState::Idle, "the host requests only while the process is idle");
        let request = Timestamp::new(self.clock.tick(), self.me);
        out.send_all(&self.request_set, &Message::Request { clock: request.clock });
        self.state = RequestState::Waiting(request);
        self.enter_if_all_replied(out);
    }

    fn receive(&mut self, from: SiteId, message: Message, out: &mut Outbox<Message>) {
        if from == self.me || from.index() >= self.last_request.len() {
            return out.misbehaved(from, NOT_A_PEER);
        }
        match message {
            Message::Request { clock } => self.on_request(Timestamp::new(clock, from), out),
            Message::Reply { to, clock } => self.on_reply(from, to, clock, out),
        }
    }

    /// Algorithm 9.3, step 3: the inform set gets its permissions and becomes the request set, which was empty.
    fn release(&mut self, out: &mut Outbox<Message>) {
        assert!(
            matches!(self.state, RequestState::Executing(_)),
            "the host releases only while the process is inside"
        );
        self.state = RequestState::Idle;
        self.request_set = std::mem::take(&mut self.inform_set);
        for site in self.request_set.iter() {
            out.send(site, Message::Reply { to: self.last_request[site.index()], clock: self.clock });
        }
    }
}

impl SinghalDynamic {
    /// Algorithm 9.3, REQUEST message handler.
    fn on_request(&mut self, theirs: Timestamp, out: &mut Outbox<Message>) {
        let from = theirs.site;
        if theirs.clock <= self.last_request[from.index()] {
            return out.misbehaved(from, "a request that is not newer than its last");
        }
        if self.inform_set.contains(from) {
            return out.misbehaved(from, "a second request before the first was answered");
        }
        self.last_request[from.index()] = theirs.clock;
        self.clock.observe(theirs.clock);
        match self.state {
            RequestState::Idle => self.permit(theirs, out),
            RequestState::Waiting(mine) if theirs < mine => {
                let asked_already = self.request_set.contains(from);
                self.permit(theirs, out);
                if !asked_already && !mutant::is_on(Mutant::SinghalDynamicNotAskedBack) {
                    out.send(from, Message::Request { clock: mine.clock });
                }
            }
            RequestState::Waiting(_) | RequestState::Executing(_) => {
                self.inform_set.insert(from);
            }
        }
    }

    /// Gives the permission; from now on its receiver may be inside, so it has to be asked.
    fn permit(&mut self, theirs: Timestamp, out: &mut Outbox<Message>) {
        self.request_set.insert(theirs.site);
        out.send(theirs.site, Message::Reply { to: theirs.clock, clock: self.clock });
    }

    /// Algorithm 9.3, REPLY message handler.
    fn on_reply(&mut self, from: SiteId, to: Clock, clock: Clock, out: &mut Outbox<Message>) {
        match self.state {
            RequestState::Waiting(mine) if mine.clock == to && self.request_set.contains(from) => {
                self.clock.observe(clock);
                self.request_set.remove(from);
                self.enter_if_all_replied(out);
            }
            RequestState::Idle | RequestState::Waiting(_) | RequestState::Executing(_) => {
                out.misbehaved(from, "a reply that nobody waits for");
            }
        }
    }

    fn enter_if_all_replied(&mut self, out: &mut Outbox<Message>) {
        if let RequestState::Waiting(request) = self.state
            && self.request_set.is_empty()
        {
            self.state = RequestState::Executing(request);
            out.enter();
        }
    }
}

impl Described for SinghalDynamic {
    const INFO: Info = Info {
        name: "singhal-dynamic",
        title: "Singhal's dynamic information structure: ask those who may have entered since",
        source: "Kshemkalyani & Singhal ch. 9, section 9.5, Algorithm 9.3",
        kind: Kind::Permission,
        permits: Permits::One,
        demands: Demands::PLAIN,
        tokens: Tokens::None,
        channels: Channels::Unordered,
        assumes: "reliable FIFO channels",
        order: Order::Fair,
        bypass: ClaimedBypass::Nothing(
            "section 9.5 does not say it: a site that need not ask enters again past one that waits",
        ),
        failures: Failures::NONE,
        options: &[],
        variants: &[],
        messages: &[
            MessageInfo {
                kind: "REQUEST",
                about: "from a site that wants to enter, to those in its request set",
            },
            MessageInfo { kind: "REPLY", about: "from a site that does not stand in the way, or no longer" },
        ],
        costs: Costs {
            lone_least: Formula::new("0", |_| 0.0),
            lone_most: Formula::new("2(N−1)", |scale| 2.0 * (scale.sites - 1) as f64),
            heavy: Formula::new("2(N−1), published as 3(N−1)/2", |scale| 2.0 * (scale.sites - 1) as f64),
            always: Some(Span {
                least: Formula::new("0", |_| 0.0),
                most: Formula::new("2(N−1)", |scale| 2.0 * (scale.sites - 1) as f64),
            }),
            sync_delay: "T",
        },
        memory: Memory { fixed: 104, per_site: 9 },
        departures: &[
            "a site is in neither of its own sets",
            "a REQUEST sent late carries the clock of the site's one request, not of the moment",
            "a REPLY names the request that it answers, so that duplicates are recognised",
        ],
    };
}

impl Algorithm for SinghalDynamic {
    type Plan = Cluster;

    fn info(&self) -> &'static Info {
        &Self::INFO
    }

    fn plan(cluster: Cluster, _: &Values) -> Result<Cluster, PlanError> {
        Ok(cluster)
    }

    /// The staircase of section 9.5, "Initialization", with the holder moved to its lower end: it asks nobody, all ask
    /// it, and of the others each asks those with smaller ids.
    fn start(cluster: &Cluster, me: SiteId, holders: &Holders) -> Self {
        let holder = holders.only();
        let inside = holder == Some(me);
        let below = SiteId::all(me.index()).chain(holder).filter(|&site| site != me && !inside);
        SinghalDynamic {
            me,
            state: if inside {
                RequestState::Executing(Timestamp::new(Clock::ZERO, me))
            } else {
                RequestState::Idle
            },
            clock: Clock::ZERO,
            last_request: vec![Clock::ZERO; cluster.sites].into(),
            request_set: below.collect(),
            inform_set: SiteSet::new(),
        }
    }

    fn phase(&self) -> Phase {
        self.state.phase()
    }

    fn is_quiet(&self) -> bool {
        self.state == RequestState::Idle && self.inform_set.is_empty()
    }

    fn timestamp(&self) -> Option<Timestamp> {
        self.state.timestamp()
    }

    fn numbers(&mut self, numbers: &mut Numbers<'_>) {
        numbers.clock(&mut self.clock);
        self.state.numbers(numbers);
        self.last_request.iter_mut().for_each(|clock| numbers.remembered_clock(clock));
    }

    fn view(&self) -> View {
        let view = View::new().set("request set R", &self.request_set).set("inform set I", &self.inform_set);
        match self.state {
            RequestState::Waiting(_) => view.waiting_for(self.request_set.iter()),
            RequestState::Idle | RequestState::Executing(_) => view,
        }
    }

    fn check_invariants(&self) -> Result<(), &'static str> {
        invariant!(
            !self.request_set.contains(self.me) && !self.inform_set.contains(self.me),
            "I1: no site is in its own request set or inform set"
        );
        invariant!(
            !matches!(self.state, RequestState::Executing(_)) || self.request_set.is_empty(),
            "I2: a site that is inside asks nobody"
        );
        invariant!(
            self.state != RequestState::Idle || self.inform_set.is_empty(),
            "I3: a permission is owed only while the site waits or executes"
        );
        let own = self.timestamp().map_or(Clock::ZERO, |request| request.clock);
        invariant!(own <= self.clock, "I4: the clock is not behind the site's own request");
        Ok(())
    }

    fn check_together(sites: &[&Self], in_flight: &[InFlight<'_, Message>]) -> Result<(), &'static str> {
        let asks = |a: &Self, b: &Self| a.request_set.contains(b.me);
        for (at, a) in sites.iter().enumerate() {
            invariant!(
                sites[at + 1..].iter().all(|b| asks(a, b) || asks(b, a)),
                "I5: of every two sites one has the other in its request set"
            );
        }
        for a in sites {
            let RequestState::Waiting(request) = a.state else { continue };
            let answer_is_due = |b: SiteId| {
                sites[b.index()].inform_set.contains(a.me)
                    || in_flight.contains(&(a.me, b, &Message::Request { clock: request.clock }))
                    || in_flight.iter().any(|&(from, to, message)| {
                        (from, to) == (b, a.me)
                            && matches!(message, Message::Reply { to, .. } if *to == request.clock)
                    })
            };
            invariant!(
                a.request_set.iter().all(answer_is_due),
                "I6: an answer that a waiting site misses is asked for, owed or on its way"
            );
        }
        if in_flight.is_empty() && sites.iter().all(|site| site.is_quiet()) {
            invariant!(is_staircase(sites), "I7: when all is quiet the request sets are a staircase");
        }
        Ok(())
    }
}

/// Whether the request sets, sorted by size, are contained in each other and have the sizes 0, 1, …, N−1.
fn is_staircase(sites: &[&SinghalDynamic]) -> bool {
    let mut sets: Vec<&SiteSet> = sites.iter().map(|site| &site.request_set).collect();
    sets.sort_by_key(|set| set.len());
    let sizes = sets.iter().enumerate().all(|(step, set)| set.len() == step);
    sizes && sets.windows(2).all(|pair| pair[0].is_subset(pair[1]))
}
