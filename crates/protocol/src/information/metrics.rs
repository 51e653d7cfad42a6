//! What a structure costs (section 6): messages per entry and synchronisation delay.
//!
//! Two formulas are printed with a slip each; as corrected here they give the numbers that the paper itself
//! derives. A third is right only where request and inform sets are the same ([`InformationStructure::hand_over`]).
//!
//! - The upper bound sums over `R_i`, but "messages from a process to itself are not counted", and only so is DM =
//!   N−1 for the fully distributed structure. At i itself an INQUIRE, a YIELD and a new GRANT are messages exactly
//!   if i keeps track of another site.
//! - `D_ij` is printed as 2 whenever `I_i ∩ I_j ≠ ∅`. It is 2 only if a *third* site is in both: only so are D =
//!   2(N−1)/N for the central structure, and `D_0j` = 1 in Figure 2.

use crate::{SiteId, SiteSet};

use super::InformationStructure;

impl InformationStructure {
    /// The lower bound on `NM_i`, the messages per entry of site `i` (section 6.1): a REQUEST to and a GRANT from
    /// all others in `R_i`, a RELEASE to all others in `I_i`. Reached when nobody else wants to enter.
    pub fn min_messages(&self, i: SiteId) -> usize {
        others(self.inform(i), i) + 2 * others(self.request(i), i)
    }

    /// The upper bound on `NM_i` (section 6.1): besides, each site asked may send a FAIL, and an INQUIRE that is
    /// answered by a YIELD and mended by a new GRANT.
    pub fn max_messages(&self, i: SiteId) -> usize {
        let conflicts = self.request(i).iter().map(|j| self.conflict_messages(i, j)).sum::<usize>();
        self.min_messages(i) + conflicts
    }

    /// `r_j`: what a request of `i` can cost at `j` beyond REQUEST, GRANT and RELEASE.
    fn conflict_messages(&self, i: SiteId, j: SiteId) -> usize {
        let tracks_a_third = self.status(j).iter().any(|k| k != i && k != j);
        let fail = usize::from(j != i);
        if tracks_a_third { 3 + fail } else { fail }
    }

    /// `D_ij`: the messages that must follow each other from the exit of `j` to the entry of `i` that waits for it
    /// (section 6.2).
    pub fn delay(&self, i: SiteId, j: SiteId) -> usize {
        let by_a_third = || self.shared(i, j).iter().any(|k| k != i && k != j);
        match i == j {
            true => 0,
            false if by_a_third() => 2,
            false => 1,
        }
    }

    /// What [`delay`](Self::delay) comes to when the algorithm runs. A third site that is informed of `j` and asked by
    /// `i` may have put the request of `i` off until the RELEASE of `j` comes, whether it keeps track of `i` or not. So
    /// it is `R_i ∩ I_j` that counts and not `I_i ∩ I_j`, and in Figure 2 `D_02` is 2, where the paper has 1.
    pub fn hand_over(&self, i: SiteId, j: SiteId) -> usize {
        let by_a_third = || self.request(i).intersection(self.inform(j)).iter().any(|k| k != i && k != j);
        match i == j {
            true => 0,
            false if by_a_third() => 2,
            false => 1,
        }
    }

    /// `D_i`: the mean of `D_ij` over all other sites j; 0 if there are none.
    pub fn mean_delay_of(&self, i: SiteId) -> f64 {
        let sum: usize = self.all().map(|j| self.delay(i, j)).sum();
        sum as f64 / self.sites().saturating_sub(1).max(1) as f64
    }

    /// D: the mean of `D_i` over all sites.
    pub fn mean_delay(&self) -> f64 {
        self.all().map(|i| self.mean_delay_of(i)).sum::<f64>() / self.sites().max(1) as f64
    }
}

fn others(set: &SiteSet, me: SiteId) -> usize {
    set.len() - usize::from(set.contains(me))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn close(a: f64, b: f64) -> bool {
        (a - b).abs() < 1e-12
    }

    /// Reference: section 6.2, "for the centralized algorithm of Figure 1a, D = 2(N−1)/n".
    #[test]
    fn the_central_structure_has_a_delay_of_two_less_a_share_for_the_centre() {
        assert!(close(InformationStructure::figure_1a().mean_delay(), 1.5));
        for sites in 2..=12 {
            let central = InformationStructure::central(sites, SiteId::new(0));
            assert!(close(central.mean_delay(), 2.0 * (sites - 1) as f64 / sites as f64), "{sites} sites");
        }
    }

    /// Reference: section 6.2, "for the completely decentralized algorithm, D = 1"; section 6.1, "DM = N − 1".
    #[test]
    fn the_fully_distributed_structure_has_a_delay_of_one_and_at_most_a_fail_from_each() {
        for sites in 2..=12 {
            let distributed = InformationStructure::distributed(sites);
            assert!(close(distributed.mean_delay(), 1.0), "{sites} sites");
            for i in distributed.all() {
                assert_eq!(distributed.min_messages(i), 2 * (sites - 1));
                assert_eq!(distributed.max_messages(i), 3 * (sites - 1));
            }
        }
    }

    /// Reference: section 6.2, "NM_0 = NM_1 = 2", "D_0j = D_1j = 1 for j = 2 and 3, and D_01 = D_10 = 1".
    #[test]
    fn in_figure_2_the_busy_sites_enter_for_two_messages_and_one_delay() {
        let structure = InformationStructure::figure_2();
        let [s0, s1, s2, s3] = SiteId::first();
        for busy in [s0, s1] {
            assert_eq!(structure.min_messages(busy), 2);
            for other in structure.all().filter(|&other| other != busy) {
                assert_eq!(structure.delay(busy, other), 1);
            }
        }
        assert_eq!(structure.min_messages(s2), 6);
        assert_eq!(structure.delay(s2, s3), 2);
        assert_eq!(structure.delay(s2, s2), 0);
    }

    /// `sanders-1987-bounds` of the simulator measures it.
    #[test]
    fn a_hand_over_is_longer_than_the_paper_says_only_where_a_site_asks_more_than_it_informs() {
        let differ = |structure: InformationStructure| {
            let pairs =
                structure.all().flat_map(|i| structure.all().map(move |j| (i, j))).collect::<Vec<_>>();
            let longer = |&(i, j): &(SiteId, SiteId)| structure.hand_over(i, j) > structure.delay(i, j);
            assert!(pairs.iter().all(|&(i, j)| structure.hand_over(i, j) >= structure.delay(i, j)));
            pairs.into_iter().filter(longer).map(|(i, j)| (i.index(), j.index())).collect::<Vec<_>>()
        };
        assert_eq!(differ(InformationStructure::figure_1a()), []);
        assert_eq!(differ(InformationStructure::figure_1b()), []);
        assert_eq!(differ(InformationStructure::figure_1c()), []);
        assert_eq!(differ(InformationStructure::figure_2()), [(0, 2), (0, 3), (1, 2), (1, 3)]);
    }

    /// Reference: section 6.1, r_j.
    #[test]
    fn the_upper_bound_counts_a_fail_and_a_returned_grant_where_a_third_site_may_hold_it() {
        let structure = InformationStructure::figure_4();
        let [s0, _, s2] = SiteId::first();
        // Site 0 asks 1, which may have granted 2, and itself, which may have as well.
        assert_eq!(structure.max_messages(s0), 2 + 4 + 3);
        // Site 2 asks 0 and 1, which keep track of no third site.
        assert_eq!(structure.max_messages(s2), 6 + 1 + 1);
    }

    #[test]
    fn a_lone_site_has_no_delay_and_no_messages() {
        let alone = InformationStructure::distributed(1);
        assert_eq!(alone.max_messages(SiteId::new(0)), 0);
        assert!(close(alone.mean_delay(), 0.0));
    }
}
