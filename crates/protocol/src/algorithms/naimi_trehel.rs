//! Naimi and Trehel's algorithm: a queue whose tail everyone can find, by pointers that turn round as they are used.
//!
//! Naimi and Trehel 1987; the base of the K-token algorithm of Bulgannawar and Vaidya 1994 (their reference 12). The
//! cost of its path reversal: Ginat, Sleator and Tarjan 1989 (their reference 14).
//!
//! Each site has a *father*, its guess at the site that asked last, and, while it wants to enter or is inside, a
//! *next*: who gets the token from it. A request travels along the fathers, and every site on its way takes the
//! requester as its new father, because the requester will be the tail of the queue. The tail, a site without a father,
//! makes the requester its next, or gives it the token at once if nobody needs that here.
//!
//! ```text
//!  alone:      S1 ──REQUEST(S1)──▶ S0 (idle, has the token)      contended: S0 is inside, S1 and S2 ask
//!              S1 ◀────TOKEN────── S0, father S1                 S1 ──REQUEST(S1)──▶ S0     next S1, father S1
//!              S1 enters                                         S2 ──REQUEST(S2)──▶ S0     father S2
//!                                                                S0 ──REQUEST(S2)──▶ S1     next S2, father S2
//!                                                                S0 leaves: S0 ──TOKEN──▶ S1, then S1 ──TOKEN──▶ S2
//! ```
//!
//! | | messages per entry | synchronisation delay | state | words per message |
//! |---|---|---|---|---|
//! | low load | 0 to N; H(N−1) on average with the token counted | – | two pointers | REQUEST 5, TOKEN 4 |
//! | heavy load | 4 − 6/(N+1), measured with constant delays | T | the same | the same |
//!
//! **Assumes** reliable channels; FIFO is not needed.
//!
//! **Departures**
//! - No **choice** is open: each request has one way to go, and a token one next site.
//! - Requests are numbered by their site, a request and the token name the number they are for, and a site remembers
//!   the number of the last request that it saw of each of [`REMEMBERED`] sites. The papers' channels do not duplicate;
//!   here every duplicate of a TOKEN is recognised, and up to that many sites every duplicate of a REQUEST. In a larger
//!   view a site remembers the latest of those that share a place. To recognise all would take a number for every other
//!   site: up to N−1 of them point here at once, each may send one message, and any part of them may have done so.
//!
//! **Invariants**
//! - I1: a site has no father exactly if it is the tail: it has the token unused, or wants to enter or is inside and
//!   has no next.
//! - I2: a site has a next only while it wants to enter or is inside.
//! - I3: neither its father nor its next is the site itself.
//! - I4: the fathers lead from every site to a tail, never round in a circle.

use std::fmt;

use super::request::RequestId;
use crate::mutant::{self, Mutant};
use crate::registry::info::{
    Channels, ClaimedBypass, Costs, Demands, Failures, Formula, Info, Kind, Memory, MessageInfo, Order,
    Permits, Span, Tokens,
};
use crate::registry::values::Values;
use crate::site::InFlight;
use crate::{
    Algorithm, Cluster, Described, Family, Holders, ModelFacts, Modelled, NOT_A_PEER, Numbers, Outbox, Phase,
    PlanError, Site, SiteId, View, invariant,
};

/// The number of sites whose last request is remembered. With up to this many sites, no duplicate passes for a new
/// message.
pub const REMEMBERED: usize = 16;

/// One site of Naimi and Trehel's algorithm.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct NaimiTrehel {
    // This site.
    me: SiteId,
    cluster: Cluster,
    // The local process.
    state: NaimiTrehelState,
    /// How many requests I have made.
    requests: u64,
    // What this site knows of the others.
    /// Whom I believe to have asked last; none if that is me.
    father: Option<SiteId>,
    /// The last request that I saw of a site, in the place that its id modulo the length gives. Where I have seen none
    /// stands my own id: nobody sends me my own requests.
    seen: Seen,
}

/// Last requests of other sites. Sites and numbers apart, because together each pair would take a third more: a node
/// keeps a million of these.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Seen {
    sites: [SiteId; REMEMBERED],
    numbers: [u64; REMEMBERED],
}

impl Seen {
    /// Remembers a request; whether it is new.
    fn is_new(&mut self, ask: RequestId) -> bool {
        let place = ask.site.index() % REMEMBERED;
        if self.sites[place] == ask.site && ask.number <= self.numbers[place] {
            return false;
        }
        (self.sites[place], self.numbers[place]) = (ask.site, ask.number);
        true
    }
}

/// State of the local process, and where the token is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum NaimiTrehelState {
    /// Idle, the token is elsewhere.
    Away,
    /// Idle, the token is here.
    Keeping,
    /// Waits to enter; the token goes to `next` afterwards.
    Waiting { next: Option<RequestId> },
    /// Inside; the token goes to `next` afterwards.
    Inside { next: Option<RequestId> },
}

/// What sites say to each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Message {
    /// From a site that wants to enter, or that passes on what it was sent, to its father: this site wants the token
    /// after whoever asked last. The sender has taken it for its father.
    Request(RequestId),
    /// From the site that was served before, to its next: enter.
    Token {
        /// The number of the receiver's request that is served.
        serves: u64,
    },
}

#[cfg(feature = "serde")]
crate::numbered! { Message {
    0 => Request(value),
    1 => Token { serves },
} }

impl fmt::Display for Message {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Message::Request(ask) => write!(f, "REQUEST({}, number {})", ask.site, ask.number),
            Message::Token { serves } => write!(f, "TOKEN(for request {serves})"),
        }
    }
}

impl crate::Message for Message {
    fn kind(&self) -> &'static str {
        match self {
            Message::Request(_) => "REQUEST",
            Message::Token { .. } => "TOKEN",
        }
    }

    fn numbers(&mut self, _: SiteId, to: SiteId, numbers: &mut Numbers<'_>) {
        match self {
            Message::Request(ask) => ask.numbers(numbers),
            Message::Token { serves } => numbers.number(Family::Site(to), serves),
        }
    }

    fn words(&self) -> usize {
        match self {
            Message::Request(_) => 5,
            Message::Token { .. } => 4,
        }
    }

    fn tokens(&self) -> usize {
        match self {
            Message::Request(_) => 0,
            Message::Token { .. } => 1,
        }
    }
}

impl Site for NaimiTrehel {
    type Message = Message;

    /// Enters if the token is here, else asks the father and becomes the tail.
    fn request(&mut self, out: &mut Outbox<Message>) {
        assert!(self.phase() == Phase::Idle, "the host requests only while the process is idle");
        self.requests += 1;
        if let Some(father) = self.father.take() {
            self.state = NaimiTrehelState::Waiting { next: None };
            out.send(father, Message::Request(RequestId { site: self.me, number: self.requests }));
        } else {
            self.state = NaimiTrehelState::Inside { next: None };
            out.enter();
        }
    }

    fn receive(&mut self, from: SiteId, message: Message, out: &mut Outbox<Message>) {
        if !self.cluster.is_peer(self.me, from) {
            return out.misbehaved(from, NOT_A_PEER);
        }
        match message {
            Message::Request(ask) => self.on_request(from, ask, out),
            Message::Token { serves } => self.on_token(from, serves, out),
        }
    }

    /// The token goes to the next, if there is one.
    fn release(&mut self, out: &mut Outbox<Message>) {
        let NaimiTrehelState::Inside { next } = self.state else {
            panic!("the host releases only while the process is inside");
        };
        match next {
            Some(next) => self.give_token(next, out),
            None => self.state = NaimiTrehelState::Keeping,
        }
    }
}

impl NaimiTrehel {
    /// Path reversal: the request goes on to the father, or ends here; either way the requester is the new father.
    fn on_request(&mut self, from: SiteId, ask: RequestId, out: &mut Outbox<Message>) {
        if !self.cluster.is_peer(self.me, ask.site) {
            return out.misbehaved(from, "a request of no other site");
        }
        if !self.seen.is_new(ask) {
            return out.misbehaved(from, "a request that was here before");
        }
        match self.father.replace(ask.site) {
            Some(_) if mutant::is_on(Mutant::NaimiTrehelForgottenForward) => {}
            Some(father) => out.send(father, Message::Request(ask)),
            None => self.on_request_at_the_tail(ask, out),
        }
    }

    fn on_request_at_the_tail(&mut self, ask: RequestId, out: &mut Outbox<Message>) {
        match &mut self.state {
            NaimiTrehelState::Waiting { next } | NaimiTrehelState::Inside { next } => *next = Some(ask),
            NaimiTrehelState::Keeping => self.give_token(ask, out),
            NaimiTrehelState::Away => {
                unreachable!("I1: a site without the token that wants nothing has a father")
            }
        }
    }

    fn on_token(&mut self, from: SiteId, serves: u64, out: &mut Outbox<Message>) {
        match self.state {
            NaimiTrehelState::Waiting { next } if serves == self.requests => {
                self.state = NaimiTrehelState::Inside { next };
                out.enter();
            }
            NaimiTrehelState::Away
            | NaimiTrehelState::Keeping
            | NaimiTrehelState::Waiting { .. }
            | NaimiTrehelState::Inside { .. } => {
                out.misbehaved(from, "a token that nobody waits for");
            }
        }
    }

    fn give_token(&mut self, to: RequestId, out: &mut Outbox<Message>) {
        self.state = NaimiTrehelState::Away;
        out.send(to.site, Message::Token { serves: to.number });
    }

    fn next(&self) -> Option<RequestId> {
        match self.state {
            NaimiTrehelState::Away | NaimiTrehelState::Keeping => None,
            NaimiTrehelState::Waiting { next } | NaimiTrehelState::Inside { next } => next,
        }
    }
}

impl Described for NaimiTrehel {
    const INFO: Info = Info {
        name: "naimi-trehel",
        title: "Naimi and Trehel: ask whoever asked last, along pointers that turn round",
        source: "Naimi & Trehel 1987; Bulgannawar & Vaidya 1994, reference 12",
        kind: Kind::Token,
        permits: Permits::One,
        demands: Demands::PLAIN,
        tokens: Tokens::One,
        channels: Channels::Unordered,
        assumes: "reliable channels",
        order: Order::Fair,
        bypass: ClaimedBypass::Nothing(
            "the report that outlines it does not say it: while others forward the request, sites enter without end",
        ),
        failures: Failures::NONE,
        options: &[],
        variants: &[],
        messages: &[
            MessageInfo {
                kind: "REQUEST",
                about: "from a site that wants to enter, passed on along the fathers",
            },
            MessageInfo { kind: "TOKEN", about: "from the site that was served before, to the next" },
        ],
        costs: Costs {
            lone_least: Formula::new("0", |_| 0.0),
            lone_most: Formula::new("2 at the start, N at worst later", |scale| {
                if scale.sites == 1 { 0.0 } else { 2.0 }
            }),
            heavy: Formula::new("4 − 6/(N+1)", |scale| {
                if scale.sites == 1 { 0.0 } else { 4.0 - 6.0 / (scale.sites + 1) as f64 }
            }),
            always: Some(Span {
                least: Formula::new("0", |_| 0.0),
                most: Formula::new("N", |scale| scale.sites as f64),
            }),
            sync_delay: "T",
        },
        memory: Memory { fixed: size_of::<NaimiTrehel>(), per_site: 0 },
        departures: &[
            "requests are numbered, and a token names the one it serves, so that duplicates are recognised",
        ],
    };
}

impl Algorithm for NaimiTrehel {
    type Plan = Cluster;

    fn info(&self) -> &'static Info {
        &Self::INFO
    }

    fn plan(cluster: Cluster, _: &Values) -> Result<Cluster, PlanError> {
        Ok(cluster)
    }

    /// The token is at its home, and every other site has that for its father.
    fn start(cluster: &Cluster, me: SiteId, holders: &Holders) -> Self {
        let home = holders.token_home();
        NaimiTrehel {
            me,
            cluster: *cluster,
            state: match me {
                _ if holders.contains(me) => NaimiTrehelState::Inside { next: None },
                _ if me == home => NaimiTrehelState::Keeping,
                _ => NaimiTrehelState::Away,
            },
            requests: 0,
            father: (me != home).then_some(home),
            seen: Seen { sites: [me; REMEMBERED], numbers: [0; REMEMBERED] },
        }
    }

    fn phase(&self) -> Phase {
        match self.state {
            NaimiTrehelState::Away | NaimiTrehelState::Keeping => Phase::Idle,
            NaimiTrehelState::Waiting { .. } => Phase::Waiting,
            NaimiTrehelState::Inside { .. } => Phase::Executing,
        }
    }

    fn is_quiet(&self) -> bool {
        self.phase() == Phase::Idle
    }

    fn tokens(&self) -> usize {
        usize::from(matches!(self.state, NaimiTrehelState::Keeping | NaimiTrehelState::Inside { .. }))
    }

    fn numbers(&mut self, numbers: &mut Numbers<'_>) {
        numbers.number(Family::Site(self.me), &mut self.requests);
        for (&site, number) in self.seen.sites.iter().zip(&mut self.seen.numbers) {
            numbers.remembered(Family::Site(site), number);
        }
        if let NaimiTrehelState::Waiting { next: Some(next) }
        | NaimiTrehelState::Inside { next: Some(next) } = &mut self.state
        {
            next.numbers(numbers);
        }
    }

    fn view(&self) -> View {
        let next = match self.state {
            NaimiTrehelState::Waiting { next } | NaimiTrehelState::Inside { next } => next,
            NaimiTrehelState::Away | NaimiTrehelState::Keeping => None,
        };
        let view = View::new();
        let view = self.father.into_iter().fold(view, |view, father| view.pointer("father", father));
        next.into_iter().fold(view, |view, next| view.pointer("next", next.site))
    }

    fn check_invariants(&self) -> Result<(), &'static str> {
        let is_tail = match self.state {
            NaimiTrehelState::Away => false,
            NaimiTrehelState::Keeping => true,
            NaimiTrehelState::Waiting { next } | NaimiTrehelState::Inside { next } => next.is_none(),
        };
        invariant!(self.father.is_none() == is_tail, "I1: a site has no father exactly if it is the tail");
        // I2 holds by construction: only those states have a next.
        invariant!(
            self.father != Some(self.me) && self.next().is_none_or(|next| next.site != self.me),
            "I3: neither its father nor its next is the site itself"
        );
        Ok(())
    }

    fn check_together(sites: &[&Self], _: &[InFlight<'_, Message>]) -> Result<(), &'static str> {
        for site in sites {
            let fathers = std::iter::successors(site.father, |father| sites[father.index()].father);
            invariant!(
                fathers.take(sites.len()).count() < sites.len(),
                "I4: the fathers never lead round in a circle"
            );
        }
        Ok(())
    }
}

/// In the terms of `crates/proof/src/models/naimi_trehel.rs`.
impl Modelled for NaimiTrehel {
    fn facts(&self, facts: &mut ModelFacts) {
        let me = &self.me;
        facts.value("zero", &[], &0);
        facts.holds_if(self.state == NaimiTrehelState::Keeping, "keeping", &[me]);
        facts.holds_if(self.phase() == Phase::Waiting, "waiting", &[me]);
        facts.holds_if(self.phase() == Phase::Executing, "inside", &[me]);
        facts.value("requests", &[me], &self.requests);
        facts.holds_if(self.father.is_none(), "fatherless", &[me]);
        self.father.iter().for_each(|father| facts.holds("father", &[me, father]));
        if let Some(next) = self.next() {
            facts.holds("has_next", &[me]);
            facts.holds("next", &[me, &next.site, &next.number]);
        }
    }

    fn message_facts(from: SiteId, to: SiteId, message: &Message, facts: &mut ModelFacts) {
        match message {
            Message::Request(ask) => facts.holds("request_sent", &[&from, &to, &ask.site, &ask.number]),
            Message::Token { serves } => facts.holds("token_sent", &[&from, &to, serves]),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::world::{World, enter, misbehaved, send};

    fn request(site: SiteId, number: u64) -> Message {
        Message::Request(RequestId { site, number })
    }

    fn token(serves: u64) -> Message {
        Message::Token { serves }
    }

    /// Reference: the contended exchange at the head of this file.
    #[test]
    fn a_request_is_passed_on_to_whoever_asked_last() {
        let [s0, s1, s2] = SiteId::first();
        let mut world = World::<NaimiTrehel>::held_by(3, &[s0]);
        assert_eq!(world.request(s1), [send(s0, request(s1, 1))]);
        assert_eq!(world.request(s2), [send(s0, request(s2, 1))]);
        assert_eq!(world.deliver(s1, s0), []);
        assert_eq!(world.deliver(s2, s0), [send(s1, request(s2, 1))]);
        assert_eq!(world.deliver(s0, s1), []);
        assert_eq!(world.release(s0), [send(s1, token(1))]);
        assert_eq!(world.deliver(s0, s1), [enter()]);
        assert_eq!(world.release(s1), [send(s2, token(1))]);
        assert_eq!(world.deliver(s1, s2), [enter()]);
        assert_eq!(world.release(s2), []);
        assert!(world.is_quiet());
    }

    /// Reference: Ginat, Sleator and Tarjan: every site on the way points at the requester afterwards.
    #[test]
    fn a_request_along_a_chain_turns_every_pointer_to_the_requester() {
        let [s0, s1, s2, s3] = SiteId::first();
        let mut world = World::<NaimiTrehel>::of(4);
        // The fathers lead 3 → 2 → 1 → 0.
        world.site_mut(s3).father = Some(s2);
        world.site_mut(s2).father = Some(s1);
        assert_eq!(world.request(s3), [send(s2, request(s3, 1))]);
        assert_eq!(world.deliver(s3, s2), [send(s1, request(s3, 1))]);
        assert_eq!(world.deliver(s2, s1), [send(s0, request(s3, 1))]);
        assert_eq!(world.deliver(s1, s0), [send(s3, token(1))]);
        assert_eq!(world.deliver(s0, s3), [enter()]);
        assert_eq!([s0, s1, s2].map(|site| world.site(site).father), [Some(s3); 3]);
    }

    #[test]
    fn the_site_that_keeps_the_token_enters_again_without_a_message() {
        let [_, s1] = SiteId::first();
        let mut world = World::<NaimiTrehel>::of(2);
        let _ = world.request(s1);
        world.settle();
        assert_eq!(world.release(s1), []);
        assert_eq!(world.request(s1), [enter()]);
    }

    #[test]
    fn what_no_correct_peer_sends_changes_nothing_and_is_reported() {
        let [s0, s1, s2] = SiteId::first();
        let mut world = World::<NaimiTrehel>::of(3);
        let stranger = SiteId::new(9);
        let (unwanted, old) = ("a token that nobody waits for", "a request that was here before");
        assert_eq!(world.inject(stranger, s0, token(1)), [misbehaved(stranger, NOT_A_PEER)]);
        assert_eq!(world.inject(s0, s0, request(s1, 1)), [misbehaved(s0, NOT_A_PEER)]);
        for no_other in [stranger, s0] {
            let effects = world.inject(s1, s0, request(no_other, 1));
            assert_eq!(effects, [misbehaved(s1, "a request of no other site")]);
        }
        assert_eq!(world.inject(s0, s1, token(1)), [misbehaved(s0, unwanted)]);
        // S1 and S2 enter, then S1 asks again: what was sent before is worth nothing now.
        for site in [s1, s2] {
            let _ = world.request(site);
            world.settle();
            let _ = world.release(site);
        }
        let _ = world.request(s1);
        let before = world.sites().to_vec();
        assert_eq!(world.inject(s1, s0, request(s1, 1)), [misbehaved(s1, old)]);
        assert_eq!(world.inject(s0, s2, request(s2, 1)), [misbehaved(s0, "a request of no other site")]);
        assert_eq!(world.inject(s0, s1, token(1)), [misbehaved(s0, unwanted)]);
        assert_eq!(world.sites(), before);
    }
}
