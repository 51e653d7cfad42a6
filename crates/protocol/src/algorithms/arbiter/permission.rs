//! The arbiter half: one permission, given to the earliest request that asks for it.

use std::collections::VecDeque;

use crate::mutant::{self, Mutant};
use crate::{Clock, ModelFacts, Numbers, SiteId, Timestamp, invariant};

use super::{DeadlockRules, Judged, Message, Post, Turn};

/// One site's permission, whom it is with and who waits for it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Arbiter {
    rules: DeadlockRules,
    locked: Option<PermissionHolder>,
    /// The requests that wait, earliest first.
    queue: VecDeque<QueuedRequest>,
    /// The last request of each site that has asked, in order of the sites: of ten thousand sites a hundred ask.
    last: Vec<Timestamp>,
}

/// The request that has the permission.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct PermissionHolder {
    request: Timestamp,
    turn: Turn,
    /// Whether it has been asked to give the permission back.
    inquired: bool,
    /// Under [`DeadlockRules::Pending`]: the request on whose behalf.
    pending: Option<Timestamp>,
}

/// A request that waits for the permission.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct QueuedRequest {
    request: Timestamp,
    /// How often it has had the permission and yielded it.
    turn: Turn,
    /// Whether it knows that it has to wait: it was sent FAILED, or it has yielded.
    told: bool,
}

impl Arbiter {
    /// An arbiter whose permission is with `holder`, or with nobody.
    pub fn new(rules: DeadlockRules, holder: Option<Timestamp>) -> Self {
        let lock =
            |request| PermissionHolder { request, turn: Turn::NONE.next(), inquired: false, pending: None };
        Arbiter { rules, locked: holder.map(lock), queue: VecDeque::new(), last: Vec::new() }
    }

    /// Reserves memory for the requests of this many sites, so that no step allocates.
    pub fn make_room(&mut self, sites: usize) {
        self.queue.reserve_exact(sites);
        self.last.reserve_exact(sites);
    }

    /// Visits the numbers that only grow.
    pub fn numbers(&mut self, numbers: &mut Numbers<'_>) {
        if let Some(lock) = &mut self.locked {
            numbers.timestamp(&mut lock.request);
            lock.pending.iter_mut().for_each(|pending| numbers.timestamp(pending));
        }
        self.queue.iter_mut().for_each(|queued| numbers.timestamp(&mut queued.request));
        self.last.iter_mut().for_each(|request| numbers.remembered_clock(&mut request.clock));
        // One before all others says as much as none.
        self.last.retain(|request| request.clock > Clock::ZERO);
    }

    /// Where the last request of `site` stands, or would stand.
    fn place_of(&self, site: SiteId) -> Result<usize, usize> {
        self.last.binary_search_by_key(&site, |request| request.site)
    }

    /// The clock of the last request of `site`; zero before its first.
    fn last_of(&self, site: SiteId) -> Clock {
        self.place_of(site).map_or(Clock::ZERO, |at| self.last[at].clock)
    }

    /// Who has the permission.
    pub fn holder(&self) -> Option<Timestamp> {
        self.locked.map(|lock| lock.request)
    }

    /// The requests that wait, earliest first.
    pub fn waiting(&self) -> impl Iterator<Item = Timestamp> + '_ {
        self.queue.iter().map(|queued| queued.request)
    }

    /// Whether nobody has the permission, and so nobody waits for it.
    pub fn is_free(&self) -> bool {
        self.locked.is_none()
    }

    /// Algorithm 9.5, step (b): permit it if the permission is there, otherwise queue it. Section 9.8.1, first rule:
    /// refuse it, or inquire whether the permission could be had back.
    pub fn on_request(&mut self, request: Timestamp, post: &mut Post<'_>) -> Judged {
        if request.clock <= self.last_of(request.site) {
            return Err("a request that is not newer than its last");
        }
        if self.queue.iter().any(|queued| queued.request.site == request.site) {
            return Err("a second request before the first was permitted");
        }
        match self.place_of(request.site) {
            Ok(at) => self.last[at] = request,
            Err(at) => self.last.insert(at, request),
        }
        post.clock.observe(request.clock);
        // Whoever asks again has left: its RELEASE is late, and will be ignored.
        self.locked = self.locked.filter(|lock| lock.request.site != request.site);
        let mut place = Some(self.enqueue(QueuedRequest { request, turn: Turn::NONE, told: false }));
        if self.locked.is_none() {
            self.permit_first(post);
            place = place.and_then(|place| place.checked_sub(1));
        }
        if let Some(place) = place {
            self.answer_newcomer(place, post);
        }
        Ok(())
    }

    /// Algorithm 9.5, step (e): the permission goes to the first that waits.
    pub fn on_release(&mut self, request: Timestamp, post: &mut Post<'_>) -> Judged {
        if self.holder() == Some(request) {
            self.locked = None;
            self.permit_first(post);
            return Ok(());
        }
        // Overtaken by its sender's next request, which said as much?
        if request.clock < self.last_of(request.site) {
            Ok(())
        } else {
            Err("a release of what it does not have")
        }
    }

    /// Section 9.8.1, third rule: the request goes back into the queue, and the first there is permitted.
    pub fn on_yield(&mut self, request: Timestamp, turn: Turn, post: &mut Post<'_>) -> Judged {
        let named = |lock: &PermissionHolder| lock.request == request && lock.turn == turn && lock.inquired;
        let Some(lock) = self.locked.filter(named) else {
            return Err("a yield that nobody asked for");
        };
        self.locked = None;
        self.enqueue(QueuedRequest { request, turn, told: true });
        let pending = self.queue.iter().position(|queued| Some(queued.request) == lock.pending);
        self.permit(pending.unwrap_or(0), post);
        Ok(())
    }

    /// `site` has failed: nothing of it waits any more, what it had is free, and its clock may start again from zero.
    pub fn forget(&mut self, site: SiteId, post: &mut Post<'_>) {
        if let Ok(at) = self.place_of(site) {
            self.last.remove(at);
        }
        self.queue.retain(|queued| queued.request.site != site);
        let kept = mutant::is_on(Mutant::ArbiterKeepsForTheDead);
        if self.locked.is_some_and(|lock| lock.request.site == site && !kept) {
            self.locked = None;
            self.permit_first(post);
        }
    }

    /// Puts a request where it belongs; gives its place.
    fn enqueue(&mut self, queued: QueuedRequest) -> usize {
        let at = self.queue.partition_point(|other| other.request < queued.request);
        self.queue.insert(at, queued);
        at
    }

    fn permit_first(&mut self, post: &mut Post<'_>) {
        self.permit(0, post);
    }

    fn permit(&mut self, at: usize, post: &mut Post<'_>) {
        if let Some(QueuedRequest { request, turn, .. }) = self.queue.remove(at) {
            let turn = turn.next();
            self.locked = Some(PermissionHolder { request, turn, inquired: false, pending: None });
            post.send(request.site, Message::Reply { to: request.clock, turn, clock: post.clock });
        }
    }

    /// The permission is with another than the newcomer at place `at`.
    fn answer_newcomer(&mut self, at: usize, post: &mut Post<'_>) {
        let (Some(lock), Some(newcomer)) = (&mut self.locked, self.queue.get(at)) else { return };
        let before_lock = newcomer.request < lock.request;
        let inquire = match self.rules {
            DeadlockRules::Yield | DeadlockRules::Pending => before_lock && !lock.inquired,
            DeadlockRules::Fail | DeadlockRules::Original => before_lock && at == 0 && !lock.inquired,
            DeadlockRules::Printed => before_lock,
        };
        if inquire {
            lock.inquired = true;
            lock.pending = (self.rules == DeadlockRules::Pending).then_some(newcomer.request);
            post.send(lock.request.site, Message::Inquire { to: lock.request.clock, turn: lock.turn });
        }
        match self.rules {
            DeadlockRules::Yield | DeadlockRules::Pending => {}
            DeadlockRules::Original if before_lock && at == 0 => {}
            DeadlockRules::Fail if before_lock && at == 0 => self.refuse(1..self.queue.len(), post),
            DeadlockRules::Fail => self.refuse(at..self.queue.len(), post),
            DeadlockRules::Printed if before_lock => {}
            DeadlockRules::Printed | DeadlockRules::Original => self.refuse(at..at + 1, post),
        }
    }

    /// Tells those at these places that they have to wait, unless they know.
    fn refuse(&mut self, places: std::ops::Range<usize>, post: &mut Post<'_>) {
        for queued in self.queue.range_mut(places).filter(|queued| !queued.told) {
            queued.told = true;
            if mutant::is_on(Mutant::ArbiterForgottenFail) {
                continue;
            }
            post.send(queued.request.site, Message::Failed { to: queued.request.clock });
        }
    }

    /// Adds what the arbiter `me` says of the model's state.
    pub(super) fn facts(&self, me: SiteId, facts: &mut ModelFacts) {
        for last in &self.last {
            facts.value("last", &[&me, &last.site], &last.clock);
        }
        if let Some(PermissionHolder { request, inquired, .. }) = self.locked {
            facts.holds("locked", &[&me, &request.site, &request.clock]);
            facts.holds_if(inquired, "inquired", &[&me, &request.site]);
        }
        for QueuedRequest { request, told, .. } in &self.queue {
            facts.holds("queued", &[&me, &request.site, &request.clock]);
            facts.holds_if(*told, "told", &[&me, &request.site]);
        }
    }

    /// The numbered invariants of an arbiter.
    pub fn check_invariants(&self) -> Judged {
        invariant!(
            self.locked.is_some() || self.queue.is_empty(),
            "A1: requests wait only while another has the permission"
        );
        let requests = || self.queue.iter().map(|queued| queued.request);
        invariant!(
            requests().zip(requests().skip(1)).all(|(a, b)| a < b),
            "A2: the queue is in the order of the timestamps"
        );
        let Some(lock) = self.locked else { return Ok(()) };
        invariant!(
            requests().all(|request| request.site != lock.request.site),
            "A3: a site that has the permission does not wait for it"
        );
        let passed = requests().next().is_some_and(|first| first < lock.request);
        invariant!(
            matches!(self.rules, DeadlockRules::Printed | DeadlockRules::Pending) || !passed || lock.inquired,
            "A4: if an earlier request waits, the permission has been asked back"
        );
        let unaware = self.queue.iter().enumerate().find(|(_, queued)| !queued.told);
        invariant!(
            self.rules != DeadlockRules::Fail || unaware.is_none_or(|(at, _)| at == 0 && passed),
            "A5: under `fail`, all that wait know it, except one that precedes all others"
        );
        Ok(())
    }
}
