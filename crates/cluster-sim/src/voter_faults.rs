//! Changes of voters: which runs have them, what operators ask for, and which disks may be lost meanwhile.
//!
//! In these runs the leader grows and repairs the set of voters by itself or only on request, operators promote, demote and replace sites
//! at any time, also such that cannot be, and disks are lost one after the other: more of them in a run than the first voters could
//! survive. A disk is lost only if a majority of the voters keep theirs, in every set of voters that is in any log, and if not too many
//! first voters have an empty disk and have heard nothing of the cluster yet (`node/registration.rs` of the cluster says why).
//!
//! They are drawn from a generator of their own. The other faults of a seed are the same as without them, but for disks that are stuck for
//! good or put back from an old copy.

use fastrand::Rng;

use super::faults::ClusterFault;
use super::settings::{SeedSettings, site};
use super::world::World;
use meshlock_cluster::membership::MAX_VOTERS;
use meshlock_cluster::membership::voters::{Voter, Voters};
use meshlock_cluster::node::{VoterRequest, Voting};
use meshlock_cluster::time::Span;

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
    // Older programs would have to be upgraded first, and where a cut lasts only the first voters are known to be around it.
    let is_possible = !settings.environment.is_mixed() && settings.lasting_cuts.is_empty();
    if draw.u64(..ONE_IN) > 0 || !is_possible {
        return;
    }
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
    settings.faults.retain(|(_, fault)| {
        !matches!(fault, ClusterFault::StuckForGood { .. } | ClusterFault::OldDisk { .. })
    });
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
            *place != machine && (!host.lost_disk || host.disk.knows_other_voters())
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

    /// Returns whether the voters that have their disks can decide, in every set of voters that is in any log, without this machine, and
    /// perhaps without any one of them.
    fn can_decide_without(&self, machine: Option<usize>, demotes: bool) -> bool {
        let founding = Voters::founding(&self.names[..self.settings.founders.min(MAX_VOTERS)]);
        let keeps = |voter: &Voter| {
            let place = self.names.iter().position(|name| *name == voter.site);
            let Some(place) = place.filter(|place| Some(*place) != machine) else { return false };
            let host = &self.machines[place];
            match voter.disk {
                Some(disk) => host.disk.identity() == Some(disk),
                None => !host.lost_disk,
            }
        };
        let logs = self.machines.iter().map(|host| {
            let mut disk = host.disk.clone();
            host.unsynced.iter().flat_map(|(_, writes)| writes).for_each(|write| disk.apply(write));
            disk
        });
        let without = |voters: &Voters, id: u64| {
            let mut rest = voters.clone();
            rest.voters.retain(|voter| voter.id != id);
            rest.voters.is_empty() || rest.can_decide(keeps)
        };
        let is_safe = |voters: Voters| {
            let ids: Vec<u64> = voters.voters.iter().map(|voter| voter.id).collect();
            voters.can_decide(keeps) && (!demotes || ids.into_iter().all(|id| without(&voters, id)))
        };
        logs.flat_map(|disk| disk.possible_voters(&founding)).all(is_safe)
    }
}
