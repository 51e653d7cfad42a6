//! Lamport's algorithm as the public TLA+ module LamportMutex models it (tlaplus/Examples, by Stephan Merz), action by
//! action: the explorer must count the states that TLC counts.
//!
//! | TLA+ action | here |
//! |---|---|
//! | Request(p) | [`Site::request`]: the clock stays as it is |
//! | ReceiveRequest, ReceiveAck, ReceiveRelease | [`Site::receive`] |
//! | Enter(p), a step of its own | a timer, set when the entry's condition comes true; [`Site::wake`] enters |
//! | Exit(p) | [`Site::release`] |
//! | ClockConstraint | [`Algorithm::is_within_bounds`] |
//!
//! The timer stands for "Enter is enabled and p is outside", because that never becomes false by itself: a site's request that
//! arrives after its acknowledgement is younger than the one it acknowledged. Invariant I1 checks it from the other side.
//! TLA+'s Enter stays enabled inside, where it changes nothing; such a step leads to no state.

use meshlock_check::{Bounds, Properties, Property};
use meshlock_protocol::registry::info::{
    Channels, ClaimedBypass, Costs, Demands, Failures, Formula, Info, Kind, Memory, MessageInfo, OptionInfo,
    Order, Permits, Range, Tokens,
};
use meshlock_protocol::registry::values::Values;
use meshlock_protocol::{
    Algorithm, Cluster, Described, Holders, Outbox, Phase, PlanError, Site, SiteId, SiteSet, invariant,
};

/// One process of the model.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct LamportMutex {
    me: SiteId,
    most_clock: u8,
    clock: u8,
    /// The clock of each process's request as known here; 0 without one.
    req: Box<[u8]>,
    ack: SiteSet,
    inside: bool,
}

/// The messages of the model.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Message {
    /// Sent by a process that requests: its clock.
    Req(u8),
    /// Sent to a process that has requested.
    Ack,
    /// Sent by a process that leaves.
    Rel,
}

impl std::fmt::Display for Message {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{self:?}")
    }
}

impl meshlock_protocol::Message for Message {
    fn kind(&self) -> &'static str {
        match self {
            Message::Req(_) => "req",
            Message::Ack => "ack",
            Message::Rel => "rel",
        }
    }

    fn words(&self) -> usize {
        4
    }
}

impl Site for LamportMutex {
    type Message = Message;

    fn request(&mut self, out: &mut Outbox<Message>) {
        self.req[self.me.index()] = self.clock;
        self.ack = [self.me].into_iter().collect();
        out.broadcast(self.me, self.req.len(), &Message::Req(self.clock));
        if self.may_enter() {
            out.set_timer(1);
        }
    }

    fn receive(&mut self, from: SiteId, message: Message, out: &mut Outbox<Message>) {
        let could_enter = self.may_enter();
        match message {
            Message::Req(clock) => {
                self.clock = self.clock.max(clock) + 1;
                self.req[from.index()] = clock;
                out.send(from, Message::Ack);
            }
            Message::Ack => {
                self.ack.insert(from);
            }
            Message::Rel => self.req[from.index()] = 0,
        }
        if self.may_enter() && !could_enter {
            out.set_timer(1);
        }
    }

    fn release(&mut self, out: &mut Outbox<Message>) {
        self.inside = false;
        self.req[self.me.index()] = 0;
        self.ack = SiteSet::new();
        out.broadcast(self.me, self.req.len(), &Message::Rel);
    }

    fn wake(&mut self, out: &mut Outbox<Message>) {
        self.inside = true;
        out.enter();
    }
}

impl LamportMutex {
    /// The guard of Enter.
    fn may_enter(&self) -> bool {
        let mine = (self.req[self.me.index()], self.me);
        let beats = |other: SiteId| {
            let theirs = self.req[other.index()];
            other == self.me || theirs == 0 || mine < (theirs, other)
        };
        self.ack.len() == self.req.len() && SiteId::all(self.req.len()).all(beats)
    }
}

impl Described for LamportMutex {
    const INFO: Info = Info {
        name: "lamport-mutex",
        title: "Lamport, as modelled in TLA+",
        source: "tlaplus/Examples, LamportMutex",
        kind: Kind::Permission,
        permits: Permits::One,
        demands: Demands::PLAIN,
        tokens: Tokens::None,
        channels: Channels::Fifo,
        assumes: "reliable FIFO channels",
        order: Order::Fair,
        bypass: ClaimedBypass::Nothing("only a test uses it"),
        failures: Failures::NONE,
        options: &[OptionInfo {
            name: "clock",
            about: "the constraint on every clock: maxClock",
            range: Range::Integer { least: 1, most: 100 },
            default: "6",
        }],
        variants: &[],
        messages: &[
            MessageInfo { kind: "req", about: "wants in" },
            MessageInfo { kind: "ack", about: "has seen the request" },
            MessageInfo { kind: "rel", about: "has left" },
        ],
        costs: Costs {
            lone_least: MESSAGES,
            lone_most: MESSAGES,
            heavy: MESSAGES,
            always: None,
            sync_delay: "T",
        },
        memory: Memory { fixed: 80, per_site: 1 },
        departures: &[],
    };
}

impl Algorithm for LamportMutex {
    /// The number of processes, and the constraint on their clocks.
    type Plan = (usize, u8);

    fn info(&self) -> &'static Info {
        &Self::INFO
    }

    fn plan(cluster: Cluster, values: &Values) -> Result<Self::Plan, PlanError> {
        Ok((cluster.sites, u8::try_from(values.integer("clock")).expect("the range ends at 100")))
    }

    fn start(&(sites, most_clock): &Self::Plan, me: SiteId, _: &Holders) -> Self {
        let req = vec![0; sites].into();
        LamportMutex { me, most_clock, clock: 1, req, ack: SiteSet::new(), inside: false }
    }

    fn phase(&self) -> Phase {
        match (self.inside, self.req[self.me.index()]) {
            (true, _) => Phase::Executing,
            (false, 0) => Phase::Idle,
            (false, _) => Phase::Waiting,
        }
    }

    fn is_quiet(&self) -> bool {
        self.req.iter().all(|&clock| clock == 0)
    }

    fn is_within_bounds(&self) -> bool {
        self.clock <= self.most_clock
    }

    fn check_invariants(&self) -> Result<(), &'static str> {
        invariant!(!self.inside || self.may_enter(), "I1: whoever may enter, may until it has left");
        Ok(())
    }

    /// The module's BoundedNetwork.
    fn check_together(sites: &[&Self], in_flight: &[(SiteId, SiteId, &Message)]) -> Result<(), &'static str> {
        let ends = || SiteId::all(sites.len()).flat_map(|p| SiteId::all(sites.len()).map(move |q| (p, q)));
        let on_their_way = |(p, q)| in_flight.iter().filter(|&&(from, to, _)| (from, to) == (p, q)).count();
        invariant!(ends().all(|channel| on_their_way(channel) <= 3), "I2: no channel holds more than three");
        Ok(())
    }
}

const MESSAGES: Formula = Formula::new("3(N−1)", |scale| 3.0 * (scale.sites - 1) as f64);

/// Bounds for three processes that request repeatedly, as in the module, and the properties: its invariants, and no deadlock.
pub(crate) fn bounds() -> Bounds {
    let properties = [Property::Exclusion, Property::Deadlock, Property::Invariants, Property::Refusals];
    Bounds::new(3, 0).endless().checking(properties.into_iter().collect::<Properties>())
}

/// The module's `maxClock`.
pub(crate) fn most_clock(clock: u8) -> Values {
    let mut values = Values::defaults(&LamportMutex::INFO);
    values.set("clock", &clock.to_string()).expect("a clock in range");
    values
}
