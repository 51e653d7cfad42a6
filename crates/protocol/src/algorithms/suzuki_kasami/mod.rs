//! Suzuki and Kasami's algorithm: ask everyone for the token, which knows whom it has served.
//!
//! Kshemkalyani and Singhal, chapter 9, section 9.11, Algorithm 9.7; I. Suzuki and T. Kasami, "A distributed mutual
//! exclusion algorithm", 1985.
//!
//! Each site numbers its requests. A site that wants to enter without the token tells everyone its next number, and
//! everyone remembers the largest. The token carries the number of the last request of each site that was served, so
//! whoever has it sees who still waits: one whose remembered number is one larger. At each exit the newly seen waiters
//! join the token's queue, and the token goes to its head; if nobody waits it stays.
//!
//! ```text
//!  alone:  S2 ──REQUEST 1──▶ S0, S1       contended: S1 and S2 ask while S0 is inside
//!          S2 ◀──TOKEN────── S0                      S0 ──TOKEN [S2]──▶ S1      at its exit
//!          S2 enters, leaves, keeps it               S1 ──TOKEN []────▶ S2      at its exit
//! ```
//!
//! | | messages per entry | synchronisation delay | state | words per message |
//! |---|---|---|---|---|
//! | low load | 0 with the token, else N | – | N numbers; the token 2N more | REQUEST 4, TOKEN 4 + N + its queue |
//! | heavy load | N | T | the same | the same |
//!
//! **Assumes** reliable channels; order is not needed.
//!
//! **Departures**
//! - Step (b) compares `RN_j[i]` with `LN[i]`. The chapter prints `LN[j]`, the holder's own number: then an idle holder
//!   keeps the token from a site that waits, with N = 2 (`text=printed` keeps that variant for the checker;
//!   erratum `suzuki-kasami-step-b`).
//! - A REQUEST is outdated if its number is not larger than the largest known; the chapter says if it is smaller, which
//!   does no harm (`text=outdated`; erratum `suzuki-kasami-outdated`).
//! - Step (e) leaves a **choice** open: in which order those who wait are appended. By default they are appended in turn, beginning
//!   with the one after the holder, so that no site is favoured (a policy of ours); with `append=any` the host chooses.
//! - The token counts its hand-overs, so that a duplicate of it is recognised. The papers' channels do not duplicate.
//!
//! **Invariants**
//! - I1: no site is in the token's queue twice, and the site that has it is not there.
//! - I2: a parked token has an empty queue, and its site knows of nobody who waits.
//! - I3: nobody knows of a request that was not made.
//! - I4: a site without the token has one request more than the token has served exactly while it waits.

mod facts;
mod text;

use std::collections::VecDeque;
use std::fmt;

use text::SuzukiKasamiText;

use super::append::AppendOrder;
use crate::mutant::{self, Mutant};
use crate::registry::info::{
    BypassClaim, Channels, ClaimedBypass, Costs, Demands, Failures, Formula, Info, Kind, Memory, MessageInfo,
    OptionInfo, Order, Permits, Span, Tokens,
};
use crate::registry::values::Values;
use crate::site::InFlight;
use crate::view::listed;
use crate::{
    Algorithm, Cluster, Count, Described, Family, Holders, NOT_A_PEER, Numbers, Outbox, Phase, PlanError,
    Site, SiteCounts, SiteId, SiteSet, View, invariant,
};

/// One site of Suzuki and Kasami's algorithm.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct SuzukiKasami {
    // This site.
    me: SiteId,
    text: SuzukiKasamiText,
    append: AppendOrder,
    // The local process, and the token if it is here.
    state: SuzukiKasamiState,
    // What this site knows of the others.
    /// `RN`: the largest number of a request of each site that I know.
    requested: SiteCounts,
    /// How often the token had been handed over when I last knew.
    handovers: Count,
}

/// State of the local process, and whether the token is here.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum SuzukiKasamiState {
    /// Idle; the token is elsewhere.
    Away,
    /// Waits to enter; the token is elsewhere.
    Waiting,
    /// Idle; the token is here.
    Parked(Box<SuzukiKasamiToken>),
    Inside(Box<SuzukiKasamiToken>),
}

/// The one token.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct SuzukiKasamiToken {
    /// `LN`: the number of the last request of each site that was served.
    served: Box<[Count]>,
    /// `Q`: who gets it next, and after that.
    queue: VecDeque<SiteId>,
    /// How often it has been handed over.
    handovers: Count,
}

impl SuzukiKasamiToken {
    fn numbers(&mut self, numbers: &mut Numbers<'_>) {
        for (site, number) in SiteId::all(self.served.len()).zip(&mut self.served) {
            numbers.count(Family::Site(site), number);
        }
        numbers.count(Family::Token(0), &mut self.handovers);
    }

    /// Whether `site` waits if `requested` is the number of its last request: step (e).
    fn is_wanted_by(&self, site: SiteId, requested: Count) -> bool {
        requested == self.served[site.index()].next()
    }
}

/// What sites say to each other.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Message {
    /// From a site that wants to enter and has no token, to all others.
    Request {
        /// Which of the sender's requests it is, counted from 1.
        number: Count,
    },
    /// From the site that had the token, to one that waits: enter.
    Token(Box<SuzukiKasamiToken>),
}

#[cfg(feature = "serde")]
crate::numbered! { Message {
    0 => Request { number },
    1 => Token(value),
} }

impl fmt::Display for Message {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Message::Request { number } => write!(f, "REQUEST(n = {})", number.value()),
            Message::Token(token) => {
                let served = listed(token.served.iter().map(|served| served.value()));
                write!(f, "TOKEN(LN = [{served}], Q = [{}])", listed(&token.queue))
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
            Message::Request { number } => numbers.count(Family::Site(from), number),
            Message::Token(token) => token.numbers(numbers),
        }
    }

    fn words(&self) -> usize {
        match self {
            Message::Request { .. } => 4,
            Message::Token(token) => 4 + token.served.len() + token.queue.len(),
        }
    }

    fn tokens(&self) -> usize {
        match self {
            Message::Request { .. } => 0,
            Message::Token(_) => 1,
        }
    }
}

impl Site for SuzukiKasami {
    type Message = Message;

    /// Algorithm 9.7, requesting, step (a).
    fn request(&mut self, out: &mut Outbox<Message>) {
        self.state = match std::mem::replace(&mut self.state, SuzukiKasamiState::Waiting) {
            SuzukiKasamiState::Parked(token) => {
                out.enter();
                SuzukiKasamiState::Inside(token)
            }
            SuzukiKasamiState::Away => {
                let number = self.requested.get(self.me).next();
                self.requested.raise(self.me, number);
                out.broadcast(self.me, self.requested.len(), &Message::Request { number });
                SuzukiKasamiState::Waiting
            }
            SuzukiKasamiState::Waiting | SuzukiKasamiState::Inside(_) => {
                panic!("the host requests only while the process is idle")
            }
        };
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

    /// Algorithm 9.7, releasing, steps (d), (e) and (f).
    fn release(&mut self, out: &mut Outbox<Message>) {
        let SuzukiKasamiState::Inside(mut token) =
            std::mem::replace(&mut self.state, SuzukiKasamiState::Away)
        else {
            panic!("the host releases only while the process is inside");
        };
        token.served[self.me.index()] = self.requested.get(self.me);
        let queued: SiteSet = token.queue.iter().copied().collect();
        let before = token.queue.len();
        for site in SiteId::others_from(self.me, self.requested.len()) {
            if !queued.contains(site) && token.is_wanted_by(site, self.requested.get(site)) {
                token.queue.push_back(site);
            }
        }
        self.append.arrange(&mut token.queue, before, out);
        match token.queue.pop_front() {
            Some(next) => self.hand_over(token, next, out),
            None => self.state = SuzukiKasamiState::Parked(token),
        }
    }
}

impl SuzukiKasami {
    /// Algorithm 9.7, step (b): remember the number, and hand a parked token over if the request is not served yet.
    fn on_request(&mut self, from: SiteId, number: Count, out: &mut Outbox<Message>) {
        let known = self.requested.get(from);
        if number == known && self.text != SuzukiKasamiText::Outdated {
            return out.misbehaved(from, "a request with the number of its last");
        }
        if number < known {
            // Outdated: it was overtaken by a later one.
            return;
        }
        if let SuzukiKasamiState::Parked(token) = &self.state
            && self.text != SuzukiKasamiText::Printed
            && number > token.served[from.index()].next()
        {
            return out.misbehaved(from, "a request ahead of one that was not served");
        }
        self.requested.raise(from, number);
        if matches!(&self.state, SuzukiKasamiState::Parked(token) if self.must_have(token, from, number))
            && let SuzukiKasamiState::Parked(token) =
                std::mem::replace(&mut self.state, SuzukiKasamiState::Away)
        {
            self.hand_over(token, from, out);
        }
    }

    /// The condition of step (b).
    fn must_have(&self, token: &SuzukiKasamiToken, from: SiteId, number: Count) -> bool {
        match self.text {
            SuzukiKasamiText::Repaired | SuzukiKasamiText::Outdated => token.is_wanted_by(from, number),
            SuzukiKasamiText::Printed => number == token.served[self.me.index()].next(),
        }
    }

    fn hand_over(&mut self, mut token: Box<SuzukiKasamiToken>, to: SiteId, out: &mut Outbox<Message>) {
        token.handovers = token.handovers.next();
        self.handovers = token.handovers;
        let kept = mutant::is_on(Mutant::SuzukiKasamiTokenKept).then(|| token.clone());
        self.state = kept.map_or(SuzukiKasamiState::Away, SuzukiKasamiState::Parked);
        out.send(to, Message::Token(token));
    }

    /// Algorithm 9.7, step (c).
    fn on_token(&mut self, from: SiteId, token: Box<SuzukiKasamiToken>, out: &mut Outbox<Message>) {
        if token.handovers <= self.handovers {
            return out.misbehaved(from, "a token that has been handed over since");
        }
        // As printed, the token may be sent to a site that does not need it; the chapter calls that harmless.
        let waiting = self.state == SuzukiKasamiState::Waiting;
        let unneeded = self.state == SuzukiKasamiState::Away && self.text == SuzukiKasamiText::Printed;
        if !(waiting || unneeded) {
            return out.misbehaved(from, "a token that nobody waits for");
        }
        if !self.is_well_formed(&token) {
            return out.misbehaved(from, "a token of a wrong shape");
        }
        self.handovers = token.handovers;
        if waiting {
            self.state = SuzukiKasamiState::Inside(token);
            out.enter();
        } else {
            self.state = SuzukiKasamiState::Parked(token);
        }
    }

    /// Whether the token names each site once, knows all sites, and has not served my request yet.
    fn is_well_formed(&self, token: &SuzukiKasamiToken) -> bool {
        let sites = self.requested.len();
        let mut queued = SiteSet::new();
        let each_once = |&site: &SiteId| site.index() < sites && site != self.me && queued.insert(site);
        token.served.len() == sites
            && token.queue.iter().all(each_once)
            && (self.text == SuzukiKasamiText::Printed
                || token.is_wanted_by(self.me, self.requested.get(self.me)))
    }

    fn token(&self) -> Option<&SuzukiKasamiToken> {
        match &self.state {
            SuzukiKasamiState::Parked(token) | SuzukiKasamiState::Inside(token) => Some(token),
            SuzukiKasamiState::Away | SuzukiKasamiState::Waiting => None,
        }
    }
}

/// What all sites share: fixed before the first one starts.
#[derive(Clone, Debug)]
pub struct Plan {
    cluster: Cluster,
    text: SuzukiKasamiText,
    append: AppendOrder,
}

impl Described for SuzukiKasami {
    const INFO: Info = Info {
        name: "suzuki-kasami",
        title: "Suzuki and Kasami: ask everyone for the token, which knows whom it has served",
        source: "Kshemkalyani & Singhal ch. 9, section 9.11; Suzuki & Kasami 1985",
        kind: Kind::Token,
        permits: Permits::One,
        demands: Demands::PLAIN,
        tokens: Tokens::One,
        channels: Channels::Unordered,
        assumes: "reliable channels",
        order: Order::Fair,
        bypass: ClaimedBypass::AtMost(BypassClaim::each_other_once(
            "ch. 9, section 9.11, Theorem 9.3: \"there can be at most N - 1 requests in front of this request in the token queue\"",
        )),
        failures: Failures::NONE,
        options: &[
            AppendOrder::OPTION,
            OptionInfo::texts(
                SuzukiKasamiText::WORDS,
                "printed: step (b) with the holder's own number, which deadlocks; outdated: a REQUEST with the last number counts \
                 again, which does no harm; for the checker only",
            ),
        ],
        variants: &[],
        messages: &[
            MessageInfo {
                kind: "REQUEST",
                about: "from a site that wants to enter and has no token, to all others",
            },
            MessageInfo { kind: "TOKEN", about: "from the site that had it, to one that waits" },
        ],
        costs: Costs {
            lone_least: Formula::new("0", |_| 0.0),
            lone_most: Formula::new("N", |scale| if scale.sites == 1 { 0.0 } else { scale.sites as f64 }),
            heavy: Formula::new("N", |scale| if scale.sites == 1 { 0.0 } else { scale.sites as f64 }),
            always: Some(Span {
                least: Formula::new("0", |_| 0.0),
                most: Formula::new("N", |scale| scale.sites as f64),
            }),
            sync_delay: "T; 0 with the token",
        },
        memory: Memory { fixed: 120, per_site: 21 },
        departures: &[
            "step (b) compares with the number served of the requester (printed: of the holder; deadlocks)",
            "a REQUEST is outdated if its number is not larger than the largest known (printed: if smaller)",
            "the order of appending, which step (e) leaves open: from the site after the holder, or the host chooses",
            "the token counts its hand-overs, so that a duplicate is recognised",
        ],
    };
}

impl Algorithm for SuzukiKasami {
    type Plan = Plan;

    fn info(&self) -> &'static Info {
        &Self::INFO
    }

    fn plan(cluster: Cluster, values: &Values) -> Result<Plan, PlanError> {
        Ok(Plan { cluster, text: SuzukiKasamiText::of(values), append: AppendOrder::of(values) })
    }

    /// The token is with the holder, or idle at site 0. No request has been made.
    fn start(plan: &Plan, me: SiteId, holders: &Holders) -> Self {
        let sites = plan.cluster.sites;
        let token = || {
            let served = vec![Count::ZERO; sites].into();
            Box::new(SuzukiKasamiToken {
                served,
                queue: VecDeque::with_capacity(sites),
                handovers: Count::ZERO,
            })
        };
        let state = match (holders.contains(me), holders.token_home() == me) {
            (true, _) => SuzukiKasamiState::Inside(token()),
            (false, true) => SuzukiKasamiState::Parked(token()),
            (false, false) => SuzukiKasamiState::Away,
        };
        let requested = SiteCounts::zero(sites);
        SuzukiKasami { me, text: plan.text, append: plan.append, state, requested, handovers: Count::ZERO }
    }

    fn phase(&self) -> Phase {
        match self.state {
            SuzukiKasamiState::Away | SuzukiKasamiState::Parked(_) => Phase::Idle,
            SuzukiKasamiState::Waiting => Phase::Waiting,
            SuzukiKasamiState::Inside(_) => Phase::Executing,
        }
    }

    fn is_quiet(&self) -> bool {
        self.phase() == Phase::Idle
    }

    fn tokens(&self) -> usize {
        usize::from(self.token().is_some())
    }

    fn numbers(&mut self, numbers: &mut Numbers<'_>) {
        let me = self.me;
        self.requested.for_each_mut(|site, number| {
            if site == me {
                numbers.count(Family::Site(site), number);
            } else {
                numbers.remembered_count(Family::Site(site), number);
            }
        });
        numbers.remembered_count(Family::Token(0), &mut self.handovers);
        match &mut self.state {
            SuzukiKasamiState::Away | SuzukiKasamiState::Waiting => {}
            SuzukiKasamiState::Parked(token) | SuzukiKasamiState::Inside(token) => token.numbers(numbers),
        }
    }

    fn view(&self) -> View {
        let view = View::new().table("RN", self.requested.iter().map(|number| number.value()));
        match self.token() {
            Some(token) => view
                .table("LN", token.served.iter().map(|number| number.value()))
                .queue("token queue Q", &token.queue),
            None => view,
        }
    }

    fn check_invariants(&self) -> Result<(), &'static str> {
        let Some(token) = self.token() else { return Ok(()) };
        let queued: SiteSet = token.queue.iter().copied().collect();
        invariant!(
            queued.len() == token.queue.len() && !queued.contains(self.me),
            "I1: no site is in the token's queue twice, and the site that has it is not there"
        );
        if matches!(self.state, SuzukiKasamiState::Parked(_)) && self.text != SuzukiKasamiText::Printed {
            invariant!(
                queued.is_empty()
                    && self.requested.iter().zip(&token.served).all(|(asked, served)| asked <= *served),
                "I2: a parked token has an empty queue, and its site knows of nobody who waits"
            );
        }
        Ok(())
    }

    fn check_together(sites: &[&Self], in_flight: &[InFlight<'_, Message>]) -> Result<(), &'static str> {
        let asked = |site: &Self| site.requested.get(site.me);
        for site in sites {
            let known = sites.iter().map(|other| other.requested.get(site.me)).max();
            invariant!(known == Some(asked(site)), "I3: nobody knows of a request that was not made");
        }
        let travelling = in_flight.iter().find_map(|(_, _, message)| match message {
            Message::Token(token) => Some(&**token),
            Message::Request { .. } => None,
        });
        let Some(token) = sites.iter().find_map(|site| site.token()).or(travelling) else { return Ok(()) };
        for site in sites.iter().filter(|site| site.token().is_none()) {
            invariant!(
                token.is_wanted_by(site.me, asked(site)) == (site.phase() == Phase::Waiting),
                "I4: a site without the token has one request more than it has served exactly while it waits"
            );
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
