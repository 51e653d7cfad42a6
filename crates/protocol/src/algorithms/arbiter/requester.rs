//! The requester half: gathers the permissions of a quorum, and gives them up while it lacks one.

use crate::mutant::{self, Mutant};
use crate::{Clock, ModelFacts, Numbers, Phase, SiteId, SiteSet, Timestamp, invariant};

use super::{DeadlockRules, Judged, Message, Post, Turn};

/// What the process at one site wants, and what the arbiters have answered.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Requester {
    rules: DeadlockRules,
    state: RequesterState,
    /// The arbiters that this request has asked and that have not failed since, in order of their ids.
    asks: Vec<ArbiterRequest>,
}

/// State of the local process.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum RequesterState {
    Idle,
    /// Waits to enter.
    Waiting {
        request: Timestamp,
        /// How many of the asked have not permitted it, or have their permission back.
        missing: usize,
        /// How many of the missing have refused, or have their permission back.
        refused: usize,
        /// So many sites have failed that the asked are no quorum, and there is none.
        stuck: bool,
    },
    /// Is in the critical section, on this request.
    Executing {
        request: Timestamp,
    },
}

/// What stands between a request and one arbiter.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct ArbiterRequest {
    arbiter: SiteId,
    answer: Answer,
    /// How often it has permitted this request.
    turn: Turn,
    /// It wants the permission back: the present one, or the next if its INQUIRE has overtaken the REPLY.
    inquired: bool,
}

/// The last word of an arbiter.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Answer {
    /// No answer yet.
    None,
    Failed,
    Permitted,
    /// It had permitted, and has the permission back.
    Yielded,
}

impl Answer {
    fn is_refusal(self) -> bool {
        matches!(self, Answer::Failed | Answer::Yielded)
    }
}

impl Requester {
    /// A requester whose process is idle.
    pub fn new(rules: DeadlockRules) -> Self {
        Requester { rules, state: RequesterState::Idle, asks: Vec::new() }
    }

    /// Gives the process that is inside from the start the permissions of `quorum`.
    #[must_use]
    pub fn inside(mut self, request: Timestamp, quorum: &SiteSet) -> Self {
        let permitted = |arbiter| ArbiterRequest {
            arbiter,
            answer: Answer::Permitted,
            turn: Turn::NONE.next(),
            inquired: false,
        };
        self.asks.extend(quorum.iter().map(permitted));
        self.state = RequesterState::Executing { request };
        self
    }

    /// Reserves memory for this many arbiters, so that no step allocates.
    pub fn make_room(&mut self, arbiters: usize) {
        self.asks.reserve_exact(arbiters);
    }

    /// Visits the numbers that only grow.
    pub fn numbers(&mut self, numbers: &mut Numbers<'_>) {
        if let RequesterState::Waiting { request, .. } | RequesterState::Executing { request } =
            &mut self.state
        {
            numbers.timestamp(request);
        }
    }

    /// What the process does.
    pub fn phase(&self) -> Phase {
        match self.state {
            RequesterState::Idle => Phase::Idle,
            RequesterState::Waiting { .. } => Phase::Waiting,
            RequesterState::Executing { .. } => Phase::Executing,
        }
    }

    /// The request that waits or executes.
    pub fn timestamp(&self) -> Option<Timestamp> {
        match self.state {
            RequesterState::Idle => None,
            RequesterState::Waiting { request, .. } | RequesterState::Executing { request } => Some(request),
        }
    }

    /// The arbiters that it has asked.
    pub fn asked(&self) -> impl Iterator<Item = SiteId> + '_ {
        self.asks.iter().map(|ask| ask.arbiter)
    }

    /// The arbiters whose permission it waits for.
    pub fn missing(&self) -> impl Iterator<Item = SiteId> + '_ {
        let waits = self.phase() == Phase::Waiting;
        let missing = move |ask: &&ArbiterRequest| waits && ask.answer != Answer::Permitted;
        self.asks.iter().filter(missing).map(|ask| ask.arbiter)
    }

    /// Whether it waits although no quorum can be formed.
    pub fn is_stuck(&self) -> bool {
        matches!(self.state, RequesterState::Waiting { stuck: true, .. })
    }

    /// Whether it waits for, or uses, something of `arbiter`.
    pub fn has_asked(&self, arbiter: SiteId) -> bool {
        self.find(arbiter).is_ok()
    }

    /// The arbiters whose permission it has now.
    pub fn permitted_by(&self) -> impl Iterator<Item = SiteId> + '_ {
        self.asks.iter().filter(|ask| ask.answer == Answer::Permitted).map(|ask| ask.arbiter)
    }

    /// Algorithm 9.5, step (a): asks all of `quorum`; without one, waits until there is.
    pub fn request(&mut self, request: Timestamp, quorum: Option<&SiteSet>, post: &mut Post<'_>) {
        assert!(self.state == RequesterState::Idle, "the host requests only while the process is idle");
        self.state = RequesterState::Waiting { request, missing: 0, refused: 0, stuck: true };
        self.form(quorum, post);
    }

    /// Goes on with `quorum`: asks those that it has not asked. All that it has ever asked and that runs must permit
    /// it, so that whoever is released has permitted. Without a quorum it waits, and keeps nothing from others.
    pub fn form(&mut self, quorum: Option<&SiteSet>, post: &mut Post<'_>) {
        let RequesterState::Waiting { request, missing, stuck, .. } = &mut self.state else { return };
        *stuck = quorum.is_none();
        for arbiter in quorum.into_iter().flat_map(SiteSet::iter) {
            if let Err(at) = self.asks.binary_search_by_key(&arbiter, |ask| ask.arbiter) {
                let ask = ArbiterRequest { arbiter, answer: Answer::None, turn: Turn::NONE, inquired: false };
                self.asks.insert(at, ask);
                *missing += 1;
                post.send(arbiter, Message::Request { clock: request.clock });
            }
        }
        self.enter_or_yield(post);
    }

    /// Algorithm 9.5, step (c): enters once all have permitted.
    pub fn on_reply(
        &mut self,
        from: SiteId,
        to: Clock,
        (turn, clock): (Turn, Clock),
        post: &mut Post<'_>,
    ) -> Judged {
        const UNEXPECTED: &str = "a reply that nobody waits for";
        let at = self.find(from).map_err(|_| UNEXPECTED)?;
        let ask = &mut self.asks[at];
        match &mut self.state {
            RequesterState::Waiting { request, missing, refused, .. }
                if request.clock == to && ask.answer != Answer::Permitted && turn == ask.turn.next() =>
            {
                *missing -= 1;
                *refused -= usize::from(ask.answer.is_refusal());
                (ask.answer, ask.turn) = (Answer::Permitted, turn);
                post.clock.observe(clock);
                self.enter_or_yield(post);
                Ok(())
            }
            RequesterState::Idle | RequesterState::Waiting { .. } | RequesterState::Executing { .. } => {
                Err(UNEXPECTED)
            }
        }
    }

    /// Section 9.8.1, FAILED: from now on this request yields to whoever inquires, and to those that have.
    pub fn on_failed(&mut self, from: SiteId, to: Clock, post: &mut Post<'_>) -> Judged {
        if !self.rules.has_refusals() {
            return Err("a refusal, where the rules know none");
        }
        let Some(at) = self.current(from, to, post.clock)? else { return Ok(()) };
        let ask = &mut self.asks[at];
        // After a REPLY it is late: overtaken.
        if let (RequesterState::Waiting { refused, .. }, Answer::None) = (&mut self.state, ask.answer) {
            ask.answer = Answer::Failed;
            *refused += 1;
            self.enter_or_yield(post);
        }
        Ok(())
    }

    /// Section 9.8.1, second rule: yields if it must, otherwise remembers that it was asked. (The printed rule forgets
    /// it.) Inside it does neither: the RELEASE will answer.
    pub fn on_inquire(&mut self, from: SiteId, to: Clock, turn: Turn, post: &mut Post<'_>) -> Judged {
        let Some(at) = self.current(from, to, post.clock)? else { return Ok(()) };
        let ask = &mut self.asks[at];
        let expected = if ask.answer == Answer::Permitted { ask.turn } else { ask.turn.next() };
        if turn > expected {
            return Err("an inquiry after a permission that was not given");
        }
        let RequesterState::Waiting { refused, .. } = self.state else {
            if mutant::is_on(Mutant::RequesterYieldsInside) {
                post.send(from, Message::Yield { request: to, turn });
            }
            return Ok(());
        };
        let forgets =
            self.rules == DeadlockRules::Printed || mutant::is_on(Mutant::RequesterForgottenInquire);
        if turn == expected && (!forgets || refused > 0) {
            ask.inquired = true;
            self.enter_or_yield(post);
        }
        Ok(())
    }

    /// Algorithm 9.5, step (d).
    pub fn release(&mut self, post: &mut Post<'_>) {
        let RequesterState::Executing { request } = self.state else {
            panic!("the host releases only while the process is inside")
        };
        for ask in self.asks.drain(..) {
            post.send(ask.arbiter, Message::Release { request: request.clock });
        }
        self.state = RequesterState::Idle;
    }

    /// `arbiter` has failed. Its permission counts no more, unless the process is inside already; nothing is sent to
    /// it. True if the request needs a new quorum.
    pub fn lose(&mut self, arbiter: SiteId) -> bool {
        let Ok(at) = self.find(arbiter) else { return false };
        let ask = self.asks.remove(at);
        let RequesterState::Waiting { missing, refused, .. } = &mut self.state else { return false };
        *missing -= usize::from(ask.answer != Answer::Permitted);
        *refused -= usize::from(ask.answer.is_refusal());
        true
    }

    /// Enters if nothing is missing; otherwise gives back what it is asked for, if the rules say so.
    fn enter_or_yield(&mut self, post: &mut Post<'_>) {
        let RequesterState::Waiting { request, missing, refused, stuck } = &mut self.state else { return };
        if *missing == 0 && !*stuck {
            self.state = RequesterState::Executing { request: *request };
            for ask in &mut self.asks {
                ask.inquired = false;
            }
            return post.enter();
        }
        if self.rules.has_refusals() && *refused == 0 && !*stuck {
            return;
        }
        for ask in &mut self.asks {
            if ask.inquired && ask.answer == Answer::Permitted {
                (ask.answer, ask.inquired) = (Answer::Yielded, false);
                *missing += 1;
                *refused += 1;
                post.send(ask.arbiter, Message::Yield { request: request.clock, turn: ask.turn });
            }
        }
    }

    fn find(&self, arbiter: SiteId) -> Result<usize, usize> {
        self.asks.binary_search_by_key(&arbiter, |ask| ask.arbiter)
    }

    /// Where the arbiter `from` stands with the request `to`; nowhere if that is over and the message is late.
    fn current(&self, from: SiteId, to: Clock, now: Clock) -> Result<Option<usize>, &'static str> {
        match self.timestamp() {
            Some(request) if request.clock == to => {
                self.find(from).map(Some).map_err(|_| "an answer from a site that was not asked")
            }
            Some(request) if request.clock < to => Err("an answer to a request that was not made"),
            None if now < to => Err("an answer to a request that was not made"),
            Some(_) | None => Ok(None),
        }
    }

    /// Adds what the requester `me` says of the model's state.
    pub(super) fn facts(&self, me: SiteId, facts: &mut ModelFacts) {
        facts.holds_if(self.phase() == Phase::Waiting, "waiting", &[&me]);
        facts.holds_if(self.phase() == Phase::Executing, "executing", &[&me]);
        for ask in &self.asks {
            facts.holds_if(ask.answer == Answer::Permitted, "permitted", &[&me, &ask.arbiter]);
            facts.holds_if(ask.answer.is_refusal(), "refused", &[&me, &ask.arbiter]);
            facts.holds_if(ask.inquired, "wanted_back", &[&me, &ask.arbiter]);
        }
    }

    /// The numbered invariants of a requester.
    pub fn check_invariants(&self) -> Judged {
        let count = |holds: fn(Answer) -> bool| self.asks.iter().filter(|ask| holds(ask.answer)).count();
        let lacking = count(|answer| answer != Answer::Permitted);
        match self.state {
            RequesterState::Idle => {
                invariant!(self.asks.is_empty(), "R1: an idle process has asked nobody");
            }
            RequesterState::Waiting { missing, refused, stuck, .. } => {
                invariant!(
                    missing == lacking && refused == count(Answer::is_refusal),
                    "R2: what is missing and refused is counted right"
                );
                invariant!(missing > 0 || stuck, "R3: a process that waits lacks a permission");
                let held_back = |ask: &ArbiterRequest| ask.inquired && ask.answer == Answer::Permitted;
                let must_yield = !self.rules.has_refusals() || refused > 0 || stuck;
                invariant!(
                    !(must_yield && self.asks.iter().any(held_back)),
                    "R4: whoever must yield keeps nothing that it was asked for"
                );
            }
            RequesterState::Executing { .. } => {
                invariant!(lacking == 0, "R5: all asked have permitted the process that is inside");
            }
        }
        Ok(())
    }
}
