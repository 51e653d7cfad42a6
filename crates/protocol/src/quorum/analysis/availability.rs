//! How likely some quorum is up, if each site is down with probability p, independently.
//!
//! Exactly by looking at all subsets of sites (up to 26 sites), or exactly by inclusion and exclusion over
//! unions of sets (up to 20 different sets), or by sampling. A sample draws for each site the probability from
//! which on it is down; some quorum is up for all p below one threshold, found by bisection. So the same samples
//! serve for every p, and the curve falls as it must. The error given is half the width of Wilson's interval
//! at 95 %.

use super::rule::Rule;
use super::subsets::{Survivors, power};
use crate::quorum::QuorumSystem;
use crate::{SiteId, SiteSet};

/// The curve, and how it was found.
#[derive(Clone, Debug, PartialEq)]
pub struct Availability {
    /// How.
    pub method: Method,
    /// One for each probability that was asked for.
    pub points: Vec<Point>,
}

/// How an availability was found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Method {
    /// All subsets of the sites: exact.
    Subsets,
    /// Inclusion and exclusion over the sets: exact.
    InclusionExclusion,
    /// The rule that the sets follow: exact.
    Rule,
    /// Samples from a seed.
    Sampled(Sampling),
}

/// The availability at one probability.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Point {
    /// The probability that one site is down.
    pub failing: f64,
    /// The probability that some quorum is up.
    pub available: f64,
    /// How far off that may be, at 95 % confidence; 0 where it is exact.
    pub error: f64,
}

/// How to sample, where it must be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sampling {
    /// How many samples; fewer are drawn where the family is so large that they would take too long.
    pub samples: u32,
    /// What they derive from.
    pub seed: u64,
}

impl Default for Sampling {
    fn default() -> Self {
        Sampling { samples: 20_000, seed: 1 }
    }
}

/// The most different sets for which all unions are looked at.
const MOST_UNIONS: usize = 20;

/// How many comparisons of a set the sampling may take, about.
const MOST_STEPS: usize = 1_000_000_000;

impl Availability {
    pub(super) fn of(
        system: &QuorumSystem,
        survivors: Option<&Survivors>,
        failing: &[f64],
        sampling: Sampling,
    ) -> Self {
        if let Some(survivors) = survivors {
            return Availability::exactly(Method::Subsets, failing, |p| survivors.availability(p));
        }
        let mut sets = system.quorums().to_vec();
        sets.sort();
        sets.dedup();
        if sets.len() <= MOST_UNIONS {
            let unions = Unions::of(&sets, system.sites());
            return Availability::exactly(Method::InclusionExclusion, failing, |p| unions.availability(p));
        }
        let affordable = MOST_STEPS / (sets.len() * system.sites().ilog2() as usize);
        let most = u32::try_from(affordable.max(1000)).unwrap_or(u32::MAX);
        let sampling = Sampling { samples: sampling.samples.clamp(1, most), ..sampling };
        let thresholds = thresholds(&sets, system.sites(), sampling);
        let points = failing.iter().map(|&p| sampled(&thresholds, p)).collect();
        Availability { method: Method::Sampled(sampling), points }
    }

    /// `None` if the votes are too many to count.
    pub(super) fn of_rule(rule: &Rule, failing: &[f64]) -> Option<Self> {
        rule.is_countable().then(|| Availability::exactly(Method::Rule, failing, |p| rule.availability(p)))
    }

    fn exactly(method: Method, failing: &[f64], available: impl Fn(f64) -> f64) -> Self {
        let point = |&failing: &f64| Point { failing, available: available(failing), error: 0.0 };
        Availability { method, points: failing.iter().map(point).collect() }
    }
}

/// For each size, how many more unions of that size there are of an odd number of sets than of an even number.
struct Unions {
    by_size: Vec<i64>,
}

impl Unions {
    fn of(sets: &[SiteSet], sites: usize) -> Self {
        let mut unions = Unions { by_size: vec![0; sites + 1] };
        unions.add(sets, &SiteSet::new(), -1);
        // The union of no set at all.
        unions.by_size[0] += 1;
        unions
    }

    /// Counts, with `sign` for none of them, the unions of `union` with any of `sets`.
    fn add(&mut self, sets: &[SiteSet], union: &SiteSet, sign: i64) {
        let Some((set, rest)) = sets.split_first() else {
            self.by_size[union.len()] += sign;
            return;
        };
        self.add(rest, union, sign);
        let mut more = union.clone();
        more.union_with(set);
        self.add(rest, &more, -sign);
    }

    fn availability(&self, failing: f64) -> f64 {
        let all_up = |(size, &count): (usize, &i64)| count as f64 * power(1.0 - failing, size);
        self.by_size.iter().enumerate().map(all_up).sum::<f64>().clamp(0.0, 1.0)
    }
}

/// For each sample the probability of failing below which some set is up, in order.
fn thresholds(sets: &[SiteSet], sites: usize, sampling: Sampling) -> Vec<f64> {
    let mut random = fastrand::Rng::with_seed(sampling.seed);
    let mut down_from: Vec<(f64, SiteId)> = Vec::with_capacity(sites);
    let mut thresholds: Vec<f64> = (0..sampling.samples)
        .map(|_| {
            down_from.clear();
            down_from.extend(SiteId::all(sites).map(|site| (random.f64(), site)));
            down_from.sort_by(|one, other| other.0.total_cmp(&one.0));
            threshold(sets, &down_from)
        })
        .collect();
    thresholds.sort_by(f64::total_cmp);
    thresholds
}

/// Given the sites with the hardiest first: from when on the last of those is down that some set needs.
fn threshold(sets: &[SiteSet], down_from: &[(f64, SiteId)]) -> f64 {
    let is_enough = |hardiest: usize| {
        let up: SiteSet = down_from[..hardiest].iter().map(|&(_, site)| site).collect();
        sets.iter().any(|set| set.is_subset(&up))
    };
    // All sites are enough; none is not.
    let (mut too_few, mut enough) = (0, down_from.len());
    while enough - too_few > 1 {
        let middle = usize::midpoint(too_few, enough);
        if is_enough(middle) { enough = middle } else { too_few = middle }
    }
    down_from[enough - 1].0
}

fn sampled(thresholds: &[f64], failing: f64) -> Point {
    let up = thresholds.len() - thresholds.partition_point(|&threshold| threshold <= failing);
    let (count, share) = (thresholds.len() as f64, up as f64 / thresholds.len() as f64);
    let z = 1.96_f64;
    let spread = (share * (1.0 - share) / count + z * z / (4.0 * count * count)).sqrt();
    Point { failing, available: share, error: z * spread / (1.0 + z * z / count) }
}
