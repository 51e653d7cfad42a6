//! Seeds hold, the same seed gives the same run, all occurrences are exercised, and mutants are caught.

mod directed;

use std::collections::BTreeSet;
use std::panic::catch_unwind;

use super::clock::Clock;
use super::coverage::{CoverageGroup, Occurrence};
use super::faults::{ClusterFault, Cut};
use super::mirror_faults::MirrorFault;
use super::settings::{EARLIER_ALGORITHMS, LATER_SEEDS};
use super::*;
use meshlock_cluster::mutant::{self, Mutant};

/// Number of seeds that are run here; `meshlock dst` runs as many as requested.
const SEEDS: u64 = 1000;

/// Every kind of packet.
const PACKETS: [&str; 24] = [
    "raft",
    "link ack",
    "census",
    "lock message",
    "left",
    "permits",
    "renew",
    "lease granted",
    "join",
    "too old",
    "leave",
    "set rules",
    "not leader",
    "view",
    "ping",
    "pong",
    "ask",
    "reply",
    "voters",
    "claim",
    "change voters",
    "voters changed",
    "call",
    "call answer",
];

/// Returns how often it happened.
fn seen(report: &SeedReport, what: Occurrence) -> u64 {
    let (group, name) = what.key();
    report.coverage.of(group, name)
}

/// Runs a seed that was noted before there were second processes, without them.
fn run_of_one_process_each(seed: u64, options: &RunOptions) -> Option<PropertyViolation> {
    let mut settings = SeedSettings::draw(seed);
    settings.faults.retain(|(_, fault)| !matches!(fault, ClusterFault::SecondProcess { .. }));
    World::new(settings, options).run().violation
}

/// Checks that every occurrence was seen that the simulation is meant to exercise.
fn exercises_everything(all: &Coverage) {
    // It is not meant to happen; that it can is said where it is counted.
    let occurrences = Occurrence::ALL
        .iter()
        .filter(|occurrence| **occurrence != Occurrence::BrokenByOldDisk)
        .map(|occurrence| occurrence.key());
    let faults = ClusterFault::KINDS
        .into_iter()
        .chain(ClusterFault::HOST_KINDS)
        .chain(ClusterFault::VOTER_KINDS)
        .chain(ClusterFault::ACCESS_KINDS)
        .chain(ClusterFault::MOVER_KINDS)
        .chain(MirrorFault::KINDS)
        .chain(ClusterFault::SECOND_KINDS);
    let faults = faults.map(|kind| (CoverageGroup::Fault, kind));
    let packets = PACKETS.into_iter().map(|kind| (CoverageGroup::Packet, kind));
    // Later seeds draw from all of them: below.
    let algorithms = meshlock_protocol::registry::ALL[..EARLIER_ALGORITHMS]
        .iter()
        .map(|info| (CoverageGroup::Message, info.name));
    for (group, what) in occurrences.chain(faults).chain(packets).chain(algorithms) {
        assert!(all.of(group, what) > 0, "never happened: {} {what}", group.name());
    }
    for (shape, ways) in Cut::SHAPES {
        for way in ways {
            let seen = |&(of, what, kind, _): &(CoverageGroup, &str, &str, u64)| {
                of == CoverageGroup::Partition && (what, kind) == (shape, *way)
            };
            assert!(all.iter().any(|row| seen(&row)), "no partition {shape}, {way}");
        }
    }
}

#[test]
fn a_thousand_seeds_hold_and_exercise_everything_that_can_happen() {
    let mut all = Coverage::default();
    for seed in 0..SEEDS {
        let report = run(seed, &RunOptions::default());
        if let Some(violation) = report.violation {
            panic!("{violation}\nrun it again with: meshlock dst --one {seed} --trace trace.jsonl");
        }
        all.add(&report.coverage);
    }
    exercises_everything(&all);
}

/// Seeds below keep the algorithms that they had when they were recorded.
#[test]
fn later_seeds_hold_with_the_algorithms_that_were_added_since() {
    let mut chosen = BTreeSet::new();
    for seed in LATER_SEEDS..LATER_SEEDS + 60 {
        let settings = SeedSettings::draw(seed);
        let default = std::iter::once(&settings.rules.default);
        let clauses = settings.rules.rules.iter().map(|(_, clause)| clause).chain(default);
        let names = clauses.filter_map(|clause| clause.algorithm.split(':').next()).map(str::to_owned);
        let names: BTreeSet<String> = names.collect();
        if ["neilsen-mizuno", "cao-singhal"].iter().any(|name| names.contains(*name)) {
            assert_eq!(run(seed, &RunOptions::default()).violation, None, "seed {seed}");
            chosen.extend(names);
        }
    }
    assert!(chosen.contains("neilsen-mizuno") && chosen.contains("cao-singhal"), "{chosen:?}");
}

#[test]
fn the_seed_whose_views_changed_in_circles_ends() {
    // Everyone waited for locks that were in use at other sites when the view opened, and the tables were full with them. Since then
    // other messages have changed what happens in this seed; others show the mutant `RoomAskedForAtOnce`.
    let options = RunOptions { faults: Some(1), ..RunOptions::default() };
    assert_eq!(run(7_011_995, &options).violation, None);
}

#[test]
fn a_full_site_that_asks_for_room_in_every_view_changes_views_in_circles() {
    // It takes clients of several sites that all wait for what the others' full tables have no room for.
    let broken = || run(5195, &RunOptions::default()).violation.map(|violation| violation.property);
    assert_eq!(broken(), None);
    assert_eq!(mutant::with(Mutant::RoomAskedForAtOnce, broken), Some("steps"));
}

#[test]
fn a_claim_that_was_taken_away_while_its_client_was_cut_off_counts_until_the_client_has_stopped() {
    // Two clients held a lock here. Since then other packets have changed what happens in this seed; tests of `table/claims/` catch the
    // mutant `EndedClaimNotCounted`.
    let options = RunOptions { faults: Some(7), ..RunOptions::default() };
    assert_eq!(run(90_001_855, &options).violation, None);
}

#[test]
fn a_client_does_not_count_on_a_claim_whose_answer_it_has_not_heard_and_cannot_hear_any_more() {
    // Its connection is cut while the claim is on its way; it claims elsewhere in vain, gives up, and another client gets the lock.
    assert_eq!(run(91_006_568, &RunOptions::default()).violation, None);
}

#[test]
fn a_site_that_leaves_keeps_what_its_mirror_could_not_claim() {
    // The mirror had no lease yet. It confirmed the news all the same, the site left, and another client got the lock.
    let options = RunOptions { faults: Some(14), ..RunOptions::default() };
    let broken = || run(120_022_389, &options).violation.map(|violation| violation.property);
    assert_eq!(broken(), None);
    assert_eq!(mutant::with(Mutant::LostConfirmed, broken), Some("exclusion"));
}

#[test]
fn a_leader_whose_clock_is_far_too_fast_may_leave_a_healthy_member_out_in_the_quiet_time() {
    let options = RunOptions { faults: Some(4), ..RunOptions::default() };
    assert_eq!(run(120_024_573, &options).violation, None);
    // A lease of 1.5 s is over after 0.6 s by its clock, and a renewal with its grant may take up to 1.2 s.
    let mut settings = SeedSettings::draw(120_024_573);
    let clock = &settings.clocks[1];
    let gained = clock.at(Moment(10_000_000)).since(clock.at(Moment(0)));
    assert_eq!((settings.beyond_drift, settings.trip(), gained.micros()), (true, 97_034, 25_000_000));
    assert_eq!(run(130_011_174, &RunOptions::default()).violation, None, "another such seed");
    // With right clocks nobody is left out.
    settings.clocks = vec![Clock::new(0, 0); settings.machines];
    assert_eq!(World::new(settings, &options).run().violation, None);
}

#[test]
fn a_session_is_claimed_by_one_mirror_at_a_time() {
    // A site joined and became the mirror while the former one answered for a site that was silent and died then: both claimed the lock.
    assert_eq!(run(130_012_725, &RunOptions::default()).violation, None);
}

#[test]
fn a_site_that_leaves_keeps_what_its_mirror_has_no_share_left_for() {
    // The mirror's own client had the one permit that a site may have of a semaphore. The mirror confirmed the news all the same, the site
    // left, and a third client got a permit.
    let options = RunOptions { faults: Some(12), ..RunOptions::default() };
    let broken = || run(130_008_081, &options).violation.map(|violation| violation.property);
    assert_eq!(broken(), None);
    assert_eq!(mutant::with(Mutant::PartConfirmed, broken), Some("exclusion"));
}

#[test]
fn a_release_is_told_apart_from_that_of_another_holder_with_the_same_fence() {
    // Two holders of a semaphore had equal fences, one of which was released, and the other one kept by its mirror.
    for seed in [130_005_681, 130_013_277] {
        assert_eq!(run(seed, &RunOptions::default()).violation, None);
    }
}

#[test]
fn a_mirror_promises_no_more_than_the_terms_that_were_agreed_on() {
    // The first sites are configured with a longer lease than the one of the view.
    assert_eq!(run(90_025_593, &RunOptions::default()).violation, None);
}

#[test]
fn a_site_that_was_silent_for_long_still_finds_a_way_around_a_lasting_cut() {
    // The long silence passed for its usual round trip, so that it waited for the leader's answer and looked for no detour.
    assert_eq!(run(30_001_837, &RunOptions::default()).violation, None);
}

#[test]
fn a_new_leader_grants_leases_as_soon_as_it_has_committed_something() {
    // Its first round began before that and was lost, and the next one only when that had taken too long.
    for seed in [1182, 1255, 1962] {
        assert_eq!(run(seed, &RunOptions::default()).violation, None);
    }
    let options = RunOptions::default();
    let broken = mutant::with(Mutant::RoundBeforeFirstCommit, || run_of_one_process_each(1255, &options));
    assert_eq!(broken.map(|broken| broken.property), Some("needless"));
}

#[test]
fn a_site_that_knows_an_old_view_finds_a_way_to_a_leader_of_an_earlier_incarnation() {
    let options = RunOptions { faults: Some(25), ..RunOptions::default() };
    let broken = || run_of_one_process_each(40_052_731, &options).map(|violation| violation.property);
    assert_eq!(broken(), None);
    assert_eq!(mutant::with(Mutant::OldViewBelieved, broken), Some("starvation"));
}

#[test]
fn a_new_leader_does_not_give_another_lease_to_members_of_a_view_that_it_learns_late() {
    for seed in [558, 80_000_283] {
        assert_eq!(run(seed, &RunOptions::default()).violation, None);
    }
}

#[test]
fn a_grant_does_not_depend_on_a_carrier_because_its_beat_was_the_first() {
    // A site came back from a pause and said that it hears the leader through a third site, whose beat it read first. Then the way from the
    // leader to that one was cut for good, and the grant was lost, though the leader reached the site. Since then sites say more to each
    // other, and this seed does not show the mutant `DirectWayNotTold` any more; a unit test of the detours does.
    let options = RunOptions { faults: Some(16), ..RunOptions::default() };
    assert_eq!(run(50_006_823, &options).violation, None);
}

#[test]
fn a_site_that_dies_while_it_asks_to_join_is_left_out_soon_after_the_view_that_lets_it_in() {
    assert_eq!(run(60_014_672, &RunOptions::default()).violation, None);
}

#[test]
fn a_learner_whose_vote_will_be_needed_keeps_its_disk() {
    // One voter becomes two. The second one has caught up when its disk is to be lost, and votes before the leader could know that.
    let options = RunOptions { faults: Some(8), ..RunOptions::default() };
    assert_eq!(run(70_011_280, &options).violation, None);
}

#[test]
fn every_member_learns_the_access_document_in_the_seed_in_which_nobody_told_one() {
    // Since then operators also change the document twice at once, and this seed does not show the mutant `DocumentToldOnce` any more;
    // `directed.rs` does.
    assert_eq!(run(80_000_615, &RunOptions::default()).violation, None);
}

#[test]
fn a_run_in_which_not_every_client_was_served_does_not_say_how_long_that_took() {
    // A voter came back with an old copy of its disk, so that nobody promises anything.
    let report = run(50_000_811, &RunOptions::default());
    assert!(report.violation.is_none() && seen(&report, Occurrence::BrokenByOldDisk) > 0);
    assert_eq!(report.served_micros, None);
}

#[test]
fn the_same_seed_gives_the_same_events_twice_and_another_one_others() {
    let mut hashes = std::collections::BTreeSet::new();
    for seed in 0..50 {
        let (first, second) = (run(seed, &RunOptions::default()), run(seed, &RunOptions::default()));
        assert_eq!((first.hash, first.events), (second.hash, second.events), "seed {seed}");
        hashes.insert(first.hash);
    }
    assert_eq!(hashes.len(), 50);
}

#[test]
fn writing_a_run_down_does_not_change_it() {
    let traced = run(3, &RunOptions { trace: true, ..RunOptions::default() });
    assert_eq!(traced.hash, run(3, &RunOptions::default()).hash);
    for line in &traced.trace {
        let line: serde_json::Value = serde_json::from_str(line).unwrap();
        assert!(line["time"].is_number() && line["kind"].is_string(), "{line}");
    }
}

/// Which mutant breaks which property, the table in [`properties`], and a seed in which it did: if it does not any more, because what a seed
/// draws has changed, one of the following does.
const BREAKS: &[(Mutant, &str, u64)] = &[
    (Mutant::CensusSkipped, "exclusion", 38),
    (Mutant::CensusSkipped, "views", 0),
    (Mutant::GrantWithoutLease, "exclusion", 0),
    (Mutant::LapseKeepsLocks, "exclusion", 19),
    (Mutant::BrokenIsFreeAtOnce, "exclusion", 10),
    (Mutant::ReservedInUse, "exclusion", 14),
    (Mutant::FreedWhileInUse, "exclusion", 150),
    (Mutant::CensusWithoutNumbers, "exclusion", 3),
    (Mutant::HolderElsewhereForgotten, "exclusion", 2),
    (Mutant::OldNumbersForgotten, "exclusion", 7),
    (Mutant::OlderMemberMisled, "sound", 35),
    (Mutant::OtherClusterAccepted, "agreement", 29),
    (Mutant::FenceNotCarried, "fences", 1),
    (Mutant::FenceStuck, "fences", 1),
    (Mutant::FenceStuck, "updates", 173),
    (Mutant::LeaseFromReceipt, "leases", 38),
    (Mutant::ExclusionOneTickEarly, "leases", 4),
    (Mutant::NewLeaderDoesNotWait, "leases", 0),
    (Mutant::GrantUnconfirmed, "leases", 10),
    (Mutant::RoundsForgotten, "leases", 10),
    (Mutant::RestartedVoterRemembers, "leases", 13),
    (Mutant::ElectionRestartsLeases, "one lease", 47),
    (Mutant::ReconnectDropsOne, "starvation", 88),
    (Mutant::NoDetours, "starvation", 154),
    (Mutant::LeftUnnoticed, "starvation", 350),
    (Mutant::GoneClientKeepsLocks, "departed", 3),
    (Mutant::OutageIsContention, "contention", 0),
    (Mutant::OldEpochAccepted, "sound", 0),
    (Mutant::SendBeforePersist, "sound", 47),
    (Mutant::OwnTerms, "leases", 1032),
    (Mutant::LostDiskVotes, "voting", 2),
    (Mutant::IdOfAnotherDisk, "voting", 31),
    (Mutant::StampIgnored, "sound", 2),
    (Mutant::PastForgotten, "sound", 72),
    (Mutant::RenewalRevivesLost, "sound", 10),
    (Mutant::WaiterNotNoted, "sound", 0),
    (Mutant::DrainedUnnoticed, "sound", 12),
    (Mutant::AckDoesNotSendOn, "starvation", 6),
    (Mutant::VoidDropsSent, "sound", 3),
    (Mutant::HeldForEver, "starvation", 7),
    (Mutant::AdmissionIgnored, "admission", 803),
    (Mutant::AnyBaseAccepted, "admission", 9),
    (Mutant::JoinerNotForgotten, "one lease", 10),
    (Mutant::NewcomerHasALease, "one lease", 353),
    (Mutant::ClaimPromisedTooLong, "exclusion", 91),
    (Mutant::StandingClaimForgotten, "exclusion", 957),
    (Mutant::AcknowledgedUnmirrored, "releases", 957),
    (Mutant::GoesOnAsAnother, "sound", 1397),
    (Mutant::ClaimOnDeparted, "claims", 132),
    (Mutant::ClaimKeptInConflict, "exclusion", 778),
    (Mutant::ClaimNotInCensus, "exclusion", 735),
    (Mutant::ClaimCountedEarly, "claims", 442),
    (Mutant::ProofNotChecked, "claims", 2),
    (Mutant::NoResumeWindow, "exclusion", 91),
    (Mutant::LostProofForgotten, "exclusion", 306),
    (Mutant::FrozenReleases, "exclusion", 117),
    (Mutant::LeavesWithClaims, "exclusion", 416),
    (Mutant::RoomAskedForEver, "quiet", 83),
    (Mutant::LostConfirmed, "exclusion", 120_022_389),
];

/// Mutants with tests of their own, because it takes a certain seed, a certain schedule, certain reports or a site that lies to show
/// them: above, in `directed.rs`, at the property `needless`, in `tests/scenarios/backlog.rs`, and among the unit tests of the leader, its autopilot, the voters,
/// the links, the detours, the forwarded calls, the claims, the modes, the pages of locks, their changes and deadlocks; and most of those of mirrors, in `crates/mirror` and `crates/service`.
const CAUGHT_ELSEWHERE: &[Mutant] = &[
    Mutant::ReaderPassesExclusive,
    Mutant::ReaderPassesUpgrade,
    Mutant::JoinUnasked,
    Mutant::SharedBesideSemaphore,
    Mutant::LeftWithFirst,
    Mutant::UpgradedUnasked,
    Mutant::UpgradeKeepsFence,
    Mutant::DowngradeForgotten,
    Mutant::ModesNotInCensus,
    Mutant::ModesNotCompared,
    Mutant::ReadersCountApart,
    Mutant::UrgentPassForEver,
    Mutant::LeavesBeforeCutClient,
    Mutant::StrangersCallsTaken,
    Mutant::PredecessorsCallsTaken,
    Mutant::RoomAskedForAtOnce,
    Mutant::UnreachableByAge,
    Mutant::NobodyHeldBack,
    Mutant::AnyoneCarries,
    Mutant::GrantedByEarlierRound,
    Mutant::TooOldUnconfirmed,
    Mutant::FormerLeaderBelieved,
    Mutant::OldDiskTrusted,
    Mutant::SlowDiskKeepsLeading,
    Mutant::FormerLeaderAsksItself,
    Mutant::RoundBeforeFirstCommit,
    Mutant::RenewalNotRepeated,
    Mutant::NoHurryAtTheEnd,
    Mutant::ReportedMemberRefused,
    Mutant::DeadMemberCounts,
    Mutant::LastingReportIgnored,
    Mutant::RivalTakesNextIncarnation,
    Mutant::RestartTakenForRival,
    Mutant::OldViewBelieved,
    Mutant::OldVotersNotAsked,
    Mutant::MinorityPromoted,
    Mutant::LaggingVoterCounts,
    Mutant::FoundedOpen,
    Mutant::RestoreForgets,
    Mutant::RecoveredIsBarred,
    Mutant::RemovedIsRenewed,
    Mutant::TornBatchKept,
    Mutant::DocumentToldOnce,
    Mutant::RevokedIsCarried,
    Mutant::TokenStays,
    Mutant::OlderMemberNotAsked,
    Mutant::DirectWayNotTold,
    Mutant::StrangersRoundIgnored,
    Mutant::EndedClaimNotCounted,
    Mutant::CutClaimDropped,
    Mutant::ClaimLossHeard,
    Mutant::SettledUnheard,
    Mutant::OneRecordBinds,
    Mutant::KnownWhenSent,
    Mutant::LostAnswerForgotten,
    Mutant::PartCountsAsWhole,
    Mutant::WindowNotAwaited,
    Mutant::FormerMirrorForgotten,
    Mutant::FormerUnaware,
    Mutant::ToldBesideFormer,
    Mutant::ReplacedStandsIn,
    Mutant::DroppedConfirmed,
    Mutant::LeavesToAnother,
    Mutant::PartConfirmed,
    Mutant::MovedDropped,
    Mutant::MovedUnconfirmed,
    Mutant::MovedAsItWas,
    Mutant::PromisedFromAnswer,
    Mutant::PromisedWithoutMargin,
    Mutant::ReleaseOverlooked,
    Mutant::FirstNewsIsPart,
    Mutant::AnswersBesideItsSite,
    Mutant::PromiseTakenAway,
    Mutant::RevokedClientCopied,
    Mutant::GivenBeforeCleared,
    Mutant::DeadlockUnconfirmed,
    Mutant::OneHolderIsEnough,
    Mutant::OldestRefused,
    Mutant::PageBeyondKnown,
    Mutant::InvisibleListed,
    Mutant::MissedChangesNotTold,
];

/// Raft's own checks end the process of a voter whose disk contradicts itself.
const PANIC: &str = "panic";

/// Number of seeds in which a mutant is looked for.
const TRIED: u64 = 2000;

/// Returns the first seed from `from` on in which the mutant breaks this property.
fn caught(mutant: Mutant, property: &str, from: u64) -> Option<u64> {
    (from..from + TRIED).find(|seed| {
        let broken = catch_unwind(|| mutant::with(mutant, || run(*seed, &RunOptions::default()).violation));
        broken.map_or(property == PANIC, |broken| broken.is_some_and(|broken| broken.property == property))
    })
}

#[test]
fn every_mutant_is_caught_by_the_property_that_it_breaks() {
    for &(mutant, property, from) in BREAKS {
        let seed = caught(mutant, property, from);
        assert!(seed.is_some(), "{mutant:?} never broke {property}");
        if seed != Some(from) {
            eprintln!(
                "{mutant:?} breaks {property} in seed {seed:?} instead of {from}: the list can be renewed"
            );
        }
    }
    for mutant in Mutant::ALL.iter().filter(|mutant| !CAUGHT_ELSEWHERE.contains(mutant)) {
        assert!(BREAKS.iter().any(|(listed, ..)| listed == mutant), "{mutant:?} breaks nothing");
    }
}

#[test]
fn a_failure_is_shrunk_to_the_first_faults_that_still_cause_it() {
    let seed = caught(Mutant::LapseKeepsLocks, "exclusion", 19).unwrap();
    let fails = |faults| {
        let options = RunOptions { faults: Some(faults), ..RunOptions::default() };
        mutant::with(Mutant::LapseKeepsLocks, || run(seed, &options).violation)
    };
    let (fewest, violation) = fewest_faults(seed, fails).unwrap();
    assert_eq!(fails(fewest), Some(violation));
    for fewer in 0..fewest {
        assert_eq!(fails(fewer), None, "{fewer} faults were enough");
    }
}
