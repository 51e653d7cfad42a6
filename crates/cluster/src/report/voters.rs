//! Who votes, as a site reports it: which of the voters are there, and what happens if one more site stops.

use std::fmt;

use meshlock_protocol::numbered;
use serde::{Deserialize, Serialize};

use super::queue::Names;
use crate::names::SiteName;

/// A change of voters that an operator asks for.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum VoterRequest {
    /// This member becomes a voter.
    Promote(SiteName),
    /// This voter does not vote any more.
    Demote(SiteName),
    /// `new` votes in the place of `old`.
    Replace { old: SiteName, new: SiteName },
}

numbered! { VoterRequest {
    0 => Promote(value),
    1 => Demote(value),
    2 => Replace { old, new },
} }

/// Whether a voter takes part in decisions, as far as a site knows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum VoterPresence {
    /// It votes.
    Up,
    /// Its site is not a member, or is silent.
    Away,
    /// Its site is a member, but does not act as this voter: it has lost the disk with which it voted.
    WithoutDisk,
}

numbered! { VoterPresence {
    0 => Up,
    1 => Away,
    2 => WithoutDisk,
} }

/// A voter, and whether it is there.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct VoterState {
    pub site: SiteName,
    /// Its number in Raft. A site that votes with another disk has another one.
    pub id: u64,
    pub presence: VoterPresence,
}

impl VoterState {
    /// Returns whether the voter takes part in decisions.
    pub fn is_up(&self) -> bool {
        self.presence == VoterPresence::Up
    }
}

/// Who votes, as a site knows it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct VotersReport {
    /// The voters, in the order of their numbers.
    pub voters: Vec<VoterState>,
    /// The voters before the change that is under way: a majority of them is needed, too. Empty if none is needed.
    pub outgoing: Vec<VoterState>,
    /// Sites that receive the log and will vote.
    pub learners: Vec<SiteName>,
    /// The voter whose place the learners take.
    pub replaced: Option<SiteName>,
    /// Sites that were demoted on request, which the leader does not promote by itself.
    pub resting: Vec<SiteName>,
    /// Whether the leader changes the voters by itself, as far as the settings of this site say.
    pub automatic: bool,
}

/// What happens to the cluster if a site stops.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StopEffect {
    /// Nothing: the site is not counted.
    None,
    /// The cluster goes on; so many more voters may fail afterwards.
    Spare(usize),
    /// Too few voters are left to decide anything: every lease ends, and no lock is granted.
    Stops,
    /// Too few voters are up already.
    Stopped,
}

impl VotersReport {
    /// Returns how many voters make a majority.
    pub fn quorum(&self) -> usize {
        self.voters.len() / 2 + 1
    }

    /// Returns the number of voters that are up.
    pub fn up(&self) -> usize {
        self.voters.iter().filter(|voter| voter.is_up()).count()
    }

    /// Returns the voters that are not up, and those before the change that is under way. Each occurs once.
    pub fn missing(&self) -> Vec<&VoterState> {
        let mut missing: Vec<&VoterState> = Vec::new();
        for voter in self.voters.iter().chain(&self.outgoing).filter(|voter| !voter.is_up()) {
            if missing.iter().all(|other| other.id != voter.id) {
                missing.push(voter);
            }
        }
        missing
    }

    /// Returns whether the site is counted: it votes, or did before the change that is under way.
    pub fn votes(&self, site: &SiteName) -> bool {
        self.voters.iter().chain(&self.outgoing).any(|voter| voter.site == *site)
    }

    /// Returns how many more voters may fail before nobody can decide anything; `None` if too few are up already.
    pub fn spare(&self) -> Option<usize> {
        self.spare_if(|_| true)
    }

    /// The same as a number for machines: negative by how many voters are missing for a majority.
    pub fn margin(&self) -> i64 {
        let margin = |voters: &[VoterState]| {
            let up = voters.iter().filter(|voter| voter.is_up()).count();
            i64::try_from(up).unwrap_or(i64::MAX) - i64::try_from(voters.len() / 2 + 1).unwrap_or(i64::MAX)
        };
        let now = margin(&self.voters);
        if self.outgoing.is_empty() { now } else { now.min(margin(&self.outgoing)) }
    }

    /// Returns what happens if the site stops.
    pub fn if_stopped(&self, site: &SiteName) -> StopEffect {
        let Some(now) = self.spare() else { return StopEffect::Stopped };
        let is_counted = |voter: &VoterState| voter.site == *site && voter.is_up();
        if !self.voters.iter().chain(&self.outgoing).any(is_counted) {
            return StopEffect::None;
        }
        match self.spare_if(|voter| voter.site != *site) {
            Some(spare) => StopEffect::Spare(spare.min(now)),
            None => StopEffect::Stops,
        }
    }

    /// Returns whether a change of voters is under way.
    pub fn is_changing(&self) -> bool {
        !self.outgoing.is_empty() || !self.learners.is_empty()
    }

    /// Returns the change that is under way, as a sentence without its end.
    pub fn change(&self) -> Option<String> {
        if !self.outgoing.is_empty() {
            let names = |voters: &[VoterState]| {
                Names(&voters.iter().map(|voter| voter.site.clone()).collect::<Vec<_>>()).to_string()
            };
            return Some(format!(
                "the voters change from {} to {}, and a majority of both is needed meanwhile",
                names(&self.outgoing),
                names(&self.voters)
            ));
        }
        if self.learners.is_empty() {
            return None;
        }
        let place = self.replaced.as_ref().map(|site| format!(" in the place of {site}")).unwrap_or_default();
        Some(format!("{} will vote{place}, and receives the log", Names(&self.learners)))
    }

    /// Returns the spare voters of those that stay.
    fn spare_if(&self, mut stays: impl FnMut(&VoterState) -> bool) -> Option<usize> {
        let mut spare = |voters: &[VoterState]| {
            let up = voters.iter().filter(|voter| voter.is_up() && stays(voter)).count();
            up.checked_sub(voters.len() / 2 + 1)
        };
        let now = spare(&self.voters)?;
        if self.outgoing.is_empty() { Some(now) } else { Some(now.min(spare(&self.outgoing)?)) }
    }
}

impl fmt::Display for VoterPresence {
    /// Writes the end of a sentence about the voter's site.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            VoterPresence::Up => "is up",
            VoterPresence::Away => "is away",
            VoterPresence::WithoutDisk => "is up, but has lost the disk with which it voted",
        })
    }
}

impl VoterPresence {
    /// Returns the word for machines.
    pub fn label(self) -> &'static str {
        match self {
            VoterPresence::Up => "up",
            VoterPresence::Away => "away",
            VoterPresence::WithoutDisk => "without_disk",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn site(name: &str) -> SiteName {
        name.parse().unwrap()
    }

    fn voters(all: &str, up: &str) -> Vec<VoterState> {
        let state = |name: char| VoterState {
            site: site(&name.to_string()),
            id: u64::from(u32::from(name)),
            presence: if up.contains(name) { VoterPresence::Up } else { VoterPresence::Away },
        };
        all.chars().map(state).collect()
    }

    fn report(all: &str, up: &str) -> VotersReport {
        VotersReport { voters: voters(all, up), ..VotersReport::default() }
    }

    #[test]
    fn failures_that_can_be_survived_are_the_voters_that_are_up_beyond_a_majority() {
        for (all, up, spare, margin) in [
            ("a", "a", Some(0), 0),
            ("ab", "ab", Some(0), 0),
            ("abc", "abc", Some(1), 1),
            ("abc", "ab", Some(0), 0),
            ("abc", "c", None, -1),
            ("abcde", "abcde", Some(2), 2),
            ("abcde", "", None, -3),
        ] {
            let report = report(all, up);
            assert_eq!((report.spare(), report.margin()), (spare, margin), "{up} of {all}");
        }
    }

    #[test]
    fn a_stopped_site_costs_only_what_it_counts_for() {
        let three = report("abc", "abc");
        assert_eq!(three.if_stopped(&site("a")), StopEffect::Spare(0));
        assert_eq!(three.if_stopped(&site("d")), StopEffect::None);
        let two = report("abc", "ab");
        assert_eq!(two.if_stopped(&site("a")), StopEffect::Stops);
        assert_eq!(two.if_stopped(&site("c")), StopEffect::None, "it is away already");
        assert_eq!(report("abc", "a").if_stopped(&site("a")), StopEffect::Stopped);
    }

    #[test]
    fn during_a_change_both_majorities_count() {
        let joint = VotersReport {
            voters: voters("abd", "abd"),
            outgoing: voters("abc", "ab"),
            ..VotersReport::default()
        };
        assert_eq!((joint.spare(), joint.margin()), (Some(0), 0));
        assert_eq!(joint.if_stopped(&site("a")), StopEffect::Stops);
        assert_eq!(joint.if_stopped(&site("d")), StopEffect::Spare(0));
        assert_eq!(joint.missing().len(), 1);
        assert_eq!(
            joint.change().unwrap(),
            "the voters change from a, b, c to a, b, d, and a majority of both is needed meanwhile"
        );
    }

    #[test]
    fn a_voter_that_has_lost_its_disk_is_not_counted_although_its_site_is_up() {
        let mut lost = report("abc", "ab");
        lost.voters[2].presence = VoterPresence::WithoutDisk;
        assert_eq!(lost.spare(), Some(0));
        assert_eq!(lost.if_stopped(&site("c")), StopEffect::None);
        assert_eq!(lost.if_stopped(&site("b")), StopEffect::Stops);
    }
}
