//! Every interleaving of small runs of `singhal-dynamic` and `lodha-kshemkalyani`, with golden state counts: a change of the
//! algorithm that changes what can happen changes them.

use meshlock_check::{Bounds, Report, Verdict, explore};
use meshlock_protocol::algorithms::lodha_kshemkalyani::LodhaKshemkalyani;
use meshlock_protocol::algorithms::singhal_dynamic::SinghalDynamic;
use meshlock_protocol::registry::values::Values;
use meshlock_protocol::world::Delivery;
use meshlock_protocol::{Algorithm, Holders, SiteId};

/// The bounds `sites` × `entries`, with site `holder` inside at the start.
fn bounds(sites: usize, entries: u8, holder: Option<usize>) -> Bounds {
    let mut bounds = crate::bounds(sites, entries);
    bounds.holders = Holders::new(bounds.cluster, holder.map(SiteId::new)).expect("a site of the cluster");
    bounds
}

fn explored<A: Algorithm>(bounds: &Bounds, options: &[(&str, &str)]) -> Report {
    let mut values = Values::defaults(&A::INFO);
    for (name, value) in options {
        values.set(&A::INFO, name, value).expect("an option of the algorithm");
    }
    explore::<A>(bounds, &values).expect("the bounds are right")
}

fn assert_holds(report: &Report, states: usize) {
    assert_eq!((&report.verdict, report.states), (&Verdict::Holds, states));
}

#[test]
fn singhal_dynamic_holds_for_three_sites_that_ask_twice_whoever_is_inside_at_the_start() {
    for (holder, states) in [(None, 26_588), (Some(0), 26_621), (Some(1), 28_358), (Some(2), 27_116)] {
        let bounds = Bounds { delivery: Delivery::Unordered, ..bounds(3, 2, holder) };
        assert_holds(&explored::<SinghalDynamic>(&bounds, &[]), states);
    }
}

#[test]
fn singhal_dynamic_holds_for_four_sites_that_ask_once() {
    assert_holds(&explored::<SinghalDynamic>(&bounds(4, 1, None), &[]), 112_304);
}

#[test]
fn lodha_kshemkalyani_holds_for_three_sites_that_ask_twice_whoever_is_inside_at_the_start() {
    for (holder, states) in [(None, 86_382), (Some(1), 86_435)] {
        assert_holds(&explored::<LodhaKshemkalyani>(&bounds(3, 2, holder), &[]), states);
    }
}

#[test]
fn lodha_kshemkalyani_needs_fifo() {
    let bounds = Bounds { delivery: Delivery::Unordered, ..bounds(2, 2, None) };
    assert_ne!(explored::<LodhaKshemkalyani>(&bounds, &[]).verdict, Verdict::Holds);
}

/// The path is the one that the algorithm's own scenario test of the printed text retells.
#[test]
fn lodha_kshemkalyani_as_printed_deadlocks_with_three_sites_that_ask_once() {
    let report = explored::<LodhaKshemkalyani>(&bounds(3, 1, None), &[("text", "printed")]);
    assert_eq!((report.verdict, report.path.len()), (Verdict::Deadlock(vec![SiteId::new(2)]), 13));
}

#[test]
fn lodha_kshemkalyani_holds_with_any_of_its_improvements() {
    let improvements = ["combined-exit", "keep-deferred", "sequence-on-all"];
    for (chosen, states) in (1..8_usize).zip([2_836, 4_123, 4_582, 2_603, 3_112, 4_619, 5_138]) {
        let on = (0..3).filter(|at| chosen >> at & 1 == 1);
        let options: Vec<(&str, &str)> = on.map(|at| (improvements[at], "yes")).collect();
        assert_holds(&explored::<LodhaKshemkalyani>(&bounds(3, 1, Some(0)), &options), states);
    }
}

#[test]
fn lodha_kshemkalyani_holds_with_combined_exits_for_three_sites_that_ask_twice() {
    let options = [("combined-exit", "yes")];
    assert_holds(&explored::<LodhaKshemkalyani>(&bounds(3, 2, None), &options), 184_269);
}
