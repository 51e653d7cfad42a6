//! Changes of voters, as one voter makes and sees them: [`voters`](super::voters) says what they are.

use super::voters::{VoterChange, Voters};
use super::{Membership, MembershipOutput};
use crate::mutant::{self, Mutant};

impl Membership {
    /// Returns who votes, by the entries that this voter has applied.
    pub(crate) fn voters(&self) -> &Voters {
        &self.voters
    }

    /// Returns the id of this voter.
    pub(crate) fn id(&self) -> u64 {
        self.id
    }

    /// Returns whether this voter counts for a majority, as far as it knows.
    pub(crate) fn votes(&self) -> bool {
        self.voters.deciding().any(|voter| voter.id == self.id)
    }

    /// Stops asking for votes, because the voters have agreed that this one does not count any more. It still votes: the others may not
    /// know yet that what they have agreed on is agreed on, and then need it to find that out. Returns whether this is news.
    pub(crate) fn retire(&mut self) -> bool {
        !std::mem::replace(&mut self.is_retired, true)
    }

    /// Proposes a change of voters, if this voter leads and no other change is under way. Returns whether it is in the log now; it may
    /// still be lost with the leadership.
    pub(crate) fn propose_change(&mut self, change: &VoterChange, out: &mut Vec<MembershipOutput>) -> bool {
        if !self.can_change() || self.voters.after(change, 1).is_none() {
            return false;
        }
        let proposed = if change.is_for_raft() {
            let for_raft = self.voters.for_raft(change);
            self.raw.propose_conf_change(change.encode(), for_raft).is_ok()
        } else {
            self.raw.propose(Vec::new(), change.encode()).is_ok()
        };
        self.pump(out);
        proposed
    }

    /// Returns whether this voter leads, has applied its whole log, and so may propose a change of voters: the change fits who votes then.
    pub(crate) fn can_change(&self) -> bool {
        let raft = &self.raw.raft;
        self.leads().is_some() && self.applied == raft.raft_log.last_index() && !raft.has_pending_conf()
    }

    /// Returns whether the learner has all that is committed, as far as this leader knows.
    pub(crate) fn has_caught_up(&self, id: u64) -> bool {
        let progress = self.raw.raft.prs().get(id);
        progress.is_some_and(|progress| progress.matched >= self.committed())
    }

    /// Returns the index of the last entry that is committed, as far as this voter knows.
    pub(crate) fn committed(&self) -> u64 {
        self.raw.raft.raft_log.committed
    }

    /// Returns the index of the last entry that the voter with this id has acknowledged to this leader.
    pub(crate) fn acknowledged(&self, id: u64) -> u64 {
        self.raw.raft.prs().get(id).map_or(0, |progress| progress.matched)
    }

    /// Applies a change of voters, if it fits. It always does: a leader proposes one only when it has applied its whole log.
    pub(super) fn apply_change(&mut self, change: &VoterChange, index: u64, out: &mut Vec<MembershipOutput>) {
        let Some(next) = self.voters.after(change, index) else { return };
        if change.is_for_raft() {
            let counted = self.raw.apply_conf_change(&self.voters.for_raft(change));
            let counted = counted.expect("a change that fits");
            assert!(next.are_counted(&counted), "Raft counts {counted:?}, this site {next:?}");
        }
        self.on_voters(next, out);
        if mutant::is_on(Mutant::OldVotersNotAsked) && self.voters.is_joint() {
            self.apply_change(&VoterChange::Leave, index, out);
        }
    }

    pub(super) fn on_voters(&mut self, voters: Voters, out: &mut Vec<MembershipOutput>) {
        if voters != self.voters {
            self.voters = voters;
            let known = &self.voters;
            self.peers.retain(|id, _| known.by_id(*id).is_none());
            out.push(MembershipOutput::VotersChanged(self.voters.clone()));
        }
    }

    /// Gives up leadership if this voter is none any more. The others have the entry that says so, and elect another leader, which
    /// commits it.
    pub(super) fn step_down_if_removed(&mut self) {
        if self.leads().is_some() && !self.votes() {
            let term = self.raw.raft.term;
            self.raw.raft.become_follower(term, raft::INVALID_ID);
        }
    }
}
