//! Majorities: any two sets of more than half of the sites meet (chapter 9, section 9.7).
//!
//! The simplest quorums and the ones that survive most failures, but they grow with N. Each site's own is the
//! sites that follow it in a ring, so that all share the work; there are far more majorities than those.

use crate::quorum::{BuildQuorumsError, MAX_SETS, QuorumSystem, check_sites, votes};
use crate::{SiteId, SiteSet};

impl QuorumSystem {
    /// For each site itself and the next ⌊N/2⌋ in a ring: M1 to M4 hold.
    pub fn majority(sites: usize) -> Result<Self, BuildQuorumsError> {
        check_sites(sites)?;
        let majority = |from: usize| -> SiteSet {
            (0..least(sites)).map(|step| SiteId::new((from + step) % sites)).collect()
        };
        Ok(QuorumSystem::new(sites, (0..sites).map(majority).collect()))
    }

    /// Every set of ⌊N/2⌋+1 sites: the coterie of which [`majority`](Self::majority) gives each site one.
    pub fn all_majorities(sites: usize) -> Result<Self, BuildQuorumsError> {
        check_sites(sites)?;
        // Refused before any is built: of ten thousand sites even the first few fill the memory.
        if more_than(MAX_SETS as u128, sites, least(sites)) {
            return Err(BuildQuorumsError::TooManySets);
        }
        let one_each = vec![1; sites];
        QuorumSystem::votes(&one_each, votes::majority_of(&one_each))
    }
}

/// The number of sites in a majority of `sites`.
pub const fn least(sites: usize) -> usize {
    sites / 2 + 1
}

/// Whether there are more than `limit` ways to choose `chosen` of `sites`.
fn more_than(limit: u128, sites: usize, chosen: usize) -> bool {
    let mut ways: u128 = 1;
    for taken in 1..=chosen {
        // Each intermediate product is itself a number of ways, so the division is exact and nothing shrinks.
        ways = ways * (sites - chosen + taken) as u128 / taken as u128;
        if ways > limit {
            return true;
        }
    }
    false
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ways_are_counted_up_to_the_limit() {
        assert!(!more_than(10, 5, 3));
        assert!(more_than(9, 5, 3));
        assert!(!more_than(1, 1, 1));
        assert!(more_than(u128::from(u64::MAX), 10_303, 5152));
    }

    #[test]
    fn each_site_has_a_majority_of_its_own() {
        let system = |sites| QuorumSystem::majority(sites).unwrap().to_string();
        assert_eq!(system(1), "0");
        assert_eq!(system(2), "0.1/0.1");
        assert_eq!(system(5), "0.1.2/1.2.3/2.3.4/0.3.4/0.1.4");
    }

    #[test]
    fn there_are_ten_majorities_of_five() {
        let all = QuorumSystem::all_majorities(5).unwrap();
        assert_eq!(all.to_string(), "0.1.2/0.1.3/0.1.4/0.2.3/0.2.4/0.3.4/1.2.3/1.2.4/1.3.4/2.3.4");
        assert_eq!(QuorumSystem::all_majorities(40), Err(BuildQuorumsError::TooManySets));
    }
}
