//! Every choice that a paper leaves open, in runs that the matrix does not contain: with golden state counts, which are larger than with a
//! fixed policy.

use meshlock_check::{Bounds, NetworkModel, Verdict, explore_spec};
use meshlock_protocol::Spec;

/// Asserts that the run holds with so many states: sites, entries of each, permits.
fn holds(spec: &str, (sites, entries, permits): (usize, u8, usize), states: usize) {
    let parsed: Spec = spec.parse().expect("a registered name");
    let network = NetworkModel::from(parsed.info.channels);
    let bounds: Bounds = crate::bounds(sites, entries).with_permits(permits).over(network);
    let report = explore_spec(&parsed, &bounds);
    assert_eq!((report.verdict, report.states), (Verdict::Holds, states), "{spec} within {bounds:?}");
}

#[test]
fn any_arbitration_serves_everyone() {
    holds("singhal-heuristic:arbitration=any", (4, 1, 1), 110_499);
}

#[test]
fn any_site_may_be_informed_and_any_token_asked_for() {
    holds("bulgannawar-vaidya:inform=1,choice=random,informed=any", (3, 1, 2), 1_647);
    holds("bulgannawar-vaidya:inform=1,choice=random,informed=any", (4, 1, 1), 67_866);
}
