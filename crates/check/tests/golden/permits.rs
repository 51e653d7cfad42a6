//! The algorithms for K permits in cases that the matrix leaves out: several holders at the start that may request again, and as many
//! permits as sites. Every interleaving of small runs over unordered channels, with golden state counts.

use meshlock_check::{Verdict, explore_spec};
use meshlock_protocol::Spec;

/// One exploration: (sites, permits, entries of each, holders at the start, states).
type Case<'a> = (usize, usize, u8, &'a [usize], usize);

fn holds(spec: &str, cases: &[Case<'_>]) {
    let parsed: Spec = spec.parse().expect("a registered name");
    let found: Vec<(Verdict, usize)> = cases
        .iter()
        .map(|&(sites, permits, entries, holders, _)| {
            let bounds = crate::bounds(sites, entries).unordered().with_permits(permits).with_returns();
            let bounds = bounds.held_by(holders).expect("holders within the cluster");
            let report = explore_spec(&parsed, &bounds);
            (report.verdict, report.states)
        })
        .collect();
    let expected: Vec<(Verdict, usize)> = cases.iter().map(|case| (Verdict::Holds, case.4)).collect();
    assert_eq!(found, expected, "{spec}");
}

#[test]
fn raymond_k_lets_k_in_and_serves_everyone() {
    holds("raymond-k", &[(3, 2, 1, &[1], 11_735), (3, 2, 1, &[0, 2], 11_861)]);
}

#[test]
fn delegated_lets_k_in_and_serves_everyone_whatever_the_length_of_chains() {
    let nobody: &[usize] = &[];
    holds("delegated", &[(3, 2, 1, &[1, 2], 6943), (4, 1, 1, nobody, 5629), (4, 2, 1, nobody, 9321)]);
    holds("delegated:chain=1", &[(4, 3, 1, nobody, 7201)]);
    holds("delegated:chain=2", &[(4, 2, 1, nobody, 9321)]);
}

#[test]
fn srimani_reddy_lets_k_in_and_serves_everyone() {
    let nobody: &[usize] = &[];
    holds("srimani-reddy", &[(3, 1, 1, &[1], 846), (3, 2, 1, &[0, 2], 4482), (3, 3, 2, nobody, 125)]);
}

#[test]
fn makki_lets_k_in_and_serves_everyone_whenever_the_timer_runs_out() {
    let nobody: &[usize] = &[];
    holds("makki", &[(3, 1, 1, &[1], 7648), (3, 2, 1, &[1, 2], 67_953), (3, 3, 1, nobody, 9442)]);
}
