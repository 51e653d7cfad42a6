//! What goes wrong, drawn before the run begins: so a run can be repeated with the first few faults only.

use std::collections::BTreeSet;

use fastrand::Rng;

use super::settings::{Settings, rules};
use meshlock_cluster::membership::MAX_VOTERS;
use meshlock_cluster::rules::RulesText;

/// How many things go wrong at most.
const MOST: usize = 40;

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
        /// In which.
        cut: Cut,
        /// Whether packets come when it is over, or are lost.
        holds: bool,
        /// How long, in microseconds.
        length: u64,
    },
    /// Packets in one direction take seconds.
    SlowLink {
        /// From this site.
        from: usize,
        /// To this one.
        to: usize,
        /// How much longer they take, in microseconds.
        more: u64,
        /// How long this goes on, in microseconds.
        length: u64,
    },
    /// The process of a client dies.
    ClientCrash {
        /// Which one.
        client: usize,
    },
    /// An operator takes a site out of the cluster, and perhaps lets it in again.
    Leave {
        /// Which site.
        machine: usize,
        /// After how long it comes back, in microseconds, if it does.
        back: Option<u64>,
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

/// Which links a partition cuts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cut {
    /// In which shape.
    pub shape: &'static str,
    /// Both ways or one way.
    pub ways: &'static str,
    /// From, to.
    pub blocked: Vec<(usize, usize)>,
}

impl Cut {
    /// All shapes, and the ways in which each comes.
    pub const SHAPES: [(&'static str, &'static [&'static str]); 4] = [
        ("in two", &["both ways", "one way"]),
        ("one site alone", &["both ways", "one way"]),
        ("one pair", &["both ways", "one way"]),
        ("any links", &["one way"]),
    ];

    /// Draws one: of the fourth kind each direction of each link by itself.
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
            // Deaf or mute, each as often.
            (_, true) => blocked = turned,
            (_, false) => {}
        }
        Cut { shape, ways, blocked }
    }
}

impl Fault {
    /// The names of all kinds.
    pub const KINDS: [&'static str; 12] = [
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
            Fault::SlowLink { .. } => "slow link",
        }
    }
}

/// Draws what goes wrong, each kind fully absent about half of the time.
pub(super) fn draw(draw: &mut Rng, settings: &Settings) -> Vec<(u64, Fault)> {
    let kinds: Vec<&str> = Fault::KINDS.into_iter().filter(|_| draw.bool()).collect();
    if kinds.is_empty() {
        return Vec::new();
    }
    let count = draw.usize(1..=MOST);
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
    let voters = settings.founders.min(MAX_VOTERS);
    if machine < voters && (lost.contains(&machine) || lost.len() < (voters - 1) / 2) {
        lost.insert(machine);
        return true;
    }
    machine >= voters
}

fn one(draw: &mut Rng, kind: &str, settings: &Settings) -> Fault {
    let machines = settings.machines;
    let machine = draw.usize(..machines);
    match kind {
        "crash" => {
            let when = if draw.bool() { Death::AtNextWrite } else { Death::AfterOutputs(draw.usize(..8)) };
            Fault::Crash { machine, when, down: draw.u64(1_000..4_000_000) }
        }
        "pause" => Fault::Pause { machine, length: draw.u64(1_000..5_000_000) },
        "connection lost" => Fault::Break { a: machine, b: draw.usize(..machines) },
        "partition" => {
            let (cut, holds) = (Cut::draw(draw, machines), draw.bool());
            Fault::Partition { cut, holds, length: draw.u64(100_000..6_000_000) }
        }
        "client crash" => Fault::ClientCrash { client: draw.usize(..machines * settings.clients) },
        "leave" => {
            let back = (draw.usize(..4) > 0).then(|| draw.u64(1_000..5_000_000));
            Fault::Leave { machine, back }
        }
        "rules changed" => Fault::Rules { machine, rules: rules(draw, machines) },
        "other cluster" => Fault::OtherCluster { machine, from: draw.usize(..machines) },
        "lost disk" => Fault::LostDisk { machine, down: draw.u64(1_000..4_000_000) },
        "lock taken away" => Fault::TakeAway { machine, lock: draw.usize(..settings.locks.len()) },
        "slow disk" => Fault::SlowDisk { machine, length: draw.u64(100_000..3_000_000) },
        _ => {
            let (to, more) = (draw.usize(..machines), draw.u64(50_000..4_000_000));
            Fault::SlowLink { from: machine, to, more, length: draw.u64(100_000..3_000_000) }
        }
    }
}
