//! The assumptions of `lodha-kshemkalyani`, and the errors of its printed text.

use meshlock_check::{Bounds, Report, Verdict, explore};
use meshlock_protocol::algorithms::lodha_kshemkalyani::LodhaKshemkalyani;
use meshlock_protocol::registry::values::Values;
use meshlock_protocol::world::Delivery;
use meshlock_protocol::{Algorithm, Described, Holders, SiteId};

/// The bounds `sites` × `entries`, with site `holder` inside at the start.
fn bounds(sites: usize, entries: u8, holder: Option<usize>) -> Bounds {
    let mut bounds = crate::bounds(sites, entries);
    bounds.holders = Holders::new(bounds.cluster, holder.map(SiteId::new)).expect("a site of the cluster");
    bounds
}

fn explored<A: Algorithm + Described>(bounds: &Bounds, options: &[(&str, &str)]) -> Report {
    let mut values = Values::defaults(&A::INFO);
    for (name, value) in options {
        values.set(name, value).expect("an option of the algorithm");
    }
    explore::<A>(bounds, &values).expect("the bounds are right")
}

#[test]
fn lodha_kshemkalyani_needs_fifo() {
    let bounds = Bounds { delivery: Delivery::Unordered, ..bounds(2, 2, None) };
    assert_ne!(explored::<LodhaKshemkalyani>(&bounds, &[]).verdict, Verdict::Holds);
}

/// The path is the same as in the algorithm's scenario test of the printed text.
#[test]
fn lodha_kshemkalyani_as_printed_deadlocks_with_three_sites_that_ask_once() {
    let report = explored::<LodhaKshemkalyani>(&bounds(3, 1, None), &[("text", "printed")]);
    assert_eq!((report.verdict, report.path.len()), (Verdict::Deadlock(vec![SiteId::new(2)]), 13));
}
