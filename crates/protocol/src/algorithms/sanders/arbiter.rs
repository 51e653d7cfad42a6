//! The site that is asked: whom it has granted, and who waits for it.

use crate::mutant::{self, Mutant};
use crate::{Clock, Numbers, Outbox, SiteId, SiteSet, Timestamp};

use super::slip::Slip;
use super::{Deadlock, Message, Sanders};

/// What a site keeps as the one who grants.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Arbiter {
    /// `CSSTAT`: the grant that is remembered; free without one.
    pub(super) lock: Option<IssuedGrant>,
    /// Who has asked and not been granted, the earliest first.
    pub(super) queue: Vec<WaitingRequest>,
    /// The last request of each site: its clock and its round.
    pub(super) last: Box<[(Clock, u32)]>,
}

/// A grant to a site of the status set, not yet released.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct IssuedGrant {
    pub(super) request: Timestamp,
    pub(super) round: u32,
    /// An INQUIRE has been sent.
    pub(super) inquired: bool,
}

/// A request that waits for a grant.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct WaitingRequest {
    pub(super) request: Timestamp,
    pub(super) round: u32,
    /// A FAIL has been sent, or the requester gave the grant back: it knows that it must wait.
    pub(super) told: bool,
}

impl Arbiter {
    /// Nobody waits; `holder`, if any, has the grant. Up to `askers` sites can wait without an allocation.
    pub(super) fn new(sites: usize, askers: usize, holder: Option<SiteId>) -> Self {
        let granted =
            |site| IssuedGrant { request: Timestamp::new(Clock::ZERO, site), round: 0, inquired: false };
        Arbiter {
            lock: holder.map(granted),
            queue: Vec::with_capacity(askers),
            last: vec![(Clock::ZERO, 0); sites].into(),
        }
    }

    pub(super) fn numbers(&mut self, numbers: &mut Numbers<'_>) {
        if let Some(lock) = &mut self.lock {
            numbers.timestamp(&mut lock.request);
        }
        self.queue.iter_mut().for_each(|queued| numbers.timestamp(&mut queued.request));
        for (clock, round) in &mut self.last {
            numbers.remembered_clock(clock);
            if *clock == Clock::ZERO {
                *round = 0;
            }
        }
    }

    /// Puts a request where its timestamp belongs, and says where that is.
    fn enqueue(&mut self, newcomer: WaitingRequest) -> usize {
        let at = self.queue.partition_point(|queued| queued.request < newcomer.request);
        self.queue.insert(at, newcomer);
        at
    }

    /// Forgets what the sites in `failed` had asked for or been granted.
    pub(super) fn forget(&mut self, failed: &SiteSet) {
        self.queue.retain(|queued| !failed.contains(queued.request.site));
        if self.lock.as_ref().is_some_and(|lock| failed.contains(lock.request.site)) {
            self.lock = None;
        }
    }
}

impl Sanders {
    /// Section 3.2 and section 5, REQUEST, from another site. First the receiver makes the changes to its structure
    /// that the sender has made.
    pub(super) fn on_request(
        &mut self,
        theirs: Timestamp,
        round: u32,
        failed: &SiteSet,
        out: &mut Outbox<Message>,
    ) {
        let from = theirs.site;
        if let Err(why) = self.may_ask(from, round, failed) {
            return out.misbehaved(from, why);
        }
        if (theirs.clock, round) <= self.arbiter.last[from.index()] {
            return self.late(from, "a request that is not newer than its last", out);
        }
        if self.arbiter.queue.iter().any(|queued| queued.request.site == from && queued.request != theirs) {
            return out.misbehaved(from, "a second request before the first was granted");
        }
        self.learn(failed, out);
        self.clock.observe(theirs.clock);
        self.arbiter.last[from.index()] = (theirs.clock, round);
        self.arbiter.queue.retain(|queued| queued.request != theirs);
        self.consider(theirs, round, out);
    }

    /// Whether `from` asks whom it should, given what it and this site know of failures together.
    fn may_ask(&self, from: SiteId, round: u32, failed: &SiteSet) -> Result<(), &'static str> {
        let structure = &self.rules.structure;
        let outside = |site: SiteId| site.index() >= structure.sites();
        if failed.contains(self.me) || failed.contains(from) || failed.iter().any(outside) {
            return Err("a request that reports an impossible failure");
        }
        if round > 0 && structure.status(self.me).contains(from) {
            return Err("a request put again to a site that keeps track of it");
        }
        if structure.request(from).contains(self.me) || self.rules.slips.has(Slip::SilentRecovery) {
            return Ok(());
        }
        let mut known = self.failed.clone();
        known.union_with(failed);
        let relies_on_me = structure.must_ask(from, self.me, &known, self.rules.mend());
        if relies_on_me { Ok(()) } else { Err("a request from a site that need not ask") }
    }

    /// Section 5, REQUEST, steps 1 to 3.
    pub(super) fn consider(&mut self, request: Timestamp, round: u32, out: &mut Outbox<Message>) {
        let at = self.arbiter.enqueue(WaitingRequest { request, round, told: false });
        let Some(lock) = &self.arbiter.lock else { return self.grant_next(out) };
        let precedes_lock = request < lock.request;
        match self.rules.deadlock {
            Deadlock::Fail => {
                // As printed a newcomer that is behind a queued request only is not told.
                let hopeful = precedes_lock && (at == 0 || self.rules.slips.has(Slip::UntoldNewcomer));
                self.fail_from(at + usize::from(hopeful), out);
                if hopeful {
                    self.inquire(out);
                }
            }
            Deadlock::Yield if precedes_lock => self.inquire(out),
            Deadlock::Plain if precedes_lock && lock.request.site == self.me => self.inquire(out),
            Deadlock::Yield | Deadlock::Plain => {}
        }
    }

    /// Tells all queued requests from `start` on that they must wait, unless they know.
    fn fail_from(&mut self, start: usize, out: &mut Outbox<Message>) {
        for at in start..self.arbiter.queue.len() {
            let queued = &mut self.arbiter.queue[at];
            if !std::mem::replace(&mut queued.told, true) {
                let (to, round) = (queued.request.clock, queued.round);
                // To this site itself it is a FAIL as well: it may now yield to others, which does not touch this
                // queue.
                self.say(self.arbiter.queue[at].request.site, Message::Fail { to, round }, out);
            }
        }
    }

    /// Asks for the remembered grant back, once.
    fn inquire(&mut self, out: &mut Outbox<Message>) {
        if let Some(lock) = &mut self.arbiter.lock
            && !std::mem::replace(&mut lock.inquired, true)
        {
            let (holder, about, round) = (lock.request.site, lock.request.clock, lock.round);
            self.say(holder, Message::Inquire { about, round }, out);
        }
    }

    /// Section 3.2, RELEASE, steps 2 and 3: grants the earliest requests, up to the first that must be remembered.
    pub(super) fn grant_next(&mut self, out: &mut Outbox<Message>) {
        while self.arbiter.lock.is_none() && !self.arbiter.queue.is_empty() {
            let WaitingRequest { request, round, .. } = self.arbiter.queue.remove(0);
            let forgotten = mutant::is_on(Mutant::SandersForgottenGrant);
            if self.rules.structure.status(self.me).contains(request.site) && !forgotten {
                self.arbiter.lock = Some(IssuedGrant { request, round, inquired: false });
            }
            self.say(request.site, Message::Grant { to: request.clock, round }, out);
        }
    }

    /// Section 5, YIELD: the holder gives the grant back and waits again, where its timestamp belongs.
    pub(super) fn on_yield(&mut self, theirs: Timestamp, round: u32, out: &mut Outbox<Message>) {
        match &self.arbiter.lock {
            Some(lock) if lock.request == theirs && lock.round == round && lock.inquired => {
                self.arbiter.lock = None;
                let round = round.saturating_add(1);
                self.arbiter.enqueue(WaitingRequest { request: theirs, round, told: true });
                self.grant_next(out);
            }
            Some(_) | None => out.misbehaved(theirs.site, "a YIELD of what it was not asked for"),
        }
    }

    /// Section 3.2, RELEASE, step 1.
    pub(super) fn on_release(&mut self, theirs: Timestamp, out: &mut Outbox<Message>) {
        match &self.arbiter.lock {
            Some(lock) if lock.request == theirs => {
                self.arbiter.lock = None;
                self.grant_next(out);
            }
            Some(_) | None => out.misbehaved(theirs.site, "a RELEASE of what it was not granted"),
        }
    }
}
