//! Srimani and Reddy's algorithm for K permits: K tokens, each as in Suzuki and Kasami's algorithm.
//!
//! P. K. Srimani and R. L. Reddy, "Another distributed algorithm for multiple entries to a critical section",
//! Information Processing Letters 41 (1992), pages 51–57; compared in Bulgannawar and Vaidya's report, section 5. For
//! the one token of which this is the K-fold: Kshemkalyani and Singhal, chapter 9, section 9.11.
//!
//! A site that wants to enter and has no token sends its request number to all others. A site with an idle token
//! answers with it. A site that leaves writes into its token that its own requests are served, appends all who wait as
//! far as it knows, and passes it to the first of the queue; if nobody waits it keeps the token. A token knows only who
//! was served *with it*. So one that is sent for a request may come when another has served it: then it is passed on at
//! once.
//!
//! ```text
//!  alone, K=2: S2 ──REQUEST(1)──▶ S0, S1        contended: S0 and S1 are inside, S2 and S3 ask
//!              S2 ◀──TOKEN 0──── S0                        S0 leaves ──TOKEN 0 [S3]──▶ S2 enters
//!              S2 enters                                   S1 leaves ──TOKEN 1 [S3]──▶ S2, too late ──▶ S3 enters
//!              S2 ◀──TOKEN 1──── S1   S2 keeps it          S2 leaves ──TOKEN 0──▶ S3, too late: S3 keeps it
//! ```
//!
//! | | messages per entry | synchronisation delay | state | words per message |
//! |---|---|---|---|---|
//! | low load | 0 with an idle token, else N−1+K at most | – | N+K numbers | REQUEST 4 |
//! | heavy load | N to N+K−1 | T | N numbers and a queue a token | TOKEN 5 + N + queue |
//!
//! **Assumes** reliable channels; FIFO is not needed. As in the report's simulation, numbers do not wrap: the paper's
//! bounded counters cost more messages.
//!
//! **Departures**
//! - Two **choices** are open: in which order those who wait are appended, and which of several idle tokens a site uses or sends. By
//!   default they are appended in turn from the site after the holder, as in Suzuki and Kasami's algorithm, so that no site
//!   is favoured, and the token that came last is taken (policies of ours); with `append=any` and `token=any` the host
//!   chooses.
//! - Each token counts its moves, and a site remembers the count at which it last had each token, so that a duplicate
//!   is recognised.
//!
//! **Invariants**
//! - I1: a site that waits has no token.
//! - I2: a token's queue names no site twice, and not the site where the token is.
//! - I3: every token is in exactly one place, and nobody has seen a later move of it.
//! - I4: a request that waits is known at every other site, or on its way there.

mod facts;
#[cfg(test)]
mod tests;

use std::collections::VecDeque;
use std::fmt;

use smallvec::SmallVec;

use super::append::AppendOrder;
use crate::mutant::{self, Mutant};
use crate::registry::info::{
    BypassClaim, Channels, ClaimedBypass, Costs, Demands, Failures, Formula, Info, Kind, Memory, MessageInfo,
    OptionInfo, Order, Permits, Range, Scale, Span, Tokens,
};
use crate::registry::values::Values;
use crate::site::InFlight;
use crate::view::listed;
use crate::{
    Algorithm, Cluster, Described, Family, Holders, NOT_A_PEER, Numbers, Outbox, Phase, PlanError, Site,
    SiteId, SiteSet, Slot, View, invariant,
};

/// One site of Srimani and Reddy's algorithm.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct SrimaniReddy {
    // This site.
    me: SiteId,
    append: AppendOrder,
    token: TokenChoice,
    // The local process.
    state: SrimaniReddyState,
    /// The tokens that are here and not in use.
    idle: SmallVec<[Box<SrimaniReddyToken>; 2]>,
    // What this site knows of the others.
    /// `RN`: the number of the last request of each site, my own among them.
    requested: Box<[u64]>,
    /// For each token, its moves when it last came or left.
    moves: Box<[u64]>,
}

/// Which of several idle tokens a site takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum TokenChoice {
    /// The one that came last.
    Last,
    /// The host chooses.
    Any,
}

/// State of the local process.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum SrimaniReddyState {
    Idle,
    /// Waits to enter.
    Waiting,
    /// Is in the critical section, with this token.
    Executing {
        token: Box<SrimaniReddyToken>,
    },
}

/// One of the K tokens.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct SrimaniReddyToken {
    pub slot: Slot,
    pub moves: u64,
    /// `LN`: for each site, the number of its last request when it last had this token. All up to it are served.
    pub served: Box<[u64]>,
    /// `Q`: who gets it next, in order.
    pub queue: VecDeque<SiteId>,
}

impl SrimaniReddyToken {
    fn numbers(&mut self, numbers: &mut Numbers<'_>) {
        for (site, number) in SiteId::all(self.served.len()).zip(&mut self.served) {
            numbers.number(Family::Site(site), number);
        }
        numbers.number(Family::Token(self.slot.0 as usize), &mut self.moves);
    }
}

/// What sites say to each other.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Message {
    /// From a site that wants to enter and has no token, to all others.
    Request {
        /// The sequence number of the request at its site.
        number: u64,
    },
    /// From a site that no longer needs the token, to one that it believes to wait: enter, or pass it on.
    Token(Box<SrimaniReddyToken>),
}

#[cfg(feature = "serde")]
crate::numbered! { Message {
    0 => Request { number },
    1 => Token(value),
} }

impl fmt::Display for Message {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Message::Request { number } => write!(f, "REQUEST(n = {number})"),
            Message::Token(token) => {
                let (served, queue) = (listed(&token.served), listed(&token.queue));
                write!(f, "TOKEN {}(LN = [{served}], Q = [{queue}])", token.slot.0)
            }
        }
    }
}

impl crate::Message for Message {
    fn kind(&self) -> &'static str {
        match self {
            Message::Request { .. } => "REQUEST",
            Message::Token(_) => "TOKEN",
        }
    }

    fn numbers(&mut self, from: SiteId, _: SiteId, numbers: &mut Numbers<'_>) {
        match self {
            Message::Request { number } => numbers.number(Family::Site(from), number),
            Message::Token(token) => token.numbers(numbers),
        }
    }

    fn words(&self) -> usize {
        match self {
            Message::Request { .. } => 4,
            Message::Token(token) => 5 + token.served.len() + token.queue.len(),
        }
    }

    fn tokens(&self) -> usize {
        match self {
            Message::Request { .. } => 0,
            Message::Token(_) => 1,
        }
    }
}

impl Site for SrimaniReddy {
    type Message = Message;

    /// With an idle token enter at once; otherwise ask everyone.
    fn request(&mut self, out: &mut Outbox<Message>) {
        assert!(self.state == SrimaniReddyState::Idle, "the host requests only while the process is idle");
        self.requested[self.me.index()] += 1;
        if let Some(token) = self.take_idle(out) {
            self.become_executing(token, out);
        } else {
            let number = self.requested[self.me.index()];
            out.broadcast(self.me, self.requested.len(), &Message::Request { number });
            self.state = SrimaniReddyState::Waiting;
        }
    }

    fn receive(&mut self, from: SiteId, message: Message, out: &mut Outbox<Message>) {
        if from == self.me || from.index() >= self.requested.len() {
            return out.misbehaved(from, NOT_A_PEER);
        }
        match message {
            Message::Request { number } => self.on_request(from, number, out),
            Message::Token(token) => self.on_token(from, token, out),
        }
    }

    fn release(&mut self, out: &mut Outbox<Message>) {
        match std::mem::replace(&mut self.state, SrimaniReddyState::Idle) {
            SrimaniReddyState::Executing { token } => self.pass_on(token, out),
            SrimaniReddyState::Idle | SrimaniReddyState::Waiting => {
                panic!("the host releases only while the process is inside")
            }
        }
    }
}

impl SrimaniReddy {
    /// An idle holder answers with one token, unless a token here knows that the request is served.
    fn on_request(&mut self, from: SiteId, number: u64, out: &mut Outbox<Message>) {
        let last = &mut self.requested[from.index()];
        if number == *last {
            return out.misbehaved(from, "a request that has come before");
        }
        if number < *last {
            return; // A newer one has overtaken it: it is served.
        }
        *last = number;
        if self.idle.iter().all(|token| token.served[from.index()] < number)
            && let Some(token) = self.take_idle(out)
        {
            if mutant::is_on(Mutant::SrimaniReddyTokenKept) {
                self.idle.push(token.clone());
            }
            self.send_token(from, token, out);
        }
    }

    /// Enter if this site still waits; otherwise the token has come too late and goes on.
    fn on_token(&mut self, from: SiteId, token: Box<SrimaniReddyToken>, out: &mut Outbox<Message>) {
        if let Some(why) = self.refuses(&token) {
            return out.misbehaved(from, why);
        }
        self.moves[token.slot.0 as usize] = token.moves;
        if self.state == SrimaniReddyState::Waiting {
            self.become_executing(token, out);
        } else {
            self.pass_on(token, out);
        }
    }

    /// Why no correct site could have sent this token, if so.
    fn refuses(&self, token: &SrimaniReddyToken) -> Option<&'static str> {
        let sites = self.requested.len();
        let Some(&moves) = self.moves.get(token.slot.0 as usize) else {
            return Some("a token that does not exist");
        };
        let cannot_follow = |site: &SiteId| *site == self.me || site.index() >= sites;
        if token.served.len() != sites
            || token.queue.len() > sites
            || token.queue.iter().any(cannot_follow)
            || token.moves == u64::MAX
        {
            return Some("a token that cannot be");
        }
        if token.moves <= moves {
            return Some("a token that has come before");
        }
        let inside =
            matches!(&self.state, SrimaniReddyState::Executing { token: held } if held.slot == token.slot);
        let here = inside || self.idle.iter().any(|held| held.slot == token.slot);
        here.then_some("a token that is here already")
    }

    /// One of the idle tokens, if there is one.
    fn take_idle(&mut self, out: &mut Outbox<Message>) -> Option<Box<SrimaniReddyToken>> {
        match (self.token, self.idle.len()) {
            (_, 0) => None,
            (TokenChoice::Last, _) => self.idle.pop(),
            (TokenChoice::Any, tokens) => Some(self.idle.remove(out.choose(tokens))),
        }
    }

    fn become_executing(&mut self, token: Box<SrimaniReddyToken>, out: &mut Outbox<Message>) {
        let slot = if mutant::is_on(Mutant::SrimaniReddyWrongSlot) { Slot::default() } else { token.slot };
        out.enter_slot(slot);
        self.state = SrimaniReddyState::Executing { token };
    }

    /// Suzuki and Kasami's release: my requests are served, all who wait as far as I know join the queue, and its first
    /// gets the token. Nobody waits: I keep it.
    fn pass_on(&mut self, mut token: Box<SrimaniReddyToken>, out: &mut Outbox<Message>) {
        token.served[self.me.index()] = self.requested[self.me.index()];
        let queued: SiteSet = token.queue.iter().copied().collect();
        let before = token.queue.len();
        for site in SiteId::others_from(self.me, self.requested.len()) {
            if self.requested[site.index()] > token.served[site.index()] && !queued.contains(site) {
                token.queue.push_back(site);
            }
        }
        self.append.arrange(&mut token.queue, before, out);
        match token.queue.pop_front() {
            Some(first) => self.send_token(first, token, out),
            None => self.idle.push(token),
        }
    }

    fn send_token(&mut self, to: SiteId, mut token: Box<SrimaniReddyToken>, out: &mut Outbox<Message>) {
        token.moves += 1;
        self.moves[token.slot.0 as usize] = token.moves;
        out.send(to, Message::Token(token));
    }

    fn tokens_here(&self) -> impl Iterator<Item = &SrimaniReddyToken> {
        let in_use = match &self.state {
            SrimaniReddyState::Executing { token } => Some(token),
            SrimaniReddyState::Idle | SrimaniReddyState::Waiting => None,
        };
        self.idle.iter().chain(in_use).map(|token| &**token)
    }
}

/// All K tokens come, unless there is one for every site.
fn all_tokens(scale: Scale) -> f64 {
    if scale.permits < scale.sites { (scale.sites - 1 + scale.permits) as f64 } else { 0.0 }
}

impl Described for SrimaniReddy {
    const INFO: Info = Info {
        name: "srimani-reddy",
        title: "Srimani and Reddy: K tokens, requests to everyone, idle holders answer",
        source: "Srimani & Reddy, Information Processing Letters 41 (1992), 51–57; Bulgannawar & Vaidya 1994, section 5",
        kind: Kind::Token,
        permits: Permits::Many,
        demands: Demands::PLAIN,
        tokens: Tokens::PerPermit,
        channels: Channels::Unordered,
        assumes: "reliable channels",
        order: Order::Fair,
        bypass: ClaimedBypass::AtMost(BypassClaim::each_other_once(
            "with one permit it is Suzuki and Kasami's algorithm, ch. 9, Theorem 9.3; of more permits nothing is claimed, because a \
             site that keeps an idle token asks nobody",
        )),
        failures: Failures::NONE,
        options: &[
            AppendOrder::OPTION,
            OptionInfo {
                name: "token",
                about: "which of several idle tokens a site uses or sends: the one that came last, or any, which the host chooses",
                range: Range::Open { policies: &["last"], any: "any" },
                default: "last",
            },
        ],
        variants: &[],
        messages: &[
            MessageInfo {
                kind: "REQUEST",
                about: "from a site that wants to enter and has no token, to all others",
            },
            MessageInfo { kind: "TOKEN", about: "to a site that is believed to wait: enter, or pass it on" },
        ],
        costs: Costs {
            lone_least: Formula::new("0", |_| 0.0),
            lone_most: Formula::new("N+K−1", all_tokens),
            heavy: Formula::new("N to N+K−1", all_tokens),
            always: Some(Span {
                least: Formula::new("0", |_| 0.0),
                most: Formula::new("N+K−1", |scale| (scale.sites + scale.permits - 1) as f64),
            }),
            sync_delay: "T",
        },
        memory: Memory { fixed: 260, per_site: 20 },
        departures: &[
            "the order of appending and the idle token to take, which are open: from the site after the holder, the last one; or the \
             host chooses",
            "each token counts its moves, so that duplicates are recognised",
        ],
    };
}

/// What all sites share: fixed before the first one starts.
#[derive(Clone, Debug)]
pub struct Plan {
    cluster: Cluster,
    append: AppendOrder,
    token: TokenChoice,
}

impl Algorithm for SrimaniReddy {
    type Plan = Plan;

    fn info(&self) -> &'static Info {
        &Self::INFO
    }

    fn plan(cluster: Cluster, values: &Values) -> Result<Plan, PlanError> {
        let token = if values.get("token") == "any" { TokenChoice::Any } else { TokenChoice::Last };
        Ok(Plan { cluster, append: AppendOrder::of(values), token })
    }

    /// The first tokens are in use at the holders, the others idle at sites that have none.
    fn start(plan: &Plan, me: SiteId, holders: &Holders) -> Self {
        let cluster = plan.cluster;
        let home = |slot: &usize| holders.slot_home(*slot, cluster.sites) == me;
        let token = |slot: usize| {
            Box::new(SrimaniReddyToken {
                slot: Slot(u32::try_from(slot).expect("fewer than 2^32 permits")),
                moves: 0,
                served: vec![0; cluster.sites].into(),
                queue: VecDeque::with_capacity(cluster.sites),
            })
        };
        let mut idle: SmallVec<_> = (0..cluster.permits).filter(home).map(token).collect();
        let state = if holders.contains(me) {
            SrimaniReddyState::Executing { token: idle.remove(0) }
        } else {
            SrimaniReddyState::Idle
        };
        SrimaniReddy {
            me,
            append: plan.append,
            token: plan.token,
            state,
            idle,
            requested: vec![0; cluster.sites].into(),
            moves: vec![0; cluster.permits].into(),
        }
    }

    fn phase(&self) -> Phase {
        match self.state {
            SrimaniReddyState::Idle => Phase::Idle,
            SrimaniReddyState::Waiting => Phase::Waiting,
            SrimaniReddyState::Executing { .. } => Phase::Executing,
        }
    }

    fn is_quiet(&self) -> bool {
        self.state == SrimaniReddyState::Idle
    }

    /// With one permit only.
    fn bypass_claim(&self) -> Option<BypassClaim> {
        Self::INFO.bypass.claim().filter(|_| self.moves.len() == 1)
    }

    fn tokens(&self) -> usize {
        self.tokens_here().count()
    }

    fn numbers(&mut self, numbers: &mut Numbers<'_>) {
        for (site, number) in SiteId::all(self.requested.len()).zip(&mut self.requested) {
            if site == self.me {
                numbers.number(Family::Site(site), number);
            } else {
                numbers.remembered(Family::Site(site), number);
            }
        }
        for (token, moves) in self.moves.iter_mut().enumerate() {
            numbers.remembered(Family::Token(token), moves);
        }
        self.idle.iter_mut().for_each(|token| token.numbers(numbers));
        if let SrimaniReddyState::Executing { token } = &mut self.state {
            token.numbers(numbers);
        }
    }

    fn view(&self) -> View {
        let view = View::new().table("RN", &self.requested);
        self.tokens_here().fold(view, |view, token| {
            view.table_of("LN", token.slot, &token.served).queue("token queue Q", &token.queue)
        })
    }

    fn check_invariants(&self) -> Result<(), &'static str> {
        invariant!(
            self.state != SrimaniReddyState::Waiting || self.idle.is_empty(),
            "I1: a site that waits has no token"
        );
        for token in self.tokens_here() {
            let queued: SiteSet = token.queue.iter().copied().collect();
            invariant!(
                queued.len() == token.queue.len() && !queued.contains(self.me),
                "I2: a token's queue names no site twice, and not the site where it is"
            );
        }
        Ok(())
    }

    fn check_together(sites: &[&Self], in_flight: &[InFlight<'_, Message>]) -> Result<(), &'static str> {
        let here = sites.iter().flat_map(|site| site.tokens_here());
        let travelling = in_flight.iter().filter_map(|(_, _, message)| match message {
            Message::Token(token) => Some(&**token),
            Message::Request { .. } => None,
        });
        let mut tokens: Vec<&SrimaniReddyToken> = here.chain(travelling).collect();
        tokens.sort_unstable_by_key(|token| token.slot);
        let latest = |slot: usize| sites.iter().map(|site| site.moves[slot]).max();
        let in_place = |(slot, token): (usize, &&SrimaniReddyToken)| {
            token.slot.0 as usize == slot && Some(token.moves) == latest(slot)
        };
        invariant!(
            tokens.len() == sites[0].moves.len() && tokens.iter().enumerate().all(in_place),
            "I3: every token is in exactly one place, and nobody has seen a later move of it"
        );
        for waiting in sites.iter().filter(|site| site.state == SrimaniReddyState::Waiting) {
            let number = waiting.requested[waiting.me.index()];
            let coming = |to: SiteId| {
                let request = Message::Request { number };
                in_flight.iter().any(|&(a, b, message)| a == waiting.me && b == to && *message == request)
            };
            let known = |site: &&Self| site.requested[waiting.me.index()] == number || coming(site.me);
            invariant!(
                sites.iter().all(known),
                "I4: a request that waits is known at every other site, or on its way there"
            );
        }
        Ok(())
    }
}
