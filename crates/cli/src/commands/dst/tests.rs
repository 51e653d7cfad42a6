//! Arguments, summaries, and how a failure is shrunk.

use meshlock_cluster_sim::{CoverageGroup, Moment, PropertyViolation};

use super::*;

#[test]
fn seeds_are_a_range_with_something_in_it() {
    assert_eq!(parse_seeds("0..10_000"), Ok(0..10_000));
    assert!(parse_seeds("5").unwrap_err().contains("as in 0..1000"));
    assert!(parse_seeds("a..b").unwrap_err().contains("as in 0..1000"));
    assert!(parse_seeds("7..7").unwrap_err().contains("must be larger"));
}

#[test]
fn minutes_are_a_number_above_zero() {
    assert_eq!(parse_minutes("60"), Ok(Duration::from_hours(1)));
    assert_eq!(parse_minutes("0.5"), Ok(Duration::from_secs(30)));
    for wrong in ["0", "-1", "an hour", "inf", "NaN"] {
        assert!(parse_minutes(wrong).unwrap_err().contains("as in 60 or 0.5"), "{wrong}");
    }
}

#[test]
fn a_run_of_so_many_minutes_begins_no_seed_after_them() {
    let plan = Plan { seeds: 7..u64::MAX, minutes: Some(Duration::from_mins(1)) };
    assert!(!plan.is_over(Duration::from_secs(59)) && plan.is_over(Duration::from_mins(1)));
    let plan = Plan { seeds: 0..10, minutes: None };
    assert!(!plan.is_over(Duration::from_secs(1 << 30)), "all seeds that were asked for are run");
}

#[test]
fn a_seed_that_panics_fails_like_any_other() {
    let (report, violation) = judged(|| panic!("as a check of our own would"));
    assert!(report.is_none() && violation.is_some_and(|violation| violation.contains("panicked")));
}

#[test]
fn a_summary_with_a_failure_does_not_say_that_all_seeds_hold() {
    let said = |failure| {
        let mut out = Vec::new();
        print(&Summary { seeds: 4, failure, ..Summary::default() }, &mut out).unwrap();
        String::from_utf8(out).unwrap()
    };
    assert!(said(None).contains("4 seeds hold: "));
    let failed = said(Some(failure(7, "exclusion".to_owned(), 2, 9)));
    assert!(failed.contains("4 seeds hold, but seed 7 does not: "), "{failed}");
}

/// Runs a seed, and counts every crash of a process as a violation.
fn with_a_bug(seed: u64, faults: usize) -> Attempt {
    judged(|| {
        let mut report = run_seed(seed, &RunOptions { faults: Some(faults), ..RunOptions::default() });
        if report.coverage.of(CoverageGroup::Fault, "crash") > 0 {
            let what = "a process crashed".to_owned();
            report.violation = Some(PropertyViolation { property: "bug", what, at: Moment(1) });
        }
        report
    })
}

#[test]
fn a_failure_is_shrunk_to_the_first_fault_that_causes_it_and_one_less_holds() {
    let first_crash = |seed| fault_kinds(seed).iter().position(|kind| *kind == "crash");
    let seed = (0..100).find(|seed| first_crash(*seed) > Some(2)).unwrap();
    let all = with_a_bug(seed, faults_of(seed)).1.unwrap();
    let failure = shrink(seed, all, |faults| with_a_bug(seed, faults));
    assert_eq!(Some(failure.faults), first_crash(seed).map(|at| at + 1));
    assert_eq!(failure.of, faults_of(seed));
    assert!(failure.violation.contains("a process crashed"), "{}", failure.violation);
    assert!(with_a_bug(seed, failure.faults).1.is_some());
    assert_eq!(with_a_bug(seed, failure.faults - 1).1, None);
    let line = format!("meshlock dst --one {seed} --faults {} --trace trace.jsonl", failure.faults);
    assert_eq!(failure.reproduce, line);
}

#[test]
fn a_failure_says_how_to_see_it_again() {
    let failure = failure(7, "exclusion".to_owned(), 2, 9);
    assert_eq!(failure.reproduce, "meshlock dst --one 7 --faults 2 --trace trace.jsonl");
}
