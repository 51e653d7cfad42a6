//! Every interleaving of small runs of the algorithms whose requests travel along trees, with golden state counts, which change with
//! the algorithm.

use meshlock_check::{Bounds, Report, Verdict, explore_spec};
use meshlock_protocol::world::{Delivery, Violation};
use meshlock_protocol::{Holders, SiteId, Spec};

fn explored(spec: &str, bounds: &Bounds) -> Report {
    let spec: Spec = spec.parse().expect("a registered algorithm");
    explore_spec(&spec, bounds)
}

/// Bounds for `sites` that request `entries` times each, over unordered channels.
fn unordered(sites: usize, entries: u8) -> Bounds {
    Bounds { delivery: Delivery::Unordered, ..crate::bounds(sites, entries) }
}

/// The same with these sites inside at the start.
fn held(bounds: Bounds, holders: &[usize]) -> Bounds {
    let sites = holders.iter().map(|&site| SiteId::new(site));
    Bounds { holders: Holders::new(bounds.cluster, sites).expect("holders within the cluster"), ..bounds }
}

fn assert_holds(spec: &str, bounds: &Bounds, states: usize) {
    let report = explored(spec, bounds);
    assert_eq!((report.verdict, report.states), (Verdict::Holds, states), "{spec} within {bounds:?}");
}

/// Bounds for `sites` over FIFO channels, with up to this many failures; failed sites recover.
fn failing(sites: usize, entries: u8, crashes: u8) -> Bounds {
    Bounds { crashes, recoveries: true, ..crate::bounds(sites, entries) }
}

#[test]
fn raymond_recovers_when_its_only_site_fails() {
    assert_holds("raymond", &failing(1, 2, 1), 15);
}

#[test]
fn raymond_recovers_when_neighbours_fail_together_or_a_site_fails_again_while_it_recovers() {
    assert_holds("raymond", &failing(2, 2, 2), 9_725);
    assert_holds("raymond", &failing(2, 1, 3), 11_850);
}

/// Bounds for `sites` that request one of `permits` `entries` times each, over FIFO channels.
fn permits(sites: usize, entries: u8, permits: usize) -> Bounds {
    let mut bounds = crate::bounds(sites, entries);
    bounds.cluster.permits = permits;
    bounds
}

#[test]
fn bulgannawar_vaidya_holds_with_one_token_even_over_unordered_channels() {
    assert_holds("bulgannawar-vaidya:inform=0", &unordered(3, 2), 3_652);
    assert_holds("bulgannawar-vaidya:inform=0", &unordered(4, 1), 1_608);
    assert_holds("bulgannawar-vaidya:inform=1", &unordered(4, 1), 10_256);
}

#[test]
fn bulgannawar_vaidya_holds_whoever_is_inside_at_the_start() {
    for (informed, both_inside, one_inside) in [(0, 1_464, 460), (1, 10_331, 3_644)] {
        let spec = format!("bulgannawar-vaidya:inform={informed},choice=random");
        assert_holds(&spec, &held(permits(4, 1, 2), &[1, 3]), both_inside);
        assert_holds(&spec, &held(permits(4, 1, 2), &[3]), one_inside);
    }
    assert_holds("bulgannawar-vaidya", &held(permits(1, 2, 2), &[0]), 6);
}

#[test]
fn bulgannawar_vaidya_as_printed_sends_a_request_back_so_that_its_sender_waits_for_ever() {
    let report = explored("bulgannawar-vaidya:inform=1,text=printed", &permits(3, 2, 1));
    let home = SiteId::new(0);
    assert!(matches!(report.verdict, Verdict::Violated(Violation::Refused { site, .. }) if site == home));
    assert_eq!(report.path.len(), 17);
}

#[test]
fn bulgannawar_vaidya_with_two_tokens_needs_fifo() {
    let bounds = Bounds { delivery: Delivery::Unordered, ..permits(4, 1, 2) };
    let report = explored("bulgannawar-vaidya:inform=0,choice=random", &bounds);
    assert!(matches!(report.verdict, Verdict::Violated(_)), "{:?}", report.verdict);
}
