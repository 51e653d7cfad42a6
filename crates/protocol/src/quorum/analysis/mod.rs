//! Analysis: what a quorum system costs and what it survives.
//!
//! | figure | meaning | how it is found |
//! |---|---|---|
//! | [`Sizes`] | how many sites a quorum asks | counted |
//! | [`MessageCost`] | REQUEST, REPLY and RELEASE to each but oneself | 3(k − 1) |
//! | [`QuorumLoad`] | how often the busiest site is asked, if quorums are chosen as well as can be | linear program over classes of like sets |
//! | [`Resilience`] | how many failures always leave a quorum | all subsets, or a search for the fewest sites that meet every set |
//! | [`Availability`] | how likely some quorum is up, if each site is down with probability p | all subsets, inclusion and exclusion, or sampling |
//!
//! Load after Naor and Wool (1998). Everything is a function of the family and, for the sampling, of a seed.
//! Trees and votes have more sets than can be listed; their [`QuorumRule`] gives the same figures without them, and that
//! of a grid the resilience that a search would take too long for.

mod availability;
mod classes;
mod load;
mod resilience;
mod rule;
mod survivors;

pub use availability::{Availability, AvailabilityPoint, Method, Sampling};
pub use load::QuorumLoad;
pub use resilience::Resilience;
pub use rule::QuorumRule;

use crate::quorum::{BuildQuorumsError, QuorumSystem};
use crate::{SiteId, SiteSet};
use survivors::Survivors;

/// All results for one family.
#[derive(Clone, Debug, PartialEq)]
pub struct Analysis {
    pub sizes: Sizes,
    /// The messages of an entry when no other site requests.
    pub messages: MessageCost,
    /// The spread of the work.
    pub load: QuorumLoad,
    /// The number of failures that are always survived.
    pub resilience: Resilience,
    /// The probability that failures are survived.
    pub availability: Availability,
}

/// The number of sites in a set.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Sizes {
    /// The smallest set.
    pub least: usize,
    /// Under the best strategy.
    pub mean: f64,
    /// The largest set.
    pub most: usize,
}

/// Messages of one request and release when no other site requests: three for every member but the requester.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct MessageCost {
    /// With the smallest set.
    pub least: usize,
    /// All sites alike where each has a set; otherwise under the best strategy.
    pub mean: f64,
    /// With the largest set.
    pub most: usize,
}

impl Analysis {
    /// Analyses a family that has at least one set, all of them not empty; `failing` are the probabilities for the
    /// availability.
    pub fn of(system: &QuorumSystem, failing: &[f64], sampling: Sampling) -> Self {
        Analysis::of_listed(system, None, failing, sampling)
    }

    /// Analyses listed sets, with what their rule knows better.
    fn of_listed(
        system: &QuorumSystem,
        rule: Option<&QuorumRule>,
        failing: &[f64],
        sampling: Sampling,
    ) -> Self {
        let survivors = Survivors::count(system);
        let load = QuorumLoad::of(system);
        let resilience = rule.map(|rule| Resilience::exactly(rule.resilience()));
        let availability = rule.and_then(|rule| Availability::of_rule(rule, failing));
        Analysis {
            sizes: Sizes::of(system, &load),
            messages: MessageCost::of(system, &load),
            resilience: resilience.unwrap_or_else(|| Resilience::of(system, survivors.as_ref(), &load)),
            availability: availability
                .unwrap_or_else(|| Availability::of(system, survivors.as_ref(), failing, sampling)),
            load,
        }
    }

    /// Analyses all sets that follow a rule, where that is possible without listing them.
    pub fn of_rule(
        rule: &QuorumRule,
        failing: &[f64],
        sampling: Sampling,
    ) -> Result<Self, BuildQuorumsError> {
        let by_rule = rule.load_and_sizes().zip(Availability::of_rule(rule, failing));
        let Some(((load, sizes), availability)) = by_rule else {
            return Ok(Analysis::of_listed(&rule.list()?, Some(rule), failing, sampling));
        };
        let (messages, resilience) = (MessageCost::of_members(sizes), Resilience::exactly(rule.resilience()));
        Ok(Analysis { sizes, messages, load, resilience, availability })
    }
}

impl Sizes {
    fn of(system: &QuorumSystem, load: &QuorumLoad) -> Self {
        let sizes = system.quorums().iter().map(SiteSet::len);
        let (least, most) = (sizes.clone().min().unwrap_or(0), sizes.max().unwrap_or(0));
        Sizes { least, most, mean: load.of_sites.iter().sum() }
    }
}

impl MessageCost {
    /// Where each site has a set, it asks that one, and all ask equally often; otherwise a requester is taken to
    /// be in its quorum.
    fn of(system: &QuorumSystem, load: &QuorumLoad) -> Self {
        let sets = system.quorums();
        if sets.len() != system.sites() {
            return MessageCost::of_members(Sizes::of(system, load));
        }
        let asked = |(at, set): (usize, &SiteSet)| set.len() - usize::from(set.contains(SiteId::new(at)));
        let messages = sets.iter().enumerate().map(|set| 3 * asked(set));
        MessageCost {
            least: messages.clone().min().unwrap_or(0),
            mean: messages.clone().sum::<usize>() as f64 / sets.len() as f64,
            most: messages.max().unwrap_or(0),
        }
    }

    fn of_members(sizes: Sizes) -> Self {
        MessageCost {
            least: 3 * (sizes.least - 1),
            mean: 3.0 * (sizes.mean - 1.0),
            most: 3 * (sizes.most - 1),
        }
    }
}

#[cfg(test)]
mod tests;
