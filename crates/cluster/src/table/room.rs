//! When a full table may ask for a fresh view, which drops idle locks.
//!
//! A fresh view costs every member a census, and helps only if the locks that it drops stay unused. A table whose locks are in use
//! at other sites is as full in the next view as in this one, and would ask again and again. So a site that has asked asks again
//! only after it has granted many locks, which pay for the view, or after a pause, which is twice as long each time until the site
//! has not needed room for a while.

use super::{LocalView, LockKey, LockTable};
use crate::mutant::{self, Mutant};
use crate::names::LockName;
use crate::time::{Span, Time};

/// The first pause between two requests for a fresh view.
const MIN_PAUSE: Span = Span::from_millis(1000);

/// The longest pause between two requests for a fresh view.
const MAX_PAUSE: Span = Span::from_millis(64_000);

/// A site that has not asked for this many pauses begins with the shortest pause again.
const PAUSES_TO_FORGET: u64 = 4;

/// The time, and how many locks this site has granted by then.
#[derive(Clone, Copy, Debug)]
pub(super) struct SiteProgress {
    pub(super) now: Time,
    pub(super) granted: u64,
}

/// When this site may ask for a fresh view to make room.
#[derive(Clone, Debug)]
pub(super) struct RoomRequests {
    last: Option<SiteProgress>,
    pause: Span,
    /// Number of grants that pay for a fresh view.
    paid_by: u64,
    /// Whether it has asked in the view that is open.
    asked: bool,
}

impl RoomRequests {
    /// Returns the state of a site that keeps at most `max_locks` locks and has not asked yet.
    pub(super) fn new(max_locks: usize) -> Self {
        let paid_by = u64::try_from(max_locks / 4).unwrap_or(u64::MAX).max(1);
        RoomRequests { last: None, pause: Span::default(), paid_by, asked: false }
    }

    /// Returns whether the site asks now, or has asked in this view.
    pub(super) fn may_ask(&self, at: SiteProgress) -> bool {
        let is_new =
            |last: SiteProgress| at.granted - last.granted >= self.paid_by || at.now >= last.now + self.pause;
        self.asked || self.last.is_none_or(is_new)
    }

    /// Returns whether the site has ever asked.
    fn has_asked(&self) -> bool {
        self.last.is_some()
    }

    /// Records that the site asks for a fresh view.
    pub(super) fn on_asked(&mut self, at: SiteProgress) {
        if self.asked {
            return;
        }
        let recently = |last: SiteProgress| at.now < last.now + self.pause.times(PAUSES_TO_FORGET);
        let recently = self.last.is_some_and(recently);
        self.pause = if recently { self.pause.times(2).min(MAX_PAUSE) } else { MIN_PAUSE };
        self.last = Some(at);
        self.asked = true;
    }

    /// Records that the view has ended.
    pub(super) fn on_view_ended(&mut self) {
        self.asked = false;
    }
}

impl LockTable {
    /// Returns whether a message about this lock can be accepted: its machines exist, or there is room for them. Other
    /// sites may need as many locks here as clients of this one.
    pub(crate) fn has_room(&self, lock: &LockName) -> bool {
        let is_known = |view: &LocalView| self.is_known(&view.key(lock));
        self.locks.len() < self.table_config.max_locks.saturating_mul(2)
            || self.local_view.as_ref().is_some_and(is_known)
    }

    /// Returns whether the lock takes memory here already: it is in use, or was held when the view opened.
    pub(super) fn is_known(&self, lock: &LockKey) -> bool {
        self.locks.contains_key(lock) || self.elsewhere.contains(lock.name.as_str())
    }

    /// Returns whether the table is half full, and more than half of that consists of locks that a fresh view would not
    /// have: machines cannot be dropped while their view lasts, because others rely on their state.
    pub(crate) fn is_crowded(&self) -> bool {
        let kept = self.opened_with.max(self.requests.len());
        self.locks.len() >= self.table_config.max_locks.div_ceil(2)
            && self.locks.len() > kept.saturating_mul(2)
    }

    /// Returns whether the same members should start a fresh view: a lock could run again, or room would be made.
    pub(crate) fn wants_fresh_view(&self, now: Time) -> bool {
        self.local_view.is_some() && (self.asks_for_room(now) || self.has_drained())
    }

    /// Records that the leader is asked for a fresh view.
    pub(crate) fn on_fresh_view_asked(&mut self, now: Time) {
        if self.asks_for_room(now) {
            self.room.on_asked(SiteProgress { now, granted: self.granted() });
        }
    }

    fn asks_for_room(&self, now: Time) -> bool {
        let may_ask = || self.room.may_ask(SiteProgress { now, granted: self.granted() });
        let has_no_room =
            self.is_crowded() || mutant::is_on(Mutant::RoomAskedForEver) && self.room.has_asked();
        has_no_room && (may_ask() || mutant::is_on(Mutant::RoomAskedForAtOnce))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(millis: u64) -> SiteProgress {
        SiteProgress { now: Time::ZERO + Span::from_millis(millis), granted: 0 }
    }

    /// Returns when a site asks that is crowded in every view.
    fn asks_until(end: u64) -> Vec<u64> {
        let mut room = RoomRequests::new(40);
        let mut asks = Vec::new();
        for now in (0..end).step_by(100) {
            if room.may_ask(at(now)) {
                room.on_asked(at(now));
                asks.push(now);
                room.on_view_ended();
            }
        }
        asks
    }

    #[test]
    fn a_site_that_is_always_crowded_asks_less_and_less_often() {
        assert_eq!(asks_until(20_000), [0, 1_000, 3_000, 7_000, 15_000]);
        let asks = asks_until(1_000_000);
        let pauses: Vec<u64> = asks.windows(2).map(|pair| pair[1] - pair[0]).collect();
        assert_eq!(pauses.last(), Some(&64_000));
    }

    #[test]
    fn a_site_that_grants_many_locks_need_not_wait() {
        let mut room = RoomRequests::new(40);
        room.on_asked(at(0));
        room.on_view_ended();
        assert!(!room.may_ask(SiteProgress { granted: 9, ..at(1) }));
        assert!(room.may_ask(SiteProgress { granted: 10, ..at(1) }));
    }

    #[test]
    fn within_one_view_it_goes_on_asking_until_it_is_heard() {
        let mut room = RoomRequests::new(40);
        room.on_asked(at(0));
        assert!(room.may_ask(at(1)), "its renewals repeat the request");
        room.on_view_ended();
        assert!(!room.may_ask(at(999)) && room.may_ask(at(1_000)));
    }

    #[test]
    fn after_a_quiet_time_it_begins_with_the_shortest_pause_again() {
        let mut room = RoomRequests::new(40);
        for now in [0, 1_000, 3_000] {
            room.on_asked(at(now));
            room.on_view_ended();
        }
        assert!(!room.may_ask(at(6_999)), "the third pause has four seconds");
        room.on_asked(at(30_000));
        room.on_view_ended();
        assert!(!room.may_ask(at(30_999)) && room.may_ask(at(31_000)));
    }
}
