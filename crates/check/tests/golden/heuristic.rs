//! Every interleaving of small runs of `singhal-heuristic`, with golden state counts, which change with the algorithm.

use meshlock_check::{Bounds, Report, Verdict, explore};
use meshlock_protocol::algorithms::singhal_heuristic::SinghalHeuristic;
use meshlock_protocol::registry::values::Values;
use meshlock_protocol::world::Delivery;
use meshlock_protocol::{Described, Holders, SiteId};

/// Bounds for unordered channels, with site `holder` inside at the start.
fn bounds(sites: usize, entries: u8, holder: Option<usize>) -> Bounds {
    let mut bounds = Bounds { delivery: Delivery::Unordered, ..crate::bounds(sites, entries) };
    bounds.holders = Holders::new(bounds.cluster, holder.map(SiteId::new)).expect("a site of the cluster");
    bounds
}

fn explored(bounds: &Bounds, options: &[(&str, &str)]) -> Report {
    let mut values = Values::defaults(&SinghalHeuristic::INFO);
    for (name, value) in options {
        values.set(name, value).expect("an option of the algorithm");
    }
    explore::<SinghalHeuristic>(bounds, &values).expect("the bounds are right")
}

fn assert_holds(report: &Report, states: usize) {
    assert_eq!((&report.verdict, report.states), (&Verdict::Holds, states));
}

/// The path is the same as in the algorithm's scenario test of the printed text.
#[test]
fn as_printed_it_deadlocks_with_three_sites_even_over_fifo_channels() {
    let report = explored(&crate::bounds(3, 2), &[("text", "printed")]);
    assert_eq!((report.verdict, report.path.len()), (Verdict::Deadlock(vec![SiteId::new(2)]), 15));
}

#[test]
fn a_failed_site_comes_back() {
    let bounds = Bounds { crashes: 1, recoveries: true, ..bounds(2, 2, None) };
    assert_holds(&explored(&bounds, &[]), 3_451);
}
