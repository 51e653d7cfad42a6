//! Every interleaving of small runs of the algorithms whose requests travel along trees, with golden state counts: a
//! change of an algorithm that changes what can happen changes them.

use meshlock_check::{Bounds, Report, Verdict, explore};
use meshlock_protocol::registry::Visitor;
use meshlock_protocol::world::Delivery;
use meshlock_protocol::{Algorithm, Holders, SiteId, Spec};

struct Explore<'a>(&'a Bounds);

impl Visitor for Explore<'_> {
    type Output = Report;

    fn visit<A: Algorithm>(self, spec: &Spec) -> Report {
        explore::<A>(self.0, &spec.values)
    }
}

fn explored(spec: &str, bounds: &Bounds) -> Report {
    let spec: Spec = spec.parse().expect("a registered algorithm");
    spec.visit(Explore(bounds))
}

/// `sites` that ask `entries` times each, over channels that keep no order.
fn unordered(sites: usize, entries: u8) -> Bounds {
    Bounds { delivery: Delivery::Unordered, ..Bounds::new(sites, entries) }
}

/// The same, and these sites are inside at the start.
fn held(bounds: Bounds, holders: &[usize]) -> Bounds {
    let sites = holders.iter().map(|&site| SiteId::new(site));
    Bounds { holders: Holders::new(bounds.cluster, sites).expect("holders within the cluster"), ..bounds }
}

fn assert_holds(spec: &str, bounds: &Bounds, states: usize) {
    let report = explored(spec, bounds);
    assert_eq!((report.verdict, report.states), (Verdict::Holds, states), "{spec} within {bounds:?}");
}

#[test]
fn naimi_trehel_holds_over_unordered_channels_whoever_is_inside_at_the_start() {
    assert_holds("naimi-trehel", &unordered(2, 3), 285);
    assert_holds("naimi-trehel", &unordered(3, 2), 2_584);
    assert_holds("naimi-trehel", &held(unordered(3, 2), &[0]), 2_596);
    assert_holds("naimi-trehel", &held(unordered(3, 2), &[2]), 2_596);
    assert_holds("naimi-trehel", &unordered(4, 1), 1_476);
    assert_holds("naimi-trehel", &held(unordered(4, 1), &[1]), 1_544);
}
