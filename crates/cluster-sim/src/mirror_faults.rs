//! Faults that strike a site or its mirror just when something passes between them: what random times hit hardly ever.
//!
//! Such a fault is armed at its time, and strikes at the next time that its point is reached anywhere. Seeds whose number is 9 modulo 16 have some
//! of them, more clients of the wire APIs than others, and sessions that last for shorter. All of it is drawn from a generator of its own.

use fastrand::Rng;

use super::clock::Moment;
use super::faults::{ClusterFault, CrashPoint};
use super::movers::MoverFault;
use super::properties::CheckResult;
use super::settings::SeedSettings;
use super::world::World;
use meshlock_cluster::names::SiteName;

/// Maximum number of such faults.
const MAX_FAULTS: usize = 16;

/// What happens between a site and its mirror.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum MirrorPoint {
    /// The site answers a question of its mirror.
    Answered,
    /// The mirror has the answer.
    Heard,
    /// A client has released what the mirror knows of.
    Released,
    /// A session has ended at its site without its client's word.
    Expired,
    /// The mirror begins to answer for the site.
    Adopted,
    /// The mirror leaves a session to the site again.
    Withdrawn,
    /// The site tells a former mirror that all is over that it knows of.
    Dismissed,
}

impl MirrorPoint {
    const ALL: [MirrorPoint; 7] = [
        MirrorPoint::Answered,
        MirrorPoint::Heard,
        MirrorPoint::Released,
        MirrorPoint::Expired,
        MirrorPoint::Adopted,
        MirrorPoint::Withdrawn,
        MirrorPoint::Dismissed,
    ];
}

/// How one of the two fails.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Strike {
    Crash,
    Pause,
    Leave,
    Stop,
    /// Nothing passes between the two.
    Cut,
    /// It is cut off from everyone.
    CutOff,
}

impl Strike {
    const ALL: [Strike; 6] =
        [Strike::Crash, Strike::Pause, Strike::Leave, Strike::Stop, Strike::Cut, Strike::CutOff];
}

/// A fault that strikes when its point is reached.
#[derive(Clone, Copy, Debug)]
pub(crate) struct MirrorFault {
    pub(crate) point: MirrorPoint,
    pub(crate) strike: Strike,
    /// Whether the mirror fails, and not the site.
    pub(crate) at_mirror: bool,
    /// In microseconds.
    pub(crate) length: u64,
}

impl MirrorFault {
    /// The names of all kinds.
    #[cfg(test)]
    pub(crate) const KINDS: [&'static str; 6] = [
        "crash at a mirror's point",
        "pause at a mirror's point",
        "leave at a mirror's point",
        "stop at a mirror's point",
        "cut at a mirror's point",
        "cut off at a mirror's point",
    ];

    /// Returns the name of its kind, for counting.
    pub(crate) fn kind(self) -> &'static str {
        match self.strike {
            Strike::Crash => "crash at a mirror's point",
            Strike::Pause => "pause at a mirror's point",
            Strike::Leave => "leave at a mirror's point",
            Strike::Stop => "stop at a mirror's point",
            Strike::Cut => "cut at a mirror's point",
            Strike::CutOff => "cut off at a mirror's point",
        }
    }
}

/// Returns whether a seed has them.
pub(super) fn are_in(settings: &SeedSettings) -> bool {
    settings.seed % 16 == 9 && settings.machines >= 2
}

/// Draws the faults, and how many clients of the wire APIs there are.
pub(super) fn draw(settings: &mut SeedSettings) {
    if !are_in(settings) {
        return;
    }
    let mut draw = Rng::with_seed(settings.seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ 0x3122_0215);
    settings.movers = settings.movers.max(1);
    settings.wire_clients = draw.usize(2..=5);
    for _ in 0..draw.usize(3..=MAX_FAULTS) {
        let time = draw.u64(500_000..settings.calm);
        let (point, strike) = (
            MirrorPoint::ALL[draw.usize(..MirrorPoint::ALL.len())],
            Strike::ALL[draw.usize(..Strike::ALL.len())],
        );
        let longest = [300_000, 1_200_000, 4_000_000][draw.usize(..3)];
        let fault = MirrorFault { point, strike, at_mirror: draw.bool(), length: draw.u64(1_000..longest) };
        settings.faults.push((time, ClusterFault::AtMirror(fault)));
    }
    settings.faults.sort_by_key(|(time, _)| *time);
}

impl World {
    /// Lets the fault strike that waits for this point, if there is one. `source` is the site, and `mirror` the other one.
    pub(super) fn on_mirror_point(
        &mut self,
        point: MirrorPoint,
        source: &SiteName,
        mirror: &SiteName,
    ) -> CheckResult {
        let Some(at) = self.armed.iter().position(|fault| fault.point == point).filter(|_| !self.calm) else {
            return Ok(());
        };
        let MirrorFault { strike, at_mirror, length, .. } = self.armed.remove(at);
        let machine = |site: &SiteName| self.names.iter().position(|name| name == site);
        let (Some(source), Some(mirror)) = (machine(source), machine(mirror)) else { return Ok(()) };
        let (machine, other) = if at_mirror { (mirror, source) } else { (source, mirror) };
        for fault in self.faults_of(strike, machine, other, length) {
            self.apply_fault(usize::MAX, fault)?;
        }
        Ok(())
    }

    fn faults_of(&mut self, strike: Strike, machine: usize, other: usize, length: u64) -> Vec<ClusterFault> {
        let lost = |(from, to)| ClusterFault::LossyLink { from, to, one_in: 1, length };
        match strike {
            Strike::Crash => {
                let when = CrashPoint::AfterOutputs(self.wire.draw.usize(..4));
                vec![ClusterFault::Crash { machine, when, down: length }]
            }
            Strike::Pause => vec![ClusterFault::Pause { machine, length }],
            Strike::Leave => vec![ClusterFault::Leave { machine, back: Some(length) }],
            Strike::Stop => {
                let (grace, down) = (self.wire.draw.u64(..1_500_000), length);
                vec![ClusterFault::Mover(MoverFault::Stop { machine, grace, down })]
            }
            Strike::Cut => [(machine, other), (other, machine)].map(lost).into(),
            Strike::CutOff => {
                let others = (0..self.machines.len()).filter(|at| *at != machine);
                others.flat_map(|at| [(machine, at), (at, machine)]).map(lost).collect()
            }
        }
    }

    /// Arms a fault.
    pub(super) fn arm(&mut self, fault: MirrorFault) {
        if self.now < Moment(self.settings.calm) {
            self.armed.push(fault);
        }
    }
}
