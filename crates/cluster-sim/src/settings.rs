//! What a seed determines: the cluster, its rules, its clients and its faults.

use fastrand::Rng;
use meshlock_protocol::registry::ALL;
use meshlock_protocol::registry::info::Permits;
use meshlock_protocol::{Epoch, Info};

use super::access_faults;
use super::clock::{Clock, Moment};
use super::environment::{Calendar, Environment};
use super::faults::{self, ClusterFault};
use super::host_faults;
use super::mirror_faults;
use super::movers;
use super::second_process;
use super::sharing;
use super::voter_faults;
use super::wire_clients;
use meshlock_cluster::claim::ClaimKey;
use meshlock_cluster::lease::Terms;
use meshlock_cluster::links::{LinkLimits, LinkTimeouts};
use meshlock_cluster::membership::Pace;
use meshlock_cluster::names::{LockName, SiteName};
use meshlock_cluster::node::{Config, Voting};
use meshlock_cluster::rules::{Clause, Rules, RulesText};
use meshlock_cluster::time::{Drift, Span};

/// Duration of the phase with faults, in microseconds.
const FAULT_PHASE: std::ops::Range<u64> = 6_000_000..20_000_000;

/// Everything that a seed determines before the first event.
#[derive(Clone, Debug)]
pub(crate) struct SeedSettings {
    pub(crate) seed: u64,
    /// Number of sites.
    pub(crate) machines: usize,
    /// Number of initial sites; the others join later.
    pub(crate) founders: usize,
    /// When each site starts, in microseconds.
    pub(crate) starts: Vec<u64>,
    pub(crate) clocks: Vec<Clock>,
    /// Whether clocks drift further apart than the leases allow for.
    pub(crate) beyond_drift: bool,
    /// Number of clients of each site.
    pub(crate) clients: usize,
    /// Number of clients that move from site to site.
    pub(crate) movers: usize,
    /// Number of clients of the wire APIs.
    pub(crate) wire_clients: usize,
    /// Whether clients share locks.
    pub(crate) shares: bool,
    /// Number of processes that they are in at each site: those of one process share a session.
    pub(crate) processes: usize,
    /// The locks that clients want.
    pub(crate) locks: Vec<LockName>,
    /// Maximum delay of a message, in microseconds.
    pub(crate) delay: u64,
    /// Maximum time that a client holds a lock, in microseconds.
    pub(crate) hold: u64,
    /// Maximum time that a disk takes, in microseconds.
    pub(crate) disk: u64,
    /// When faults stop.
    pub(crate) calm: u64,
    /// Directions in which nothing passes even in the calm; the sites that they do not affect must go on.
    pub(crate) lasting_cuts: Vec<(usize, usize)>,
    /// The faults, in order of time.
    pub(crate) faults: Vec<(u64, ClusterFault)>,
    pub(crate) rules: RulesText,
    /// The terms of leases.
    pub(crate) terms: Terms,
    /// Whether sites are configured with different terms, none longer than those.
    pub(crate) mixed_terms: bool,
    /// Maximum length of logs; where they stay short, a voter that was away gets a snapshot.
    pub(crate) max_log_entries: usize,
    /// Maximum number of past incarnations that a view lists.
    pub(crate) max_past: usize,
    /// What the calendar clocks of hosts show at starts.
    pub(crate) calendar: Calendar,
    pub(crate) environment: Environment,
    /// Who changes the voters.
    pub(crate) voting: Voting,
    /// Limits of links; in half of the runs so small that they are reached.
    pub(crate) link_limits: LinkLimits,
    /// With which epoch each site would begin the cluster, as their calendars give it; `None` in half of the runs.
    pub(crate) first_epoch: Option<u32>,
}

impl SeedSettings {
    /// Draws everything from the seed.
    pub(crate) fn draw(seed: u64) -> Self {
        let mut draw = Rng::with_seed(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ 0x5eed);
        let machines = draw.usize(1..=9);
        let founders = if draw.bool() { machines } else { draw.usize(1..=machines) };
        let calm = draw.u64(FAULT_PHASE);
        let starts = (0..machines)
            .map(|at| if at < founders { draw.u64(..200_000) } else { draw.u64(..calm) })
            .collect();
        let drift = [0, 1_000, 50_000][draw.usize(..3)];
        let beyond_drift = draw.usize(..6) == 0;
        let fastest = if beyond_drift { drift + 1_500_000 } else { drift };
        let clocks = (0..machines)
            .map(|_| Clock::new(draw.u64(..1 << 40), [0, fastest, draw.u32(..=fastest)][draw.usize(..3)]))
            .collect();
        let locks = ["jobs", "pool", "a", "zebra"][..draw.usize(1..=4)].iter();
        let clients = draw.usize(1..=4);
        let processes = draw.usize(1..=clients);
        let mut settings = SeedSettings {
            seed,
            machines,
            founders,
            starts,
            clocks,
            beyond_drift,
            clients,
            movers: 0,
            wire_clients: 0,
            shares: false,
            processes,
            locks: locks.map(|name| name.parse().expect("a fixed name")).collect(),
            delay: [0, 500, 5_000, 40_000][draw.usize(..4)],
            hold: [1_000, 100_000, 2_500_000][draw.usize(..3)],
            disk: [0, 1_000, 20_000][draw.usize(..3)],
            calm,
            faults: Vec::new(),
            lasting_cuts: Vec::new(),
            rules: rules(&mut draw, seed, machines),
            terms: Terms {
                length: Span::from_millis(2000),
                drift: Drift::from_ppm(drift),
                margin: Span::from_millis(200),
                renew_every: Span::from_millis(400),
            },
            mixed_terms: false,
            max_log_entries: 0,
            max_past: 0,
            calendar: Calendar::Advances,
            environment: Environment::default(),
            voting: Voting::Fixed,
            link_limits: link_limits(seed),
            first_epoch: first_epoch(seed),
        };
        settings.faults = faults::draw(&mut draw, &settings);
        // With two voters or fewer nobody could decide; where a voter has lost its disk there may be two left.
        let all_vote =
            settings.faults.iter().all(|(_, fault)| !matches!(fault, ClusterFault::LostDisk { .. }));
        if founders >= 3 && all_vote && draw.usize(..5) == 0 {
            settings.lasting_cuts = lasting_cuts(&mut draw, machines);
        }
        settings.max_log_entries = if draw.bool() { draw.usize(2..=4) } else { draw.usize(2..=64) };
        settings.max_past = if draw.bool() { draw.usize(..3) } else { 9 };
        settings.calendar = if draw.bool() { Calendar::SetBack } else { Calendar::Advances };
        settings.mixed_terms = draw.bool();
        settings.surround();
        settings
    }

    /// Draws what surrounds the run and the faults of machines, from a generator of their own: all else is the same with
    /// and without them.
    fn surround(&mut self) {
        let mut draw = Rng::with_seed(self.seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ 0x5077_0dd5);
        self.environment = Environment::draw(&mut draw, self);
        if self.environment.is_mixed() {
            // Clients of older programs count on the number of permits that the rules give at any time, and not on the one with
            // which they entered. So in these runs rules change the algorithms, and not the numbers.
            let (machines, first) = (self.machines, self.rules.clone());
            for (_, fault) in &mut self.faults {
                if let ClusterFault::Rules { rules, .. } = fault {
                    *rules = rules_with_numbers(&mut draw, self.seed, machines, &first);
                }
            }
        }
        if self.environment.calendars_jump {
            self.calendar = Calendar::Jumps;
        }
        if self.environment.is_drawn {
            let more = host_faults::draw(&mut draw, self);
            self.faults.extend(more);
            self.faults.sort_by_key(|(time, _)| *time);
        }
        voter_faults::draw(self);
        access_faults::draw(self);
        movers::draw(self);
        wire_clients::draw(self);
        mirror_faults::draw(self);
        second_process::draw(self);
        sharing::draw(self);
    }

    /// Returns the machines' clocks, as the first `most` faults change them.
    pub(super) fn changed_clocks(&self, most: usize) -> Vec<Clock> {
        let changes = |machine: usize| {
            let faults = self.faults.iter().take(most);
            let changes = faults.filter_map(move |(time, fault)| Some((*time, fault.clock_change()?)));
            changes
                .filter(move |(_, (of, _))| *of == machine)
                .map(|(time, (_, change))| (Moment(time), change))
        };
        let changed =
            |(machine, clock): (usize, &Clock)| clock.changed(&changes(machine).collect::<Vec<_>>());
        self.clocks.iter().enumerate().map(changed).collect()
    }

    /// Returns whether the clocks stay within the drift that leases allow for, with the first `most` faults.
    pub(super) fn keeps_drift(&self, most: usize) -> bool {
        let drift = self.terms.drift.ppm();
        !self.beyond_drift && self.faults.iter().take(most).all(|(_, fault)| fault.keeps_drift(drift))
    }

    /// Returns the maximum time that a packet takes, in microseconds.
    pub(super) fn trip(&self) -> u64 {
        self.delay + self.environment.longest_distance()
    }

    /// Returns whether the voters may change.
    pub(super) fn changes_voters(&self) -> bool {
        let is_asked = |fault: &ClusterFault| matches!(fault, ClusterFault::Voters { .. });
        self.voting != Voting::Fixed || self.faults.iter().any(|(_, fault)| is_asked(fault))
    }

    /// Returns whether no lasting cut affects this site.
    pub(super) fn is_untouched(&self, machine: usize) -> bool {
        self.lasting_cuts.iter().all(|&(from, to)| from != machine && to != machine)
    }

    /// Returns the configuration of one site, at its `start`-th start.
    pub(super) fn config(&self, machine: usize, start: u64) -> Config {
        let sites = (0..self.founders).map(site).collect();
        let mut config = Config::new(site(machine), sites);
        config.rules = self.rules.clone();
        config.terms = self.terms;
        if self.mixed_terms {
            config.terms.length = Span::from_millis([2000, 1500, 1800][machine % 3]);
            config.terms.margin = Span::from_millis([200, 100, 300][machine % 3]);
        }
        config.link_timeouts = LinkTimeouts {
            ack_within: Span::from_millis(20),
            resend_after: Span::from_millis(300),
            unreachable_after: Span::from_millis(1200),
        };
        config.link_limits = self.link_limits;
        config.pace = Pace { heartbeat: 1, election: 5 };
        config.tick = Span::from_millis(100);
        config.max_log_entries = self.max_log_entries;
        config.max_past = self.max_past;
        config.voting = self.voting;
        // Calendars differ, so that two leaders may each propose a first view with an epoch of its own. Sites that speak an older version
        // make the leader do without.
        let skew = u32::try_from((machine as u64 + start) % 3).unwrap_or(0);
        if let Some(first) = self.first_epoch.filter(|_| !self.environment.is_mixed()) {
            config.first_epoch = Epoch::new(first + skew).expect("a small number");
        }
        config.start_stamp = self.calendar.stamp(start);
        config.table_config.local_turns = 2;
        config.table_config.message_delay = Span::from_micros(self.trip().max(1));
        // In some runs the table is full with few locks, and views are changed to make room.
        if self.seed % 8 == 3 {
            config.table_config.max_locks = self.locks.len().max(4);
        }
        config.table_config.try_within = Some(Span::from_micros(self.trip() * 4 + 1000));
        self.environment.limit(&mut config);
        config.seed = self.seed ^ (machine as u64) << 32;
        config.claim_key = Some(claim_key(self.seed, machine, start));
        config
    }
}

/// Returns the key with which the `start`-th start of a site proves what its clients hold.
fn claim_key(seed: u64, machine: usize, start: u64) -> ClaimKey {
    let mut draw = Rng::with_seed(seed ^ (machine as u64) << 48 ^ start.wrapping_mul(0x9e37_79b9_7f4a_7c15));
    ClaimKey::new(std::array::from_fn(|_| draw.u8(..)))
}

/// Draws the limits of links, from numbers of their own.
fn link_limits(seed: u64) -> LinkLimits {
    let mut draw = Rng::with_seed(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ 0x11_4b5);
    if draw.bool() {
        return LinkLimits::default();
    }
    let window = draw.usize(2..=16);
    LinkLimits {
        window,
        window_bytes: draw.usize(1..=16) * 256,
        ack_every: draw.u64(1..=window as u64 / 2),
        early_bytes: draw.usize(..8) * 256,
        ..LinkLimits::default()
    }
}

/// Draws the epoch with which a cluster begins, from numbers of their own.
fn first_epoch(seed: u64) -> Option<u32> {
    let mut draw = Rng::with_seed(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ 0xf1_0045);
    draw.bool().then(|| draw.u32(1..=1 << 22))
}

/// Draws lasting cuts: one site is cut off from some others, both ways or one way.
fn lasting_cuts(draw: &mut Rng, machines: usize) -> Vec<(usize, usize)> {
    let cut = draw.usize(..machines);
    let ways = draw.usize(..3);
    let from: Vec<usize> = (0..machines).filter(|&other| other != cut && draw.usize(..3) == 0).collect();
    let out = from.iter().filter(|_| ways != 1).map(|&other| (cut, other));
    out.chain(from.iter().filter(|_| ways != 0).map(|&other| (other, cut))).collect()
}

/// Returns the name of a site.
pub(super) fn site(machine: usize) -> SiteName {
    format!("s{machine}").parse().expect("a fixed name")
}

/// Seeds from here on draw among all algorithms. Those below keep the ones that there were when many of them were recorded, with what
/// they show; they would be other runs.
pub(super) const LATER_SEEDS: u64 = 1 << 32;

/// The number of algorithms that seeds below [`LATER_SEEDS`] draw from.
pub(super) const EARLIER_ALGORITHMS: usize = 20;

/// The algorithms that a seed draws from.
fn algorithms(seed: u64) -> &'static [&'static Info] {
    if seed < LATER_SEEDS { &ALL[..EARLIER_ALGORITHMS] } else { ALL }
}

/// Draws rules over all algorithms of the seed: for each lock one, with permits where the algorithm has them.
pub(super) fn rules(draw: &mut Rng, seed: u64, machines: usize) -> RulesText {
    let rules = ["jobs", "pool", "z*"].map(|pattern| (pattern.to_owned(), clause(draw, seed, machines)));
    RulesText { rules: rules.into_iter().collect(), default: clause(draw, seed, machines) }
}

/// Draws rules with the same numbers of permits as others.
fn rules_with_numbers(draw: &mut Rng, seed: u64, machines: usize, others: &RulesText) -> RulesText {
    let mut clause = |like: &Clause| {
        std::iter::repeat_with(|| clause(draw, seed, machines))
            .find(|clause| clause.permits == like.permits)
            .expect("it does not end")
    };
    let rules = others.rules.iter().map(|(pattern, like)| (pattern.clone(), clause(like))).collect();
    RulesText { rules, default: clause(&others.default) }
}

/// Draws an algorithm with its permits.
fn clause(draw: &mut Rng, seed: u64, machines: usize) -> Clause {
    let algorithms = algorithms(seed);
    loop {
        let info = algorithms[draw.usize(..algorithms.len())];
        let specs: Vec<&str> = info.specs().collect();
        let permits = if info.permits == Permits::One { 1 } else { draw.u32(1..=3) };
        let per_site = draw.u32(1..=permits);
        let algorithm = specs[draw.usize(..specs.len())].to_owned();
        let clause = Clause { algorithm, permits, per_site };
        // Some settings of some algorithms do not fit some numbers of sites.
        let alone = RulesText { rules: Vec::new(), default: clause.clone() };
        if Rules::new(alone).is_ok_and(|rules| rules.fit(machines).is_ok()) {
            return clause;
        }
    }
}
