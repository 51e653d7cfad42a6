//! Which voters are there, as every site knows it, so that each can say how many more failures the cluster survives.
//!
//! A site knows who votes and who is a member. A voter whose site is no member is away. That is nearly all; what a site cannot see is a
//! voter that is not there although its site is a member: one that has lost its disk and came back, that has been silent for less than
//! its lease, or whose disk takes no writes. The leader knows, because members say with every renewal as which voter they act
//! ([`Claim`](super::autopilot::Claim)) and acknowledge what they have written, and tells everyone:
//!
//! ```text
//!  leader ── Absent { silent, idle } ──▶ every member     when that changes, and again for as long as somebody is absent
//! ```
//!
//! A cluster that is well sends nothing for it. A report counts for some lengths of a lease; without one, a voter is there if its site is a
//! member. A site that has no lease cannot rely on its view: it counts the voters from which it has heard lately.
//!
//! No decision of the cluster depends on any of this. It is what operators and machines are told before they stop a site.

use serde::{Deserialize, Serialize};

use super::config::Voting;
use super::packet::Content;
use super::{Node, NodeOutput};
use crate::membership::MAX_VOTERS;
use crate::membership::voters::Voter;
use crate::names::SiteName;
use crate::report::{VoterPresence, VoterState, VotersReport};
use crate::time::Time;

/// A report of the leader counts for this many lengths of a lease. While somebody is absent it is repeated after every one.
const VALID_FOR: u64 = 3;

/// The voters that are not there although their sites are members, by their ids.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Absence {
    /// They have not said lately that they are there, or do not write what is committed.
    pub silent: Vec<u64>,
    /// Their sites have said that they act as another voter, or as none: they have lost their disks.
    pub idle: Vec<u64>,
}

impl Absence {
    /// Returns whether the voter is not there.
    pub(super) fn contains(&self, id: u64) -> bool {
        self.silent.contains(&id) || self.idle.contains(&id)
    }

    /// Returns whether every voter is there whose site is a member.
    pub(super) fn is_empty(&self) -> bool {
        self.silent.is_empty() && self.idle.is_empty()
    }

    /// Returns whether no correct leader names so many: those before and those after a change.
    fn is_too_long(&self) -> bool {
        self.silent.len() + self.idle.len() > 2 * MAX_VOTERS
    }
}

/// What the leader said last.
#[derive(Clone, Debug, Default)]
pub(super) struct Attendance {
    absence: Absence,
    said_at: Option<Time>,
}

impl Node {
    /// Tells every member, this one included, which voters are not there.
    pub(super) fn tell_absence(&mut self, absence: &Absence, out: &mut Vec<NodeOutput>) {
        self.note_absence(absence.clone());
        for site in self.others() {
            self.send(site, Content::Absent(absence.clone()), out);
        }
    }

    /// Handles the leader's report.
    pub(super) fn on_absence(&mut self, from: &SiteName, absence: Absence, out: &mut Vec<NodeOutput>) {
        if absence.is_too_long() {
            return Node::misbehaved(from.clone(), "names more voters than there can be", out);
        }
        if !self.votes(from) {
            return Node::doubt(from.clone(), "a report of voters from a site that does not vote", out);
        }
        self.note_absence(absence);
    }

    fn note_absence(&mut self, absence: Absence) {
        self.attendance = Attendance { absence, said_at: Some(self.now) };
    }

    /// Returns who votes, and which of them are there, as far as this site knows.
    pub fn voters_report(&self) -> VotersReport {
        let state = |voter: &Voter| VoterState {
            site: voter.site.clone(),
            id: voter.id,
            presence: self.presence(voter),
        };
        let voters = &self.voters;
        let site_of = |id: u64| voters.by_id(id).map(|voter| voter.site.clone());
        VotersReport {
            voters: voters.voters.iter().map(state).collect(),
            outgoing: voters.outgoing.iter().map(state).collect(),
            learners: voters.learners.iter().map(|learner| learner.site.clone()).collect(),
            replaced: voters.replaced.and_then(site_of),
            resting: voters.resting.clone(),
            automatic: self.config.voting != Voting::Fixed,
        }
    }

    fn presence(&self, voter: &Voter) -> VoterPresence {
        let (is_lost, valid_for) = (self.is_replaced(voter), self.lease.terms().length.times(VALID_FOR));
        let Attendance { absence, said_at } = &self.attendance;
        let is_valid = said_at.is_some_and(|at| self.now.since(at) < valid_for);
        let is_idle = is_lost || is_valid && absence.idle.contains(&voter.id);
        let is_there = if self.lease.is_valid(self.now) {
            self.view.member(&voter.site).is_some() && !(is_valid && absence.silent.contains(&voter.id))
        } else {
            self.hears(&voter.site)
        };
        match (is_there, is_idle) {
            (false, _) => VoterPresence::Away,
            (true, true) => VoterPresence::WithoutDisk,
            (true, false) => VoterPresence::Up,
        }
    }
}
