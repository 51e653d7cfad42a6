//! A counter that rejects old fences and is incremented by who has the lock alone: no update is lost, whatever clocks do.

use std::collections::BTreeMap;

use meshlock_protocol::Fence;

use super::{PropertyViolation, broken};
use crate::clock::Moment;
use meshlock_cluster::names::LockName;

#[derive(Clone, Debug, Default)]
struct Counter {
    highest: Option<Fence>,
    value: u64,
    acknowledged: u64,
}

impl Counter {
    /// Returns whether this fence is not older than one that was seen.
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
    pub(crate) accepted: u64,
    pub(crate) rejected: u64,
}

impl Updates {
    /// Returns the value of the counter for the holder of this fence; `None` if the fence is old.
    pub(crate) fn read(&mut self, lock: &LockName, fence: Fence) -> Option<u64> {
        let counter = self.counters.entry(lock.clone()).or_default();
        let value = counter.value;
        let seen = counter.admits(fence).then_some(value);
        self.rejected += u64::from(seen.is_none());
        seen
    }

    /// Handles the write of the holder of this fence, which read `read` and adds one. Returns whether it is accepted.
    pub(crate) fn write(
        &mut self,
        lock: &LockName,
        fence: Fence,
        read: u64,
        now: Moment,
    ) -> Result<bool, PropertyViolation> {
        let counter = self.counters.entry(lock.clone()).or_default();
        if !counter.admits(fence) {
            self.rejected += 1;
            return Ok(false);
        }
        counter.value = read + 1;
        counter.acknowledged += 1;
        self.accepted += 1;
        if counter.value == counter.acknowledged {
            return Ok(true);
        }
        let (value, count) = (counter.value, counter.acknowledged);
        let what = format!("{lock}: {count} updates were acknowledged, the counter shows {value}");
        broken("updates", now, what).map(|()| true)
    }
}
