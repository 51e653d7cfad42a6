//! A token on a ring: whoever has it may enter, then it moves on.
//!
//! Kshemkalyani and Singhal, chapter 9, exercise 9.1.
//!
//! The sites stand in a ring, each knows only its two neighbours, and one token goes round. With `idle=circulate` it
//! always travels, as in the exercise; a site that wants to enter just waits for it. With `idle=park`, the default, it
//! stays where nobody asks for more, and a WANTED goes round against its direction until it meets the token or a site
//! that has asked already. Each site on the way remembers that its successor wants the token and passes it on when it
//! comes: every WANTED is answered by the token over the same edge, and all who wait are served in one round.
//!
//! ```text
//!  ring S0 ▶ S1 ▶ S2 ▶ S3 ▶ S0, the token is parked at S1
//!
//!  alone:  S3 ──WANTED──▶ S2 ──WANTED──▶ S1      contended: S2 asks too while the token travels: no message,
//!          S1 ──TOKEN───▶ S2 ──TOKEN───▶ S3                 it has asked for S3 already; it enters when the
//!          S3 enters, leaves, parks it                      token comes by, then passes it on to S3
//! ```
//!
//! | | messages per entry | synchronisation delay | state | words per message |
//! |---|---|---|---|---|
//! | low load, park | 2d, d edges from the token to the site: 0 to 2(N−1), on average N−1 | – | O(1) | 4 |
//! | heavy load, park | 2 | T | O(1) | 4 |
//! | low load, circulate | without bound; response N·T/2 on average | – | O(1) | 4 |
//! | heavy load, circulate | 1; response N(T+E) | T | O(1) | 4 |
//!
//! **Assumes** reliable channels; order is not needed.
//!
//! **Departures**
//! - No **choice** is open: each site has one successor.
//! - `idle=park` is ours: a token that always travels keeps a network busy for nobody.
//! - A circulating token stands at its home until the first request, since nothing else happens at the start: a site
//!   that has not seen the token yet says WANTED once.
//! - The token counts its hand-overs, and WANTED says which one its sender saw last, so that duplicates of both are
//!   recognised.
//!
//! **Invariants**
//! - I1: nobody wants a parked token.
//! - I2 (`idle=park`): for each site that has asked there is one of these, and none for any other: its WANTED on its
//!   way, its predecessor's knowledge, the token on its way to it.

mod facts;

use std::fmt;

use crate::mutant::{self, Mutant};
use crate::registry::info::{
    BypassClaim, Channels, ClaimedBypass, Costs, Demands, Failures, Formula, Info, Kind, Memory, MessageInfo,
    OptionInfo, Order, Permits, Range, Since, Tokens,
};
use crate::registry::values::Values;
use crate::site::InFlight;
use crate::{
    Algorithm, Cluster, Count, Described, Family, Holders, NOT_A_PEER, Numbers, Outbox, Phase, PlanError,
    Site, SiteId, View, invariant,
};

/// One site of the ring.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct TokenRing {
    // This site.
    me: SiteId,
    cluster: Cluster,
    idle: Idle,
    // The local process, and the token if it is here.
    state: TokenRingState,
    // What this site knows of the others.
    /// My successor has asked, and I have not passed the token to it since.
    wanted: bool,
    /// The token's hand-overs when it last came here.
    seen: Count,
    /// The token's hand-overs when it last left here.
    passed: Count,
}

/// What an idle token does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Idle {
    Park,
    Circulate,
}

/// State of the local process, and whether the token is here.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum TokenRingState {
    /// Idle; the token is elsewhere.
    Away,
    /// Waits to enter; the token is elsewhere.
    Waiting,
    /// Idle; the token is here.
    Parked,
    Inside,
}

/// What neighbours say to each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Message {
    /// To the predecessor, from a site that wants to enter or whose successor said so: pass me the token.
    Wanted {
        /// The token's hand-overs when the sender last saw it come.
        since: Count,
    },
    /// To the successor: enter, or pass it on.
    Token {
        /// How often it has been handed over, with this time.
        handovers: Count,
    },
}

#[cfg(feature = "serde")]
crate::numbered! { Message {
    0 => Wanted { since },
    1 => Token { handovers },
} }

impl fmt::Display for Message {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Message::Wanted { since } => write!(f, "WANTED(since hand-over {})", since.value()),
            Message::Token { handovers } => write!(f, "TOKEN(hand-over {})", handovers.value()),
        }
    }
}

impl crate::Message for Message {
    fn kind(&self) -> &'static str {
        match self {
            Message::Wanted { .. } => "WANTED",
            Message::Token { .. } => "TOKEN",
        }
    }

    fn numbers(&mut self, _: SiteId, _: SiteId, numbers: &mut Numbers<'_>) {
        match self {
            // It is only compared with when its receiver has passed the token on.
            Message::Wanted { since } => numbers.remembered_count(Family::Token(0), since),
            Message::Token { handovers } => numbers.count(Family::Token(0), handovers),
        }
    }

    fn words(&self) -> usize {
        4
    }

    fn tokens(&self) -> usize {
        match self {
            Message::Wanted { .. } => 0,
            Message::Token { .. } => 1,
        }
    }
}

impl Site for TokenRing {
    type Message = Message;

    /// Exercise 9.1: "When a site needs to execute its CS, it waits for the token, grabs the token, executes the CS".
    fn request(&mut self, out: &mut Outbox<Message>) {
        match self.state {
            TokenRingState::Parked => self.enter(out),
            TokenRingState::Away => {
                if !self.wanted {
                    self.ask(out);
                }
                self.state = TokenRingState::Waiting;
            }
            TokenRingState::Waiting | TokenRingState::Inside => {
                panic!("the host requests only while the process is idle")
            }
        }
    }

    fn receive(&mut self, from: SiteId, message: Message, out: &mut Outbox<Message>) {
        if !self.cluster.is_peer(self.me, from) {
            return out.misbehaved(from, NOT_A_PEER);
        }
        match message {
            Message::Wanted { since } => self.on_wanted(from, since, out),
            Message::Token { handovers } => self.on_token(from, handovers, out),
        }
    }

    /// Exercise 9.1: "and then dispatches the token to the next site on the ring"; a parking token only if it is
    /// wanted.
    fn release(&mut self, out: &mut Outbox<Message>) {
        assert!(self.state == TokenRingState::Inside, "the host releases only while the process is inside");
        if self.wanted || (self.idle == Idle::Circulate && self.cluster.sites > 1) {
            self.pass_on(out);
        } else {
            self.state = TokenRingState::Parked;
        }
    }
}

impl TokenRing {
    /// The successor wants the token: it gets a parked one at once, otherwise when it comes, for which I ask unless I
    /// have.
    fn on_wanted(&mut self, from: SiteId, since: Count, out: &mut Outbox<Message>) {
        let late = self.idle == Idle::Circulate && since < self.passed;
        if from != self.next() || (since != self.passed && !late) || self.wanted {
            return out.misbehaved(from, "a call for the token that it may not make");
        }
        if late {
            // It had not seen the token yet when it called; the token has been on its way there since.
            return;
        }
        match self.state {
            TokenRingState::Parked => self.pass_on(out),
            TokenRingState::Away => {
                self.wanted = true;
                self.ask(out);
            }
            TokenRingState::Waiting | TokenRingState::Inside => {
                self.wanted = !mutant::is_on(Mutant::TokenRingForgottenCall);
            }
        }
    }

    /// Exercise 9.1: "If a site does not need the token on its arrival, it immediately dispatches the token".
    fn on_token(&mut self, from: SiteId, handovers: Count, out: &mut Outbox<Message>) {
        if from != self.previous() || handovers <= self.seen {
            return out.misbehaved(from, "a token that has been handed over since");
        }
        match self.state {
            TokenRingState::Waiting => {
                self.seen = handovers;
                self.enter(out);
            }
            TokenRingState::Away if self.wanted || self.idle == Idle::Circulate => {
                self.seen = handovers;
                self.pass_on(out);
            }
            TokenRingState::Away | TokenRingState::Parked | TokenRingState::Inside => {
                out.misbehaved(from, "a token that nobody waits for");
            }
        }
    }

    /// Calls for the token, unless it circulates and has started to.
    fn ask(&self, out: &mut Outbox<Message>) {
        let started = self.seen > Count::ZERO || self.passed > Count::ZERO;
        if self.idle == Idle::Park || !started {
            out.send(self.previous(), Message::Wanted { since: self.seen });
        }
    }

    fn enter(&mut self, out: &mut Outbox<Message>) {
        self.state = TokenRingState::Inside;
        out.enter();
    }

    fn pass_on(&mut self, out: &mut Outbox<Message>) {
        self.state = TokenRingState::Away;
        self.wanted = false;
        self.passed = self.seen.next();
        out.send(self.next(), Message::Token { handovers: self.passed });
    }

    /// The site that the token goes to from here.
    fn next(&self) -> SiteId {
        self.after(1)
    }

    /// The site that comes so many steps after this one.
    fn after(&self, steps: usize) -> SiteId {
        SiteId::new((self.me.index() + steps) % self.cluster.sites)
    }

    /// The site that the token comes here from.
    fn previous(&self) -> SiteId {
        SiteId::new((self.me.index() + self.cluster.sites - 1) % self.cluster.sites)
    }

    fn has_asked(&self) -> bool {
        self.state == TokenRingState::Waiting || (self.state == TokenRingState::Away && self.wanted)
    }
}

/// What all sites share: fixed before the first one starts.
#[derive(Clone, Debug)]
pub struct Plan {
    cluster: Cluster,
    idle: Idle,
}

impl Described for TokenRing {
    const INFO: Info = Info {
        name: "token-ring",
        title: "A token on a ring: whoever has it may enter, then it moves on",
        source: "Kshemkalyani & Singhal ch. 9, exercise 9.1",
        kind: Kind::Token,
        permits: Permits::One,
        demands: Demands::PLAIN,
        tokens: Tokens::One,
        channels: Channels::Unordered,
        assumes: "reliable channels",
        order: Order::Fair,
        bypass: ClaimedBypass::AtMost(BypassClaim {
            since: Since::Call,
            entries: Formula::new("N−1", |scale| (scale.sites - 1) as f64),
            source: "ch. 9, exercise 9.1: the token hops from site to site, and whoever waits grabs it; for idle=circulate",
        }),
        failures: Failures::NONE,
        options: &[OptionInfo {
            name: "idle",
            about: "what a token does that nobody wants: park where it is, or circulate for ever",
            range: Range::Choice(&["park", "circulate"]),
            default: "park",
        }],
        variants: &[],
        messages: &[
            MessageInfo { kind: "WANTED", about: "to the predecessor, from a site that wants the token" },
            MessageInfo { kind: "TOKEN", about: "to the successor: enter, or pass it on" },
        ],
        costs: Costs {
            lone_least: Formula::new("0", |_| 0.0),
            lone_most: Formula::new("2(N−1)", |scale| 2.0 * (scale.sites - 1) as f64),
            heavy: Formula::new("2", |scale| if scale.sites == 1 { 0.0 } else { 2.0 }),
            always: None,
            sync_delay: "T to (N−1)T",
        },
        memory: Memory { fixed: 48, per_site: 0 },
        departures: &[
            "an idle token parks by default and is called for; as in the exercise it circulates",
            "a circulating token stands at its home until the first request",
            "the token counts its hand-overs, and WANTED names the last one, so that duplicates are recognised",
        ],
    };
}

impl Algorithm for TokenRing {
    type Plan = Plan;

    fn info(&self) -> &'static Info {
        &Self::INFO
    }

    fn plan(cluster: Cluster, values: &Values) -> Result<Plan, PlanError> {
        let idle = if values.get("idle") == "circulate" { Idle::Circulate } else { Idle::Park };
        Ok(Plan { cluster, idle })
    }

    /// The token is with the holder, or idle at site 0.
    fn start(plan: &Plan, me: SiteId, holders: &Holders) -> Self {
        let state = match (holders.contains(me), holders.token_home() == me) {
            (true, _) => TokenRingState::Inside,
            (false, true) => TokenRingState::Parked,
            (false, false) => TokenRingState::Away,
        };
        let (cluster, idle) = (plan.cluster, plan.idle);
        TokenRing { me, cluster, idle, state, wanted: false, seen: Count::ZERO, passed: Count::ZERO }
    }

    fn phase(&self) -> Phase {
        match self.state {
            TokenRingState::Away | TokenRingState::Parked => Phase::Idle,
            TokenRingState::Waiting => Phase::Waiting,
            TokenRingState::Inside => Phase::Executing,
        }
    }

    fn is_quiet(&self) -> bool {
        self.phase() == Phase::Idle && !self.wanted
    }

    fn tokens(&self) -> usize {
        usize::from(matches!(self.state, TokenRingState::Parked | TokenRingState::Inside))
    }

    /// A token that circulates comes by after one round.
    fn bypass_claim(&self) -> Option<BypassClaim> {
        match self.idle {
            Idle::Park => None,
            Idle::Circulate => Self::INFO.bypass.claim(),
        }
    }

    fn numbers(&mut self, numbers: &mut Numbers<'_>) {
        numbers.count(Family::Token(0), &mut self.seen);
        numbers.count(Family::Token(0), &mut self.passed);
    }

    fn view(&self) -> View {
        let next = SiteId::new((self.me.index() + 1) % self.cluster.sites);
        let here = matches!(self.state, TokenRingState::Parked | TokenRingState::Inside);
        let view = View::new()
            .value("token", if here { "here" } else { "elsewhere" })
            .value("successor has asked", if self.wanted { "yes" } else { "no" })
            .value("hand-overs when it last came", self.seen.value())
            .value("hand-overs when it last left", self.passed.value());
        if next == self.me { view } else { view.pointer("next", next) }
    }

    fn check_invariants(&self) -> Result<(), &'static str> {
        invariant!(self.state != TokenRingState::Parked || !self.wanted, "I1: nobody wants a parked token");
        Ok(())
    }

    fn check_together(sites: &[&Self], in_flight: &[InFlight<'_, Message>]) -> Result<(), &'static str> {
        for site in sites.iter().filter(|site| site.idle == Idle::Park && site.cluster.sites > 1) {
            let previous = &sites[site.previous().index()];
            let of_its_call = |&&(from, to, message): &&InFlight<'_, Message>| match message {
                Message::Wanted { .. } => (from, to) == (site.me, previous.me),
                Message::Token { .. } => (from, to) == (previous.me, site.me),
            };
            let traces = usize::from(previous.wanted) + in_flight.iter().filter(of_its_call).count();
            invariant!(
                traces == usize::from(site.has_asked()),
                "I2: for each site that has asked there is one trace, and none for any other"
            );
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
