//! Faults of machines and of live connections: their clocks, their disks, and packets that are lost on the way.
//!
//! | fault | what is promised |
//! |---|---|
//! | a clock's rate changes within the drift that leases allow for | everything |
//! | a machine is suspended and its clock goes on, as the clock of leases does | everything |
//! | a clock's rate changes beyond that drift; a clock jumps forward, or stands still while its machine is suspended | fences, and what they protect; not that holders are alone |
//! | a disk is stuck or full for seconds | everything |
//! | the disk of the leader, or of another voter, is stuck for good | everything, for the clients of the other sites |
//! | the disk of a site that does not vote is put back from an old copy | everything |
//! | the disk of a voter is put back from an old copy | nothing: the voter may vote against what it has confirmed. Whatever happens, no process panics |
//! | a disk has become unreadable, or is another cluster's | the start is refused; then the operator gives the site an empty disk |
//! | packets are lost inside a connection | everything |
//!
//! They are drawn from a generator of their own, so that the other faults of a seed are the same as before there were
//! these.

use std::collections::BTreeSet;

use fastrand::Rng;

use super::clock::{ClockChange, Moment};
use super::faults::ClusterFault;
use super::settings::SeedSettings;
use meshlock_cluster::membership::MAX_VOTERS;

/// Maximum number of these faults in a run.
const MAX_FAULTS: usize = 16;

/// How much faster than allowed a clock may run where only fences protect, in millionths.
const BEYOND_DRIFT: u32 = 1_500_000;

impl ClusterFault {
    /// The names of the kinds that are drawn here.
    pub(crate) const HOST_KINDS: [&'static str; 9] = [
        "clock rate changed",
        "clock jumped",
        "machine suspended",
        "machine suspended with its clock",
        "stuck disk",
        "disk stuck for good",
        "old disk",
        "unreadable disk",
        "packets lost",
    ];

    /// Returns the machine whose clock the fault changes, and how.
    pub(crate) fn clock_change(&self) -> Option<(usize, ClockChange)> {
        if let ClusterFault::ClockRate { machine, ppm } = self {
            Some((*machine, ClockChange::Gains(*ppm)))
        } else if let ClusterFault::ClockJump { machine, by } = self {
            Some((*machine, ClockChange::Jumps(*by)))
        } else if let ClusterFault::Suspend { machine, length, with_clock: true } = self {
            Some((*machine, ClockChange::Stands(*length)))
        } else {
            None
        }
    }

    /// Returns when the disk was copied that the fault puts back.
    pub(crate) fn copied_at(&self) -> Option<Moment> {
        if let ClusterFault::OldDisk { copied, .. } = self { Some(*copied) } else { None }
    }

    /// Returns the machine whose disk the fault takes away, for good or with what it had promised.
    fn spoils_disk_of(&self) -> Option<usize> {
        if let ClusterFault::StuckForGood { machine } = self { Some(*machine) } else { self.loses_disk_of() }
    }

    /// Returns the machine whose disk forgets something because of the fault.
    pub(crate) fn loses_disk_of(&self) -> Option<usize> {
        if let ClusterFault::LostDisk { machine, .. }
        | ClusterFault::UnreadableDisk { machine, .. }
        | ClusterFault::OldDisk { machine, .. } = self
        {
            Some(*machine)
        } else {
            None
        }
    }

    /// Returns whether leases allow for this change of a clock, where clocks may drift apart by `drift` millionths.
    pub(crate) fn keeps_drift(&self, drift: u32) -> bool {
        match self.clock_change() {
            Some((_, ClockChange::Gains(ppm))) => ppm <= drift,
            Some((_, ClockChange::Jumps(_) | ClockChange::Stands(_))) => false,
            None => true,
        }
    }
}

/// Draws the faults of machines and of live connections. Each kind is absent about half of the time, and those that
/// clocks are not promised to survive are absent in most runs.
pub(super) fn draw(draw: &mut Rng, settings: &SeedSettings) -> Vec<(u64, ClusterFault)> {
    let beyond = settings.beyond_drift || draw.usize(..6) == 0;
    let within =
        |kind: &&str| beyond || !matches!(*kind, "clock jumped" | "machine suspended with its clock");
    let kinds: Vec<&str> =
        ClusterFault::HOST_KINDS.into_iter().filter(|_| draw.bool()).filter(within).collect();
    if kinds.is_empty() {
        return Vec::new();
    }
    let mut faults = Vec::new();
    for _ in 0..draw.usize(1..=MAX_FAULTS) {
        let time = draw.u64(300_000..settings.calm);
        let kind = kinds[draw.usize(..kinds.len())];
        let fault = one(draw, kind, settings, time, beyond);
        if may_happen(&fault, settings, &faults) {
            faults.push((time, fault));
        }
    }
    faults
}

/// Returns whether the cluster can survive the fault beside the others: a majority of the voters' disks must be kept,
/// and voters must be left that can decide.
fn may_happen(fault: &ClusterFault, settings: &SeedSettings, drawn: &[(u64, ClusterFault)]) -> bool {
    let voters = settings.founders.min(MAX_VOTERS);
    let of_voter = |fault: &ClusterFault| fault.spoils_disk_of().filter(|machine| *machine < voters);
    let Some(machine) = of_voter(fault) else { return true };
    let spoilt = || {
        settings.faults.iter().chain(drawn).map(|(_, fault)| fault).filter(|other| of_voter(other).is_some())
    };
    if !settings.lasting_cuts.is_empty() {
        return false;
    }
    // Where a voter has forgotten something, nothing is promised; and where one can write nothing any more, all others
    // are needed. So these happen alone.
    let is_alone = |fault: &ClusterFault| {
        matches!(fault, ClusterFault::OldDisk { .. } | ClusterFault::StuckForGood { .. })
    };
    if is_alone(fault) {
        let can_decide = voters >= 3 || matches!(fault, ClusterFault::OldDisk { .. });
        return can_decide && spoilt().next().is_none();
    }
    let lost: BTreeSet<usize> = spoilt().filter_map(of_voter).chain([machine]).collect();
    !spoilt().any(is_alone) && lost.len() <= (voters - 1) / 2
}

fn one(draw: &mut Rng, kind: &str, settings: &SeedSettings, time: u64, beyond: bool) -> ClusterFault {
    let machine = draw.usize(..settings.machines);
    match kind {
        "clock rate changed" => {
            let drift = settings.terms.drift.ppm();
            let fastest = if beyond { drift + BEYOND_DRIFT } else { drift };
            ClusterFault::ClockRate { machine, ppm: draw.u32(..=fastest) }
        }
        "clock jumped" => ClusterFault::ClockJump { machine, by: draw.u64(1_000..10_000_000) },
        "machine suspended" | "machine suspended with its clock" => {
            // Everything runs again in the calm.
            let length = draw.u64(1_000..6_000_000).min(settings.calm - time);
            ClusterFault::Suspend { machine, length, with_clock: kind != "machine suspended" }
        }
        "stuck disk" => ClusterFault::StuckDisk { machine, length: draw.u64(500_000..8_000_000) },
        "disk stuck for good" => ClusterFault::StuckForGood { machine },
        "old disk" => {
            let copied = Moment(draw.u64(..time));
            ClusterFault::OldDisk { machine, copied, down: draw.u64(1_000..4_000_000) }
        }
        "unreadable disk" => {
            let (down, repair) = (draw.u64(1_000..2_000_000), draw.u64(1_000..2_000_000));
            ClusterFault::UnreadableDisk { machine, down, repair }
        }
        _ => {
            let (to, one_in) = (draw.usize(..settings.machines), draw.u32(1..=20));
            ClusterFault::LossyLink { from: machine, to, one_in, length: draw.u64(100_000..5_000_000) }
        }
    }
}
