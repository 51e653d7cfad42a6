//! All subsets of a few sites at once: whether each contains a set of the family.
//!
//! One bit for each subset. Marking the sets and then, site by site, everything with one site more takes N passes over
//! 2ᴺ/64 words: a fraction of a second for [`MAX_SITES`].

use crate::SiteSet;
use crate::quorum::QuorumSystem;

/// The largest number of sites for which all subsets are examined.
const MAX_SITES: usize = 26;

/// The six lowest sites choose the bit within a word.
const LOW: usize = 6;

/// A bit for every subset of the sites: whether it contains a set of the family.
#[derive(Clone, Debug)]
pub(super) struct Subsets {
    sites: usize,
    words: Vec<u64>,
}

impl Subsets {
    /// All of them, unless there are too many sites.
    pub(super) fn of(system: &QuorumSystem) -> Option<Self> {
        let sites = system.sites();
        (sites <= MAX_SITES).then(|| {
            let mut words = vec![0_u64; 1 << sites.saturating_sub(LOW)];
            for subset in system.quorums().iter().map(as_number) {
                words[subset >> LOW] |= 1 << (subset & 63);
            }
            for site in 0..sites {
                add_supersets(&mut words, site);
            }
            Subsets { sites, words }
        })
    }

    /// Whether some set is disjoint from `set`.
    pub(super) fn has_disjoint(&self, set: &SiteSet) -> bool {
        self.contains(((1 << self.sites) - 1) & !as_number(set))
    }

    /// Whether some set is within `set` and smaller.
    pub(super) fn has_smaller(&self, set: &SiteSet) -> bool {
        set.iter().any(|site| self.contains(as_number(set) & !(1 << site.index())))
    }

    fn contains(&self, subset: usize) -> bool {
        self.words[subset >> LOW] >> (subset & 63) & 1 == 1
    }

    /// The number of subsets of each size that contain a set, from size 0 up to all sites.
    #[cfg(feature = "analysis")]
    pub(super) fn count_by_size(&self) -> Vec<u64> {
        let of_size =
            |size: u32| (0..64_u32).filter(|bit| bit.count_ones() == size).map(|bit| 1 << bit).sum::<u64>();
        let masks: Vec<u64> = (0..=6).map(of_size).collect();
        let mut by_size = vec![0; self.sites.max(LOW) + 1];
        for (high, word) in self.words.iter().enumerate() {
            for (low, mask) in masks.iter().enumerate() {
                by_size[high.count_ones() as usize + low] += u64::from((word & mask).count_ones());
            }
        }
        by_size.truncate(self.sites + 1);
        by_size
    }
}

fn as_number(set: &SiteSet) -> usize {
    set.iter().map(|site| 1 << site.index()).sum()
}

/// Marks every subset that is a marked one and `site`.
fn add_supersets(words: &mut [u64], site: usize) {
    if site < LOW {
        let without_site = (0..64).filter(|bit| bit >> site & 1 == 0).map(|bit| 1 << bit).sum::<u64>();
        for word in words {
            *word |= (*word & without_site) << (1 << site);
        }
    } else {
        let step = 1 << (site - LOW);
        for pair in words.chunks_exact_mut(2 * step) {
            let (without_site, with_site) = pair.split_at_mut(step);
            for (with, without) in with_site.iter_mut().zip(without_site) {
                *with |= *without;
            }
        }
    }
}
