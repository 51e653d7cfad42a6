//! The number of subsets of each size that contain a quorum: exact resilience and availability for few sites.

use crate::quorum::QuorumSystem;
use crate::quorum::subsets::Subsets;

/// For each `k`, the number of subsets of `k` sites that contain a quorum.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Survivors {
    by_size: Vec<u64>,
}

impl Survivors {
    /// The counts, unless there are too many sites.
    pub(super) fn count(system: &QuorumSystem) -> Option<Self> {
        Subsets::of(system).map(|subsets| Survivors { by_size: subsets.count_by_size() })
    }

    /// The number of failures that always leave a quorum; `None` if not even all sites contain one.
    pub(super) fn resilience(&self) -> Option<usize> {
        let sites = self.by_size.len() - 1;
        let all_survive = |&failed: &usize| self.by_size[sites - failed] == subsets_of_size(sites, failed);
        (0..=sites).take_while(all_survive).last()
    }

    /// The probability that a quorum is up, if each site is down with probability `failing`.
    pub(super) fn availability(&self, failing: f64) -> f64 {
        let sites = self.by_size.len() - 1;
        let exactly_up = |(up, &count): (usize, &u64)| {
            count as f64 * power(1.0 - failing, up) * power(failing, sites - up)
        };
        self.by_size.iter().enumerate().map(exactly_up).sum::<f64>().clamp(0.0, 1.0)
    }
}

/// `base` to an integer power, 0⁰ being 1.
pub(super) fn power(base: f64, exponent: usize) -> f64 {
    base.powi(i32::try_from(exponent).expect("no more sites than that"))
}

/// Binomial coefficient.
fn subsets_of_size(sites: usize, size: usize) -> u64 {
    (0..size).fold(1, |product, at| product * (sites - at) as u64 / (at as u64 + 1))
}
