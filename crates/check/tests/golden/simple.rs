//! The plain permission and token algorithms: every interleaving of a few sites, with golden state counts. If a count changes, the
//! algorithm has changed; say why in the commit.

use meshlock_check::{Report, Verdict, explore_spec};
use meshlock_protocol::world::Delivery;
use meshlock_protocol::{Holders, SiteId, Spec};

/// Explores `sites` that request `entries` times each, with `holder` inside at the start.
fn report(spec: &str, sites: usize, entries: u8, delivery: Delivery, holder: Option<usize>) -> Report {
    let mut bounds = crate::bounds(sites, entries);
    bounds.delivery = delivery;
    bounds.holders = Holders::new(bounds.cluster, holder.map(SiteId::new)).expect("a site of the run");
    let spec: Spec = spec.parse().expect("a registered name");
    explore_spec(&spec, &bounds)
}

/// Returns the numbers of states with nobody inside at the start, and with each of `holders` inside. Asserts that there is no violation.
fn states<const RUNS: usize>(
    spec: &str,
    sites: usize,
    entries: u8,
    delivery: Delivery,
    holders: [Option<usize>; RUNS],
) -> [usize; RUNS] {
    holders.map(|holder| {
        let report = report(spec, sites, entries, delivery, holder);
        assert_eq!(
            report.verdict,
            Verdict::Holds,
            "{spec}, {sites} sites, holder {holder:?}: {:?}",
            report.path
        );
        report.states
    })
}

#[test]
fn lamport_holds_over_fifo_channels() {
    assert_eq!(states("lamport", 3, 1, Delivery::Fifo, [None]), [158_282]);
}

#[test]
fn lamport_with_omitted_replies_holds_over_fifo_channels() {
    assert_eq!(states("lamport:omit-replies", 3, 1, Delivery::Fifo, [None]), [67_668]);
}

#[test]
fn lamport_needs_fifo_channels() {
    let report = report("lamport", 2, 1, Delivery::Unordered, None);
    assert!(matches!(report.verdict, Verdict::Violated(_)), "{:?}", report.verdict);
    assert_eq!(report.path.len(), 4);
}

#[test]
fn suzuki_kasami_as_printed_deadlocks() {
    let report = report("suzuki-kasami:text=printed", 2, 1, Delivery::Fifo, None);
    assert_eq!(report.verdict, Verdict::Deadlock(vec![SiteId::new(0)]));
    assert_eq!(report.path.len(), 6);
}

#[test]
fn carvalho_roucairol_as_printed_by_sanders_deadlocks() {
    let report = report("carvalho-roucairol:text=printed", 3, 2, Delivery::Fifo, None);
    assert_eq!(report.verdict, Verdict::Deadlock(vec![SiteId::new(2)]));
    assert_eq!(report.path.len(), 21);
}

#[test]
fn central_holds_with_any_coordinator() {
    let held = [None, Some(0), Some(1)];
    assert_eq!(states("central:coordinator=2", 3, 2, Delivery::Unordered, held), [869, 904, 904]);
    assert_eq!(states("central", 4, 2, Delivery::Unordered, [None]), [10_735]);
}
