//! All subsets of a few sites at once: how many of each size contain a quorum.
//!
//! One bit a subset. Marking the quorums and then, site by site, everything with one site more takes N passes over
//! 2ᴺ/64 words: a fraction of a second for [`MOST_SITES`].

use crate::SiteSet;
use crate::quorum::QuorumSystem;

/// The most sites for which all subsets are looked at.
pub(super) const MOST_SITES: usize = 26;

/// The six lowest sites choose the bit within a word.
const LOW: usize = 6;

/// `count(k)` of the subsets of `k` sites contain a quorum.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Survivors {
    by_size: Vec<u64>,
}

impl Survivors {
    /// The counts, unless there are too many sites.
    pub(super) fn count(system: &QuorumSystem) -> Option<Self> {
        let sites = system.sites();
        (sites <= MOST_SITES).then(|| {
            let mut words = vec![0_u64; 1 << sites.saturating_sub(LOW)];
            for subset in system.quorums().iter().map(as_number) {
                words[subset >> LOW] |= 1 << (subset & 63);
            }
            for site in 0..sites {
                add_supersets(&mut words, site);
            }
            Survivors { by_size: count_by_size(&words, sites) }
        })
    }

    /// How many failures always leave a quorum; `None` if not even all sites up do.
    pub(super) fn resilience(&self) -> Option<usize> {
        let sites = self.by_size.len() - 1;
        let all_survive = |&failed: &usize| self.by_size[sites - failed] == subsets_of_size(sites, failed);
        (0..=sites).take_while(all_survive).last()
    }

    /// The probability that a quorum is up, if each site is down with probability `failing`.
    pub(super) fn availability(&self, failing: f64) -> f64 {
        let sites = self.by_size.len() - 1;
        let (failing, mut sum) = (failing, 0.0);
        for (up, &count) in self.by_size.iter().enumerate() {
            sum += count as f64 * power(1.0 - failing, up) * power(failing, sites - up);
        }
        sum.clamp(0.0, 1.0)
    }
}

/// `base` to a whole number, 0⁰ being 1.
pub(super) fn power(base: f64, exponent: usize) -> f64 {
    base.powi(i32::try_from(exponent).expect("no more sites than that"))
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

fn count_by_size(words: &[u64], sites: usize) -> Vec<u64> {
    let of_size =
        |size: u32| (0..64_u32).filter(|bit| bit.count_ones() == size).map(|bit| 1 << bit).sum::<u64>();
    let masks: Vec<u64> = (0..=6).map(of_size).collect();
    let mut by_size = vec![0; sites.max(LOW) + 1];
    for (high, word) in words.iter().enumerate() {
        for (low, mask) in masks.iter().enumerate() {
            by_size[high.count_ones() as usize + low] += u64::from((word & mask).count_ones());
        }
    }
    by_size.truncate(sites + 1);
    by_size
}

/// Binomial coefficient.
fn subsets_of_size(sites: usize, size: usize) -> u64 {
    (0..size).fold(1, |product, at| product * (sites - at) as u64 / (at as u64 + 1))
}
