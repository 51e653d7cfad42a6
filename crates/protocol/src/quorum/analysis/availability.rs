//! Availability: the probability that some quorum is up, if each site is down with probability p, independently.
//!
//! Exactly by looking at all subsets of sites (up to 26 sites), or exactly by inclusion and exclusion over
//! unions of sets (up to 20 different sets), or by sampling. A sample draws for each site the probability from
//! which on it is down; a set is up below the least of its members', and some set below the largest of those.
//! So the same samples serve for every p, and the curve falls as it must. The error given is half the width of Wilson's interval
//! at 95 %.

use super::rule::QuorumRule;
use super::survivors::{Survivors, power};
use crate::SiteSet;
use crate::quorum::QuorumSystem;

/// The availability curve, and the method that found it.
#[derive(Clone, Debug, PartialEq)]
pub struct Availability {
    pub method: Method,
    /// One point for each requested probability.
    pub points: Vec<AvailabilityPoint>,
}

/// The method by which an availability was found.
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
pub struct AvailabilityPoint {
    /// The probability that one site is down.
    pub failing: f64,
    /// The probability that some quorum is up.
    pub available: f64,
    /// The possible error at 95 % confidence; 0 where it is exact.
    pub error: f64,
}

/// The sampling, where the exact methods do not apply.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sampling {
    /// The number of samples; fewer are drawn where the family is so large that they would take too long.
    pub samples: u32,
    pub seed: u64,
}

impl Default for Sampling {
    fn default() -> Self {
        Sampling { samples: 20_000, seed: 1 }
    }
}

/// The largest number of different sets for which all unions are examined.
const MAX_UNIONS: usize = 20;

/// The number of set members that the sampling may examine, once it has its least samples.
const MAX_STEPS: usize = 500_000_000;
const MIN_SAMPLES: usize = 1000;

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
        if sets.len() <= MAX_UNIONS {
            let unions = Unions::of(&sets, system.sites());
            return Availability::exactly(Method::InclusionExclusion, failing, |p| unions.availability(p));
        }
        let thresholds = thresholds(&sets, system.sites(), sampling);
        let samples = u32::try_from(thresholds.len()).unwrap_or(sampling.samples);
        let points = failing.iter().map(|&p| sampled(&thresholds, p)).collect();
        Availability { method: Method::Sampled(Sampling { samples, ..sampling }), points }
    }

    /// `None` where only the listed sets tell.
    pub(super) fn of_rule(rule: &QuorumRule, failing: &[f64]) -> Option<Self> {
        let point = |&failing: &f64| {
            Some(AvailabilityPoint { failing, available: rule.availability(failing)?, error: 0.0 })
        };
        let points = failing.iter().map(point).collect::<Option<_>>()?;
        Some(Availability { method: Method::Rule, points })
    }

    fn exactly(method: Method, failing: &[f64], available: impl Fn(f64) -> f64) -> Self {
        let point = |&failing: &f64| AvailabilityPoint { failing, available: available(failing), error: 0.0 };
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
    let members: Vec<Vec<usize>> =
        sets.iter().map(|set| set.iter().map(|site| site.index()).collect()).collect();
    let mut random = fastrand::Rng::with_seed(sampling.seed);
    let mut down_from = vec![0.0; sites];
    let mut thresholds = Vec::new();
    let mut steps = 0;
    for sample in 0..sampling.samples as usize {
        if sample >= MIN_SAMPLES && steps > MAX_STEPS {
            break;
        }
        down_from.fill_with(|| random.f64());
        thresholds.push(threshold(&members, &down_from, &mut steps));
    }
    thresholds.sort_by(f64::total_cmp);
    thresholds
}

/// From when on no set is up, if each site is down from when `down_from` says.
fn threshold(sets: &[Vec<usize>], down_from: &[f64], steps: &mut usize) -> f64 {
    let mut last = 0.0;
    for members in sets {
        let mut up_until = f64::INFINITY;
        for &site in members {
            *steps += 1;
            up_until = f64::min(up_until, down_from[site]);
            if up_until <= last {
                break;
            }
        }
        last = f64::max(last, up_until);
    }
    last
}

fn sampled(thresholds: &[f64], failing: f64) -> AvailabilityPoint {
    let up = thresholds.len() - thresholds.partition_point(|&threshold| threshold <= failing);
    let (count, share) = (thresholds.len() as f64, up as f64 / thresholds.len() as f64);
    let z = 1.96_f64;
    let spread = (share * (1.0 - share) / count + z * z / (4.0 * count * count)).sqrt();
    AvailabilityPoint { failing, available: share, error: z * spread / (1.0 + z * z / count) }
}
