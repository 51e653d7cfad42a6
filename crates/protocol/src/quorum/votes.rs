//! Weighted votes: a quorum is a set of sites whose votes reach a quota.
//!
//! With a quota above half of the votes every two quorums meet. Reliable sites get more votes; a site without a
//! vote is in no quorum. Listed are the minimal winning coalitions: the sets that lose with any member less.

use crate::SiteId;
use crate::quorum::{BuildQuorumsError, MAX_SETS, QuorumSystem, check_sites};

impl QuorumSystem {
    /// All minimal sets whose votes reach `quota`, `votes[i]` being site `i`'s. They need not be quorums:
    /// [`majority_of`] is the least quota of which every two sets meet.
    pub fn votes(votes: &[u32], quota: u64) -> Result<Self, BuildQuorumsError> {
        let total = check(votes, quota)?;
        let mut order: Vec<SiteId> = SiteId::all(votes.len()).collect();
        order.sort_by_key(|site| std::cmp::Reverse(votes[site.index()]));
        let coalitions = Coalitions { votes, order };
        // Counted before any is kept: with thousands of sites the first few hundred thousand fill the memory.
        let mut sets = 0;
        coalitions.each(quota, total, |_| {
            sets += 1;
            if sets > MAX_SETS { Err(BuildQuorumsError::TooManySets) } else { Ok(()) }
        })?;
        let mut quorums = Vec::with_capacity(sets);
        coalitions.each(quota, total, |members| {
            quorums.push(members.iter().copied().collect());
            Ok(())
        })?;
        Ok(QuorumSystem::new(votes.len(), quorums))
    }
}

/// The smallest quota above half of the votes.
pub fn majority_of(votes: &[u32]) -> u64 {
    total(votes) / 2 + 1
}

/// Returns the sum of the votes, if the sites can reach the quota at all.
pub(super) fn check(votes: &[u32], quota: u64) -> Result<u64, BuildQuorumsError> {
    check_sites(votes.len())?;
    match total(votes) {
        0 => Err(BuildQuorumsError::NoVotes),
        total if !(1..=total).contains(&quota) => Err(BuildQuorumsError::BadQuota { quota, total }),
        total => Ok(total),
    }
}

fn total(votes: &[u32]) -> u64 {
    votes.iter().map(|&votes| u64::from(votes)).sum()
}

/// The search: coalitions grow in order of falling votes, so the one that reaches the quota was needed least,
/// and what was found is minimal.
struct Coalitions<'a> {
    votes: &'a [u32],
    order: Vec<SiteId>,
}

impl Coalitions<'_> {
    /// Gives `found` every minimal coalition that reaches `quota`; all sites have `total` votes. A stack of its own, not
    /// the thread's: a coalition can have as many members as there are sites.
    fn each(
        &self,
        quota: u64,
        total: u64,
        mut found: impl FnMut(&[SiteId]) -> Result<(), BuildQuorumsError>,
    ) -> Result<(), BuildQuorumsError> {
        // The members so far, and for each of them its place, what was missing before it, and the votes behind it.
        let (mut members, mut taken) = (Vec::new(), Vec::new());
        let (mut at, mut missing, mut left) = (0, quota, total);
        loop {
            if left < missing {
                // Even with all who follow it is not enough: go on without the last member.
                let Some((place, before, behind)) = taken.pop() else { return Ok(()) };
                members.pop();
                (at, missing, left) = (place + 1, before, behind);
                continue;
            }
            let site = self.order[at];
            let votes = u64::from(self.votes[site.index()]);
            left -= votes;
            members.push(site);
            if votes < missing {
                taken.push((at, missing, left));
                missing -= votes;
            } else {
                found(&members)?;
                members.pop();
            }
            at += 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::SiteSet;

    #[test]
    fn the_heavy_site_needs_one_other_and_the_others_need_each_other() {
        let system = QuorumSystem::votes(&[3, 1, 1, 1], majority_of(&[3, 1, 1, 1])).unwrap();
        assert_eq!(system.to_string(), "0.1/0.2/0.3");
        let system = QuorumSystem::votes(&[1, 2, 1, 1, 0], 3).unwrap();
        assert_eq!(system.to_string(), "0.1/1.2/1.3/0.2.3");
    }

    #[test]
    fn coalitions_are_the_minimal_winning_sets() {
        let votes = [4, 3, 3, 2, 1, 1, 0];
        for quota in 1..=14 {
            let found = QuorumSystem::votes(&votes, quota).unwrap();
            let set =
                |bits: usize| -> SiteSet { SiteId::all(7).filter(|s| bits >> s.index() & 1 == 1).collect() };
            let worth = |set: &SiteSet| set.iter().map(|s| u64::from(votes[s.index()])).sum::<u64>();
            let is_minimal =
                |set: &SiteSet| set.iter().all(|site| worth(set) - u64::from(votes[site.index()]) < quota);
            let mut expected: Vec<SiteSet> =
                (0..128).map(set).filter(|set| worth(set) >= quota && is_minimal(set)).collect();
            let mut found = found.quorums().to_vec();
            expected.sort();
            found.sort();
            assert_eq!(found, expected);
        }
    }

    #[test]
    fn votes_that_make_no_quorum_are_refused() {
        assert_eq!(QuorumSystem::votes(&[0, 0], 1), Err(BuildQuorumsError::NoVotes));
        assert_eq!(QuorumSystem::votes(&[], 1), Err(BuildQuorumsError::NoSites));
        let refused = QuorumSystem::votes(&[1, 2], 4).unwrap_err();
        assert_eq!(
            refused.to_string(),
            "a quota of 4 makes no quorums: it must be from 1 to 3, the sum of the votes"
        );
    }
    #[test]
    fn more_coalitions_than_can_be_listed_are_refused_before_any_is_kept() {
        let equal = vec![1; 10_000];
        assert_eq!(QuorumSystem::votes(&equal, majority_of(&equal)), Err(BuildQuorumsError::TooManySets));
        let distinct: Vec<u32> = (1..=2_000).collect();
        let quota = majority_of(&distinct);
        assert_eq!(QuorumSystem::votes(&distinct, quota), Err(BuildQuorumsError::TooManySets));
        // All but one of as many sites are few sets.
        assert_eq!(QuorumSystem::votes(&equal[..1_000], 999).unwrap().quorums().len(), 1_000);
    }
}
