//! What is wrong with a site's disk: it fails, or it is slow. It is only shown; the node decides by what is written.
//!
//! A write is *slow* if it takes longer than the time after which the other voters replace a silent leader: a leader with such a disk makes
//! room for another one, and a cluster whose disks are all slow may have none for a while. Writes are rare, so that a slow one is shown
//! until the next one is not, or until it is long ago.

use std::sync::{Mutex, MutexGuard, PoisonError};

use meshlock_cluster::report::Age;
use meshlock_cluster::time::{Span, Time};
use meshlock_system::now;

use super::store::StoreError;

/// For how long a slow write is shown if none follows.
const SHOWN_FOR: Span = Span::from_millis(600_000);

/// The health of a site's disk, as its writes have shown it.
#[derive(Debug, Default)]
pub(super) struct DiskHealth(Mutex<Writes>);

#[derive(Debug, Default)]
struct Writes {
    /// Why the last write failed, if it did.
    failure: Option<String>,
    /// Since when a write is under way, and from when on it is slow.
    under_way: Option<(Time, Time)>,
    /// The last write, if it was slow: how long it took, how long it may take, and when it ended.
    slow: Option<(Span, Span, Time)>,
    /// Number of slow ones.
    slow_count: u64,
}

impl DiskHealth {
    fn writes(&self) -> MutexGuard<'_, Writes> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Makes a write, which is slow if it takes longer than `limit`, and notes how it went.
    pub(super) fn watch(
        &self,
        limit: Span,
        write: impl FnOnce() -> Result<(), StoreError>,
    ) -> Result<(), StoreError> {
        self.on_write(limit, now());
        let written = write();
        self.on_written(written.as_ref().err(), now());
        written
    }

    /// Notes that a write begins, which is slow if it takes longer than `limit`.
    fn on_write(&self, limit: Span, now: Time) {
        self.writes().under_way = Some((now, now + limit));
    }

    /// Notes that it has ended, and how.
    fn on_written(&self, failure: Option<&StoreError>, now: Time) {
        let mut writes = self.writes();
        writes.failure = failure.map(ToString::to_string);
        let Some((begun, limit)) = writes.under_way.take() else { return };
        let is_slow = now > limit;
        writes.slow = is_slow.then(|| (now.since(begun), limit.since(begun), now));
        writes.slow_count += u64::from(is_slow);
    }

    /// Returns what is wrong, and what to do about it.
    pub(super) fn complaint(&self, now: Time) -> Option<String> {
        let writes = self.writes();
        if writes.failure.is_some() {
            return writes.failure.clone();
        }
        let under_way = writes.under_way.filter(|(_, limit)| now > *limit);
        let under_way = under_way.map(|(begun, limit)| ("has taken", now.since(begun), limit.since(begun)));
        let last = writes.slow.filter(|(.., ended)| now.since(*ended) < SHOWN_FOR);
        let last = last.map(|(took, limit, _)| ("took", took, limit));
        let (verb, took, limit) = under_way.or(last)?;
        let (took, limit) = (Age(took), Age(limit));
        Some(format!(
            "the disk is slow: a write {verb} {took}, and a leader whose disk takes longer than {limit} makes room for another; look at \
             what else uses the disk, or give the site a faster one"
        ))
    }

    /// Returns whether the last write failed.
    pub(super) fn is_failing(&self) -> bool {
        self.writes().failure.is_some()
    }

    /// Returns the number of writes that were slow.
    pub(super) fn slow_writes(&self) -> u64 {
        self.writes().slow_count
    }
}

#[cfg(test)]
mod tests {
    use std::io;

    use super::*;

    const LIMIT: Span = Span::from_millis(500);

    fn at(millis: u64) -> Time {
        Time::from_micros(millis * 1000)
    }

    #[test]
    fn a_disk_that_is_full_is_shown_until_it_accepts_writes_again() {
        let health = DiskHealth::default();
        assert_eq!(health.complaint(at(0)), None);
        let full = StoreError::Full { file: "state.redb".into(), error: io::ErrorKind::StorageFull.into() };
        health.on_write(LIMIT, at(0));
        health.on_written(Some(&full), at(1));
        assert!(health.is_failing() && health.complaint(at(2)).is_some_and(|why| why.contains("state.redb")));
        health.on_write(LIMIT, at(3));
        health.on_written(None, at(4));
        assert_eq!((health.complaint(at(5)), health.is_failing()), (None, false));
    }

    #[test]
    fn a_slow_write_is_shown_while_it_lasts_and_until_one_is_not_slow_or_it_is_long_ago() {
        let health = DiskHealth::default();
        health.on_write(LIMIT, at(0));
        assert_eq!(health.complaint(at(500)), None);
        assert!(health.complaint(at(501)).is_some_and(|why| why.contains("a write has taken")));
        health.on_written(None, at(1_300));
        let said = health.complaint(at(2_000)).unwrap();
        assert!(said.contains("a write took 1.3 s") && said.contains("500 ms"), "{said}");
        assert_eq!((health.complaint(at(700_000)), health.slow_writes()), (None, 1));
        health.on_write(LIMIT, at(2_000));
        health.on_written(None, at(2_001));
        assert_eq!((health.complaint(at(2_002)), health.slow_writes()), (None, 1));
    }
}
