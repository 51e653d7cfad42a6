//! Indexes by which clients tell earlier from later: pure.
//!
//! Consul numbers every write to its store. Here nothing is written: a thing gets a new index whenever it differs
//! from what it was when it was last looked at. An index is never given twice, so a client that names the index it
//! knows is answered at once if anything has changed, and can wait otherwise. A thing that was forgotten gets a new
//! index, which only wakes a client without need.

use std::collections::BTreeMap;
use std::hash::{DefaultHasher, Hash, Hasher};

/// Maximum number of things that are remembered.
const MAX_THINGS: usize = 20_000;

/// The indexes of one site.
#[derive(Debug)]
pub(super) struct Indexes {
    last: u64,
    looks: u64,
    seen: BTreeMap<String, IndexedThing>,
}

/// What is remembered of a thing.
#[derive(Debug)]
struct IndexedThing {
    digest: u64,
    holder: Option<i64>,
    numbers: Numbers,
    looked: u64,
}

/// The indexes of a thing's creation and last change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Numbers {
    pub(super) created: u64,
    pub(super) modified: u64,
}

impl Indexes {
    /// Starts above `start`, which must be larger for each incarnation of a site, so that indexes of an earlier
    /// incarnation are recognised.
    pub(super) fn new(start: u64) -> Self {
        Indexes { last: start, looks: 0, seen: BTreeMap::new() }
    }

    /// Returns the largest index that was given.
    pub(super) fn last(&self) -> u64 {
        self.last
    }

    /// Returns the indexes of the thing `name`, whose content is now `content`. With another `holder` it counts as
    /// newly created.
    pub(super) fn of(&mut self, name: &str, content: &impl Hash, holder: Option<i64>) -> Numbers {
        let mut hasher = DefaultHasher::new();
        content.hash(&mut hasher);
        let digest = hasher.finish();
        self.looks += 1;
        let looked = self.looks;
        if let Some(seen) = self.seen.get_mut(name) {
            seen.looked = looked;
            if seen.digest != digest || seen.holder != holder {
                self.last += 1;
                let created = if seen.holder == holder { seen.numbers.created } else { self.last };
                (seen.digest, seen.holder) = (digest, holder);
                seen.numbers = Numbers { created, modified: self.last };
            }
            return seen.numbers;
        }
        if self.seen.len() >= MAX_THINGS {
            self.forget_half();
        }
        self.last += 1;
        let numbers = Numbers { created: self.last, modified: self.last };
        self.seen.insert(name.to_owned(), IndexedThing { digest, holder, numbers, looked });
        numbers
    }

    /// Forgets the things that have not been looked at for longest.
    fn forget_half(&mut self) {
        let mut looked: Vec<u64> = self.seen.values().map(|seen| seen.looked).collect();
        looked.sort_unstable();
        let middle = looked[looked.len() / 2];
        self.seen.retain(|_, seen| seen.looked >= middle);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_stays_until_something_is_different_and_is_never_given_twice() {
        let mut indexes = Indexes::new(100);
        let free = indexes.of("a", &"", None);
        assert!(free.modified > 100);
        assert_eq!(indexes.of("a", &"", None), free);
        let held = indexes.of("a", &"alice", Some(7));
        assert!(held.modified > free.modified && held.created == held.modified);
        let renamed = indexes.of("a", &"alice 2", Some(7));
        assert!(renamed.modified > held.modified && renamed.created == held.created);
        let again = indexes.of("a", &"alice 2", Some(8));
        assert!(again.created > renamed.modified, "with another holder it is created anew");
        let freed = indexes.of("a", &"", None);
        assert!(freed.modified > again.modified, "although the content is as before");
        assert_eq!(indexes.last(), freed.modified);
    }

    #[test]
    fn what_is_forgotten_has_a_new_number_and_memory_is_bounded() {
        let mut indexes = Indexes::new(0);
        let first = indexes.of("first", &1, None);
        for at in 0..3 * MAX_THINGS {
            indexes.of(&format!("other {at}"), &1, None);
        }
        assert!(indexes.seen.len() <= MAX_THINGS);
        assert!(indexes.of("first", &1, None).modified > first.modified);
    }
}
