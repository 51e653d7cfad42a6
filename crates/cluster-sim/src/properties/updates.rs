//! A counter that rejects old fences and is counted up under the lock: no update is lost, whatever clocks do.

use std::collections::{BTreeMap, BTreeSet};

use meshlock_protocol::Fence;

use super::{Violation, broken};
use crate::clock::Moment;
use meshlock_cluster::names::LockName;

#[derive(Clone, Debug, Default)]
struct Counter {
    highest: Option<Fence>,
    value: u64,
    acknowledged: u64,
}

impl Counter {
    /// Whether this fence is not older than one that was seen.
    fn admits(&mut self, fence: Fence) -> bool {
        if self.highest.is_some_and(|highest| fence < highest) {
            return false;
        }
        self.highest = Some(fence);
        true
    }
}

/// One guarded counter for each lock.
#[derive(Clone, Debug, Default)]
pub(crate) struct Updates {
    counters: BTreeMap<LockName, Counter>,
    /// Locks that several may hold: they protect no counter.
    shared: BTreeSet<LockName>,
    pub(crate) accepted: u64,
    pub(crate) rejected: u64,
}

impl Updates {
    /// Several may hold this lock from now on.
    pub(crate) fn exempt(&mut self, lock: &LockName) {
        self.shared.insert(lock.clone());
    }

    /// Whether several may hold this lock, or might have.
    pub(crate) fn is_shared(&self, lock: &LockName) -> bool {
        self.shared.contains(lock)
    }

    /// What the counter shows to the holder of this fence; nothing if the fence is old.
    pub(crate) fn read(&mut self, lock: &LockName, fence: Fence) -> Option<u64> {
        let counter = self.counters.entry(lock.clone()).or_default();
        let value = counter.value;
        let seen = counter.admits(fence).then_some(value);
        self.rejected += u64::from(seen.is_none());
        seen
    }

    /// The holder of this fence read `read` and writes one more. Whether it is let to.
    pub(crate) fn write(
        &mut self,
        lock: &LockName,
        fence: Fence,
        read: u64,
        now: Moment,
    ) -> Result<bool, Violation> {
        let counter = self.counters.entry(lock.clone()).or_default();
        if !counter.admits(fence) {
            self.rejected += 1;
            return Ok(false);
        }
        counter.value = read + 1;
        counter.acknowledged += 1;
        self.accepted += 1;
        if counter.value == counter.acknowledged || self.shared.contains(lock) {
            return Ok(true);
        }
        let (value, count) = (counter.value, counter.acknowledged);
        let what = format!("{lock}: {count} updates were acknowledged, the counter shows {value}");
        broken("updates", now, what).map(|()| true)
    }
}
