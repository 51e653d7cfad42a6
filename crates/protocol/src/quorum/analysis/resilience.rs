//! Resilience: how many failures always leave a quorum. It is one less than the fewest sites that together intersect every
//! set.
//!
//! Few sites: from all subsets. Otherwise a search by layers: all families of sets that `j` chosen sites can
//! leave unmet, starting with all; the next layer lets each member of one unmet set be chosen. The first layer with
//! nothing left unmet is the answer. What leaves more unmet than the busiest sites that may still be chosen can
//! meet is dropped. The search is given up after [`MAX_STEPS`]; then bounds remain: from below the layers done and the load (if
//! every site is asked at most a share L of the time, fewer than 1/L sites cannot be in every choice), from above
//! sites chosen greedily and the smallest set that meets all.

use std::collections::BTreeSet;

use super::load::QuorumLoad;
use super::survivors::Survivors;
use crate::quorum::QuorumSystem;
use crate::{SiteId, SiteSet};

/// The number of failures that always leave a quorum. The bounds are equal where it is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Resilience {
    /// This many failures are survived.
    pub at_least: usize,
    /// One more failure than this may not be survived.
    pub at_most: usize,
}

/// The number of words of bits that the search may examine.
const MAX_STEPS: usize = 300_000_000;

impl Resilience {
    /// The resilience of a family that has at least one set, all of them not empty.
    pub(super) fn of(system: &QuorumSystem, survivors: Option<&Survivors>, load: &QuorumLoad) -> Self {
        if let Some(exact) = survivors.and_then(Survivors::resilience) {
            return Resilience::exactly(exact);
        }
        // The linear program's answer is a little off; only a clear fraction counts as one site more.
        let from_load = (1..system.sites()).find(|&sites| sites as f64 * load.best >= 1.0 - 1e-6);
        let meets = Meets::of(system);
        let most = meets.greedy().min(smallest_that_meets_all(system));
        let (least, most) = meets.fewest(from_load.unwrap_or(system.sites()), most);
        Resilience { at_least: least - 1, at_most: most - 1 }
    }

    /// Known for certain.
    pub(super) fn exactly(failures: usize) -> Self {
        Resilience { at_least: failures, at_most: failures }
    }

    /// Whether the bounds are equal.
    pub fn is_exact(self) -> bool {
        self.at_least == self.at_most
    }
}

/// The size of the smallest set that meets every set; if none does, all sites do.
fn smallest_that_meets_all(system: &QuorumSystem) -> usize {
    let mut sets: Vec<&SiteSet> = system.quorums().iter().collect();
    sets.sort_by_key(|set| set.len());
    // In a quorum system it is the first.
    let candidates = sets.iter().take(10);
    let meets_all = |candidate: &&&SiteSet| sets.iter().all(|set| set.intersects(candidate));
    candidates.clone().find(meets_all).map_or(system.sites(), |set| set.len())
}

/// Which sets each site meets, as sets of sets.
struct Meets<'a> {
    system: &'a QuorumSystem,
    /// For each site the indices of the sets it is in; a [`SiteSet`] serves as a set of indices.
    by_site: Vec<SiteSet>,
}

impl<'a> Meets<'a> {
    fn of(system: &'a QuorumSystem) -> Self {
        let mut by_site = vec![SiteSet::new(); system.sites()];
        for (index, set) in system.quorums().iter().enumerate() {
            for site in set.iter() {
                by_site[site.index()].insert(SiteId::new(index));
            }
        }
        Meets { system, by_site }
    }

    fn all_unmet(&self) -> SiteSet {
        SiteSet::all(self.system.quorums().len())
    }

    /// The number of sites that a greedy choice takes: each time one that intersects most sets.
    fn greedy(&self) -> usize {
        let mut unmet = self.all_unmet();
        let mut chosen = 0;
        while !unmet.is_empty() {
            let best = self.by_site.iter().max_by_key(|met| met.common(&unmet));
            unmet.subtract(best.expect("a set has a site"));
            chosen += 1;
        }
        chosen
    }

    /// The bounds on the fewest sites that meet every set, narrowed from the ones that are known.
    fn fewest(&self, least: usize, most: usize) -> (usize, usize) {
        let words = self.all_unmet().len().div_ceil(64);
        let mut layer = BTreeSet::from([self.all_unmet()]);
        let mut steps = 0;
        for chosen in 0..most {
            let least = least.max(chosen + 1);
            if least == most {
                break;
            }
            let mut next = BTreeSet::new();
            for unmet in &layer {
                steps += words * self.by_site.len();
                // Fewer than `most`, or nothing is gained.
                if !self.may_be_met(unmet, most - 1 - chosen) {
                    continue;
                }
                let first = unmet.first().expect("layers keep what is unmet");
                let members = &self.system.quorums()[first.index()];
                steps += 2 * words * members.len();
                if steps > MAX_STEPS {
                    return (least, most);
                }
                for site in members.iter() {
                    let mut rest = unmet.clone();
                    rest.subtract(&self.by_site[site.index()]);
                    if rest.is_empty() {
                        return (chosen + 1, chosen + 1);
                    }
                    next.insert(rest);
                }
            }
            layer = next;
        }
        (most, most)
    }

    /// Whether the `sites` sites that meet most of `unmet` could meet all of it, if they met no set twice.
    fn may_be_met(&self, unmet: &SiteSet, sites: usize) -> bool {
        let mut met: Vec<usize> = self.by_site.iter().map(|met| met.common(unmet)).collect();
        let sites = sites.min(met.len());
        if sites > 0 && sites < met.len() {
            met.select_nth_unstable_by_key(sites - 1, |&met| std::cmp::Reverse(met));
        }
        met[..sites].iter().sum::<usize>() >= unmet.len()
    }
}
