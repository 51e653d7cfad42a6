//! What goes wrong, drawn before the run begins: so a run can be repeated with the first few faults only.

use std::collections::BTreeSet;

use fastrand::Rng;

use super::settings::{Settings, rules};
use crate::membership::MOST_VOTERS;
use crate::rules::RulesText;

/// In the middle of what a process dies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Death {
    /// After so many more outputs.
    AfterOutputs(usize),
    /// As soon as it has given its disk something to write.
    AtNextWrite,
}

/// One thing that goes wrong, or that operators do.
#[derive(Clone, Debug)]
pub enum Fault {
    /// The process of a site dies, in the middle of what it does; what its disk had not completed is lost from some point
    /// on.
    Crash {
        /// Which site.
        machine: usize,
        /// When exactly.
        when: Death,
        /// How long until it runs again, in microseconds.
        down: u64,
    },
    /// A site stands still, and its clients with it or not.
    Pause {
        /// Which site.
        machine: usize,
        /// How long, in microseconds.
        length: u64,
    },
    /// The connection between two sites breaks; some of what was on its way still arrives, later.
    Break {
        /// One site.
        a: usize,
        /// The other.
        b: usize,
    },
    /// Nothing passes in these directions.
    Partition {
        /// From, to.
        blocked: Vec<(usize, usize)>,
        /// How long, in microseconds.
        length: u64,
    },
    /// The process of a client dies.
    ClientCrash {
        /// Which one.
        client: usize,
    },
    /// An operator takes a site out of the cluster.
    Leave {
        /// Which site.
        machine: usize,
    },
    /// An operator changes the rules.
    Rules {
        /// At which site.
        machine: usize,
        /// What to.
        rules: RulesText,
    },
    /// A site of another cluster is called like a site of this one, and takes another one for its own.
    OtherCluster {
        /// Which site hears of it.
        machine: usize,
        /// Whose name it has.
        from: usize,
    },
    /// The process of a site dies, and its disk is lost.
    LostDisk {
        /// Which site's.
        machine: usize,
        /// How long until it runs again with an empty one, in microseconds.
        down: u64,
    },
    /// An operator looks at a lock's queue and takes the lock away from whoever holds it.
    TakeAway {
        /// At which site.
        machine: usize,
        /// Which lock, of those in use.
        lock: usize,
    },
    /// A disk takes very long for a while.
    SlowDisk {
        /// Which site's.
        machine: usize,
        /// How long, in microseconds.
        length: u64,
    },
}

impl Fault {
    /// Its name, for counting.
    pub fn kind(&self) -> &'static str {
        match self {
            Fault::Crash { .. } => "crash",
            Fault::Pause { .. } => "pause",
            Fault::Break { .. } => "connection lost",
            Fault::Partition { .. } => "partition",
            Fault::ClientCrash { .. } => "client crash",
            Fault::Leave { .. } => "leave",
            Fault::Rules { .. } => "rules changed",
            Fault::OtherCluster { .. } => "other cluster",
            Fault::LostDisk { .. } => "lost disk",
            Fault::TakeAway { .. } => "lock taken away",
            Fault::SlowDisk { .. } => "slow disk",
        }
    }
}

const KINDS: usize = 11;

/// Draws what goes wrong, each kind fully absent about half of the time.
pub(super) fn draw(draw: &mut Rng, settings: &Settings) -> Vec<(u64, Fault)> {
    let kinds: Vec<usize> = (0..KINDS).filter(|_| draw.bool()).collect();
    if kinds.is_empty() {
        return Vec::new();
    }
    let count = draw.usize(1..=25);
    let mut times: Vec<u64> = (0..count).map(|_| draw.u64(300_000..settings.calm)).collect();
    times.sort_unstable();
    let mut faults = Vec::new();
    let mut lost = BTreeSet::new();
    for time in times {
        let kind = kinds[draw.usize(..kinds.len())];
        let mut fault = one(draw, kind, settings);
        if let Fault::LostDisk { machine, down } = fault
            && !may_lose(machine, &mut lost, settings)
        {
            fault = Fault::Crash { machine, when: Death::AfterOutputs(0), down };
        }
        faults.push((time, fault));
    }
    faults
}

/// Whether this site's disk may be lost, besides those that are: of the voters' only a minority, or nothing would be left of
/// what they agreed on.
fn may_lose(machine: usize, lost: &mut BTreeSet<usize>, settings: &Settings) -> bool {
    let voters = settings.founders.min(MOST_VOTERS);
    if machine < voters && (lost.contains(&machine) || lost.len() < (voters - 1) / 2) {
        lost.insert(machine);
        return true;
    }
    machine >= voters
}

fn one(draw: &mut Rng, kind: usize, settings: &Settings) -> Fault {
    let machines = settings.machines;
    let machine = draw.usize(..machines);
    match kind {
        0 => {
            let when = if draw.bool() { Death::AtNextWrite } else { Death::AfterOutputs(draw.usize(..8)) };
            Fault::Crash { machine, when, down: draw.u64(1_000..4_000_000) }
        }
        1 => Fault::Pause { machine, length: draw.u64(1_000..5_000_000) },
        2 => Fault::Break { a: machine, b: draw.usize(..machines) },
        3 => Fault::Partition { blocked: blocked(draw, machines), length: draw.u64(100_000..6_000_000) },
        4 => Fault::ClientCrash { client: draw.usize(..machines * settings.clients) },
        // Rarely: a site that has left does not come back.
        5 if draw.usize(..4) == 0 => Fault::Leave { machine },
        5 | 6 => Fault::Rules { machine, rules: rules(draw, machines) },
        7 => Fault::OtherCluster { machine, from: draw.usize(..machines) },
        8 => Fault::LostDisk { machine, down: draw.u64(1_000..4_000_000) },
        9 => Fault::TakeAway { machine, lock: draw.usize(..settings.locks.len()) },
        _ => Fault::SlowDisk { machine, length: draw.u64(100_000..3_000_000) },
    }
}

/// Partitions of every shape: in two, one site alone, one link; and each of them both ways or one way.
fn blocked(draw: &mut Rng, machines: usize) -> Vec<(usize, usize)> {
    let side: Vec<bool> = match draw.usize(..3) {
        0 => (0..machines).map(|_| draw.bool()).collect(),
        1 => {
            let alone = draw.usize(..machines);
            (0..machines).map(|at| at == alone).collect()
        }
        _ => {
            let (a, b) = (draw.usize(..machines), draw.usize(..machines));
            return if draw.bool() { vec![(a, b), (b, a)] } else { vec![(a, b)] };
        }
    };
    let one_way = draw.bool();
    let pairs = (0..machines).flat_map(|a| (0..machines).map(move |b| (a, b)));
    pairs.filter(|&(a, b)| if one_way { side[a] && !side[b] } else { side[a] != side[b] }).collect()
}
