//! A site dies, at many points of its renewals, and the leader changes, at many points after it.

use crate::SeedReport;
use crate::clock::Clock;
use crate::faults::{ClusterFault, CrashPoint};
use crate::properties::needless::tests::{Load, cluster, phases, run};
use meshlock_cluster::mutant::{self, Mutant};

const SECOND: u64 = 1_000_000;

fn crash(machine: usize) -> ClusterFault {
    ClusterFault::Crash { machine, when: CrashPoint::AfterOutputs(0), down: 11 * SECOND }
}

/// Runs five sites with the default terms, of which the first one leads, under these faults.
fn five(at: u64, faults: Vec<(u64, ClusterFault)>) -> SeedReport {
    let mut settings = cluster(at, Load::Idle, faults);
    (settings.machines, settings.founders) = (5, 5);
    settings.starts = (0..5).map(|machine| machine * 10_000).collect();
    settings.clocks = (0..5).map(|machine| Clock::new(1 << 30, machine * 250)).collect();
    settings.calm = 24 * SECOND;
    let report = run(settings);
    assert!(
        report.violation.as_ref().is_none_or(|broken| broken.property == "one lease"),
        "{:?}",
        report.violation
    );
    report
}

/// Returns the shortest and the longest time until a dead member was left out, in milliseconds, and in how many runs it took longer than
/// one lease.
fn times(faults: impl Fn(u64) -> Vec<(u64, ClusterFault)>) -> (u64, u64, usize) {
    times_at(phases(), faults)
}

fn times_at(
    phases: impl Iterator<Item = u64>,
    faults: impl Fn(u64) -> Vec<(u64, ClusterFault)>,
) -> (u64, u64, usize) {
    let reports: Vec<SeedReport> = phases.map(|at| five(at, faults(at))).collect();
    let times = || reports.iter().map(|report| report.left_out_micros / 1000);
    let late = reports.iter().filter(|report| report.violation.is_some()).count();
    (times().min().unwrap(), times().max().unwrap(), late)
}

fn leader_dies(at: u64) -> Vec<(u64, ClusterFault)> {
    vec![(at, crash(0))]
}

fn another_dies(at: u64) -> Vec<(u64, ClusterFault)> {
    vec![(at, crash(4))]
}

/// A member dies, and `later` the leader is stopped for so long that another one is elected.
fn another_dies_and_the_leader_changes(later: u64) -> impl Fn(u64) -> Vec<(u64, ClusterFault)> {
    move |at| vec![(at, crash(4)), (at + later, ClusterFault::Pause { machine: 0, length: 1_500_000 })]
}

#[test]
fn whoever_dies_is_left_out_one_lease_later_also_if_it_led() {
    // A lease of 5 s, from the last renewal, and 0.4 s to agree on the view.
    for faults in [leader_dies, another_dies] {
        let (_, longest, late) = times(faults);
        assert!(longest <= 5_400 && late == 0, "{longest} ms");
    }
    let (_, longest, late) = mutant::with(Mutant::ElectionRestartsLeases, || times(leader_dies));
    assert!(longest > 5_400 && late > 0, "{longest} ms");
}

#[test]
fn a_leader_that_is_elected_after_a_member_has_died_does_not_wait_for_a_lease_again() {
    // An election, two renewals, and a view.
    let most = |later: u64| 5_400.max(later / 1000 + 1_200 + 2_000 + 400);
    for later in [500_000, 2_000_000, 3_500_000] {
        let (_, longest, late) = times(another_dies_and_the_leader_changes(later));
        assert!(longest <= most(later) && late == 0, "{longest} ms, elected after {later} µs");
        let changes = another_dies_and_the_leader_changes(later);
        // A few points of time show that the mistake would have been seen at any of them.
        let (shortest, ..) =
            mutant::with(Mutant::ElectionRestartsLeases, || times_at(phases().step_by(6), changes));
        assert!(shortest > most(later) - 500, "{shortest} ms, elected after {later} µs");
    }
}
