//! A site is stopped or cut off for 60 % of a lease, at many points of its renewals: nobody loses anything.

use crate::clock::Clock;
use crate::coverage::{Coverage, CoverageGroup, Occurrence};
use crate::faults::{ClusterFault, CrashPoint, Cut};
use crate::settings::SeedSettings;
use crate::world::World;
use crate::{RunOptions, SeedReport};
use meshlock_cluster::lease::Terms;
use meshlock_cluster::mutant::{self, Mutant};
use meshlock_cluster::rules::{Clause, RulesText};

/// 60 % of the default lease, in microseconds.
const LENGTH: u64 = 3_000_000;

/// Almost lease − margin − one renewal by the default terms, in microseconds. What remains are 50 ms: twice the time until the next attempt.
const MAX_PAUSE: u64 = 3_450_000;

/// What the clients do.
#[derive(Clone, Copy, Debug)]
pub(in crate::properties) enum Load {
    /// They hold a lock for the whole run.
    Idle,
    /// They want the same few locks all the time.
    Busy,
}

/// Returns a cluster of three sites in a local network with the default terms, to which these faults happen.
pub(in crate::properties) fn cluster(
    seed: u64,
    load: Load,
    faults: Vec<(u64, ClusterFault)>,
) -> SeedSettings {
    let machines = 3;
    let drawn = SeedSettings::draw(seed);
    let (clients, hold) = match load {
        Load::Idle => (1, 60_000_000),
        Load::Busy => (4, 20_000),
    };
    let default = Clause::exclusive("naimi-trehel");
    SeedSettings {
        machines,
        founders: machines,
        starts: vec![0, 10_000, 20_000],
        clocks: [0, 500, 1_000].map(|fast| Clock::new(1 << 30, fast)).to_vec(),
        beyond_drift: false,
        clients,
        processes: clients,
        movers: 0,
        locks: ["a", "b", "c"].map(|lock| lock.parse().unwrap()).to_vec(),
        delay: 500,
        hold,
        disk: 1_000,
        calm: 18_000_000,
        lasting_cuts: Vec::new(),
        faults,
        rules: RulesText { rules: Vec::new(), default },
        terms: Terms::default(),
        mixed_terms: false,
        max_log_entries: 64,
        max_past: 9,
        calendar: crate::environment::Calendar::Advances,
        environment: crate::environment::Environment::default(),
        ..drawn
    }
}

/// Returns the points of time at which something happens to a site: a renewal's interval and more, in steps that no timer has.
pub(in crate::properties) fn phases() -> impl Iterator<Item = u64> {
    (0..24).map(|at| 8_000_000 + at * 53_000)
}

pub(in crate::properties) fn run(settings: SeedSettings) -> SeedReport {
    World::new(settings, &RunOptions::default()).run()
}

/// What happened in the runs of one test.
struct Tally {
    runs: u64,
    /// Runs in which somebody lost something.
    lost: usize,
    /// The most clients in one run that were told of a loss.
    most_told: u64,
    /// Runs in which the property did not hold.
    violations: usize,
    all: Coverage,
}

/// Stops or cuts off each site at many points of time.
fn tally(load: Load, fault: impl Fn(usize) -> ClusterFault) -> Tally {
    tally_of(0..3, &phases().collect::<Vec<_>>(), load, fault)
}

/// Stops or cuts off some sites at these points of time.
fn tally_of(
    machines: std::ops::Range<usize>,
    phases: &[u64],
    load: Load,
    fault: impl Fn(usize) -> ClusterFault,
) -> Tally {
    let mut tally = Tally { runs: 0, lost: 0, most_told: 0, violations: 0, all: Coverage::default() };
    for machine in machines {
        for &at in phases {
            let report = run(cluster(at, load, vec![(at, fault(machine))]));
            let told = report.coverage.of(CoverageGroup::Client, Occurrence::Lost.key().1);
            let violation = report.violation;
            assert!(violation.as_ref().is_none_or(|broken| broken.property == "needless"), "{violation:?}");
            tally.lost += usize::from(told > 0);
            tally.most_told = tally.most_told.max(told);
            tally.violations += usize::from(violation.is_some());
            tally.runs += 1;
            tally.all.add(&report.coverage);
        }
    }
    tally
}

/// Whether a deliberate mistake makes somebody lose something in one of these runs; the first one is enough.
fn shows(
    mutant: Mutant,
    machines: std::ops::Range<usize>,
    phases: &[u64],
    fault: impl Fn(usize) -> ClusterFault,
) -> bool {
    let mut runs = machines.flat_map(|machine| phases.iter().map(move |at| (machine, *at)));
    mutant::with(mutant, || {
        runs.any(|(machine, at)| tally_of(machine..machine + 1, &[at], Load::Idle, &fault).lost > 0)
    })
}

impl Tally {
    fn seen(&self, what: Occurrence) -> u64 {
        let (group, name) = what.key();
        self.all.of(group, name)
    }
}

fn pause(length: u64) -> impl Fn(usize) -> ClusterFault {
    move |machine| ClusterFault::Pause { machine, length }
}

fn cut(length: u64) -> impl Fn(usize) -> ClusterFault {
    move |machine| {
        let others = (0..3).filter(|other| *other != machine);
        let blocked = others.flat_map(|other| [(machine, other), (other, machine)]).collect();
        let cut = Cut { shape: "one site alone", ways: "both ways", blocked };
        ClusterFault::Partition { cut, holds: false, length }
    }
}

#[test]
fn of_two_members_that_a_third_one_reaches_neither_is_left_out() {
    let between = |seed: u64| {
        let cut = Cut { shape: "one pair", ways: "both ways", blocked: vec![(1, 2), (2, 1)] };
        let partition = ClusterFault::Partition { cut, holds: false, length: 20_000_000 };
        let settings = cluster(seed, Load::Busy, vec![(15_000_000, partition)]);
        run(SeedSettings { calm: 40_000_000, ..settings }).violation
    };
    for seed in 0..8 {
        assert_eq!(between(seed), None);
    }
    // Where one of the two leads, the other one goes because the leader cannot reach it.
    let left_out = mutant::with(Mutant::NoDetours, || (0..8).find_map(between)).unwrap();
    assert!(left_out.property == "needless" && left_out.to_string().contains("leaves out s"), "{left_out}");
}

#[test]
fn a_site_that_is_stopped_for_60_percent_of_a_lease_loses_nothing_if_it_is_idle() {
    let tally = tally(Load::Idle, pause(LENGTH));
    assert_eq!((tally.lost, tally.violations), (0, 0), "of {}", tally.runs);
    assert!(2 * tally.seen(Occurrence::PauseSurvived) >= tally.runs);
}

#[test]
fn a_site_that_is_stopped_for_60_percent_of_a_lease_loses_nothing_if_it_is_busy() {
    let tally = tally(Load::Busy, pause(LENGTH));
    assert_eq!((tally.lost, tally.violations), (0, 0), "of {}", tally.runs);
    assert!(2 * tally.seen(Occurrence::PauseSurvived) >= tally.runs);
}

#[test]
fn a_site_that_is_stopped_for_almost_as_long_as_its_lease_allows_loses_nothing_and_asks_the_new_leader_for_that()
 {
    // What it received while it was stopped says who leads, so that it asks the right one at once.
    let phases: Vec<u64> = (0..94).map(|at| 8_000_000 + at * 11_000).collect();
    let longest = pause(MAX_PAUSE + 40_000);
    assert_eq!(tally_of(0..1, &phases, Load::Idle, &longest).lost, 0);
    assert!(shows(Mutant::FormerLeaderAsksItself, 0..1, &phases, &longest));
}

#[test]
fn a_site_that_is_cut_off_for_60_percent_of_a_lease_loses_nothing() {
    for load in [Load::Idle, Load::Busy] {
        let tally = tally(load, cut(LENGTH));
        assert_eq!((tally.lost, tally.violations), (0, 0), "of {}, {load:?}", tally.runs);
        assert!(tally.seen(Occurrence::CutSurvived) > 0, "{load:?}");
    }
}

#[test]
fn a_site_that_is_cut_off_for_almost_as_long_as_its_lease_allows_loses_nothing_because_it_asks_often() {
    assert_eq!(MAX_PAUSE + 50_000, Terms::default().longest_pause().micros());
    for (length, loads) in [(3_300_000, &[Load::Idle][..]), (MAX_PAUSE, &[Load::Idle, Load::Busy])] {
        for &load in loads {
            let tally = tally(load, cut(length));
            assert_eq!(
                (tally.lost, tally.violations),
                (0, 0),
                "of {}, {load:?}, cut of {length} µs",
                tally.runs
            );
        }
    }
    for wrong in [Mutant::RenewalNotRepeated, Mutant::NoHurryAtTheEnd] {
        let phases: Vec<u64> = phases().collect();
        assert!(shows(wrong, 0..3, &phases, cut(MAX_PAUSE)), "nothing shows {wrong:?}");
    }
}

#[test]
fn nobody_else_loses_anything_while_a_site_is_stopped_for_longer_than_its_lease() {
    let tally = tally(Load::Idle, pause(9_000_000));
    assert_eq!((tally.most_told, tally.violations), (1, 0), "the only client of the stopped site");
}

#[test]
fn nobody_is_told_of_a_loss_if_another_site_crashes() {
    let crash = |machine| ClusterFault::Crash { machine, when: CrashPoint::AfterOutputs(0), down: 9_000_000 };
    let tally = tally(Load::Idle, crash);
    assert_eq!((tally.lost, tally.violations), (0, 0), "of {}", tally.runs);
    assert_eq!(tally.seen(Occurrence::Crashed), tally.runs);
}

#[test]
fn of_two_sites_that_cannot_reach_each_other_one_goes_also_if_their_clocks_are_much_slower_than_the_leaders()
{
    // The leader's clock is two and a half times as fast, so that it finds renewals late.
    let options = RunOptions { faults: Some(1), ..RunOptions::default() };
    assert_eq!(crate::run(3_002_743, &options).violation, None);
}

#[test]
fn a_leader_that_has_been_restarted_does_not_lead_any_more() {
    assert_eq!(crate::run(3_002_986, &RunOptions::default()).violation, None);
}
