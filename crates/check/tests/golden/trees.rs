//! Every interleaving of small runs of the algorithms whose requests travel along trees, with golden state counts, which change with
//! the algorithm.

use meshlock_check::{Bounds, Report, Verdict, explore_spec, story_spec};
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
    let found = |informed: u8, inside: &[usize]| {
        let spec = format!("bulgannawar-vaidya:inform={informed},choice=random");
        let report = explored(&spec, &held(permits(4, 1, 2), inside));
        assert_eq!(report.verdict, Verdict::Holds, "{spec}, {inside:?} inside");
        report.states
    };
    let states = [found(0, &[1, 3]), found(0, &[3]), found(1, &[1, 3]), found(1, &[3])];
    assert_eq!(states, [7_774, 6_558, 80_361, 39_333]);
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

/// Which token a site asks for is open. With one function for it, three sites that ask twice seemed to do without FIFO; with every choice
/// they do not. The shortest path replays with its choices in the world, which notices first that the request is in no place.
#[test]
fn bulgannawar_vaidya_with_two_tokens_needs_fifo_with_three_sites_too_as_some_choices_show() {
    let bounds = Bounds { delivery: Delivery::Unordered, ..permits(3, 2, 2) };
    let spec: Spec = "bulgannawar-vaidya:inform=0,choice=random".parse().expect("a registered name");
    let report = explore_spec(&spec, &bounds);
    let Verdict::Violated(violation) = &report.verdict else { panic!("{:?}", report.verdict) };
    let replayed = story_spec(&spec, &bounds, &report.path).violation;
    assert!(matches!(replayed, Some(Violation::Together { .. })), "{replayed:?}");
    let choices: Vec<&[u32]> = report.path.iter().map(|step| &step.answers[..]).collect();
    let refused = "S0 refused a message of S1, which follows the algorithm: a request of no other site";
    assert_eq!((violation.to_string().as_str(), choices.len()), (refused, 11));
    assert_eq!(choices.concat(), [0, 1, 0, 1]);
    // With the fixed policy every run of this size holds.
    assert_holds("bulgannawar-vaidya:inform=0", &bounds, 445);
}
