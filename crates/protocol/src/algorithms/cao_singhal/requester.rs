//! The requester half: gathers the permissions of a quorum, gives them up while it lacks one, and passes them on as it leaves.

use crate::algorithms::arbiter::{DeadlockRules, Judged, Post, Turn};
use crate::mutant::{self, Mutant};
use crate::{Clock, Numbers, Phase, SiteId, SiteSet, Timestamp, invariant};

use super::{Message, NextRequest};

/// What the process at one site wants, and what the arbiters have answered.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct TransferRequester {
    rules: DeadlockRules,
    state: TransferState,
    /// The arbiters that this request has asked, in order of their ids.
    asks: Vec<AskedArbiter>,
}

/// State of the local process.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum TransferState {
    Idle,
    /// Waits to enter.
    Waiting {
        request: Timestamp,
    },
    /// Is in the critical section, on this request.
    Executing {
        request: Timestamp,
    },
}

/// What stands between a request and one arbiter.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct AskedArbiter {
    arbiter: SiteId,
    answer: LastAnswer,
    /// How often its permission has been given to this request.
    turn: Turn,
    /// `inq_queue`: it wants the permission back: the present one, or the next if its INQUIRE has overtaken the REPLY.
    inquired: bool,
    /// `tran_stack`: who gets the permission from here: the present one, or the next if the TRANSFER has overtaken the REPLY.
    next: Option<NextRequest>,
}

/// The last word of an arbiter.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum LastAnswer {
    /// No answer yet.
    None,
    Failed,
    Permitted,
    /// Its permission was here, and has been given back.
    Yielded,
}

impl AskedArbiter {
    /// The permission that a message of the arbiter is about if it is about the present one, or the next.
    fn expected(&self) -> Turn {
        if self.answer == LastAnswer::Permitted { self.turn } else { self.turn.next() }
    }

    /// An arbiter names an earlier request if it corrects itself, never a later one: what it said first may come last.
    fn note_next(&mut self, next: NextRequest) {
        if self.next.is_none_or(|known| next.request < known.request) {
            self.next = Some(next);
        }
    }
}

impl TransferRequester {
    /// A requester whose process is idle. Reserves memory for this many arbiters, so that no step allocates.
    pub(super) fn new(rules: DeadlockRules, arbiters: usize) -> Self {
        TransferRequester { rules, state: TransferState::Idle, asks: Vec::with_capacity(arbiters) }
    }

    /// Gives the process that is inside from the start the permissions of `quorum`.
    #[must_use]
    pub(super) fn inside(mut self, request: Timestamp, quorum: &SiteSet) -> Self {
        let permitted = |arbiter| AskedArbiter {
            arbiter,
            answer: LastAnswer::Permitted,
            turn: Turn::NONE.next(),
            inquired: false,
            next: None,
        };
        self.asks.extend(quorum.iter().map(permitted));
        self.state = TransferState::Executing { request };
        self
    }

    /// Visits the numbers that only grow.
    pub(super) fn numbers(&mut self, numbers: &mut Numbers<'_>) {
        if let TransferState::Waiting { request } | TransferState::Executing { request } = &mut self.state {
            numbers.timestamp(request);
        }
        self.asks
            .iter_mut()
            .flat_map(|ask| &mut ask.next)
            .for_each(|next| numbers.timestamp(&mut next.request));
    }

    /// What the process does.
    pub(super) fn phase(&self) -> Phase {
        match self.state {
            TransferState::Idle => Phase::Idle,
            TransferState::Waiting { .. } => Phase::Waiting,
            TransferState::Executing { .. } => Phase::Executing,
        }
    }

    /// The request that waits or executes.
    pub(super) fn timestamp(&self) -> Option<Timestamp> {
        match self.state {
            TransferState::Idle => None,
            TransferState::Waiting { request } | TransferState::Executing { request } => Some(request),
        }
    }

    /// The arbiters whose permission it waits for.
    pub(super) fn missing(&self) -> impl Iterator<Item = SiteId> + '_ {
        let waits = self.phase() == Phase::Waiting;
        let missing = move |ask: &&AskedArbiter| waits && ask.answer != LastAnswer::Permitted;
        self.asks.iter().filter(missing).map(|ask| ask.arbiter)
    }

    /// The arbiters whose permission is here.
    pub(super) fn permitted_by(&self) -> impl Iterator<Item = SiteId> + '_ {
        self.asks.iter().filter(|ask| ask.answer == LastAnswer::Permitted).map(|ask| ask.arbiter)
    }

    /// To whom the permission of each arbiter goes from here, as far as is known.
    pub(super) fn forwards(&self) -> impl Iterator<Item = (SiteId, Timestamp)> + '_ {
        self.asks.iter().filter_map(|ask| Some((ask.arbiter, ask.next?.request)))
    }

    /// Asks all of `quorum`.
    pub(super) fn request(&mut self, request: Timestamp, quorum: &SiteSet, post: &mut Post<'_, Message>) {
        assert!(self.state == TransferState::Idle, "the host requests only while the process is idle");
        self.state = TransferState::Waiting { request };
        for arbiter in quorum.iter() {
            let (answer, turn) = (LastAnswer::None, Turn::NONE);
            self.asks.push(AskedArbiter { arbiter, answer, turn, inquired: false, next: None });
            post.send(arbiter, Message::Request { clock: request.clock });
        }
    }

    /// A REPLY, of the arbiter or of the site that had its permission before: enters once all are here.
    pub(super) fn on_reply(
        &mut self,
        arbiter: SiteId,
        (to, turn): (Clock, Turn),
        next: Option<NextRequest>,
        post: &mut Post<'_, Message>,
    ) -> Judged {
        const UNEXPECTED: &str = "a reply that nobody waits for";
        let TransferState::Waiting { request } = self.state else { return Err(UNEXPECTED) };
        let at = self.find(arbiter).map_err(|_| UNEXPECTED)?;
        let ask = &mut self.asks[at];
        if request.clock != to || ask.answer == LastAnswer::Permitted || turn != ask.turn.next() {
            return Err(UNEXPECTED);
        }
        (ask.answer, ask.turn) = (LastAnswer::Permitted, turn);
        if let Some(next) = next {
            ask.note_next(next);
        }
        self.enter_or_yield(post);
        Ok(())
    }

    /// A FAILED: from now on this request yields to whoever inquires, and to those that have.
    pub(super) fn on_failed(&mut self, from: SiteId, to: Clock, post: &mut Post<'_, Message>) -> Judged {
        if !self.rules.has_refusals() {
            return Err("a refusal, where the rules know none");
        }
        let Some(at) = self.current(from, to, post.clock)? else { return Ok(()) };
        // After a REPLY it is late: overtaken.
        if self.asks[at].answer == LastAnswer::None {
            self.asks[at].answer = LastAnswer::Failed;
            self.enter_or_yield(post);
        }
        Ok(())
    }

    /// A TRANSFER: remembers who gets the arbiter's permission from here. If the permission has been given back, or has gone
    /// on, the arbiter knows by now or soon, and makes up for it.
    pub(super) fn on_transfer(
        &mut self,
        from: SiteId,
        (to, turn): (Clock, Turn),
        next: NextRequest,
        post: &mut Post<'_, Message>,
    ) -> Judged {
        let Some(at) = self.meant(from, (to, turn), post.clock)? else { return Ok(()) };
        self.asks[at].note_next(next);
        Ok(())
    }

    /// An INQUIRE: a TRANSFER, and yields if it must; otherwise remembers that it was asked. Inside it does not: the RELEASE
    /// will answer.
    pub(super) fn on_inquire(
        &mut self,
        from: SiteId,
        (to, turn): (Clock, Turn),
        next: NextRequest,
        post: &mut Post<'_, Message>,
    ) -> Judged {
        let Some(at) = self.meant(from, (to, turn), post.clock)? else { return Ok(()) };
        self.asks[at].note_next(next);
        if self.phase() == Phase::Waiting {
            self.asks[at].inquired = true;
            self.enter_or_yield(post);
        }
        Ok(())
    }

    /// Leaves: every permission goes to the request that its arbiter has named, or back to the arbiter.
    pub(super) fn release(&mut self, post: &mut Post<'_, Message>) {
        let TransferState::Executing { request } = self.state else {
            panic!("the host releases only while the process is inside")
        };
        let (request, clock) = (request.clock, post.clock);
        for AskedArbiter { arbiter, next, .. } in self.asks.drain(..) {
            // To the arbiter's own process the permission comes with the RELEASE.
            let next = next.filter(|next| next.request.site != arbiter);
            if let Some(NextRequest { request: Timestamp { clock: to, site }, turn }) = next {
                post.send(site, Message::Reply { arbiter, to, turn, clock, next: None });
            }
            let said = next.filter(|_| !mutant::is_on(Mutant::CaoSinghalUntoldForward));
            post.send(arbiter, Message::Release { request, forwarded: said.map(|next| next.request) });
        }
        self.state = TransferState::Idle;
    }

    /// Enters if nothing is missing; otherwise gives back what it is asked for, if the rules say so.
    fn enter_or_yield(&mut self, post: &mut Post<'_, Message>) {
        let TransferState::Waiting { request } = self.state else { return };
        if self.missing().next().is_none() {
            self.state = TransferState::Executing { request };
            self.asks.iter_mut().for_each(|ask| ask.inquired = false);
            return post.enter();
        }
        if !self.must_yield() {
            return;
        }
        for ask in &mut self.asks {
            if ask.inquired && ask.answer == LastAnswer::Permitted {
                (ask.answer, ask.inquired) = (LastAnswer::Yielded, false);
                if !mutant::is_on(Mutant::CaoSinghalTransferKept) {
                    ask.next = None;
                }
                post.send(ask.arbiter, Message::Yield { request: request.clock, turn: ask.turn });
            }
        }
    }

    /// Whether a request that waits gives back what it is asked for: always, or once it has been refused somewhere.
    fn must_yield(&self) -> bool {
        let refused = |ask: &AskedArbiter| matches!(ask.answer, LastAnswer::Failed | LastAnswer::Yielded);
        !self.rules.has_refusals() || self.asks.iter().any(refused)
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

    /// The same, if the message is about the present permission or the next.
    fn meant(
        &self,
        from: SiteId,
        (to, turn): (Clock, Turn),
        now: Clock,
    ) -> Result<Option<usize>, &'static str> {
        let Some(at) = self.current(from, to, now)? else { return Ok(None) };
        let expected = self.asks[at].expected();
        if turn > expected {
            return Err("a word about a permission that was not given");
        }
        Ok((turn == expected).then_some(at))
    }

    /// The numbered invariants of a requester.
    pub(super) fn check_invariants(&self) -> Judged {
        let lacks = self.asks.iter().any(|ask| ask.answer != LastAnswer::Permitted);
        match self.state {
            TransferState::Idle => {
                invariant!(self.asks.is_empty(), "R1: an idle process has asked nobody");
            }
            TransferState::Waiting { .. } => {
                invariant!(lacks, "R2: a process that waits lacks a permission");
                let held_back = |ask: &AskedArbiter| ask.inquired && ask.answer == LastAnswer::Permitted;
                invariant!(
                    !(self.must_yield() && self.asks.iter().any(held_back)),
                    "R3: whoever must yield keeps nothing that it was asked for"
                );
            }
            TransferState::Executing { .. } => {
                invariant!(!lacks, "R4: all asked have permitted the process that is inside");
            }
        }
        Ok(())
    }
}
