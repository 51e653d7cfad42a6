//! What surrounds a run besides its faults: how far sites are apart, which versions they speak, what calendars show at
//! starts, and how much there is of everything.
//!
//! Half of the seeds have none of it: they run as they did before. In the others limits are drawn small, so that they
//! are passed, and in a few there are hundreds of clients and many locks.

use fastrand::Rng;
use meshlock_wire::sites::VERSIONS;

use super::settings::SeedSettings;
use meshlock_cluster::node::{Config, NodeLimits};

/// One in this many seeds that have something of this has many clients and locks.
const ONE_IN_IS_CROWDED: usize = 40;

/// The newest version when the versions of a seed were first drawn. A site that drew it speaks that or a newer one.
const DRAWN_VERSION: u16 = 5;

/// Maximum time that packets take between two regions, besides the delay of all packets, in microseconds.
const MAX_DISTANCE: u64 = 60_000;

/// What the calendar clocks of hosts show at starts of a site.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Calendar {
    /// They go on.
    Advances,
    /// They are set back at every start.
    SetBack,
    /// They are set back and forth at every start.
    Jumps,
}

impl Calendar {
    /// Returns the stamp of the `start`-th start: never one of an earlier start.
    pub(crate) fn stamp(self, start: u64) -> u64 {
        match self {
            Calendar::Advances => 1_000 + start,
            Calendar::SetBack => 1_000_u64.saturating_sub(start),
            // The multiples of a number, modulo a prime.
            Calendar::Jumps => 1 + start * 1_237 % 4_999,
        }
    }
}

/// What surrounds a run.
#[derive(Clone, Debug, Default)]
pub(crate) struct Environment {
    /// Whether anything here, or any fault of a machine, was drawn for the seed.
    pub(crate) is_drawn: bool,
    /// For each sender and receiver the least time that a packet takes, in microseconds; empty if all are close.
    distances: Vec<Vec<u64>>,
    /// For each site the version that it speaks at first, and the start from which on it speaks the newest one; empty
    /// if all speak the newest one.
    versions: Vec<(u16, u64)>,
    /// Whether calendars are set back and forth, whatever else was drawn for them.
    pub(crate) calendars_jump: bool,
    /// Whether there are hundreds of clients, and many locks.
    pub(crate) is_crowded: bool,
    /// The nodes' limits, where they are small.
    limits: Option<NodeLimits>,
}

impl Environment {
    /// Draws what surrounds a run, and makes the settings larger if it is crowded.
    pub(crate) fn draw(draw: &mut Rng, settings: &mut SeedSettings) -> Self {
        if draw.bool() {
            return Environment::default();
        }
        let machines = settings.machines;
        let is_crowded = draw.usize(..ONE_IN_IS_CROWDED) == 0;
        if is_crowded {
            crowd(draw, settings);
        }
        let distances = if draw.usize(..5) == 0 { distances(draw, machines) } else { Vec::new() };
        let longest = distances.iter().flatten().copied().max().unwrap_or(0);
        Environment {
            is_drawn: true,
            distances,
            versions: if draw.usize(..4) == 0 { versions(draw, machines) } else { Vec::new() },
            calendars_jump: draw.usize(..3) == 0,
            is_crowded,
            limits: draw.bool().then(|| limits(draw, settings, longest)),
        }
    }

    /// Returns the least time that a packet takes on this way.
    pub(crate) fn distance(&self, from: usize, to: usize) -> u64 {
        self.distances.get(from).map_or(0, |row| row[to])
    }

    /// Returns the longest of these times.
    pub(crate) fn longest_distance(&self) -> u64 {
        self.distances.iter().flatten().copied().max().unwrap_or(0)
    }

    /// Returns whether sites are in regions far from each other.
    pub(crate) fn has_regions(&self) -> bool {
        !self.distances.is_empty()
    }

    /// Returns the version that a site speaks after this many starts.
    pub(crate) fn version(&self, machine: usize, starts: u64) -> u16 {
        let first = self.versions.get(machine).filter(|(_, upgraded)| starts < *upgraded);
        first.map_or(VERSIONS.1, |(version, _)| *version)
    }

    /// Returns whether some sites speak an older version for a while.
    pub(crate) fn is_mixed(&self) -> bool {
        !self.versions.is_empty()
    }

    /// Lets no site speak an older version than this one.
    pub(crate) fn speak_at_least(&mut self, oldest: u16) {
        for (version, _) in &mut self.versions {
            *version = oldest.max(*version);
        }
    }

    /// Makes the limits of a node small.
    pub(crate) fn limit(&self, config: &mut Config) {
        if let Some(limits) = self.limits {
            config.limits = limits;
        }
    }
}

/// Puts hundreds of clients and many locks into a run.
fn crowd(draw: &mut Rng, settings: &mut SeedSettings) {
    let machines = settings.machines;
    settings.clients = draw.usize(100..=300).div_ceil(machines);
    settings.processes = draw.usize(1..=settings.clients.min(8));
    settings.hold = settings.hold.min(100_000);
    let names = (0..draw.usize(20..=60)).map(|number| format!("{}{number}", ["lock", "z"][number % 2]));
    settings.locks.extend(names.map(|name| name.parse().expect("a fixed name")));
}

/// Draws how far apart sites are: each is in one of up to three regions, and the ways between two regions take
/// different times there and back.
fn distances(draw: &mut Rng, machines: usize) -> Vec<Vec<u64>> {
    let regions = draw.usize(2..=3);
    let between: Vec<Vec<u64>> = (0..regions)
        .map(|from| (0..regions).map(|to| if from == to { 0 } else { draw.u64(..=MAX_DISTANCE) }).collect())
        .collect();
    let region: Vec<usize> = (0..machines).map(|_| draw.usize(..regions)).collect();
    (0..machines).map(|from| (0..machines).map(|to| between[region[from]][region[to]]).collect()).collect()
}

/// Draws the version that each site speaks at first, and its start with the newest program.
fn versions(draw: &mut Rng, machines: usize) -> Vec<(u16, u64)> {
    let oldest = draw.u16(VERSIONS.0..DRAWN_VERSION);
    let one = |draw: &mut Rng| (draw.u16(oldest..=DRAWN_VERSION), [1, 2, 3, u64::MAX][draw.usize(..4)]);
    let drawn: Vec<(u16, u64)> = (0..machines).map(|_| one(draw)).collect();
    // From a generator of their own, so that the versions of a seed were the same before there were newer ones.
    let mut own = Rng::with_seed(draw.clone().u64(..));
    let newer = |(version, upgraded)| match version {
        DRAWN_VERSION => (own.u16(DRAWN_VERSION..=VERSIONS.1), upgraded),
        _ => (version, upgraded),
    };
    drawn.into_iter().map(newer).collect()
}

/// Draws limits that are small enough to be passed.
fn limits(draw: &mut Rng, settings: &SeedSettings, longest: u64) -> NodeLimits {
    let slowest = settings.delay + longest;
    let (census_piece, questions) = (draw.usize(1..40), draw.usize(1..3));
    // From a generator of their own, so that all else is the same with and without them.
    let mut own = Rng::with_seed(draw.clone().u64(..));
    // A renewal that is forgotten while its grant is on its way costs locks. So there is room for what is sent at the highest pace in the
    // time that a grant takes, and for hardly more.
    let attempts = 2 + (8 * slowest + 4 * settings.disk) / settings.terms.shortest_retry().micros();
    let renewals = usize::try_from(attempts).expect("a few") + own.usize(1..3);
    NodeLimits { census_piece, questions, inquiries: own.usize(1..3), renewals }
}
