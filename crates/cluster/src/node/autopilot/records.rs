//! With which disk a first voter votes that is not there, from what others have recorded.
//!
//! Before a first voter is bound to a disk for good (`VoterChange::Settle`), it should say itself which one it is. One that is not there
//! cannot. Then those are asked at which it has registered (`registration.rs`), each of which has recorded the first disk that it was shown. One
//! record is not enough: a voter need not register with everyone before it votes, and whoever was left out records the next disk that the
//! site has after it has lost the first.
//!
//! **How many are enough.** Let m be the others, s the number of them with which a voter registers before it votes, and f the number of lost
//! disks that agreement survives. Suppose that the voter has voted with disk D, and that r others say D'. At least s had recorded D, so that
//! at least r−(m−s) of those that say D' have recorded D before, and have lost their own disks since. The voter has lost D, too. With
//! r = m−s+f these are more than f. So for three voters one record is enough, two of four, three of five or six, four of seven.

use super::super::registration::enough;
use super::{Pilot, Situation};
use crate::membership::voters::Voter;
use crate::mutant::{self, Mutant};
use crate::names::{Incarnation, Member, SiteName};
use crate::view::View;

/// Returns how many records of the same disk are needed to know that no other one was voted with.
fn needed(voters: usize) -> usize {
    if mutant::is_on(Mutant::OneRecordBinds) {
        return 1;
    }
    let (others, minority) = (voters.saturating_sub(1), voters.saturating_sub(1) / 2);
    (others + minority).saturating_sub(enough(voters)).max(1)
}

impl Pilot {
    /// Handles what a member says of the disks with which first voters have registered at it.
    pub(in crate::node) fn on_records(
        &mut self,
        from: Member,
        mut records: Vec<(SiteName, Incarnation)>,
        (voters, view): (&[Voter], &View),
    ) {
        records.retain(|(site, _)| voters.iter().any(|voter| voter.site == *site));
        if view.contains(&from) && records.len() <= voters.len() {
            self.records.insert(from, records);
        }
    }

    /// Returns the disk with which the voter must have voted, if it has, as far as enough others have recorded the same.
    pub(super) fn recorded_disk(&self, voter: &Voter, at: Situation<'_>) -> Option<Incarnation> {
        let is_other = |site: &SiteName| *site != voter.site && at.voters.of_site(site).is_some();
        let of_member = |(member, records): (&Member, &Vec<(SiteName, Incarnation)>)| {
            let of_voter = records.iter().find(|(site, _)| *site == voter.site);
            of_voter.filter(|_| is_other(&member.site)).map(|(_, disk)| *disk)
        };
        let own = at.registered.get(&voter.site).copied();
        let all: Vec<Incarnation> = self.records.iter().filter_map(of_member).chain(own).collect();
        let has_enough = |disk: &&Incarnation| {
            all.iter().filter(|other| other == disk).count() >= needed(at.voters.voters.len())
        };
        let disk = *all.iter().find(has_enough)?;
        // If so many disks were lost that both are recorded often enough, nothing is known.
        let is_only = all.iter().filter(has_enough).all(|other| *other == disk);
        is_only.then_some(disk)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fewer_disks_may_be_lost_than_it_takes_to_record_a_wrong_one_often_enough() {
        assert_eq!([2, 3, 4, 5, 6, 7].map(needed), [1, 1, 2, 3, 3, 4]);
        for voters in 3..30 {
            let (others, survived) = (voters - 1, (voters - 1) / 2);
            let have_lost_theirs = needed(voters) - (others - enough(voters));
            assert!(have_lost_theirs + 1 > survived, "{voters} voters");
            // Those that are up with a majority are enough, as long as a cluster has no more voters than the leader makes by itself.
            assert!(needed(voters) <= voters / 2 + 1 || voters > 7, "{voters} voters");
        }
    }
}
