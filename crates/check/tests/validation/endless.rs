//! Runs without end: the normal forms of the algorithms' numbers, and the starvation that only such runs can show.

use meshlock_check::bisimulation::{NormalFormComparison, compare_with_normal_forms};
use meshlock_check::{Bounds, BypassBound, NetworkModel, Verdict, explore_spec};
use meshlock_protocol::Spec;
use meshlock_protocol::mutant::{self, Mutant};

/// The algorithms that have numbers which are made relative, each with the variants in which they are others.
const NUMBERED: [&str; 18] = [
    "lamport",
    "lamport:omit-replies",
    "ricart-agrawala",
    "carvalho-roucairol",
    "singhal-dynamic",
    "lodha-kshemkalyani",
    "lodha-kshemkalyani:combined-exit,keep-deferred,sequence-on-all",
    "maekawa",
    "majority",
    "sanders",
    "suzuki-kasami",
    "raymond",
    "naimi-trehel",
    "central",
    "token-ring",
    "token-ring:idle=circulate",
    "delegated",
    "raymond-k",
];

fn endless(spec: &str, sites: usize) -> (Spec, Bounds) {
    let spec: Spec = spec.parse().expect("a registered name");
    let network = NetworkModel::from(spec.info.channels);
    (spec, Bounds::new(sites, 1).endless().over(network))
}

fn compared(spec: &str, sites: usize, states: usize) -> NormalFormComparison {
    let (spec, bounds) = endless(spec, sites);
    compare_with_normal_forms(&spec, &bounds, states).expect("it runs with so few sites")
}

#[test]
fn a_state_and_its_normal_form_can_take_the_same_steps() {
    for spec in NUMBERED {
        for (sites, states) in [(2, 400), (3, 600)] {
            let found = compared(spec, sites, states);
            assert_eq!(found.difference, None, "{spec} with {sites} sites");
            // With three sites the first states do not reach as far as a second round of requests in every algorithm.
            assert!(
                found.differing > 0 || sites > 2,
                "{spec} with {sites} sites: no number has grown within {states} states"
            );
        }
    }
}

#[test]
fn with_several_tokens_too_the_normal_form_can_take_the_same_steps() {
    let (spec, bounds) = endless("srimani-reddy", 3);
    let found = compare_with_normal_forms(&spec, &bounds.with_permits(2), 600).expect("three sites");
    assert_eq!(found.difference, None);
    assert!(found.differing > 0);
}

#[test]
fn a_number_that_the_normal_form_leaves_out_is_noticed() {
    let found = mutant::with(Mutant::RicartAgrawalaUnnamedNumber, || compared("ricart-agrawala", 2, 400));
    assert!(found.difference.is_some(), "{found:?}");
}

#[test]
fn where_the_quorum_depends_on_the_clock_nothing_is_subtracted() {
    let found = compared("tree-quorum", 2, 200);
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
