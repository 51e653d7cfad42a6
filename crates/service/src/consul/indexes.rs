//! Numbers by which clients tell earlier from later: pure.
//!
//! Consul numbers every write to its store. Here nothing is written: a thing has a new number whenever it is seen to be different
//! from what it was when it was last looked at. A number is never given twice, so a client that names the one it knows is told at
//! once if anything is different, and can wait if not. What has been forgotten has a new number, which wakes somebody for nothing.

use std::collections::BTreeMap;
use std::hash::{DefaultHasher, Hash, Hasher};

/// How many things are remembered.
const MOST: usize = 20_000;

/// What the numbers of one site are.
#[derive(Debug)]
pub(super) struct Indexes {
    last: u64,
    looks: u64,
    seen: BTreeMap<String, Seen>,
}

#[derive(Debug)]
struct Seen {
    digest: u64,
    holder: Option<i64>,
    numbers: Numbers,
    looked: u64,
}

/// When a thing was seen first, and when it changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Numbers {
    pub(super) created: u64,
    pub(super) modified: u64,
}

impl Indexes {
    /// Begins above `start`, which is larger for each incarnation of a site, so that an index of the incarnation before is none of this one.
    pub(super) fn new(start: u64) -> Self {
        Indexes { last: start, looks: 0, seen: BTreeMap::new() }
    }

    /// The largest number that was given.
    pub(super) fn last(&self) -> u64 {
        self.last
    }

    /// The numbers of the thing `name`, which is now seen as `content`. With another `holder` it is another thing.
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
        if self.seen.len() >= MOST {
            self.forget_half();
        }
        self.last += 1;
        let numbers = Numbers { created: self.last, modified: self.last };
        self.seen.insert(name.to_owned(), Seen { digest, holder, numbers, looked });
        numbers
    }

    /// Forgets what nobody has looked at for longest.
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
        assert!(again.created > renamed.modified, "another holder is another thing");
        let freed = indexes.of("a", &"", None);
        assert!(freed.modified > again.modified, "though it was so before");
        assert_eq!(indexes.last(), freed.modified);
    }

    #[test]
    fn what_is_forgotten_has_a_new_number_and_memory_is_bounded() {
        let mut indexes = Indexes::new(0);
        let first = indexes.of("first", &1, None);
        for at in 0..3 * MOST {
            indexes.of(&format!("other {at}"), &1, None);
        }
        assert!(indexes.seen.len() <= MOST);
        assert!(indexes.of("first", &1, None).modified > first.modified);
    }
}
