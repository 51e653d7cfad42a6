//! Runs without end: the normal forms of the algorithms' numbers, and the starvation that only such runs can show.
//!
//! For every endless run of `docs/CHECKED.md` the whole graph is compared: each state as it comes out of a step, within the window of
//! the row, with its normal form, by all that can follow. CI does so for the small graphs, `cargo xtask soak --only explorations` for all. Where a
//! graph has no end, or its run is not in the matrix, what follows its first states is compared. In each comparison some states must differ
//! from their normal form: otherwise nothing was compared.

use meshlock_check::bisimulation::{NormalFormComparison, compare_with_normal_forms};
use meshlock_check::matrix::{self, CaseRecord};
use meshlock_check::{Bounds, BypassBound, Entries, NetworkModel, Verdict, explore_spec};
use meshlock_protocol::Spec;
use meshlock_protocol::mutant::{self, Mutant};

/// Graphs of at most so many states are compared by every run of the tests.
const SMALL: usize = 2_000;

/// Runs that are not in the matrix or have no end: sites, permits, and of how many states all that follows is compared.
const BEYOND: [(&str, usize, usize, usize); 18] = [
    ("lamport", 3, 1, 600),
    ("lamport:omit-replies", 3, 1, 600),
    ("carvalho-roucairol", 3, 1, 2_000),
    ("singhal-dynamic", 3, 1, 600),
    ("lodha-kshemkalyani", 3, 1, 2_000),
    ("lodha-kshemkalyani:combined-exit", 3, 1, 2_000),
    ("lodha-kshemkalyani:combined-exit,keep-deferred,sequence-on-all", 2, 1, 600),
    ("lodha-kshemkalyani:combined-exit,keep-deferred,sequence-on-all", 3, 1, 2_000),
    ("maekawa:deadlock=fail", 3, 1, 600),
    ("sanders", 3, 1, 600),
    ("suzuki-kasami", 3, 1, 600),
    ("token-ring:idle=circulate", 2, 1, 600),
    ("token-ring:idle=circulate", 3, 1, 600),
    ("delegated", 3, 2, 600),
    ("raymond-k", 3, 2, 600),
    ("srimani-reddy", 3, 1, 600),
    ("srimani-reddy", 3, 2, 600),
    ("cao-singhal", 3, 1, 600),
];

fn endless(spec: &str, sites: usize) -> (Spec, Bounds) {
    let spec: Spec = spec.parse().expect("a registered name");
    let network = NetworkModel::from(spec.info.channels);
    (spec, Bounds::new(sites, 1).endless().over(network))
}

fn compared(spec: &str, (sites, permits): (usize, usize), states: usize) -> NormalFormComparison {
    let (spec, bounds) = endless(spec, sites);
    compare_with_normal_forms(&spec, &bounds.with_permits(permits), states).expect("so few sites")
}

/// The endless runs of `docs/CHECKED.md` with so many states.
fn recorded(is_asked_for: fn(usize) -> bool) -> Vec<CaseRecord> {
    let records =
        matrix::read(include_str!("../../../../docs/CHECKED.md")).expect("a table as it was written");
    let is_endless = |record: &CaseRecord| record.case.entries == Entries::Endless;
    records.into_iter().filter(|record| is_endless(record) && is_asked_for(record.outcome.states)).collect()
}

/// Compares the whole graphs of recorded runs with their normal forms.
fn are_bisimulations(records: &[CaseRecord]) {
    assert!(!records.is_empty());
    for CaseRecord { case, outcome } in records {
        let spec: Spec = case.spec.parse().expect("a registered name");
        let found = compare_with_normal_forms(&spec, &case.bounds(), usize::MAX).expect("it was explored");
        assert_eq!(found.difference, None, "{case:?}");
        assert_eq!(found.reached, outcome.states, "{case:?}: all that was recorded, and nothing else");
        assert!(found.differing > 0, "{case:?}: no number has grown");
    }
}

#[test]
fn in_all_of_a_small_recorded_graph_a_state_and_its_normal_form_can_take_the_same_steps() {
    are_bisimulations(&recorded(|states| states <= SMALL));
}

/// CI leaves this test to `cargo xtask soak --only explorations`.
#[test]
fn in_all_of_every_larger_recorded_graph_a_state_and_its_normal_form_can_take_the_same_steps() {
    are_bisimulations(&recorded(|states| states > SMALL));
}

#[test]
fn where_there_is_no_end_the_first_states_and_their_normal_forms_can_take_the_same_steps() {
    for (spec, sites, permits, states) in BEYOND {
        let found = compared(spec, (sites, permits), states);
        assert_eq!(found.difference, None, "{spec} with {sites} sites and {permits} permits");
        assert!(found.differing > 0, "{spec} with {sites} sites: no number has grown in {states} states");
    }
}

#[test]
fn a_number_that_the_normal_form_leaves_out_is_noticed() {
    let found =
        mutant::with(Mutant::RicartAgrawalaUnnamedNumber, || compared("ricart-agrawala", (2, 1), 400));
    assert!(found.difference.is_some(), "{found:?}");
}

#[test]
fn where_the_quorum_depends_on_the_clock_nothing_is_subtracted() {
    let found = compared("tree-quorum", (2, 1), 200);
    assert_eq!((found.differing, found.difference), (0, None));
}

#[test]
fn a_coordinator_that_serves_the_smallest_id_first_starves_a_larger_one_for_ever() {
    let (spec, bounds) = endless("central", 3);
    let sound = explore_spec(&spec, &bounds);
    assert_eq!(sound.verdict, Verdict::Holds);
    assert_eq!(sound.bypass.map(|bypass| bypass.once_heard), Some(BypassBound::AtMost(2)));
    assert_eq!(sound.withheld, Some(false), "no window, so that all of it was explored");
    let wrong = mutant::with(Mutant::CentralSmallestFirst, || explore_spec(&spec, &bounds));
    let Verdict::Starvation(starved) = &wrong.verdict else { panic!("{}", wrong.verdict) };
    assert!(starved.iter().all(|site| site.index() > 0), "{starved:?}");
    assert_eq!(wrong.bypass.map(|bypass| bypass.once_heard), Some(BypassBound::Unbounded));
}

#[test]
fn a_token_that_circulates_comes_by_after_one_round() {
    let (spec, bounds) = endless("token-ring:idle=circulate", 3);
    let report = explore_spec(&spec, &bounds);
    assert_eq!(report.verdict, Verdict::Holds);
    assert_eq!(report.bypass.map(|bypass| bypass.from_call), Some(BypassBound::AtMost(2)));
}

#[test]
fn a_window_leaves_out_requests_and_says_so() {
    let (spec, bounds) = endless("carvalho-roucairol", 2);
    let report = explore_spec(&spec, &bounds.within(2));
    assert_eq!((report.verdict, report.withheld), (Verdict::Holds, Some(true)));
}
