//! No id of a voter is used with two disks, and each term has at most one leader.

use std::collections::BTreeMap;

use super::{CheckResult, broken};
use crate::clock::Moment;
use meshlock_cluster::membership::Term;
use meshlock_cluster::membership::voters::Voters;
use meshlock_cluster::names::Incarnation;
use meshlock_cluster::node::Node;

/// The disk of each voter, and the leader of each term, as first observed.
#[derive(Clone, Debug, Default)]
pub(crate) struct VotingCheck {
    disks: BTreeMap<u64, Incarnation>,
    leaders: BTreeMap<Term, usize>,
    /// The log index of the last change that anyone knows.
    changed_at: u64,
}

impl VotingCheck {
    /// Checks the voter that a node acts as.
    pub(crate) fn check(&mut self, node: &Node, now: Moment) -> CheckResult {
        let Some(id) = node.seat() else { return Ok(()) };
        let disk = *self.disks.entry(id).or_insert(node.disk_identity());
        if disk == node.disk_identity() {
            return Ok(());
        }
        let what = format!("{} acts as voter {id} with another disk than the voter had before", node.me());
        broken("voting", now, what)
    }

    pub(crate) fn on_leads(&mut self, term: Term, machine: usize, now: Moment) -> CheckResult {
        let leader = *self.leaders.entry(term).or_insert(machine);
        if leader == machine {
            return Ok(());
        }
        broken("voting", now, format!("s{leader} and s{machine} both lead in term {}", term.0))
    }

    /// Records a change of voters. Returns whether nobody knew it before.
    pub(crate) fn on_changed(&mut self, voters: &Voters) -> bool {
        let is_news = voters.changed_at > self.changed_at;
        self.changed_at = self.changed_at.max(voters.changed_at);
        is_news
    }
}
