//! A coordinator: one site keeps the queue, everyone asks it.
//!
//! Kshemkalyani and Singhal, chapter 9, exercise 9.6 ("the centralized mutual exclusion algorithm"); Sanders 1987,
//! Figure 1a.
//!
//! A site that wants to enter asks the coordinator, enters on its grant, and tells it when it leaves. The coordinator
//! grants one request at a time, in the order in which they reach it. Its own process needs no message. It is the
//! yardstick: nothing that asks more than one site sends fewer messages, and every entry depends on one site.
//!
//! ```text
//!  alone:  S1 ──REQUEST──▶ S0       contended: S1 and S2 ask S0, S1 first
//!          S1 ◀──GRANT──── S0                  S0 ──GRANT────▶ S1      enters, leaves
//!          S1 enters, leaves                   S0 ◀──RELEASE── S1
//!          S1 ──RELEASE──▶ S0                  S0 ──GRANT────▶ S2
//! ```
//!
//! | | messages per entry | synchronisation delay | state | words per message |
//! |---|---|---|---|---|
//! | low load | 3; 0 for the coordinator | – | O(1); the coordinator N numbers and the queue | 4 |
//! | heavy load | 3(N−1)/N | 2T; T to or from the coordinator | the same | 4 |
//!
//! **Assumes** reliable channels and a coordinator that does not fail; order is not needed.
//!
//! **Departures**
//! - Whom the coordinator grants next is a **choice** that the exercise leaves open. It is a fixed policy of ours: who asked first.
//!   Another could starve a site.
//! - Each site numbers its requests, and GRANT and RELEASE name the one they belong to, so that duplicates are
//!   recognised, and a request that overtakes the release before it is only early.
//!
//! **Invariants**
//! - I1: nobody is queued while nobody has the grant.
//! - I2: no site is queued twice, and the coordinator is queued exactly while its process waits.
//! - I3: a site is inside only if the coordinator has granted it and waits for its release.

use std::collections::VecDeque;
use std::fmt;

use crate::mutant::{self, Mutant};
use crate::registry::info::{
    BypassClaim, Channels, ClaimedBypass, Costs, Demands, Failures, Formula, Info, Kind, Memory, MessageInfo,
    OptionInfo, Order, Permits, Range, Span, Tokens,
};
use crate::registry::values::Values;
use crate::site::InFlight;
use crate::{
    Algorithm, Cluster, Count, Described, Family, Holders, ModelFacts, Modelled, NOT_A_PEER, Numbers, Outbox,
    Phase, PlanError, Site, SiteId, SiteSet, View, invariant,
};

/// One site of the centralized algorithm.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Central {
    // This site.
    me: SiteId,
    cluster: Cluster,
    coordinator: SiteId,
    /// The state of the coordinator; `None` at every other site.
    state: Option<Box<CoordinatorState>>,
    // The local process.
    phase: Phase,
    requests: Count,
}

/// What only the coordinator keeps.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct CoordinatorState {
    /// The grant that has not been released yet.
    granted: Option<Grant>,
    /// The sites that wait, in the order of arrival.
    queue: VecDeque<SiteId>,
    /// By site: the number of its last request.
    asked: Box<[Count]>,
}

/// One request that has been granted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Grant {
    to: SiteId,
    number: Count,
}

/// What sites say to the coordinator, and it to them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Message {
    /// From a site that wants to enter, to the coordinator.
    Request {
        /// Which of the sender's requests it is, counted from 1.
        number: Count,
    },
    /// From the coordinator, to the site whose turn it is: enter.
    Grant {
        /// Which of the receiver's requests is granted.
        number: Count,
    },
    /// From a site that has left, to the coordinator: let the next one in.
    Release {
        /// The request it was inside on.
        number: Count,
    },
}

#[cfg(feature = "serde")]
crate::numbered! { Message {
    0 => Request { number },
    1 => Grant { number },
    2 => Release { number },
} }

impl fmt::Display for Message {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Message::Request { number } => write!(f, "REQUEST({})", number.value()),
            Message::Grant { number } => write!(f, "GRANT({})", number.value()),
            Message::Release { number } => write!(f, "RELEASE({})", number.value()),
        }
    }
}

impl crate::Message for Message {
    fn kind(&self) -> &'static str {
        match self {
            Message::Request { .. } => "REQUEST",
            Message::Grant { .. } => "GRANT",
            Message::Release { .. } => "RELEASE",
        }
    }

    /// A site's requests are counted at that site and at the coordinator.
    fn numbers(&mut self, from: SiteId, to: SiteId, numbers: &mut Numbers<'_>) {
        match self {
            Message::Request { number } | Message::Release { number } => {
                numbers.count(Family::Site(from), number);
            }
            Message::Grant { number } => numbers.count(Family::Site(to), number),
        }
    }

    fn words(&self) -> usize {
        4
    }
}

impl Site for Central {
    type Message = Message;

    /// Exercise 9.6: "a site sends the request to the site that contains the resource".
    fn request(&mut self, out: &mut Outbox<Message>) {
        assert!(self.phase == Phase::Idle, "the host requests only while the process is idle");
        self.phase = Phase::Waiting;
        if let Some(state) = &mut self.state {
            state.queue.push_back(self.me);
            self.grant_next(out);
        } else {
            self.requests = self.requests.next();
            out.send(self.coordinator, Message::Request { number: self.requests });
        }
    }

    fn receive(&mut self, from: SiteId, message: Message, out: &mut Outbox<Message>) {
        if !self.cluster.is_peer(self.me, from) {
            return out.misbehaved(from, NOT_A_PEER);
        }
        match message {
            Message::Request { number } => self.on_request(from, number, out),
            Message::Grant { number } => self.on_grant(from, number, out),
            Message::Release { number } => self.on_release(from, number, out),
        }
    }

    fn release(&mut self, out: &mut Outbox<Message>) {
        assert!(self.phase == Phase::Executing, "the host releases only while the process is inside");
        self.phase = Phase::Idle;
        if let Some(state) = &mut self.state {
            state.granted = None;
            self.grant_next(out);
        } else {
            out.send(self.coordinator, Message::Release { number: self.requests });
        }
    }
}

impl Central {
    /// The coordinator queues whoever asks.
    fn on_request(&mut self, from: SiteId, number: Count, out: &mut Outbox<Message>) {
        let Some(state) = &mut self.state else {
            return out.misbehaved(from, "a request to a site that is not the coordinator");
        };
        if number != state.asked[from.index()].next() {
            return out.misbehaved(from, "a request that is not its next");
        }
        if state.queue.contains(&from) {
            return out.misbehaved(from, "a second request before the first was granted");
        }
        state.asked[from.index()] = number;
        state.queue.push_back(from);
        self.grant_next(out);
    }

    /// Whoever is granted enters.
    fn on_grant(&mut self, from: SiteId, number: Count, out: &mut Outbox<Message>) {
        if from != self.coordinator || self.phase != Phase::Waiting || number != self.requests {
            return out.misbehaved(from, "a grant that nobody waits for");
        }
        self.phase = Phase::Executing;
        out.enter();
    }

    /// The coordinator lets the next one in.
    fn on_release(&mut self, from: SiteId, number: Count, out: &mut Outbox<Message>) {
        match &mut self.state {
            Some(state) if state.granted == Some(Grant { to: from, number }) => state.granted = None,
            Some(_) | None => return out.misbehaved(from, "a release of what it was not granted"),
        }
        self.grant_next(out);
    }

    /// Lets the first of the queue in, if nobody is.
    fn grant_next(&mut self, out: &mut Outbox<Message>) {
        let Some(state) = &mut self.state else { return };
        if state.granted.is_some() {
            return;
        }
        if mutant::is_on(Mutant::CentralSmallestFirst) {
            state.queue.make_contiguous().sort_unstable();
        }
        let Some(to) = state.queue.pop_front() else { return };
        let number = state.asked[to.index()];
        state.granted = Some(Grant { to, number });
        if to == self.me {
            self.phase = Phase::Executing;
            out.enter();
        } else {
            out.send(to, Message::Grant { number });
        }
    }
}

/// What all sites share: fixed before the first one starts.
#[derive(Clone, Debug)]
pub struct Plan {
    cluster: Cluster,
    coordinator: SiteId,
}

impl Described for Central {
    const INFO: Info = Info {
        name: "central",
        title: "A coordinator: one site keeps the queue, everyone asks it",
        source: "Kshemkalyani & Singhal ch. 9, exercise 9.6; Sanders 1987, Figure 1a",
        kind: Kind::Permission,
        permits: Permits::One,
        demands: Demands::PLAIN,
        tokens: Tokens::None,
        channels: Channels::Unordered,
        assumes: "reliable channels, a coordinator that does not fail",
        order: Order::Fair,
        bypass: ClaimedBypass::AtMost(BypassClaim::each_other_once(
            "ch. 9, exercise 9.6: one site has the queue; here in the order in which requests reach it",
        )),
        failures: Failures::NONE,
        options: &[OptionInfo {
            name: "coordinator",
            about: "which site is asked",
            range: Range::Integer { least: 0, most: u32::MAX as usize },
            default: "0",
        }],
        variants: &[],
        messages: &[
            MessageInfo { kind: "REQUEST", about: "from a site that wants to enter, to the coordinator" },
            MessageInfo { kind: "GRANT", about: "from the coordinator, to the site whose turn it is" },
            MessageInfo { kind: "RELEASE", about: "from a site that has left, to the coordinator" },
        ],
        costs: Costs {
            lone_least: Formula::new("0", |_| 0.0),
            lone_most: Formula::new("3", |scale| if scale.sites == 1 { 0.0 } else { 3.0 }),
            heavy: Formula::new("3(N−1)/N", |scale| 3.0 * (scale.sites - 1) as f64 / scale.sites as f64),
            always: Some(Span { least: Formula::new("0", |_| 0.0), most: Formula::new("3", |_| 3.0) }),
            sync_delay: "2T",
        },
        memory: Memory { fixed: 136, per_site: 12 },
        departures: &[
            "requests are numbered, and GRANT and RELEASE name theirs, so that duplicates are recognised",
        ],
    };
}

impl Algorithm for Central {
    type Plan = Plan;

    fn info(&self) -> &'static Info {
        &Self::INFO
    }

    fn plan(cluster: Cluster, values: &Values) -> Result<Plan, PlanError> {
        let coordinator = values.integer("coordinator");
        if coordinator >= cluster.sites {
            let why = format!("site {coordinator} does not exist: the sites are 0 to {}", cluster.sites - 1);
            return Err(PlanError::Option { option: "coordinator", why });
        }
        Ok(Plan { cluster, coordinator: SiteId::new(coordinator) })
    }

    /// A holder has been granted the request before its first.
    fn start(plan: &Plan, me: SiteId, holders: &Holders) -> Self {
        let sites = plan.cluster.sites;
        let state = || {
            Box::new(CoordinatorState {
                granted: holders.only().map(|to| Grant { to, number: Count::ZERO }),
                queue: VecDeque::with_capacity(sites),
                asked: vec![Count::ZERO; sites].into(),
            })
        };
        Central {
            me,
            cluster: plan.cluster,
            coordinator: plan.coordinator,
            state: (me == plan.coordinator).then(state),
            phase: if holders.contains(me) { Phase::Executing } else { Phase::Idle },
            requests: Count::ZERO,
        }
    }

    fn phase(&self) -> Phase {
        self.phase
    }

    fn is_quiet(&self) -> bool {
        self.phase == Phase::Idle
            && self.state.as_ref().is_none_or(|state| state.granted.is_none() && state.queue.is_empty())
    }

    fn numbers(&mut self, numbers: &mut Numbers<'_>) {
        numbers.count(Family::Site(self.me), &mut self.requests);
        let Some(state) = &mut self.state else { return };
        if let Some(granted) = &mut state.granted {
            numbers.count(Family::Site(granted.to), &mut granted.number);
        }
        for (site, asked) in SiteId::all(state.asked.len()).zip(&mut state.asked) {
            numbers.count(Family::Site(site), asked);
        }
    }

    fn view(&self) -> View {
        let view = match &self.state {
            Some(state) => View::new().queue("queue", &state.queue),
            None => View::new().pointer("coordinator", self.coordinator),
        };
        let granted = self.state.as_ref().and_then(|state| state.granted.as_ref()).map(|grant| grant.to);
        let ahead = granted.unwrap_or(self.coordinator);
        if self.phase == Phase::Waiting && ahead != self.me { view.waiting_for([ahead]) } else { view }
    }

    fn check_invariants(&self) -> Result<(), &'static str> {
        let Some(state) = &self.state else { return Ok(()) };
        invariant!(
            state.granted.is_some() || state.queue.is_empty(),
            "I1: nobody is queued while nobody has the grant"
        );
        let queued: SiteSet = state.queue.iter().copied().collect();
        invariant!(
            queued.len() == state.queue.len() && queued.contains(self.me) == (self.phase == Phase::Waiting),
            "I2: no site is queued twice, and the coordinator is queued exactly while its process waits"
        );
        Ok(())
    }

    fn check_together(sites: &[&Self], _: &[InFlight<'_, Message>]) -> Result<(), &'static str> {
        let granted = sites.iter().find_map(|site| site.state.as_ref()).and_then(|state| state.granted);
        for site in sites.iter().filter(|site| site.phase == Phase::Executing) {
            invariant!(
                granted == Some(Grant { to: site.me, number: site.requests }),
                "I3: a site is inside only if the coordinator has granted it and waits for its release"
            );
        }
        Ok(())
    }
}

/// In the terms of `crates/proof/src/models/central.rs`.
impl Modelled for Central {
    fn facts(&self, facts: &mut ModelFacts) {
        let me = &self.me;
        facts.value("zero", &[], &Count::ZERO);
        facts.value("coordinator", &[], &self.coordinator);
        facts.holds_if(self.phase == Phase::Waiting, "waiting", &[me]);
        facts.holds_if(self.phase == Phase::Executing, "executing", &[me]);
        facts.value("requests", &[me], &self.requests);
        let Some(state) = &self.state else { return };
        facts.holds_if(state.granted.is_some(), "taken", &[]);
        state.granted.iter().for_each(|grant| facts.holds("granted", &[&grant.to, &grant.number]));
        state.queue.iter().for_each(|site| facts.holds("queued", &[site]));
        for (site, asked) in SiteId::all(state.asked.len()).zip(&state.asked) {
            facts.value("asked", &[&site], asked);
        }
    }

    fn message_facts(from: SiteId, to: SiteId, message: &Message, facts: &mut ModelFacts) {
        match message {
            Message::Request { number } => facts.holds("request_sent", &[&from, number]),
            Message::Grant { number } => facts.holds("grant_sent", &[&to, number]),
            Message::Release { number } => facts.holds("release_sent", &[&from, number]),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::world::{World, enter, misbehaved, send};

    fn request(number: u64) -> Message {
        Message::Request { number: Count::at(number) }
    }

    fn grant(number: u64) -> Message {
        Message::Grant { number: Count::at(number) }
    }

    fn release(number: u64) -> Message {
        Message::Release { number: Count::at(number) }
    }

    /// Reference: chapter 9, exercise 9.6: 3 messages an entry.
    #[test]
    fn requests_are_granted_in_the_order_in_which_they_reach_the_coordinator() {
        let [s0, s1, s2] = SiteId::first();
        let mut world = World::<Central>::of(3);
        assert_eq!(world.request(s1), [send(s0, request(1))]);
        assert_eq!(world.request(s2), [send(s0, request(1))]);
        assert_eq!(world.deliver(s2, s0), [send(s2, grant(1))]);
        assert_eq!(world.deliver(s1, s0), []);
        assert_eq!(world.request(s0), []);
        assert_eq!(world.deliver(s0, s2), [enter()]);
        assert_eq!(world.release(s2), [send(s0, release(1))]);
        assert_eq!(world.deliver(s2, s0), [send(s1, grant(1))]);
        assert_eq!(world.deliver(s0, s1), [enter()]);
        assert_eq!(world.release(s1), [send(s0, release(1))]);
        assert_eq!(world.deliver(s1, s0), [enter()]);
        assert_eq!(world.release(s0), []);
        assert!(world.is_quiet());
        assert_eq!(world.messages(), 6);
    }

    #[test]
    fn a_lone_request_costs_three_messages_and_the_coordinators_own_none() {
        for sites in [1, 2, 3, 7, 31] {
            for coordinator in [0, sites - 1] {
                for site in SiteId::all(sites) {
                    let given = coordinator.to_string();
                    let mut world = World::<Central>::with(sites, &[("coordinator", &given)]);
                    let _ = world.request(site);
                    world.settle();
                    let _ = world.release(site);
                    world.settle();
                    assert_eq!(world.messages(), if site.index() == coordinator { 0 } else { 3 });
                }
            }
        }
    }

    #[test]
    fn a_request_that_overtakes_the_release_before_it_waits_for_it() {
        let [s0, s1, s2] = SiteId::first();
        let mut world = World::<Central>::held_by(3, &[s1]);
        assert_eq!(world.release(s1), [send(s0, release(0))]);
        assert_eq!(world.request(s1), [send(s0, request(1))]);
        assert_eq!(world.request(s2), [send(s0, request(1))]);
        assert_eq!(world.deliver_nth(s1, s0, 1), []);
        assert_eq!(world.deliver(s2, s0), []);
        assert_eq!(world.deliver(s1, s0), [send(s1, grant(1))]);
    }

    #[test]
    fn a_coordinator_outside_the_view_is_refused() {
        let mut values = Values::defaults(&Central::INFO);
        values.set("coordinator", "3").unwrap();
        let error = Central::plan(Cluster::of(3), &values).unwrap_err();
        assert_eq!(error.to_string(), "option coordinator: site 3 does not exist: the sites are 0 to 2");
    }

    #[test]
    fn what_no_correct_peer_sends_changes_nothing_and_is_reported() {
        let [s0, s1, s2] = SiteId::first();
        let mut world = World::<Central>::of(3);
        let stranger = SiteId::new(9);
        let not_next = "a request that is not its next";
        let unasked = "a grant that nobody waits for";
        let not_granted = "a release of what it was not granted";
        let start = world.sites().to_vec();
        assert_eq!(world.inject(stranger, s0, request(1)), [misbehaved(stranger, NOT_A_PEER)]);
        assert_eq!(world.inject(s0, s0, request(1)), [misbehaved(s0, NOT_A_PEER)]);
        assert_eq!(
            world.inject(s2, s1, request(1)),
            [misbehaved(s2, "a request to a site that is not the coordinator")]
        );
        assert_eq!(world.inject(s1, s0, request(0)), [misbehaved(s1, not_next)]);
        assert_eq!(world.inject(s1, s0, request(2)), [misbehaved(s1, not_next)]);
        assert_eq!(world.inject(s0, s1, grant(0)), [misbehaved(s0, unasked)]);
        assert_eq!(world.inject(s1, s0, release(0)), [misbehaved(s1, not_granted)]);
        assert_eq!(world.inject(s2, s1, release(0)), [misbehaved(s2, not_granted)]);
        assert_eq!(world.sites(), start);

        let _ = world.request(s1);
        let _ = world.request(s2);
        assert_eq!(world.inject(s2, s1, grant(1)), [misbehaved(s2, unasked)]);
        world.settle();
        let contended = world.sites().to_vec();
        assert_eq!(world.inject(s1, s0, request(1)), [misbehaved(s1, not_next)]);
        let twice = "a second request before the first was granted";
        assert_eq!(world.inject(s2, s0, request(2)), [misbehaved(s2, twice)]);
        assert_eq!(world.inject(s0, s1, grant(1)), [misbehaved(s0, unasked)]);
        assert_eq!(world.inject(s1, s0, release(0)), [misbehaved(s1, not_granted)]);
        assert_eq!(world.sites(), contended);
    }
}
