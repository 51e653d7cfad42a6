//! The arbiter half: one permission, and who is told to pass it on to whom.

use std::collections::VecDeque;

use crate::algorithms::arbiter::{DeadlockRules, Judged, Post, Turn};
use crate::{Clock, Numbers, SiteId, Timestamp, invariant};

use super::{Message, NextRequest};

/// One site's permission, whom it is with as far as the site knows, and who waits for it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct TransferArbiter {
    rules: DeadlockRules,
    /// `lock`.
    locked: Option<TransferLock>,
    /// `req_queue`: the requests that wait, earliest first.
    queue: VecDeque<OfferedRequest>,
    /// The last request of each site that has asked, in order of the sites.
    last: Vec<Timestamp>,
}

/// The request that has the permission. While its RELEASE is on its way another may have it: one that is `offered`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct TransferLock {
    request: Timestamp,
    turn: Turn,
    /// Whether it has been asked to give the permission back.
    inquired: bool,
}

/// A request that waits for the permission.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct OfferedRequest {
    request: Timestamp,
    /// How often it has had the permission and yielded it.
    turn: Turn,
    /// Whether it knows that it has to wait: it was sent FAILED, or it has yielded.
    told: bool,
    /// Whether the one that has the permission was told to pass it on to this one.
    offered: bool,
}

impl TransferArbiter {
    /// An arbiter whose permission is with `holder`, or with nobody. Reserves memory for the requests of `askers` sites, and
    /// one more, so that no step allocates.
    pub(super) fn new(rules: DeadlockRules, holder: Option<Timestamp>, askers: usize) -> Self {
        let lock = |request| TransferLock { request, turn: Turn::NONE.next(), inquired: false };
        TransferArbiter {
            rules,
            locked: holder.map(lock),
            queue: VecDeque::with_capacity(askers + 1),
            last: Vec::with_capacity(askers),
        }
    }

    /// Visits the numbers that only grow.
    pub(super) fn numbers(&mut self, numbers: &mut Numbers<'_>) {
        self.locked.iter_mut().for_each(|lock| numbers.timestamp(&mut lock.request));
        self.queue.iter_mut().for_each(|queued| numbers.timestamp(&mut queued.request));
        self.last.iter_mut().for_each(|request| numbers.remembered_clock(&mut request.clock));
        // One before all others says as much as none.
        self.last.retain(|request| request.clock > Clock::ZERO);
    }

    /// Who has the permission, as far as is known here.
    pub(super) fn holder(&self) -> Option<Timestamp> {
        self.locked.map(|lock| lock.request)
    }

    /// The requests that wait, earliest first.
    pub(super) fn waiting(&self) -> impl Iterator<Item = Timestamp> + '_ {
        self.queue.iter().map(|queued| queued.request)
    }

    /// Whether nobody has the permission, and so nobody waits for it.
    pub(super) fn is_free(&self) -> bool {
        self.locked.is_none()
    }

    /// A REQUEST: permit it if the permission is here, otherwise queue it. If it is the first there, whoever has the permission
    /// is told so, and asked for it if the newcomer precedes that one. Where there are refusals, those that have to wait behind
    /// an earlier request are told.
    pub(super) fn on_request(&mut self, request: Timestamp, post: &mut Post<'_, Message>) -> Judged {
        if request.clock <= self.last_of(request.site) {
            return Err("a request that is not newer than its last");
        }
        // An earlier one may stand here: over, and its RELEASE overtaken.
        let mut earlier = self.queue.iter().filter(|queued| queued.request.site == request.site);
        if earlier.next().is_some_and(|earlier| !earlier.offered) || earlier.next().is_some() {
            return Err("a second request before the first was permitted");
        }
        match self.place_of(request.site) {
            Ok(at) => self.last[at] = request,
            Err(at) => self.last.insert(at, request),
        }
        post.clock.observe(request.clock);
        let place = self.enqueue(OfferedRequest { request, turn: Turn::NONE, told: false, offered: false });
        let Some(lock) = self.locked else {
            self.permit_first(post);
            return Ok(());
        };
        if place == 0 {
            self.announce_first(post);
        }
        if self.rules.has_refusals() {
            let is_awaited = place == 0 && request < lock.request;
            self.refuse(place + usize::from(is_awaited), post);
        }
        Ok(())
    }

    /// A RELEASE: the permission is back, or with the site that it was forwarded to.
    pub(super) fn on_release(
        &mut self,
        request: Timestamp,
        forwarded: Option<Timestamp>,
        post: &mut Post<'_, Message>,
    ) -> Judged {
        const NOT_OFFERED: &str = "a permission forwarded to a request that it was not offered";
        let is_forwarded = |queued: &OfferedRequest| queued.offered && Some(queued.request) == forwarded;
        if self.holder() == Some(request) {
            if forwarded.is_some() {
                let at = self.queue.iter().position(is_forwarded).ok_or(NOT_OFFERED)?;
                self.lock(at);
            } else {
                self.locked = None;
            }
            self.go_on(post);
            return Ok(());
        }
        match (self.queue.iter().position(|queued| queued.request == request), forwarded) {
            // It has had the permission from the site that has it as far as is known here, whose RELEASE is late.
            (Some(at), None) if self.queue[at].offered => {
                self.queue.remove(at);
                self.locked = None;
                self.go_on(post);
                Ok(())
            }
            // The late one: the site that it has forwarded to has said as much.
            (None, Some(_)) if request.clock <= self.last_of(request.site) => Ok(()),
            (Some(_) | None, _) => Err("a release of what it does not have"),
        }
    }

    /// A YIELD: the request goes back into the queue, and the first there is permitted.
    pub(super) fn on_yield(
        &mut self,
        request: Timestamp,
        turn: Turn,
        post: &mut Post<'_, Message>,
    ) -> Judged {
        let named = |lock: &TransferLock| lock.request == request && lock.turn == turn && lock.inquired;
        if !self.locked.as_ref().is_some_and(named) {
            return Err("a yield that nobody asked for");
        }
        self.locked = None;
        self.enqueue(OfferedRequest { request, turn, told: true, offered: false });
        self.go_on(post);
        Ok(())
    }

    /// The permission is here, or with another request than before: what was offered by the one before is void.
    fn go_on(&mut self, post: &mut Post<'_, Message>) {
        self.queue.iter_mut().for_each(|queued| queued.offered = false);
        if self.locked.is_some() {
            self.announce_first(post);
        } else {
            self.permit_first(post);
        }
    }

    /// Puts a request where it belongs; gives its place.
    fn enqueue(&mut self, queued: OfferedRequest) -> usize {
        let at = self.queue.partition_point(|other| other.request < queued.request);
        self.queue.insert(at, queued);
        at
    }

    /// Notes that the request at this place has the permission.
    fn lock(&mut self, at: usize) {
        if let Some(OfferedRequest { request, turn, .. }) = self.queue.remove(at) {
            self.locked = Some(TransferLock { request, turn: turn.next(), inquired: false });
        }
    }

    /// The permission, which is here, goes to the first that waits, with the name of the second.
    fn permit_first(&mut self, post: &mut Post<'_, Message>) {
        self.lock(0);
        let Some(TransferLock { request, turn, .. }) = self.locked else { return };
        let next =
            self.queue.front_mut().filter(|first| first.request.site != post.me()).map(OfferedRequest::offer);
        let (arbiter, clock) = (post.me(), post.clock);
        post.send(request.site, Message::Reply { arbiter, to: request.clock, turn, clock, next });
    }

    /// Tells the site that has the permission who is the first that waits for it.
    fn announce_first(&mut self, post: &mut Post<'_, Message>) {
        let is_offered = self.queue.iter().any(|queued| queued.offered);
        let (Some(lock), Some(first)) = (&mut self.locked, self.queue.front_mut()) else { return };
        // If that site has asked again, it has left, and its RELEASE is on its way.
        if first.request.site == lock.request.site {
            return;
        }
        let (to, turn, precedes) = (lock.request.clock, lock.turn, first.request < lock.request);
        if precedes && !lock.inquired {
            lock.inquired = true;
            post.send(lock.request.site, Message::Inquire { to, turn, next: first.offer() });
        } else if first.request.site != post.me() || is_offered {
            // To this site's own process the RELEASE brings it as fast: it is named only in place of another.
            post.send(lock.request.site, Message::Transfer { to, turn, next: first.offer() });
        }
    }

    /// Tells those from this place on that they have to wait, unless they know.
    fn refuse(&mut self, from: usize, post: &mut Post<'_, Message>) {
        for queued in self.queue.range_mut(from..).filter(|queued| !queued.told) {
            queued.told = true;
            post.send(queued.request.site, Message::Failed { to: queued.request.clock });
        }
    }

    /// Where the last request of `site` stands, or would stand.
    fn place_of(&self, site: SiteId) -> Result<usize, usize> {
        self.last.binary_search_by_key(&site, |request| request.site)
    }

    /// The clock of the last request of `site`; zero before its first.
    fn last_of(&self, site: SiteId) -> Clock {
        self.place_of(site).map_or(Clock::ZERO, |at| self.last[at].clock)
    }

    /// The numbered invariants of an arbiter.
    pub(super) fn check_invariants(&self) -> Judged {
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
        let passed = requests().next().is_some_and(|first| first < lock.request);
        invariant!(
            !passed || lock.inquired,
            "A3: if an earlier request waits, the permission has been asked back"
        );
        let unaware = self.queue.iter().enumerate().find(|(_, queued)| !queued.told);
        invariant!(
            !self.rules.has_refusals() || unaware.is_none_or(|(at, _)| at == 0 && passed),
            "A4: where there are refusals, all that wait know it, except one that precedes all others"
        );
        Ok(())
    }
}

impl OfferedRequest {
    /// As it is named to the site that has the permission.
    fn offer(&mut self) -> NextRequest {
        self.offered = true;
        NextRequest { request: self.request, turn: self.turn.next() }
    }
}
