//! Indexes by which clients tell earlier from later: pure.
//!
//! Consul numbers every write to its store. Here nothing is written: a thing gets a new index whenever it differs
//! from what it was when it was last looked at. An index is never given twice, so a client that names the index it
//! knows is answered at once if anything has changed, and can wait otherwise. A thing that was forgotten gets a new
//! index, which only wakes a client without need.
//!
//! Every site numbers what it sees by itself. A client may come with the index of another site, which says nothing
//! here: so that it is recognised, the indexes of a site all have the same remainder, which few others share.

use std::collections::BTreeMap;
use std::hash::{DefaultHasher, Hash, Hasher};

use meshlock_cluster::names::fnv_1a;

/// Maximum number of things that are remembered.
const MAX_THINGS: usize = 20_000;

/// The indexes of a site are this far apart; their remainder tells sites apart.
const STEP: u64 = 1024;

/// No site gives smaller indexes: they begin with the time of its start, in milliseconds.
const MIN_INDEX: u64 = STEP * 1_000_000_000_000;

/// Where an index comes from that a client names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum IndexOrigin {
    /// This incarnation of this site has given it.
    Here,
    /// It looks like the index of another site.
    Elsewhere,
    /// It was given by an earlier incarnation, or made up.
    Unknown,
}

/// The indexes of one site.
#[derive(Debug)]
pub(super) struct Indexes {
    first: u64,
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
    /// Starts at a time in milliseconds, which must be larger for each incarnation of a site, so that indexes of an
    /// earlier incarnation are recognised.
    pub(super) fn new(site: &str, started: u64) -> Self {
        let first = (started.saturating_mul(STEP)).max(MIN_INDEX) + fnv_1a(site.bytes()) % STEP;
        Indexes { first, last: first, looks: 0, seen: BTreeMap::new() }
    }

    /// Returns where an index comes from.
    pub(super) fn origin(&self, index: u64) -> IndexOrigin {
        if index % STEP != self.first % STEP && index >= MIN_INDEX {
            return IndexOrigin::Elsewhere;
        }
        let is_ours = index % STEP == self.first % STEP && (self.first..=self.last).contains(&index);
        if is_ours { IndexOrigin::Here } else { IndexOrigin::Unknown }
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
                self.last += STEP;
                let created = if seen.holder == holder { seen.numbers.created } else { self.last };
                (seen.digest, seen.holder) = (digest, holder);
                seen.numbers = Numbers { created, modified: self.last };
            }
            return seen.numbers;
        }
        if self.seen.len() >= MAX_THINGS {
            self.forget_half();
        }
        self.last += STEP;
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

/// Returns an index of what a thing contains, which is the same at all sites. Like every number of ours it is exact in JSON, and it
/// is larger than any that a site gives.
pub(super) fn of_content(content: &[u8]) -> u64 {
    const BITS: u32 = 52;
    (1 << BITS) | (fnv_1a(content.iter().copied()) & ((1 << BITS) - 1))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_index_of_another_site_or_of_an_earlier_incarnation_is_not_taken_for_one_of_ours() {
        let started = 1_800_000_000_000;
        let (mut here, mut there) = (Indexes::new("a", started), Indexes::new("b", started));
        let (ours, theirs) = (here.of("k", &1, None).modified, there.of("k", &1, None).modified);
        assert_eq!((here.origin(ours), here.origin(theirs)), (IndexOrigin::Here, IndexOrigin::Elsewhere));
        assert_eq!(here.origin(ours + STEP), IndexOrigin::Unknown, "it was not given yet");
        let earlier = Indexes::new("a", started - 1).of("k", &1, None).modified;
        assert_eq!(Indexes::new("a", started + 1).origin(earlier), IndexOrigin::Unknown);
        for made_up in [0, 1, 5, 1000] {
            assert_eq!(here.origin(made_up), IndexOrigin::Unknown, "{made_up}");
        }
        assert!(ours < 1 << 52 && of_content(b"x") < 1 << 53, "JavaScript reads them exactly");
        assert_ne!(of_content(b"x"), of_content(b"y"));
        assert_eq!(of_content(b"foobar"), 1 << 52 | 0x4_4171_f739_67e8, "sites of all versions agree");
    }

    #[test]
    fn a_number_stays_until_something_is_different_and_is_never_given_twice() {
        let mut indexes = Indexes::new("site", 100);
        let free = indexes.of("a", &"", None);
        assert!(free.modified > indexes.first);
        assert_eq!(indexes.of("a", &"", None), free);
        let held = indexes.of("a", &"alice", Some(7));
        assert!(held.modified > free.modified && held.created == held.modified);
        let renamed = indexes.of("a", &"alice 2", Some(7));
        assert!(renamed.modified > held.modified && renamed.created == held.created);
        let again = indexes.of("a", &"alice 2", Some(8));
        assert!(again.created > renamed.modified, "with another holder it is created anew");
        let freed = indexes.of("a", &"", None);
        assert!(freed.modified > again.modified, "although the content is as before");
        assert_eq!(indexes.last, freed.modified);
    }

    #[test]
    fn what_is_forgotten_has_a_new_number_and_memory_is_bounded() {
        let mut indexes = Indexes::new("site", 0);
        let first = indexes.of("first", &1, None);
        for at in 0..3 * MAX_THINGS {
            indexes.of(&format!("other {at}"), &1, None);
        }
        assert!(indexes.seen.len() <= MAX_THINGS);
        assert!(indexes.of("first", &1, None).modified > first.modified);
    }
}
