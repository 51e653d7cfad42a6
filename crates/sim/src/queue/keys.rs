//! Keys in order: those that are due soon in a heap that fits the caches, the others in buckets.

use super::far::Far;
use super::heap::Heap;
use super::{Key, NEVER, ticks};

/// With more keys than this, the heap is divided by time.
const MAX_HEAP: usize = 8192;

/// Keys, the smallest first.
#[derive(Clone, Debug, Default)]
pub(super) struct KeyQueue {
    near: Heap,
    /// The keys from `horizon` on.
    far: Far,
    /// The time before which all keys are in the heap; `None` if all are there at all.
    horizon: Option<u64>,
}

impl KeyQueue {
    /// The smallest key; [`NEVER`] if there is none.
    #[inline]
    pub(super) fn first(&self) -> Key {
        self.near.first().unwrap_or(NEVER)
    }

    pub(super) fn push(&mut self, key: Key) {
        if self.horizon.is_some_and(|horizon| ticks(key) >= horizon) {
            return self.far.push(key);
        }
        self.near.push(key);
        if self.horizon.is_none() && self.near.len() > MAX_HEAP {
            self.far.distribute(self.near.drain().collect());
            self.refill();
        }
    }

    pub(super) fn pop(&mut self) -> Option<Key> {
        let first = self.near.pop();
        if self.near.len() == 0 && self.horizon.is_some() {
            self.refill();
        }
        first
    }

    /// Fills the heap, which is empty.
    fn refill(&mut self) {
        self.horizon = self.far.take_bucket(|key| self.near.push(key));
    }
}
