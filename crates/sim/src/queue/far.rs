//! Keys that are not due soon, in buckets by their time.
//!
//! A bucket is unordered, so that a key costs one write at the bucket's end and is read once, in its turn, with its
//! neighbours: no jumps through a heap that is larger than the caches.

use super::{Key, ticks};

/// The number of keys that a bucket is meant to have.
const PER_BUCKET: usize = 1024;

/// The largest number of buckets.
const MAX_BUCKETS: usize = 4096;

/// Keys in buckets.
#[derive(Clone, Debug, Default)]
pub(super) struct Far {
    /// A bucket is 2^`shift` ticks wide.
    shift: u32,
    /// The time of the first bucket, in widths of a bucket.
    start: u64,
    buckets: Vec<Vec<Key>>,
    /// How many buckets were taken.
    taken: usize,
    /// Keys after the last bucket.
    beyond: Vec<Key>,
}

impl Far {
    /// Inserts a key, which is not before the buckets that were taken.
    pub(super) fn push(&mut self, key: Key) {
        let bucket = usize::try_from((ticks(key) >> self.shift).saturating_sub(self.start));
        match bucket.ok().and_then(|at| self.buckets.get_mut(at)) {
            Some(bucket) => bucket.push(key),
            None => self.beyond.push(key),
        }
    }

    /// Passes the keys of the next bucket that has some to `take`. Returns the time before which no key is left; `None` if no key
    /// is left at all.
    pub(super) fn take_bucket(&mut self, mut take: impl FnMut(Key)) -> Option<u64> {
        loop {
            while let Some(bucket) = self.buckets.get_mut(self.taken) {
                self.taken += 1;
                if !bucket.is_empty() {
                    bucket.drain(..).for_each(&mut take);
                    // After the bucket with the last of all times nothing is left.
                    return (self.start + self.taken as u64).checked_mul(1 << self.shift);
                }
            }
            if self.beyond.is_empty() {
                return None;
            }
            let beyond = std::mem::take(&mut self.beyond);
            self.distribute(beyond);
        }
    }

    /// Distributes keys over new buckets. No other key may be left.
    pub(super) fn distribute(&mut self, keys: Vec<Key>) {
        let times = || keys.iter().map(|&key| ticks(key));
        let (least, most) = (times().min().unwrap_or(0), times().max().unwrap_or(0));
        // At least two, so that half of all times fit one.
        let wanted = (keys.len() / PER_BUCKET).clamp(2, MAX_BUCKETS) as u64;
        self.shift = (0..u64::BITS).find(|shift| (most - least) >> shift < wanted).expect("it becomes 1");
        self.start = least >> self.shift;
        self.taken = 0;
        // Times that are not multiples of the width reach into one bucket more.
        self.buckets.resize_with(wanted as usize + 1, Vec::new);
        for key in keys {
            self.push(key);
        }
    }
}
