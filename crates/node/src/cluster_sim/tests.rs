//! Seeds hold, the same seed is the same run, everything rare is exercised, and mutants are caught.

use super::*;
use crate::mutant::Mutant;

/// How many seeds each of the four tests below runs; `meshlock dst` runs as many as one likes.
const A_QUARTER: u64 = 500;

fn hold(quarter: u64) -> Coverage {
    let mut all = Coverage::default();
    for seed in quarter * A_QUARTER..(quarter + 1) * A_QUARTER {
        let report = run(seed, &Options::default());
        if let Some(violation) = report.violation {
            panic!("{violation}\nrun it again with: meshlock dst --one {seed} --trace trace.jsonl");
        }
        all.add(&report.coverage);
    }
    all
}

#[test]
fn the_first_quarter_of_seeds_holds_and_exercises_everything_rare() {
    let all = hold(0);
    let kinds = [
        "crash",
        "pause",
        "connection lost",
        "partition",
        "client crash",
        "leave",
        "rules changed",
        "lock taken away",
        "slow disk",
        "other cluster",
        "lost disk",
    ];
    let faults = kinds.map(|kind| format!("fault: {kind}"));
    let rare = [
        "found itself excluded",
        "holder lost with its site",
        "leader lost",
        "leader lost in a view change",
        "left",
        "site left",
        "snapshot installed",
        "stale holder, only the fence protects",
        "told that it has lost",
        "unsynced tail lost",
        "update rejected by its fence",
        "timed out",
        "cancelled",
        "busy",
        "rules set",
        "queue",
        "queue without some members",
        "taken away",
        "partial partition that stays",
        "voter without its disk",
        "life too old",
        "goes by other terms than configured",
    ];
    for what in faults.iter().map(String::as_str).chain(rare) {
        assert!(all.of(what) > 0, "never happened: {what}");
    }
    for info in meshlock_protocol::registry::ALL {
        let said = format!("message: {} ", info.name);
        assert!(all.iter().any(|(what, _)| what.starts_with(&said)), "{} never took part", info.name);
    }
}

#[test]
fn the_second_quarter_of_seeds_holds() {
    hold(1);
}

#[test]
fn the_third_quarter_of_seeds_holds() {
    hold(2);
}

#[test]
fn the_fourth_quarter_of_seeds_holds() {
    hold(3);
}

#[test]
fn the_same_seed_gives_the_same_events_twice_and_another_one_others() {
    let mut hashes = std::collections::BTreeSet::new();
    for seed in 0..50 {
        let (first, second) = (run(seed, &Options::default()), run(seed, &Options::default()));
        assert_eq!((first.hash, first.events), (second.hash, second.events), "seed {seed}");
        hashes.insert(first.hash);
    }
    assert_eq!(hashes.len(), 50);
}

#[test]
fn writing_a_run_down_does_not_change_it() {
    let traced = run(3, &Options { trace: true, ..Options::default() });
    assert_eq!(traced.hash, run(3, &Options::default()).hash);
    for line in &traced.trace {
        let line: serde_json::Value = serde_json::from_str(line).unwrap();
        assert!(line["time"].is_number() && line["kind"].is_string(), "{line}");
    }
}

/// What each mutant breaks: the properties that guard against just that mistake.
fn breaks(mutant: Mutant) -> &'static [&'static str] {
    match mutant {
        Mutant::LeaseFromReceipt
        | Mutant::ExclusionOneTickEarly
        | Mutant::NewLeaderDoesNotWait
        | Mutant::GrantUnconfirmed
        | Mutant::OwnTerms => &["leases"],
        Mutant::CensusSkipped
        | Mutant::GrantWithoutLease
        | Mutant::LapseKeepsLocks
        | Mutant::BrokenIsFreeAtOnce => &["exclusion"],
        Mutant::ReconnectDropsOne => &["starvation"],
        Mutant::OtherClusterAccepted => &["agreement"],
        Mutant::FenceNotCarried => &["fences"],
        // Machines notice what they cannot have been sent, voters what they cannot have acknowledged, and links what the
        // other end cannot have received in the same life.
        Mutant::OldEpochAccepted
        | Mutant::SendBeforePersist
        | Mutant::LostDiskVotes
        | Mutant::StampIgnored
        | Mutant::PastForgotten => &["sound"],
    }
}

/// The first seed of `0..tried` in which the mutant breaks what it should.
fn caught(mutant: Mutant, tried: u64) -> Option<u64> {
    let options = Options { mutants: Mutants::only(mutant), ..Options::default() };
    (0..tried).find(|seed| {
        let violation = run(*seed, &options).violation;
        violation.is_some_and(|violation| breaks(mutant).contains(&violation.property))
    })
}

#[test]
fn every_mutant_is_caught_by_the_property_that_it_breaks() {
    for mutant in Mutant::ALL {
        let found = caught(mutant, 2000);
        assert!(found.is_some(), "{mutant:?} never broke {:?}", breaks(mutant));
    }
}

#[test]
fn a_failure_is_shrunk_to_the_first_faults_that_still_cause_it() {
    let options = Options { mutants: Mutants::only(Mutant::LapseKeepsLocks), ..Options::default() };
    let seed = caught(Mutant::LapseKeepsLocks, 2000).unwrap();
    let all = settings::Settings::draw(seed).faults.len();
    let shortest = shortest_failure(seed, &options).unwrap();
    assert!(shortest.violation.is_some() && shortest.faults <= all);
    for fewer in 0..shortest.faults {
        let report = run(seed, &Options { faults: Some(fewer), ..options.clone() });
        assert_eq!(report.violation, None, "{fewer} faults were enough");
    }
}
