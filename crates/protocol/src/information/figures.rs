//! The structures that the paper draws, and their kinds for any number of sites.
//!
//! The text gives the sets of Figures 3a, 3b and 4 outright, and those of 1a, 1b and 2 by what it says of them. Of
//! Figure 1c it says only that inform and request sets are equal and that every two meet; ours has four sites, as
//! 1a and 2 have, in a grid of two rows.

use crate::quorum::QuorumSystem;
use crate::{SiteId, SiteSet};

use super::InformationStructure;

fn set(sites: impl IntoIterator<Item = usize>) -> SiteSet {
    sites.into_iter().map(SiteId::new).collect()
}

impl InformationStructure {
    /// One site decides for all (the kind of Figure 1a).
    pub fn central(sites: usize, centre: SiteId) -> Self {
        InformationStructure::from_fn(sites, |i| {
            let own = SiteSet::from_iter([i, centre]);
            (own.clone(), own)
        })
    }

    /// Everyone asks everyone and only minds itself (the kind of Figure 1b): Ricart and Agrawala's algorithm.
    pub fn distributed(sites: usize) -> Self {
        InformationStructure::from_fn(sites, |i| (SiteSet::from_iter([i]), SiteSet::all(sites)))
    }

    /// Two busy sites, 0 and 1, ask only each other; the rest, who enter rarely, ask and inform both (the kind of
    /// Figures 2 and 4). A busy site enters for two messages whatever the number of sites.
    pub fn pair(sites: usize) -> Self {
        let both = SiteSet::all(sites.min(2));
        InformationStructure::from_fn(sites, |i| {
            let own = SiteSet::from_iter([i]);
            if both.contains(i) {
                return (own, both.clone());
            }
            let mut informed = own;
            informed.union_with(&both);
            (informed.clone(), informed)
        })
    }

    /// Figure 1a: site 1 decides for four.
    pub fn figure_1a() -> Self {
        InformationStructure::central(4, SiteId::new(1))
    }

    /// Figure 1b: four sites ask each other.
    pub fn figure_1b() -> Self {
        InformationStructure::distributed(4)
    }

    /// Figure 1c: everyone asks and informs a subset, and every two subsets meet.
    pub fn figure_1c() -> Self {
        let grid = QuorumSystem::grid(4).expect("a grid of four sites");
        InformationStructure::from_quorums(&grid)
    }

    /// Figure 2: sites 0 and 1 are busy, 2 and 3 are not.
    pub fn figure_2() -> Self {
        InformationStructure::pair(4)
    }

    /// Figure 3a: i = 0 learns of j = 1 from j itself, but j learns of i from k = 2 only. Two get in. (The sets of
    /// k, which the text leaves open, are such that no other pair is at fault.)
    pub fn figure_3a() -> Self {
        let inform = vec![set([0, 2]), set([1]), set([2])];
        let request = vec![set([0, 1, 2]), set([1, 2]), set([1, 2])];
        InformationStructure::new(inform, request)
    }

    /// Figure 3b: i = 0 and j = 1 learn of each other from third sites, k = 2 and m = 3, that do not know both. Two
    /// get in. (The sets of k and m are such that no other pair is at fault.)
    pub fn figure_3b() -> Self {
        let inform = vec![set([0, 2]), set([1, 3]), set([2]), set([3])];
        let request = vec![set([0, 2, 3]), set([1, 2, 3]), set([1, 2, 3]), set([0, 2, 3])];
        InformationStructure::new(inform, request)
    }

    /// Figure 4: safe, and can deadlock under the plain rules.
    pub fn figure_4() -> Self {
        InformationStructure::pair(3)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_figures_have_the_sets_that_the_text_gives_them() {
        let sets = |structure: InformationStructure| structure.to_string();
        assert_eq!(sets(InformationStructure::figure_1a()), "0.1/1/1.2/1.3");
        assert_eq!(sets(InformationStructure::figure_1b()), "0+1.2.3/1+0.2.3/2+0.1.3/3+0.1.2");
        assert_eq!(sets(InformationStructure::figure_1c()), "0.1.2/0.1.3/0.2.3/1.2.3");
        assert_eq!(sets(InformationStructure::figure_2()), "0+1/1+0/0.1.2/0.1.3");
        assert_eq!(sets(InformationStructure::figure_3a()), "0.2+1/1+2/2+1");
        assert_eq!(sets(InformationStructure::figure_3b()), "0.2+3/1.3+2/2+1.3/3+0.2");
        assert_eq!(sets(InformationStructure::figure_4()), "0+1/1+0/0.1.2");
    }

    #[test]
    fn every_kind_satisfies_the_theorem_for_any_number_of_sites() {
        for sites in 1..=9 {
            let last = SiteId::new(sites - 1);
            let kinds = [
                InformationStructure::central(sites, last),
                InformationStructure::distributed(sites),
                InformationStructure::pair(sites),
            ];
            for structure in kinds {
                assert_eq!(structure.check(), Ok(()), "{structure}");
            }
        }
    }
}
