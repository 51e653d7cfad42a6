//! Schedules that are written down, for what random ones hardly ever do.

use fastrand::Rng;

use super::*;
use crate::environment::{Calendar, Environment};
use crate::faults::CrashPoint;
use crate::settings::rules;
use meshlock_cluster::node::Voting;
use meshlock_cluster::rules::{Clause, RulesText};
use meshlock_cluster::time::{Drift, Span};

const SECOND: u64 = 1_000_000;

/// Returns the settings of a cluster in which nothing goes wrong: the first site leads, because it is the first to ask
/// for votes.
fn calm_cluster(machines: usize) -> SeedSettings {
    let mut settings = SeedSettings::draw(0);
    settings.seed = 0;
    (settings.machines, settings.founders) = (machines, machines);
    settings.starts = vec![0; machines];
    settings.clocks = vec![Clock::new(0, 0); machines];
    settings.beyond_drift = false;
    (settings.clients, settings.processes, settings.movers) = (1, 1, 0);
    settings.locks.truncate(1);
    (settings.delay, settings.hold, settings.disk) = (500, 1_000, 100);
    settings.calm = 12 * SECOND;
    settings.faults = Vec::new();
    settings.lasting_cuts = Vec::new();
    settings.rules = RulesText { rules: Vec::new(), default: Clause::exclusive("naimi-trehel") };
    settings.terms.drift = Drift::from_ppm(0);
    settings.mixed_terms = false;
    (settings.max_log_entries, settings.max_past) = (64, 9);
    settings.calendar = Calendar::Advances;
    settings.environment = Environment::default();
    settings.voting = Voting::Fixed;
    settings
}

/// Runs a cluster with these faults.
fn run_with(settings: &SeedSettings, faults: Vec<(u64, ClusterFault)>) -> SeedReport {
    let mut settings = settings.clone();
    settings.faults = faults;
    settings.faults.sort_by_key(|(time, _)| *time);
    World::new(settings, &RunOptions::default()).run()
}

/// Returns the property that is broken, if one is.
fn broken(report: &SeedReport) -> Option<&'static str> {
    report.violation.as_ref().map(|violation| violation.property)
}

/// Returns a partition that drops what these ways carry.
fn cut(blocked: Vec<(usize, usize)>, length: u64) -> ClusterFault {
    let cut = Cut { shape: "any links", ways: "one way", blocked };
    ClusterFault::Partition { cut, holds: false, length }
}

/// A voter is away while the others cut their logs, gets a snapshot when it is back, and crashes about then while it writes something down.
fn crash_at_snapshot(step: u64) -> Vec<(u64, ClusterFault)> {
    let crash = |when, down| ClusterFault::Crash { machine: 2, when, down };
    let rules = |seed| ClusterFault::Rules { machine: 0, rules: rules(&mut Rng::with_seed(seed), seed, 3) };
    let changes = (0..6).map(|at| (3_500_000 + at * 400_000, rules(at)));
    let away = (3 * SECOND, crash(CrashPoint::AfterOutputs(0), 3 * SECOND));
    let again = (6 * SECOND + step * 10_000, crash(CrashPoint::AtNextWrite, 50_000));
    changes.chain([away, again]).collect()
}

#[test]
fn a_disk_that_keeps_a_part_of_a_batch_contradicts_itself() {
    let cluster = |seed| {
        let cluster = calm_cluster(3);
        SeedSettings { seed, max_log_entries: 2, ..cluster }
    };
    let mut torn = 0;
    for step in 0..40 {
        let report = run_with(&cluster(step), crash_at_snapshot(step));
        assert_eq!(report.violation, None, "step {step}");
        assert!(seen(&report, Occurrence::SnapshotInstalled) > 0, "step {step}");
        torn += seen(&report, Occurrence::BatchTorn);
    }
    assert!(torn > 0);
    let run =
        |step| mutant::with(Mutant::TornBatchKept, || run_with(&cluster(step), crash_at_snapshot(step)));
    assert!((0..40).any(|step| catch_unwind(|| run(step)).is_err()), "no torn batch ends a process");
}

/// A leader receives the others' answers later and later, at last by `late`, and is cut off from them at `time`: when they
/// elect another leader, confirmations of the first one are still on their way.
fn late_confirmations(late: u64, time: u64) -> Vec<(u64, ClusterFault)> {
    let slow = |from, more| ClusterFault::SlowLink { from, to: 0, more, length: 9 * SECOND };
    // Not at once: a leader that hears nothing for too long steps down.
    let steps = (1..=3).map(|step| ((2 + step) * SECOND, late * step / 3));
    let slower = steps.flat_map(|(at, more)| [(at, slow(1, more)), (at, slow(2, more))]);
    slower.chain([(time, cut(vec![(0, 1), (0, 2)], 9 * SECOND))]).collect()
}

#[test]
fn a_renewal_is_not_granted_by_a_round_that_began_before_it_came() {
    let cluster = calm_cluster(3);
    let schedules = || {
        let times = (0..40).map(|step| 7 * SECOND + step * 50_000);
        times.flat_map(|time| [600_000, 750_000].map(|late| late_confirmations(late, time)))
    };
    for faults in schedules() {
        let report = run_with(&cluster, faults.clone());
        assert_eq!(report.violation, None, "{faults:?}");
    }
    let mutated = |faults| mutant::with(Mutant::GrantedByEarlierRound, || run_with(&cluster, faults));
    assert!(schedules().any(|faults| broken(&mutated(faults)) == Some("leases")), "no cut shows it");
}

#[test]
fn a_leader_whose_disk_is_stuck_makes_room_for_another() {
    let cluster = calm_cluster(3);
    // While the leader's disk is stuck a site crashes: without a view that leaves it out nobody is served.
    let crash = ClusterFault::Crash { machine: 2, when: CrashPoint::AfterOutputs(0), down: SECOND };
    let faults = vec![(4 * SECOND, ClusterFault::StuckForGood { machine: 0 }), (5 * SECOND, crash)];
    let report = run_with(&cluster, faults.clone());
    assert_eq!(report.violation, None);
    assert!(seen(&report, Occurrence::LeaderMadeRoom) > 0);
    let report = mutant::with(Mutant::SlowDiskKeepsLeading, || run_with(&cluster, faults));
    assert_eq!(broken(&report), Some("starvation"));
}

#[test]
fn a_member_learns_an_access_document_though_the_leader_that_proposed_it_could_tell_nobody() {
    let mut cluster = calm_cluster(4);
    cluster.founders = 3;
    // The leader's disk is stuck, so that the other voters know that the document was agreed on, and the leader does not. The one that
    // leads after it has known it before.
    let stuck = ClusterFault::StuckDisk { machine: 0, length: 6 * SECOND };
    let change = ClusterFault::Access { machine: 1, number: 0 };
    let faults = vec![(4 * SECOND, stuck), (4 * SECOND + 1, change)];
    let report = run_with(&cluster, faults.clone());
    assert_eq!(report.violation, None);
    assert!(seen(&report, Occurrence::AccessLearnt) >= 4 && seen(&report, Occurrence::LeaderMadeRoom) > 0);
    let report = mutant::with(Mutant::DocumentToldOnce, || run_with(&cluster, faults));
    assert_eq!(broken(&report), Some("admission"));
}

/// A site that does not vote loses its disk twice, and its calendar is set back each time. It takes part again in between,
/// which the first site, a leader until then, does not know: it is paused and cut off from the other voters. Then the
/// site asks this former leader first, at `resumes`, because nobody else hears it.
fn twice_without_a_disk(resumes: u64) -> Vec<(u64, ClusterFault)> {
    let lost = || ClusterFault::LostDisk { machine: 3, down: 50_000 };
    let again = 16 * SECOND;
    vec![
        (3 * SECOND, lost()),
        (3_300_000, ClusterFault::Pause { machine: 0, length: resumes - 3_300_000 }),
        (3_300_000, cut(vec![(0, 1), (0, 2), (1, 0), (2, 0)], 30 * SECOND)),
        (again, lost()),
        (again, cut(vec![(3, 1), (1, 3), (3, 2), (2, 3)], 1_600_000)),
    ]
}

#[test]
fn a_site_without_its_disk_does_not_take_the_word_of_a_former_leader_for_its_incarnation() {
    let mut cluster = calm_cluster(4);
    cluster.founders = 3;
    cluster.calendar = Calendar::SetBack;
    cluster.terms.length = Span::from_millis(6_000);
    cluster.calm = 30 * SECOND;
    let resumes = |step: u64| 17 * SECOND + step * 50_000;
    for step in 0..20 {
        let report = run_with(&cluster, twice_without_a_disk(resumes(step)));
        assert_eq!(report.violation, None, "resumed at {} µs", resumes(step));
    }
    for wrong in [Mutant::TooOldUnconfirmed, Mutant::FormerLeaderBelieved] {
        let run = |step| mutant::with(wrong, || run_with(&cluster, twice_without_a_disk(resumes(step))));
        assert!((0..20).any(|step| broken(&run(step)) == Some("sound")), "nothing shows {wrong:?}");
    }
}

#[test]
fn an_old_disk_is_noticed_while_the_leader_is_the_one_that_knew_it() {
    let cluster = calm_cluster(3);
    // Views that the copy does not have: a site crashes and comes back.
    let crash = ClusterFault::Crash { machine: 2, when: CrashPoint::AfterOutputs(0), down: 100_000 };
    let old = ClusterFault::OldDisk { machine: 1, copied: Moment(1_500_000), down: 100_000 };
    let report = run_with(&cluster, vec![(3 * SECOND, crash), (8 * SECOND, old)]);
    assert_eq!(report.violation, None);
    assert!(seen(&report, Occurrence::OldDiskOfVoter) > 0 && seen(&report, Occurrence::DiskIsOld) > 0);
    assert_eq!(seen(&report, Occurrence::BrokenByOldDisk), 0, "the leader gives it nothing to vote on");
}

#[test]
fn a_site_that_does_not_vote_may_come_back_with_an_old_disk() {
    let mut cluster = calm_cluster(4);
    cluster.founders = 3;
    cluster.calm = 20 * SECOND;
    let away = cut((0..3).flat_map(|other| [(3, other), (other, 3)]).collect(), 4 * SECOND);
    for calendar in [Calendar::Advances, Calendar::SetBack, Calendar::Jumps] {
        cluster.calendar = calendar;
        // It is left out and comes back in another incarnation, which the copy does not know.
        let old = ClusterFault::OldDisk { machine: 3, copied: Moment(3 * SECOND), down: 50_000 };
        let faults = vec![(3_100_000, away.clone()), (12 * SECOND, old)];
        let report = run_with(&cluster, faults.clone());
        assert!(seen(&report, Occurrence::OldDiskOfMember) > 0);
        assert_eq!(report.violation, None, "{calendar:?}");
        if calendar == Calendar::SetBack {
            let report = mutant::with(Mutant::OldDiskTrusted, || run_with(&cluster, faults));
            assert_eq!(broken(&report), Some("sound"));
        }
    }
}
