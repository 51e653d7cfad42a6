//! What the leader does by itself, and which members it prefers for it.

use super::{Automatic, Pilot, Situation};
use crate::membership::MAX_VOTERS;
use crate::membership::voters::{Voter, VoterChange};
use crate::names::{Incarnation, Member, SiteName};
use crate::time::{Span, Time};

impl Pilot {
    /// Returns the first step of what the leader does by itself.
    pub(super) fn improve(&self, at: Situation<'_>, auto: Automatic) -> Option<VoterChange> {
        let Situation { voters, view, now, .. } = at;
        let away = |voter: &Voter| self.absent_since.get(&voter.id).map(|since| now.since(*since));
        // A voter that has lost its disk is put back where it was.
        let lost = voters.voters.iter().find(|voter| {
            let claim = self.claim(&voter.site, view);
            let is_member =
                claim.is_some_and(|(member, _)| self.has_been_there(member, auto.stable_after, now));
            let has_another =
                claim.is_some_and(|(_, claim)| voter.disk != Some(claim.disk) && claim.acts_as.is_none());
            is_member && has_another && away(voter).is_some_and(|away| away >= auto.stable_after)
        });
        if let Some(lost) = lost {
            return self.admission(&lost.site, Some(lost.id), at).ok();
        }
        let gone = voters.voters.iter().filter(|voter| view.member(&voter.site).is_none());
        let gone = gone.filter_map(|voter| Some((away(voter)?, voter)));
        let longest = gone.max_by_key(|(away, voter)| (*away, std::cmp::Reverse(voter.id)));
        let candidates = self.candidates(at, auto.stable_after);
        if let Some((away, voter)) = longest {
            let (site, _) = candidates.first().filter(|_| away >= auto.replace_after)?;
            return self.admission(site, Some(voter.id), at).ok();
        }
        let all_there = voters.voters.iter().all(|voter| self.is_there(voter, at));
        let missing = missing_voters(voters.voters.len(), candidates.len());
        if !all_there || missing == 0 {
            return None;
        }
        let (site, disk) = candidates.into_iter().next()?;
        let wanted = u8::try_from(missing).unwrap_or(1);
        self.settled(at, None, VoterChange::Admit { site, disk, replaced: None, wanted }).ok()
    }

    fn has_been_there(&self, member: &Member, for_long: Span, now: Time) -> bool {
        self.member_since.get(member).is_some_and(|since| now.since(*since) >= for_long)
    }

    /// Returns the members that could become voters, with their disks, those that have been there longest first.
    pub(super) fn candidates(&self, at: Situation<'_>, stable_after: Span) -> Vec<(SiteName, Incarnation)> {
        let is_free = |member: &&Member| {
            let site = &member.site;
            let dismissed = self.dismissed.get(site).map(|when| at.now.since(*when));
            dismissed.is_none_or(|ago| ago >= at.timing.learner_timeout.times(10))
                && !at.voters.everyone().any(|voter| voter.site == *site)
                && !at.voters.resting.contains(site)
        };
        let members = at.view.members.iter().filter(is_free);
        let mut free: Vec<(Time, &Member, Incarnation)> = members
            .filter(|member| self.has_been_there(member, stable_after, at.now))
            .filter_map(|member| {
                Some((*self.member_since.get(member)?, member, self.claims.get(member)?.0.disk))
            })
            .collect();
        // An incarnation is stamped with its start: where this leader has seen no difference, the earlier one comes first.
        free.sort_by_key(|(since, member, _)| (*since, member.incarnation, member.site.clone()));
        free.into_iter().map(|(_, member, disk)| (member.site.clone(), disk)).collect()
    }
}

/// Returns how many voters one change adds where there are so many voters, all of them up, and members that could vote as well: as many
/// as make the number of voters odd, or two.
fn missing_voters(voters: usize, candidates: usize) -> usize {
    let step = if voters.is_multiple_of(2) { 1 } else { 2 };
    if voters + step <= MAX_VOTERS && candidates >= step { step } else { 0 }
}
