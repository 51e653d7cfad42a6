//! Who votes: a part of the state that the voters agree on.
//!
//! The [founding](crate::founding) names the first voters, with the ids 1, 2, 3, … Everything after that is a [`VoterChange`] in the log,
//! so that every voter has the same [`Voters`] after the same entry. A change takes these steps, each of them one entry, and only one of
//! them is under way at any time:
//!
//! ```text
//!  Settle   records with which disk a first voter votes                          (only for first voters, once for each)
//!  Admit    a site becomes a learner, under a new id: it gets the log and does not vote
//!  Enter    once all learners have caught up: they vote, and perhaps another one does not any more.
//!           Until the next step a decision needs a majority of the old voters and a majority of the new ones (joint consensus)
//!  Leave    only the new voters decide
//!  Dismiss  instead of Enter: a learner goes again
//! ```
//!
//! **An id belongs to one disk.** Each `Admit` names a disk and takes an id that was never used before. A site acts under an id only with
//! that disk, so a site that has lost its disk, or votes again after it was demoted, is another voter for Raft. For the ids of first
//! voters, which the founding gives without a disk, `node/registration.rs` says why this holds.
//!
//! **Why every change of who votes is joint**, also if only one voter comes or goes: there is one rule to understand and to test, a
//! voter is replaced in one step, and the number of voters goes from one to three without an election that two sites must agree on.
//!
//! **Why learners first.** A voter with an empty log counts for a majority and cannot help to make one. The log is short, so that it
//! takes moments.
//!
//! What this value does not know is which sites are up and wanted: `node/autopilot.rs` decides on the changes.

use meshlock_protocol::numbered;
use raft::eraftpb::{ConfChangeSingle, ConfChangeTransition, ConfChangeType, ConfChangeV2, ConfState};
use serde::{Deserialize, Serialize};

use super::MAX_VOTERS;
use crate::names::{Incarnation, SiteName};

/// Maximum number of learners.
pub(crate) const MAX_LEARNERS: usize = 2;

/// Maximum number of sites that are remembered as demoted on request.
const MAX_RESTING: usize = 64;

/// Upper bound for ids: there is room to count on from there.
const MAX_ID: u64 = u64::MAX >> 1;

/// The first bytes of a change in the log, where a view has its epoch. No epoch is read from them: a program that knows no changes takes the
/// entry for an invalid view.
const MARK: [u8; 5] = [0xff; 5];

/// A voter or a learner.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Voter {
    /// Its number in Raft. It is never used for another disk.
    pub id: u64,
    pub site: SiteName,
    /// Its disk, by the first incarnation that wrote to it. `None` for a first voter whose disk is not settled yet.
    pub disk: Option<Incarnation>,
}

/// Who votes, and who will.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Voters {
    /// The log index of the entry that made this; 0 for the founding.
    pub changed_at: u64,
    /// The voters, sorted by id.
    pub voters: Vec<Voter>,
    /// The voters before the change that is under way: a majority of them is needed, too. Empty if none is under way.
    pub outgoing: Vec<Voter>,
    /// Sites that get the log and do not vote yet.
    pub learners: Vec<Voter>,
    /// The number of learners that shall vote together.
    pub wanted: u8,
    /// The voter that goes when the learners vote.
    pub replaced: Option<u64>,
    /// Sites that were demoted on request, oldest first: no leader promotes them by itself.
    pub resting: Vec<SiteName>,
    /// The next id.
    pub next_id: u64,
}

/// One step of a change of voters, as the log has it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum VoterChange {
    /// The first voter `id` votes with this disk.
    Settle { id: u64, disk: Incarnation },
    /// A site becomes a learner.
    Admit {
        site: SiteName,
        disk: Incarnation,
        /// The voter that goes when the learners vote.
        replaced: Option<u64>,
        /// The number of learners that shall vote together.
        wanted: u8,
    },
    /// A learner goes without having voted.
    Dismiss { id: u64 },
    /// The learners vote, and `remove` does not any more, as soon as the entry is known; until [`Leave`](Self::Leave) a majority of the
    /// old voters is needed as well.
    Enter {
        remove: Option<u64>,
        /// Whether an operator asked for it: then the removed site is not promoted again without being asked.
        on_request: bool,
    },
    /// The old voters are not needed any more.
    Leave,
}

numbered! { VoterChange {
    0 => Settle { id, disk },
    1 => Admit { site, disk, replaced, wanted },
    2 => Dismiss { id },
    3 => Enter { remove, on_request },
    4 => Leave,
} }

impl VoterChange {
    /// Returns the bytes of the change in the log.
    pub fn encode(&self) -> Vec<u8> {
        postcard::to_extend(self, MARK.to_vec()).expect("a change is plain data")
    }

    /// Reads a change from the data of an entry, if that is one.
    pub fn read(data: &[u8]) -> Option<Self> {
        match postcard::take_from_bytes(data.strip_prefix(&MARK)?) {
            Ok((change, [])) => Some(change),
            Ok(_) | Err(_) => None,
        }
    }

    /// Returns whether the data of an entry is a change, known or not.
    pub fn is_change(data: &[u8]) -> bool {
        data.starts_with(&MARK)
    }

    /// Returns whether Raft counts differently after this change.
    pub(super) fn is_for_raft(&self) -> bool {
        !matches!(self, VoterChange::Settle { .. })
    }
}

impl Voters {
    /// Returns the first voters of a cluster.
    pub fn founding(sites: &[SiteName]) -> Self {
        let voters = sites.iter().zip(1..).map(|(site, id)| Voter { id, site: site.clone(), disk: None });
        Voters {
            changed_at: 0,
            voters: voters.collect(),
            outgoing: Vec::new(),
            learners: Vec::new(),
            wanted: 0,
            replaced: None,
            resting: Vec::new(),
            next_id: sites.len() as u64 + 1,
        }
    }

    /// Returns the voters, those before the change that is under way, and the learners. Some occur twice.
    pub fn everyone(&self) -> impl Iterator<Item = &Voter> {
        self.voters.iter().chain(&self.outgoing).chain(&self.learners)
    }

    /// Returns the voters, and those before the change that is under way. Some occur twice.
    pub fn deciding(&self) -> impl Iterator<Item = &Voter> {
        self.voters.iter().chain(&self.outgoing)
    }

    /// Returns the voter or learner with this id.
    pub fn by_id(&self, id: u64) -> Option<&Voter> {
        self.everyone().find(|voter| voter.id == id)
    }

    /// Returns whether the site votes, or did before the change that is under way.
    pub fn votes(&self, site: &SiteName) -> bool {
        self.deciding().any(|voter| voter.site == *site)
    }

    /// Returns the voter of the site, if it has one. (While a voter that has lost its disk is replaced, it has two: then the new one.)
    pub fn of_site(&self, site: &SiteName) -> Option<&Voter> {
        self.voters.iter().rev().find(|voter| voter.site == *site)
    }

    /// Returns the sites that vote, each once, in the order of their ids.
    pub fn sites(&self) -> Vec<SiteName> {
        let mut sites: Vec<SiteName> = Vec::new();
        for voter in self.deciding() {
            if !sites.contains(&voter.site) {
                sites.push(voter.site.clone());
            }
        }
        sites
    }

    /// Returns whether a decision needs a majority of the old voters and one of the new ones.
    pub fn is_joint(&self) -> bool {
        !self.outgoing.is_empty()
    }

    /// Returns whether this id was given and is not used any more. It never will be again.
    pub fn has_dropped(&self, id: u64) -> bool {
        id < self.next_id && self.by_id(id).is_none()
    }

    /// Returns whether the voters that `is_there` says are there can decide.
    pub fn can_decide(&self, mut is_there: impl FnMut(&Voter) -> bool) -> bool {
        let mut majority = |voters: &[Voter]| {
            voters.is_empty() || 2 * voters.iter().filter(|voter| is_there(voter)).count() > voters.len()
        };
        majority(&self.voters) && majority(&self.outgoing)
    }

    /// Returns who votes after the change, which is the entry `index`; `None` if the change does not fit.
    pub fn after(&self, change: &VoterChange, index: u64) -> Option<Self> {
        let mut next = self.clone();
        next.changed_at = index;
        let fits = match change {
            VoterChange::Settle { id, disk } => next.settle(*id, *disk),
            VoterChange::Admit { site, disk, replaced, wanted } => {
                next.admit(site, *disk, *replaced, *wanted)
            }
            VoterChange::Dismiss { id } => next.dismiss(*id),
            VoterChange::Enter { remove, on_request } => next.enter(*remove, *on_request),
            VoterChange::Leave => !std::mem::take(&mut next.outgoing).is_empty(),
        };
        (fits && next.is_well_formed()).then_some(next)
    }

    fn settle(&mut self, id: u64, disk: Incarnation) -> bool {
        let voter = self.voters.iter_mut().find(|voter| voter.id == id && voter.disk.is_none());
        voter.map(|voter| voter.disk = Some(disk)).is_some() && !self.is_joint()
    }

    fn admit(&mut self, site: &SiteName, disk: Incarnation, replaced: Option<u64>, wanted: u8) -> bool {
        let is_known = self.everyone().any(|voter| voter.site == *site && voter.disk == Some(disk));
        let plan_fits = self.learners.is_empty() || (self.replaced, self.wanted) == (replaced, wanted);
        let fits = !is_known
            && plan_fits
            && !self.is_joint()
            && self.learners.len() < usize::from(wanted)
            && replaced.is_none_or(|id| self.voters.iter().any(|voter| voter.id == id));
        self.learners.push(Voter { id: self.next_id, site: site.clone(), disk: Some(disk) });
        (self.replaced, self.wanted) = (replaced, wanted);
        self.next_id += 1;
        fits
    }

    fn dismiss(&mut self, id: u64) -> bool {
        let before = self.learners.len();
        self.learners.retain(|learner| learner.id != id);
        if self.learners.is_empty() {
            (self.replaced, self.wanted) = (None, 0);
        }
        self.learners.len() < before && !self.is_joint()
    }

    fn enter(&mut self, remove: Option<u64>, on_request: bool) -> bool {
        let fits = !self.is_joint()
            && (remove.is_some() || !self.learners.is_empty())
            && remove.is_none_or(|id| self.voters.iter().any(|voter| voter.id == id));
        self.outgoing.clone_from(&self.voters);
        let promoted = std::mem::take(&mut self.learners);
        self.resting.retain(|site| promoted.iter().all(|voter| voter.site != *site));
        self.voters.retain(|voter| Some(voter.id) != remove);
        self.voters.extend(promoted);
        (self.replaced, self.wanted) = (None, 0);
        if let Some(gone) = remove.and_then(|id| self.outgoing.iter().find(|voter| voter.id == id))
            && on_request
            && self.of_site(&gone.site).is_none()
        {
            self.resting.push(gone.site.clone());
            let surplus = self.resting.len().saturating_sub(MAX_RESTING);
            self.resting.drain(..surplus);
        }
        // Whoever votes together with voters that the founding does not know must be bound to a disk: the first voters that remember the
        // others' disks become fewer.
        fits && self.voters.iter().all(|voter| voter.disk.is_some())
    }

    /// Returns whether this can be the state of a correct cluster.
    pub fn is_well_formed(&self) -> bool {
        let sorted = |voters: &[Voter]| voters.windows(2).all(|pair| pair[0].id < pair[1].id);
        let is_learner = |voter: &Voter| self.learners.iter().any(|learner| learner.id == voter.id);
        (1..=MAX_VOTERS).contains(&self.voters.len())
            && self.outgoing.len() <= MAX_VOTERS
            && self.learners.len() <= MAX_LEARNERS
            && self.resting.len() <= MAX_RESTING
            && self.next_id <= MAX_ID
            && self.changed_at <= MAX_ID
            && [&self.voters, &self.outgoing, &self.learners].into_iter().all(|voters| sorted(voters))
            && self.everyone().all(|voter| (1..self.next_id).contains(&voter.id))
            && !self.deciding().any(is_learner)
    }

    /// Returns the change as the `raft` crate counts it; `self` is who votes before it.
    pub(super) fn for_raft(&self, change: &VoterChange) -> ConfChangeV2 {
        let single = |kind: ConfChangeType, id: u64| {
            let mut single = ConfChangeSingle::default();
            single.set_change_type(kind);
            single.node_id = id;
            single
        };
        let mut all = ConfChangeV2::default();
        let changes = match change {
            VoterChange::Settle { .. } | VoterChange::Leave => Vec::new(),
            VoterChange::Admit { .. } => vec![single(ConfChangeType::AddLearnerNode, self.next_id)],
            VoterChange::Dismiss { id } => vec![single(ConfChangeType::RemoveNode, *id)],
            VoterChange::Enter { remove, .. } => {
                all.set_transition(ConfChangeTransition::Explicit);
                let added = self.learners.iter().map(|learner| single(ConfChangeType::AddNode, learner.id));
                added.chain(remove.map(|id| single(ConfChangeType::RemoveNode, id))).collect()
            }
        };
        all.set_changes(changes.into());
        all
    }

    /// Returns whether the `raft` crate counts the same voters and learners.
    pub(super) fn are_counted(&self, counted: &ConfState) -> bool {
        let same = |ours: &[Voter], theirs: &[u64]| {
            ours.len() == theirs.len() && ours.iter().all(|voter| theirs.contains(&voter.id))
        };
        same(&self.voters, &counted.voters)
            && same(&self.outgoing, &counted.voters_outgoing)
            && same(&self.learners, &counted.learners)
    }

    /// Returns who votes as the `raft` crate counts it.
    pub(super) fn conf_state(&self) -> ConfState {
        let ids = |voters: &[Voter]| voters.iter().map(|voter| voter.id).collect();
        let mut state = ConfState::default();
        state.set_voters(ids(&self.voters));
        state.set_voters_outgoing(ids(&self.outgoing));
        state.set_learners(ids(&self.learners));
        state
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn site(name: &str) -> SiteName {
        name.parse().unwrap()
    }

    fn three() -> Voters {
        let mut voters = Voters::founding(&["a", "b", "c"].map(site));
        for id in 1..=3 {
            voters = voters.after(&VoterChange::Settle { id, disk: Incarnation::new(id) }, id).unwrap();
        }
        voters
    }

    fn admit(name: &str, disk: u64, replaced: Option<u64>) -> VoterChange {
        VoterChange::Admit { site: site(name), disk: Incarnation::new(disk), replaced, wanted: 1 }
    }

    fn enter(remove: Option<u64>) -> VoterChange {
        VoterChange::Enter { remove, on_request: true }
    }

    fn ids(voters: &[Voter]) -> Vec<u64> {
        voters.iter().map(|voter| voter.id).collect()
    }

    #[test]
    fn a_voter_is_replaced_by_way_of_a_learner_and_both_majorities() {
        let learning = three().after(&admit("d", 9, Some(2)), 5).unwrap();
        assert_eq!((ids(&learning.voters), ids(&learning.learners)), (vec![1, 2, 3], vec![4]));
        let joint = learning.after(&enter(Some(2)), 6).unwrap();
        assert_eq!((ids(&joint.voters), ids(&joint.outgoing)), (vec![1, 3, 4], vec![1, 2, 3]));
        assert!(joint.votes(&site("b")) && joint.is_joint() && !joint.has_dropped(2));
        // One majority is not enough.
        assert!(!joint.can_decide(|voter| [1, 4].contains(&voter.id)));
        assert!(joint.can_decide(|voter| [1, 3].contains(&voter.id)));
        let done = joint.after(&VoterChange::Leave, 7).unwrap();
        assert!(!done.votes(&site("b")) && done.has_dropped(2) && !done.has_dropped(5));
        assert_eq!((done.changed_at, done.resting.clone()), (7, vec![site("b")]));
        // It comes back under another id, and does not rest any more.
        let again = done.after(&admit("b", 2, None), 8).unwrap().after(&enter(None), 9).unwrap();
        assert_eq!((ids(&again.voters), again.resting.len()), (vec![1, 3, 4, 5], 0));
    }

    #[test]
    fn changes_that_do_not_fit_change_nothing() {
        let three = three();
        let joint = three.after(&enter(Some(3)), 5).unwrap();
        for (before, change) in [
            (&three, VoterChange::Leave),
            (&three, VoterChange::Dismiss { id: 1 }),
            (&three, VoterChange::Settle { id: 1, disk: Incarnation::new(8) }),
            (&three, enter(None)),
            (&three, enter(Some(4))),
            (&three, admit("a", 1, None)),
            (&three, admit("d", 1, Some(4))),
            (&joint, admit("d", 1, None)),
            (&joint, enter(Some(1))),
            (&Voters::founding(&[site("a")]), enter(Some(1))),
            (&Voters::founding(&["a", "b"].map(site)), enter(Some(1))),
        ] {
            assert_eq!(before.after(&change, 9), None, "{change:?}");
        }
        // The same site with another disk is another voter.
        assert!(three.after(&admit("a", 8, Some(1)), 9).is_some());
    }

    #[test]
    fn a_change_is_not_read_as_a_view_nor_the_other_way_round() {
        use crate::membership::disk;
        use crate::view::View;

        let change = admit("d", 9, Some(2));
        assert_eq!(VoterChange::read(&change.encode()), Some(change.clone()));
        assert_eq!(disk::follow(&View::default(), &change.encode()), None);
        assert_eq!(VoterChange::read(&disk::encode(&View::default())), None);
        assert_eq!(VoterChange::read(&[change.encode(), vec![0]].concat()), None);
    }
}
