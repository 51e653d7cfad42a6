//! Scenarios of the token ring.

use meshlock_testing::within_steps;

use super::*;
use crate::Effect;
use crate::world::{Action, Delivery, World, enter, misbehaved, send};

const CALL: &str = "a call for the token that it may not make";

fn wanted(since: u64) -> Message {
    Message::Wanted { since: Count::at(since) }
}

fn token(handovers: u64) -> Message {
    Message::Token { handovers: Count::at(handovers) }
}

#[test]
fn the_call_goes_against_the_ring_and_the_token_comes_back_the_same_way() {
    let [_, s1, s2, s3] = SiteId::first();
    let mut world = World::<TokenRing>::held_by(4, &[s1]);
    assert_eq!(world.release(s1), []);
    assert_eq!(world.request(s3), [send(s2, wanted(0))]);
    assert_eq!(world.deliver(s3, s2), [send(s1, wanted(0))]);
    assert_eq!(world.deliver(s2, s1), [send(s2, token(1))]);
    // S2 wants to enter as well: it has called already, enters when the token comes, and passes it on.
    assert_eq!(world.request(s2), []);
    assert_eq!(world.deliver(s1, s2), [enter()]);
    assert_eq!(world.release(s2), [send(s3, token(2))]);
    assert_eq!(world.deliver(s2, s3), [enter()]);
    assert_eq!(world.release(s3), []);
    assert!(world.is_quiet());
    assert_eq!(world.messages(), 4);
}

/// Those who wait are served in the order of the ring, whoever asked first.
#[test]
fn everyone_who_waits_is_served_in_one_round() {
    let sites: [SiteId; 5] = SiteId::first();
    let mut world = World::<TokenRing>::held_by(5, &sites[..1]);
    for site in [4, 2, 1, 3] {
        let _ = world.request(sites[site]);
        world.settle();
    }
    for site in [0, 1, 2, 3, 4] {
        assert_eq!(world.inside().first(), Some(sites[site]));
        let _ = world.release(sites[site]);
        world.settle();
    }
    assert!(world.is_quiet());
    // Four calls, four hand-overs.
    assert_eq!(world.messages(), 8);
}

/// The site at d edges from the token costs d calls and d hand-overs.
#[test]
fn a_lone_request_costs_twice_the_distance_from_the_token() {
    for sites in [1, 2, 3, 7, 31] {
        for home in SiteId::all(sites) {
            for distance in 0..sites {
                let mut world = World::<TokenRing>::held_by(sites, &[home]);
                let _ = world.release(home);
                let site = SiteId::new((home.index() + distance) % sites);
                let _ = world.request(site);
                world.settle();
                let _ = world.release(site);
                world.settle();
                assert_eq!(world.messages(), 2 * distance as u64);
                assert!(world.is_quiet());
            }
        }
    }
}

#[test]
fn a_single_site_enters_without_a_message() {
    let [s0] = SiteId::first();
    for idle in ["park", "circulate"] {
        let mut world = World::<TokenRing>::with(1, &[("idle", idle)]);
        assert_eq!(world.request(s0), [enter()]);
        assert_eq!(world.release(s0), []);
        assert!(world.is_quiet());
    }
}

/// Between two sites the call runs in the direction of the token, and may overtake it.
#[test]
fn a_call_that_overtakes_the_token_waits_for_it() {
    let [s0, s1] = SiteId::first();
    let mut world = World::<TokenRing>::of(2);
    assert_eq!(world.request(s1), [send(s0, wanted(0))]);
    assert_eq!(world.deliver(s1, s0), [send(s1, token(1))]);
    assert_eq!(world.request(s0), [send(s1, wanted(0))]);
    assert_eq!(world.deliver_nth(s0, s1, 1), []);
    assert_eq!(world.deliver(s0, s1), [enter()]);
    assert_eq!(world.release(s1), [send(s0, token(2))]);
    assert_eq!(world.deliver(s1, s0), [enter()]);
    assert_eq!(world.release(s0), []);
    assert!(world.is_quiet());
}

/// Reference: chapter 9, exercise 9.1.
#[test]
fn a_circulating_token_travels_on_and_whoever_wants_in_waits_for_it() {
    let [s0, s1, s2] = SiteId::first();
    let mut world = World::<TokenRing>::with(3, &[("idle", "circulate")]);
    // Nothing has happened yet, so the token must be called for once.
    assert_eq!(world.request(s2), [send(s1, wanted(0))]);
    assert_eq!(world.deliver(s2, s1), [send(s0, wanted(0))]);
    assert_eq!(world.deliver(s1, s0), [send(s1, token(1))]);
    assert_eq!(world.deliver(s0, s1), [send(s2, token(2))]);
    assert_eq!(world.deliver(s1, s2), [enter()]);
    assert_eq!(world.release(s2), [send(s0, token(3))]);
    // From now on it never rests.
    let mut handovers = 3;
    for _ in 0..10 {
        for (from, to, next) in [(s2, s0, s1), (s0, s1, s2), (s1, s2, s0)] {
            handovers += 1;
            assert_eq!(world.deliver(from, to), [send(next, token(handovers))]);
        }
    }
    // A request is no message, and the wait is for the token to come by.
    assert_eq!(world.request(s1), []);
    assert_eq!(world.deliver(s2, s0), [send(s1, token(34))]);
    assert_eq!(world.deliver(s0, s1), [enter()]);
    assert_eq!(world.release(s1), [send(s2, token(35))]);
}

/// Reference: chapter 9, exercise 9.1, question 2: one hand-over an entry at heavy load.
#[test]
fn a_circulating_token_costs_one_message_an_entry_when_all_always_want_in() {
    let sites = 5;
    let mut world = World::<TokenRing>::with(sites, &[("idle", "circulate")]);
    SiteId::all(sites).for_each(|site| drop(world.request(site)));
    for round in 1..=10 {
        for site in SiteId::all(sites) {
            assert_eq!(world.inside().first(), Some(site), "the ring's order is the order of service");
            let effects = world.release(site);
            assert!(matches!(effects[..], [Effect::Send { message: Message::Token { .. }, .. }]));
            let _ = world.request(site);
            let next = SiteId::new((site.index() + 1) % sites);
            within_steps("the token reaches the next site", || {
                let (from, to) = world.in_flight().map(|(from, to, _)| (from, to)).next().unwrap();
                let _ = world.deliver(from, to);
                world.inside().contains(next)
            });
        }
        assert_eq!(world.sent()["TOKEN"], round * sites as u64);
    }
    assert!(world.sent()["WANTED"] <= sites as u64, "only at the start is the token called for");
}

/// It is never quiet, so the tests of all algorithms leave it out; these are random schedules of its own.
#[test]
fn a_circulating_token_serves_everyone_under_any_schedule() {
    let mut draw = 1_u64;
    for run in 0..200 {
        let sites = 2 + run % 4;
        let mut world = World::<TokenRing>::with(sites, &[("idle", "circulate")]);
        for _ in 0..200 {
            let deliveries = world.deliveries(Delivery::Unordered);
            let all: Vec<Action> = deliveries.chain(world.releases()).chain(world.requests()).collect();
            draw = draw.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            let _ = world.apply(all[usize::try_from(draw >> 33).unwrap() % all.len()]);
        }
        // Nobody asks any more: within a few rounds of the token everyone has been in and out.
        for _ in 0..8 * sites {
            let next = world.releases().chain(world.deliveries(Delivery::Unordered)).next();
            let _ = next.map(|action| world.apply(action));
        }
        assert!(SiteId::all(sites).all(|site| world.is_idle(site)));
    }
}

#[test]
fn what_no_correct_peer_sends_changes_nothing_and_is_reported() {
    let [s0, s1, s2, s3] = SiteId::first();
    let mut world = World::<TokenRing>::of(4);
    let stranger = SiteId::new(9);
    let (stale, unasked) = ("a token that has been handed over since", "a token that nobody waits for");
    let start = world.sites().to_vec();
    assert_eq!(world.inject(stranger, s0, wanted(0)), [misbehaved(stranger, NOT_A_PEER)]);
    assert_eq!(world.inject(s0, s0, token(1)), [misbehaved(s0, NOT_A_PEER)]);
    assert_eq!(world.inject(s2, s0, wanted(0)), [misbehaved(s2, CALL)]);
    assert_eq!(world.inject(s1, s0, wanted(7)), [misbehaved(s1, CALL)]);
    assert_eq!(world.inject(s0, s1, token(0)), [misbehaved(s0, stale)]);
    assert_eq!(world.inject(s0, s1, token(1)), [misbehaved(s0, unasked)]);
    assert_eq!(world.inject(s3, s0, token(1)), [misbehaved(s3, unasked)]);
    assert_eq!(world.sites(), start);

    let _ = world.request(s2);
    let _ = world.deliver(s2, s1);
    let called = world.sites().to_vec();
    assert_eq!(world.inject(s2, s1, wanted(0)), [misbehaved(s2, CALL)]);
    assert_eq!(world.inject(s3, s2, token(1)), [misbehaved(s3, stale)]);
    assert_eq!(world.sites(), called);
}

#[test]
fn a_duplicate_at_any_later_time_changes_nothing() {
    let [s0, s1] = SiteId::first();
    let mut world = World::<TokenRing>::of(2);
    for site in [s1, s0, s1] {
        let _ = world.request(site);
        world.settle();
        let _ = world.release(site);
    }
    let _ = world.request(s0);
    let before = world.sites().to_vec();
    let stale = "a token that has been handed over since";
    assert_eq!(world.inject(s1, s0, token(2)), [misbehaved(s1, stale)]);
    assert_eq!(world.inject(s1, s0, wanted(0)), [misbehaved(s1, CALL)]);
    assert_eq!(world.inject(s0, s1, wanted(0)), [misbehaved(s0, CALL)]);
    assert_eq!(world.sites(), before);
}
