//! Why a client whose time is over did not get the lock: somebody has it, or nobody could say.
//!
//! ```text
//!  Try       asks all members who holds the lock, at once and beside the algorithm's own request: it is busy as soon as
//!            their replies name as many holders as there are permits
//!  Within    asks them shortly before its deadline, so that the replies are there when it is over; if its time was
//!            shorter than replies take, it waits for them all the same
//! ```
//!
//! **Invariant** T6: a client is told that a lock is taken only if its site could have served it, and another client
//! was reported to hold the lock or to wait for it. Everything else is an [`Obstacle`].

use std::collections::{BTreeMap, BTreeSet};

use meshlock_protocol::Mode;

use super::{
    AcquireOutcome, LeaseClock, LockEvent, LockKey, LockReport, LockTable, Request, TableAlarm, TableOutput,
    Wait,
};
use crate::mutant::{self, Mutant};
use crate::names::LockName;
use crate::time::{Span, Time};

/// What the members have replied to a waiter's question who holds its lock.
#[derive(Clone, Debug)]
pub(super) struct Inquiry {
    since: Time,
    /// The replies by the places of the members, in the view that is open.
    replies: BTreeMap<usize, Reported>,
}

/// The clients of one member that use a lock.
#[derive(Clone, Copy, Debug)]
struct Reported {
    holders: u64,
    waiters: u64,
    /// The mode of the holder that admits fewest.
    strongest: Option<Mode>,
}

/// What kept a lock from a client, although nobody is known to have it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Obstacle {
    /// No view is open at this site.
    NoView,
    /// This site has no lease with time to spare.
    NoLease,
    /// The members at these places have not replied.
    Silent(Vec<usize>),
    /// Nobody uses the lock, and the request for it was not answered for this long.
    NoAnswer(Span),
}

/// When a waiter has to be looked at again, and when it gives up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Deadline {
    /// When the waiter's alarm is due: to ask the members, at the end of its time, and when replies are waited for no
    /// longer.
    pub(super) alarm: Time,
    /// When the client's own time is over.
    end: Time,
    /// When replies are waited for no longer.
    last: Time,
}

impl Deadline {
    /// Returns the deadline of a request that is made now. `reply_timeout` is how long replies may take.
    pub(super) fn new(wait: Wait, now: Time, reply_timeout: Span) -> Option<Self> {
        let end = match wait {
            Wait::Forever => return None,
            Wait::Within(longest) => now + longest,
            Wait::Try => now + reply_timeout,
        };
        let asks = end.before(reply_timeout).max(now);
        Some(Deadline { alarm: asks, end, last: end.max(asks + reply_timeout) })
    }
}

impl LockTable {
    /// Sets for how long a client that does not want to wait waits for the replies of other sites.
    pub(crate) fn set_reply_timeout(&mut self, reply_timeout: Span) {
        self.reply_timeout = reply_timeout;
    }

    /// Handles the alarm of a waiter: the members are asked who holds its lock, or its time is over.
    pub(super) fn on_deadline(
        &mut self,
        lock: &LockKey,
        request: Request,
        lease_clock: LeaseClock,
        out: &mut Vec<TableOutput>,
    ) {
        let now = lease_clock.now;
        let Some(waiter) = self.waiter_mut(request, lock) else { return };
        let Some(Deadline { end, last, .. }) = waiter.deadline else { return };
        if waiter.inquiry.is_none() {
            waiter.inquiry = Some(Box::new(Inquiry { since: now, replies: BTreeMap::new() }));
            self.ask_members(&lock.name, out);
        }
        if now < end {
            return self.look_again(request, lock, end);
        }
        match self.obstacle(request, lock, lease_clock) {
            None => self.end_as_taken(request, lock, out),
            Some(Obstacle::Silent(_)) if now < last => self.look_again(request, lock, last),
            Some(obstacle) => {
                self.stop_waiting(request, lock, AcquireOutcome::Unavailable, out);
                out.push(TableOutput::Unavailable { request, obstacle });
            }
        }
        self.seek_noted(lock, lease_clock, out);
    }

    /// Sets the next alarm of a waiter.
    fn look_again(&mut self, request: Request, lock: &LockKey, at: Time) {
        if let Some(deadline) = self.waiter_mut(request, lock).and_then(|waiter| waiter.deadline.as_mut()) {
            deadline.alarm = at;
            self.alarms.insert((at, TableAlarm::Deadline(lock.clone(), request)));
        }
    }

    /// Asks the members again for the waiters of these locks that had asked in the view before.
    pub(super) fn ask_members_again(&mut self, waited: &[LockKey], out: &mut Vec<TableOutput>) {
        let mut asking = BTreeSet::new();
        for key in waited {
            let Some(lock) = self.locks.get_mut(key).filter(|lock| !lock.clients.waiters.is_empty()) else {
                continue;
            };
            for inquiry in lock.clients.waiters.iter_mut().filter_map(|waiter| waiter.inquiry.as_mut()) {
                inquiry.replies.clear();
                asking.insert(&key.name);
            }
        }
        for lock in asking {
            self.ask_members(lock, out);
        }
    }

    /// Handles the report of the member at `place`. Clients that do not want to wait, or whose time is over, are
    /// answered if the lock is taken.
    pub(crate) fn on_report(
        &mut self,
        place: usize,
        name: &LockName,
        report: &LockReport,
        lease_clock: LeaseClock,
        out: &mut Vec<TableOutput>,
    ) {
        let strongest = report.holders.iter().map(|holder| holder.mode).max();
        let (holders, waiters) = (report.holders_in_all, report.waiters_in_all);
        let reported = Reported { holders, waiters, strongest };
        let mut ending = Vec::new();
        for key in self.keys_of(name) {
            let Some(known) = self.locks.get_mut(&key).filter(|lock| !lock.clients.waiters.is_empty()) else {
                continue;
            };
            for waiter in known.clients.waiters.iter_mut() {
                if let Some(inquiry) = &mut waiter.inquiry {
                    inquiry.replies.insert(place, reported);
                    let is_late = waiter.deadline.is_some_and(|deadline| deadline.end <= lease_clock.now);
                    ending.extend((waiter.is_try || is_late).then(|| (waiter.request, key.clone())));
                }
            }
        }
        for (request, key) in ending {
            if self.may_serve(lease_clock) && self.is_taken(request, &key) {
                self.end_as_taken(request, &key, out);
                self.seek_noted(&key, lease_clock, out);
            }
        }
    }

    /// Returns whether this site could serve a client now, if the lock were free.
    pub(super) fn may_serve(&self, lease_clock: LeaseClock) -> bool {
        self.local_view.is_some() && lease_clock.lease_end.is_some()
    }

    fn ask_members(&self, lock: &LockName, out: &mut Vec<TableOutput>) {
        if self.local_view.as_ref().is_some_and(|local_view| local_view.members > 1) {
            out.push(TableOutput::Ask(lock.clone()));
        }
    }

    /// Tells a client that somebody else has the lock.
    fn end_as_taken(&mut self, request: Request, lock: &LockKey, out: &mut Vec<TableOutput>) {
        let is_try = self.waiter(request, lock).is_some_and(|waiter| waiter.is_try);
        let outcome = if is_try { AcquireOutcome::Busy } else { AcquireOutcome::TimedOut };
        self.stop_waiting(request, lock, outcome, out);
        out.push(TableOutput::LockEvent(if is_try {
            LockEvent::Busy { request }
        } else {
            LockEvent::TimedOut { request }
        }));
    }

    /// Returns what kept the lock from a client whose time is over; `None` if somebody else has it or waits before it.
    fn obstacle(&self, request: Request, lock: &LockKey, lease_clock: LeaseClock) -> Option<Obstacle> {
        if mutant::is_on(Mutant::OutageIsContention) {
            return None;
        }
        let Some(local_view) = &self.local_view else { return Some(Obstacle::NoView) };
        if lease_clock.lease_end.is_none() {
            return Some(Obstacle::NoLease);
        }
        if self.is_taken(request, lock) {
            return None;
        }
        let inquiry = self.waiter(request, lock).and_then(|waiter| waiter.inquiry.as_ref());
        let is_silent = |place: &usize| {
            *place != local_view.me && inquiry.is_none_or(|inquiry| !inquiry.replies.contains_key(place))
        };
        let silent: Vec<usize> = (0..local_view.members).filter(is_silent).collect();
        if !silent.is_empty() {
            return Some(Obstacle::Silent(silent));
        }
        let waited_for = inquiry.is_some_and(|inquiry| inquiry.replies.values().any(|from| from.waiters > 0));
        let is_first = self.locks.get(lock).and_then(|lock| lock.clients.waiters.front());
        if waited_for || is_first.is_some_and(|first| first.request != request) {
            return None;
        }
        let since = inquiry.map_or(lease_clock.now, |inquiry| inquiry.since);
        Some(Obstacle::NoAnswer(lease_clock.now.since(since)))
    }

    /// Returns whether as many clients are known to hold the lock as may, here or in the whole cluster.
    fn is_taken(&self, request: Request, lock: &LockKey) -> bool {
        let Some((local_view, known)) = self.local_view.as_ref().zip(self.locks.get(lock)) else {
            return false;
        };
        // Whoever uses the name otherwise does not take it in this sense: its home says whether this client is refused.
        if !self.is_admitted(lock) {
            return false;
        }
        let rule = local_view.rule(lock);
        let (per_site, permits) =
            rule.map_or((lock.permits, lock.permits), |rule| (rule.per_site, rule.permits));
        let here = known.clients.holds.len() as u64;
        let inquiry = self.waiter(request, lock).and_then(|waiter| waiter.inquiry.as_ref());
        let elsewhere = inquiry.iter().flat_map(|inquiry| inquiry.replies.values());
        let holders = elsewhere.map(|from| from.holders).fold(here, u64::saturating_add);
        // Where holders count on another number of permits, nobody enters before they have left.
        let drains = self.draining.contains_key(&lock.name) && holders > 0;
        if self.is_shared(lock)
            && let Some(waiter) = self.waiter(request, lock)
        {
            let wanted = waiter.demand.mode;
            let here = known.clients.holds.iter().map(|hold| hold.mode).max();
            let reported = inquiry.iter().flat_map(|inquiry| inquiry.replies.values());
            let strongest = reported.filter_map(|from| from.strongest).chain(here).max();
            return drains || strongest.is_some_and(|held| !held.admits(wanted));
        }
        drains || here >= u64::from(per_site) || holders >= u64::from(permits)
    }
}
