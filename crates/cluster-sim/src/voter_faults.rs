//! Changes of voters: which runs have them, what operators ask for, and which disks may be lost meanwhile.
//!
//! In these runs the leader grows and repairs the set of voters by itself or only on request, operators promote, demote and replace sites
//! at any time, also such that cannot be, and disks are lost one after the other: more of them in a run than the first voters could
//! survive. A disk is lost only if a majority of the voters keep theirs, in every set of voters that is in any log and in the one that a change
//! under way leads to: a learner that has caught up may become a voter before the leader knows that its disk is lost. And it is lost only if
//! not too many first voters have an empty disk and have heard nothing of the cluster yet (`node/registration.rs` of the cluster says why).
//!
//! A disk that is stuck for good counts as lost, since nobody can vote with it any more, and happens by the same rule. A disk that is put back
//! from an old copy takes all promises away if its site votes or has voted with it, and none otherwise. Where versions are mixed, all programs
//! know changes of voters.
//!
//! They are drawn from a generator of their own. The other faults of a seed are the same as without them. What these runs do not have are
//! lasting cuts: who is to be served then depends on which voters can carry packets around the cut, and nobody knows before the run who votes
//! in the end.

use fastrand::Rng;

use super::faults::ClusterFault;
use super::settings::{SeedSettings, site};
use super::world::World;
use meshlock_cluster::membership::MAX_VOTERS;
use meshlock_cluster::membership::voters::{Voter, Voters};
use meshlock_cluster::node::{VoterRequest, Voting};
use meshlock_cluster::time::Span;
use meshlock_wire::sites::CHANGES_VOTERS;

/// One in this many seeds has changes of voters.
const ONE_IN: u64 = 3;

/// Maximum number of these faults in a run.
const MAX_FAULTS: usize = 12;

impl ClusterFault {
    /// The names of the kinds that are drawn here.
    #[cfg(test)]
    pub(crate) const VOTER_KINDS: [&'static str; 2] = ["voters changed", "disk lost while voters change"];
}

/// Draws who changes the voters, and faults for it.
pub(super) fn draw(settings: &mut SeedSettings) {
    let mut draw = Rng::with_seed(settings.seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ 0x0007_07e5);
    if draw.u64(..ONE_IN) > 0 || !settings.lasting_cuts.is_empty() {
        return;
    }
    // While a member's program does not know changes of voters, there are none.
    settings.environment.speak_at_least(CHANGES_VOTERS);
    settings.voting = if draw.usize(..4) == 0 {
        Voting::Fixed
    } else {
        let replace_after = Span::from_millis(draw.u64(500..4_000));
        Voting::Auto { replace_after, stable_after: Span::from_millis(draw.u64(0..1_500)) }
    };
    for (_, fault) in &mut settings.faults {
        if let ClusterFault::LostDisk { machine, down } | ClusterFault::UnreadableDisk { machine, down, .. } =
            *fault
        {
            *fault = ClusterFault::LostVoterDisk { machine, down };
        }
    }
    for _ in 0..draw.usize(1..=MAX_FAULTS) {
        let (time, machine) = (draw.u64(300_000..settings.calm), draw.usize(..settings.machines));
        let fault = if draw.usize(..3) == 0 {
            ClusterFault::LostVoterDisk { machine, down: draw.u64(1_000..4_000_000) }
        } else {
            ClusterFault::Voters { machine, change: request(&mut draw, settings.machines) }
        };
        settings.faults.push((time, fault));
    }
    settings.faults.sort_by_key(|(time, _)| *time);
}

fn request(draw: &mut Rng, machines: usize) -> VoterRequest {
    let (one, other) = (site(draw.usize(..machines)), site(draw.usize(..machines)));
    match draw.usize(..3) {
        0 => VoterRequest::Promote(one),
        1 => VoterRequest::Demote(one),
        _ => VoterRequest::Replace { old: one, new: other },
    }
}

impl World {
    /// Returns whether the cluster can go on if the machine loses its disk now, also if the operator's request to demote a voter, which is
    /// repeated for a while, is fulfilled after that.
    pub(super) fn survives_loss_of(&self, machine: usize) -> bool {
        let first = self.settings.founders.min(MAX_VOTERS);
        let knows = |place: &usize| {
            let host = &self.machines[*place];
            let has_heard = !host.lost_disk || host.disk.knows_other_voters();
            *place != machine && has_heard && !host.is_stuck_for_good()
        };
        let ignorant = first - (0..first).filter(knows).count();
        let is_known = machine >= first || ignorant <= (first - 1) / 2;
        is_known && self.can_decide_without(Some(machine), self.now < self.demotes_until)
    }

    /// Returns whether an operator may ask to demote a voter: whichever it is, the others with their disks can decide. The leader
    /// refuses where it knows better; but that a disk was lost it learns later.
    pub(super) fn may_demote(&self) -> bool {
        self.can_decide_without(None, true)
    }

    /// Returns whether the voters that have their disks can decide, in every set of voters that is in any log or that a change under way
    /// leads to, without this machine, and perhaps without any one of them.
    fn can_decide_without(&self, machine: Option<usize>, demotes: bool) -> bool {
        let keeps = |voter: &Voter| {
            let place = self.names.iter().position(|name| *name == voter.site);
            let Some(place) = place.filter(|place| Some(*place) != machine) else { return false };
            let host = &self.machines[place];
            if host.is_stuck_for_good() {
                return false;
            }
            match voter.disk {
                Some(disk) => host.disk.identity() == Some(disk),
                None => !host.lost_disk,
            }
        };
        let without = |voters: &Voters, id: u64| {
            let mut rest = voters.clone();
            rest.voters.retain(|voter| voter.id != id);
            rest.voters.is_empty() || rest.can_decide(keeps)
        };
        let is_safe = |voters: Voters| {
            let ids: Vec<u64> = voters.voters.iter().map(|voter| voter.id).collect();
            voters.can_decide(keeps) && (!demotes || ids.into_iter().all(|id| without(&voters, id)))
        };
        self.possible_voters().flat_map(|voters| [after_change(&voters), Some(voters)]).flatten().all(is_safe)
    }

    /// Returns every set of voters that is in any log.
    fn possible_voters(&self) -> impl Iterator<Item = Voters> {
        let founding = Voters::founding(&self.names[..self.settings.founders.min(MAX_VOTERS)]);
        let logs = self.machines.iter().map(|host| {
            let mut disk = host.disk.clone();
            host.unsynced.iter().flat_map(|(_, writes)| writes).for_each(|write| disk.apply(write));
            disk
        });
        logs.flat_map(move |disk| disk.possible_voters(&founding))
    }

    /// Returns whether the machine's site votes with its disk, or will, or has done so before.
    pub(super) fn votes_with_disk(&self, machine: usize) -> bool {
        let (host, name) = (&self.machines[machine], &self.names[machine]);
        let is_this = |voter: &Voter| {
            voter.site == *name && voter.disk.is_none_or(|disk| host.disk.identity() == Some(disk))
        };
        machine < self.settings.founders.min(MAX_VOTERS)
            || host.disk.votes_under_other_id()
            || self.possible_voters().any(|voters| voters.everyone().any(is_this))
    }
}

/// Returns who votes once the learners do, if there are as many of them as shall vote together.
fn after_change(voters: &Voters) -> Option<Voters> {
    if voters.learners.is_empty() || voters.learners.len() < usize::from(voters.wanted) {
        return None;
    }
    let mut next = voters.clone();
    next.outgoing.clone_from(&voters.voters);
    next.voters.retain(|voter| Some(voter.id) != voters.replaced);
    next.voters.append(&mut next.learners);
    Some(next)
}

#[cfg(test)]
mod tests {
    use super::*;
    use meshlock_cluster::membership::voters::VoterChange;
    use meshlock_cluster::names::Incarnation;

    #[test]
    fn the_voters_after_a_change_are_known_as_soon_as_all_its_learners_are() {
        let disk = Incarnation::new;
        let one = Voters::founding(&[site(0)]);
        let one = one.after(&VoterChange::Settle { id: 1, disk: disk(1) }, 2).unwrap();
        assert_eq!(after_change(&one), None, "nobody learns");
        let admit = |voters: &Voters, at: usize, wanted: u8| {
            let change =
                VoterChange::Admit { site: site(at), disk: disk(at as u64 + 1), replaced: None, wanted };
            voters.after(&change, voters.changed_at + 1).unwrap()
        };
        assert_eq!(after_change(&admit(&one, 1, 2)), None, "another one will learn before they vote");
        for learning in [admit(&one, 1, 1), admit(&admit(&one, 1, 2), 2, 2)] {
            let enter = VoterChange::Enter { remove: None, on_request: false };
            let entered = learning.after(&enter, learning.changed_at + 1).unwrap();
            let next = after_change(&learning).unwrap();
            assert_eq!((next.voters, next.outgoing), (entered.voters, entered.outgoing));
        }
    }
}
