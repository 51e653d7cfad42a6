//! Faults, drawn before the run begins, so that a run can be repeated with only the first few of them.

use std::collections::BTreeSet;

use fastrand::Rng;

use super::clock::Moment;
use super::mirror_faults::MirrorFault;
use super::movers::MoverFault;
use super::settings::{SeedSettings, rules};
use meshlock_cluster::membership::MAX_VOTERS;
use meshlock_cluster::node::VoterRequest;
use meshlock_cluster::rules::RulesText;

/// Maximum number of faults of a run.
const MAX_FAULTS: usize = 40;

/// The point at which a process crashes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CrashPoint {
    /// After this many more outputs.
    AfterOutputs(usize),
    /// As soon as it has handed a write to its disk.
    AtNextWrite,
}

/// A fault, or an action of an operator.
#[derive(Clone, Debug)]
pub(crate) enum ClusterFault {
    /// The process of a site crashes, in the middle of its work; of what its disk had not completed, everything from
    /// some point on is lost.
    Crash {
        machine: usize,
        when: CrashPoint,
        /// Time until it runs again, in microseconds.
        down: u64,
    },
    /// A site pauses, with or without its clients.
    Pause {
        machine: usize,
        /// In microseconds.
        length: u64,
    },
    /// The connection between two sites breaks; some of what was in transit still arrives, later.
    Break { a: usize, b: usize },
    /// Nothing passes in some directions.
    Partition {
        cut: Cut,
        /// Whether packets are delivered when it is over, or lost.
        holds: bool,
        /// In microseconds.
        length: u64,
    },
    /// Packets in one direction take seconds.
    SlowLink {
        from: usize,
        to: usize,
        /// Additional delay, in microseconds.
        more: u64,
        /// In microseconds.
        length: u64,
    },
    /// The process of a client crashes.
    ClientCrash { client: usize },
    /// An operator removes a site from the cluster, and perhaps adds it again.
    Leave {
        machine: usize,
        /// Time until it comes back, in microseconds, if it does.
        back: Option<u64>,
    },
    /// An operator changes the rules.
    Rules { machine: usize, rules: RulesText },
    /// A site of another cluster has the name of a site of this one, and sends to a site of this cluster by mistake.
    OtherCluster {
        /// The site that receives its packet.
        machine: usize,
        /// The site whose name it has.
        from: usize,
    },
    /// The process of a site crashes, and its disk is lost.
    LostDisk {
        machine: usize,
        /// Time until it runs again with an empty disk, in microseconds.
        down: u64,
    },
    /// The process of a site crashes, and its disk is lost, unless the cluster could not survive that.
    LostVoterDisk {
        machine: usize,
        /// Time until it runs again with an empty disk, in microseconds.
        down: u64,
    },
    /// An operator changes who votes.
    Voters {
        /// The site that is asked.
        machine: usize,
        change: VoterRequest,
    },
    /// An operator adds an entry to the access document.
    Access {
        /// The site that is asked.
        machine: usize,
        /// Makes the entry different from others.
        number: usize,
    },
    /// An operator removes a site for good that has left, and somebody starts it again.
    StartRemoved {
        machine: usize,
        /// The site that is asked.
        by: usize,
    },
    /// An operator looks at a lock's queue and takes the lock away from its holders.
    TakeAway {
        machine: usize,
        /// The index of the lock.
        lock: usize,
    },
    /// A disk is very slow for a while.
    SlowDisk {
        machine: usize,
        /// In microseconds.
        length: u64,
    },
    /// A machine's clock runs at another rate from now on.
    ClockRate {
        machine: usize,
        /// The millionths that it gains.
        ppm: u32,
    },
    /// A machine's clock jumps forward.
    ClockJump {
        machine: usize,
        /// In microseconds.
        by: u64,
    },
    /// A machine is suspended, with everything that runs on it.
    Suspend {
        machine: usize,
        /// In microseconds.
        length: u64,
        /// Whether its clock stands still meanwhile.
        with_clock: bool,
    },
    /// A disk completes nothing for a while: it is stuck, or it is full and every write is tried again.
    StuckDisk {
        machine: usize,
        /// In microseconds.
        length: u64,
    },
    /// A disk completes nothing any more, also in the calm.
    StuckForGood { machine: usize },
    /// The process of a site crashes, and its disk is put back from a copy.
    OldDisk {
        machine: usize,
        /// When the copy was made.
        copied: Moment,
        /// Time until it runs again, in microseconds.
        down: u64,
    },
    /// The process of a site crashes, and its disk cannot be read any more.
    UnreadableDisk {
        machine: usize,
        /// Time until somebody tries to start it again, in microseconds.
        down: u64,
        /// Time from then until it runs with an empty disk, in microseconds.
        repair: u64,
    },
    /// Something that concerns the clients that move from site to site.
    Mover(MoverFault),
    /// Somebody starts a second process under the name of a running site.
    SecondProcess {
        machine: usize,
        /// What its host's calendar shows when it starts.
        stamp: u64,
        /// Time until it is ended, in microseconds.
        length: u64,
    },
    /// One of two sites fails when something passes between a site and its mirror.
    AtMirror(MirrorFault),
    /// Packets in one direction are lost inside a live connection.
    LossyLink {
        from: usize,
        to: usize,
        /// One of this many is lost.
        one_in: u32,
        /// In microseconds.
        length: u64,
    },
}

/// The directions that a partition cuts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Cut {
    pub(crate) shape: &'static str,
    /// Both ways or one way.
    pub(crate) ways: &'static str,
    /// Pairs of sender and receiver.
    pub(crate) blocked: Vec<(usize, usize)>,
}

impl Cut {
    /// All shapes, and the ways in which each occurs.
    pub(crate) const SHAPES: [(&'static str, &'static [&'static str]); 4] = [
        ("in two", &["both ways", "one way"]),
        ("one site alone", &["both ways", "one way"]),
        ("one pair", &["both ways", "one way"]),
        ("any links", &["one way"]),
    ];

    /// Draws a partition; in the fourth shape each direction of each link is drawn by itself.
    fn draw(draw: &mut Rng, machines: usize) -> Cut {
        let (shape, ways) = Cut::SHAPES[draw.usize(..Cut::SHAPES.len())];
        let ways = ways[draw.usize(..ways.len())];
        let side: Vec<bool> = (0..machines).map(|_| draw.bool()).collect();
        let (a, b) = (draw.usize(..machines), draw.usize(..machines));
        let part = draw.usize(1..8);
        let mut cuts = |from: usize, to: usize| match shape {
            "in two" => side[from] && !side[to],
            "one site alone" => from == a,
            "one pair" => from == a && to == b,
            _ => draw.usize(..8) < part,
        };
        let links = (0..machines).flat_map(|from| (0..machines).map(move |to| (from, to)));
        let mut blocked: Vec<(usize, usize)> =
            links.filter(|&(from, to)| from != to && cuts(from, to)).collect();
        let turned: Vec<(usize, usize)> = blocked.iter().map(|&(from, to)| (to, from)).collect();
        match (ways, side[a]) {
            ("both ways", _) => blocked.extend(turned),
            // The sites cannot receive or cannot send, each equally often.
            (_, true) => blocked = turned,
            (_, false) => {}
        }
        Cut { shape, ways, blocked }
    }
}

impl ClusterFault {
    /// The names of the kinds that are drawn here.
    pub(crate) const KINDS: [&'static str; 12] = [
        "crash",
        "pause",
        "connection lost",
        "partition",
        "client crash",
        "leave",
        "rules changed",
        "other cluster",
        "lost disk",
        "lock taken away",
        "slow disk",
        "slow link",
    ];

    /// Returns the name of its kind, for counting.
    pub(crate) fn kind(&self) -> &'static str {
        match self {
            ClusterFault::Crash { .. } => "crash",
            ClusterFault::Pause { .. } => "pause",
            ClusterFault::Break { .. } => "connection lost",
            ClusterFault::Partition { .. } => "partition",
            ClusterFault::ClientCrash { .. } => "client crash",
            ClusterFault::Leave { .. } => "leave",
            ClusterFault::Rules { .. } => "rules changed",
            ClusterFault::OtherCluster { .. } => "other cluster",
            ClusterFault::LostDisk { .. } => "lost disk",
            ClusterFault::LostVoterDisk { .. } => "disk lost while voters change",
            ClusterFault::Voters { .. } => "voters changed",
            ClusterFault::Access { .. } => "access changed",
            ClusterFault::StartRemoved { .. } => "removed site started",
            ClusterFault::TakeAway { .. } => "lock taken away",
            ClusterFault::SlowDisk { .. } => "slow disk",
            ClusterFault::SlowLink { .. } => "slow link",
            ClusterFault::ClockRate { .. } => "clock rate changed",
            ClusterFault::ClockJump { .. } => "clock jumped",
            ClusterFault::Suspend { with_clock: false, .. } => "machine suspended",
            ClusterFault::Suspend { with_clock: true, .. } => "machine suspended with its clock",
            ClusterFault::StuckDisk { .. } => "stuck disk",
            ClusterFault::StuckForGood { .. } => "disk stuck for good",
            ClusterFault::OldDisk { .. } => "old disk",
            ClusterFault::UnreadableDisk { .. } => "unreadable disk",
            ClusterFault::SecondProcess { .. } => "second process",
            ClusterFault::LossyLink { .. } => "packets lost",
            ClusterFault::Mover(fault) => fault.kind(),
            ClusterFault::AtMirror(fault) => fault.kind(),
        }
    }
}

/// Draws the faults of a run. Each kind is absent about half of the time.
pub(super) fn draw(draw: &mut Rng, settings: &SeedSettings) -> Vec<(u64, ClusterFault)> {
    let kinds: Vec<&str> = ClusterFault::KINDS.into_iter().filter(|_| draw.bool()).collect();
    if kinds.is_empty() {
        return Vec::new();
    }
    let count = draw.usize(1..=MAX_FAULTS);
    let mut times: Vec<u64> = (0..count).map(|_| draw.u64(300_000..settings.calm)).collect();
    times.sort_unstable();
    let mut faults = Vec::new();
    let mut lost = BTreeSet::new();
    for time in times {
        let kind = kinds[draw.usize(..kinds.len())];
        let mut fault = one(draw, kind, settings);
        if let ClusterFault::LostDisk { machine, down } = fault
            && !may_lose(machine, &mut lost, settings)
        {
            fault = ClusterFault::Crash { machine, when: CrashPoint::AfterOutputs(0), down };
        }
        faults.push((time, fault));
    }
    faults
}

/// Returns whether this site's disk may be lost, in addition to the ones lost already: of the voters' disks only a
/// minority, because otherwise nothing would be left of what they agreed on.
fn may_lose(machine: usize, lost: &mut BTreeSet<usize>, settings: &SeedSettings) -> bool {
    let voters = settings.founders.min(MAX_VOTERS);
    if machine < voters && (lost.contains(&machine) || lost.len() < (voters - 1) / 2) {
        lost.insert(machine);
        return true;
    }
    machine >= voters
}

fn one(draw: &mut Rng, kind: &str, settings: &SeedSettings) -> ClusterFault {
    let machines = settings.machines;
    let machine = draw.usize(..machines);
    match kind {
        "crash" => {
            let when =
                if draw.bool() { CrashPoint::AtNextWrite } else { CrashPoint::AfterOutputs(draw.usize(..8)) };
            ClusterFault::Crash { machine, when, down: draw.u64(1_000..4_000_000) }
        }
        "pause" => ClusterFault::Pause { machine, length: draw.u64(1_000..5_000_000) },
        "connection lost" => ClusterFault::Break { a: machine, b: draw.usize(..machines) },
        "partition" => {
            let (cut, holds) = (Cut::draw(draw, machines), draw.bool());
            ClusterFault::Partition { cut, holds, length: draw.u64(100_000..6_000_000) }
        }
        "client crash" => ClusterFault::ClientCrash { client: draw.usize(..machines * settings.clients) },
        "leave" => {
            let back = (draw.usize(..4) > 0).then(|| draw.u64(1_000..5_000_000));
            ClusterFault::Leave { machine, back }
        }
        "rules changed" => ClusterFault::Rules { machine, rules: rules(draw, settings.seed, machines) },
        "other cluster" => ClusterFault::OtherCluster { machine, from: draw.usize(..machines) },
        "lost disk" => ClusterFault::LostDisk { machine, down: draw.u64(1_000..4_000_000) },
        "lock taken away" => ClusterFault::TakeAway { machine, lock: draw.usize(..settings.locks.len()) },
        "slow disk" => ClusterFault::SlowDisk { machine, length: draw.u64(100_000..3_000_000) },
        _ => {
            let (to, more) = (draw.usize(..machines), draw.u64(50_000..4_000_000));
            ClusterFault::SlowLink { from: machine, to, more, length: draw.u64(100_000..3_000_000) }
        }
    }
}
