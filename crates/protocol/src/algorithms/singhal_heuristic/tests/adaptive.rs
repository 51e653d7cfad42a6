//! The options `adaptive` and `focused`: what they send, what they save, and that nobody pays for it.

use super::*;
use crate::world::{enter, send};

/// S0 is inside; the others wait, and S0 knows it.
fn all_wait(count: usize, options: &[(&str, &str)]) -> Heuristic {
    let mut world = Heuristic::with(count, options);
    for site in SiteId::all(count) {
        let _ = world.request(site);
        world.settle();
    }
    world
}

fn only(inside: &SiteSet) -> SiteId {
    assert_eq!(inside.len(), 1);
    inside.first().unwrap()
}

#[test]
fn a_request_rides_on_the_token() {
    let [s0, s1, s2] = SiteId::first();
    let mut world = all_wait(3, &[("adaptive", "yes")]);
    assert_eq!(world.release_and_request(s0), [send(s1, token(1, &[0, 1, 2], &[1, 1, 1]))]);
    assert_eq!(world.deliver(s0, s1), [enter()]);
    assert_eq!(world.release(s1), [send(s2, token(2, &[0, 2], &[1, 1, 1]))]);
    assert_eq!(world.deliver(s1, s2), [enter()]);
    assert_eq!(world.release(s2), [send(s0, token(3, &[0], &[1, 1, 1]))]);
    assert_eq!(world.deliver(s2, s0), [enter()]);
    assert_eq!(world.release(s0), []);
    assert!(world.is_quiet() && is_strict_staircase(&world));
}

#[test]
fn who_wants_in_again_while_nobody_waits_enters_without_a_message() {
    let [s0] = SiteId::first();
    let mut world = Heuristic::with(3, &[("adaptive", "yes")]);
    assert_eq!(world.request(s0), [enter()]);
    assert_eq!(world.release_and_request(s0), [enter()]);
}

/// Every site always wants to enter: messages and entries of twenty rounds.
fn saturated(count: usize, options: &[(&str, &str)]) -> (u64, Vec<usize>) {
    let mut world = all_wait(count, options);
    let (before, entered) = (world.messages(), world.entries().len());
    for _ in 0..20 * count {
        let site = only(world.inside());
        let _ = world.release_and_request(site);
        world.settle();
    }
    let turns = |site| world.entries()[entered..].iter().filter(|entry| entry.site == site).count();
    (world.messages() - before, SiteId::all(count).map(turns).collect())
}

/// Reference: section V-B and V-C, heavy traffic: N messages per entry as printed, 1 with the option.
#[test]
fn at_heavy_load_an_entry_costs_one_message_and_everyone_has_its_turn() {
    for count in [2, 5, 10] {
        let entries = 20 * u64::try_from(count).unwrap();
        let fair = vec![20; count];
        assert_eq!(saturated(count, &[("adaptive", "yes")]), (entries, fair.clone()));
        let plain = entries * u64::try_from(count).unwrap();
        assert_eq!(saturated(count, &[]), (plain, fair));
    }
}

/// One site at a time, in an order that looks random.
fn lone_requests(options: &[(&str, &str)]) -> u64 {
    let mut draws = Draws(1);
    let mut world = Heuristic::with(7, options);
    for _ in 0..200 {
        let site = SiteId::new(draws.below(7));
        let _ = world.request(site);
        world.settle();
        let _ = world.release(site);
        world.settle();
    }
    world.messages()
}

#[test]
fn at_low_load_nothing_is_lost() {
    let plain = lone_requests(&[]);
    assert_eq!(lone_requests(&[("adaptive", "yes")]), plain);
    assert_eq!(lone_requests(&[("focused", "yes")]), plain);
    assert_eq!(lone_requests(&[("adaptive", "yes"), ("focused", "yes")]), plain);
}

#[test]
fn the_last_in_line_alone_is_asked() {
    let [s0, s1, s2, s3] = SiteId::first();
    let mut world = all_wait(4, &[("focused", "yes")]);
    assert_eq!(world.release(s0), [send(s1, token(1, &[1, 2, 3], &[0, 1, 1, 1]))]);
    let focus = Message::Focus { number: number(1), expects: number(1) };
    assert_eq!(world.request(s0), [send(s3, focus)]);
    // S3 still waits: that is enough.
    assert_eq!(world.deliver(s0, s3), []);
    for _ in 0..3 {
        world.settle();
        let _ = world.release(only(world.inside()));
    }
    assert_eq!(world.deliver(s3, s0), [enter()]);
    // The others were not asked and may look elsewhere: they are told that the token stays here.
    assert_eq!(world.release(s0), [send(s1, request(1)), send(s2, request(1))]);
    world.settle();
    assert!(world.is_quiet() && is_strict_staircase(&world));
}

#[test]
fn if_the_last_in_line_has_been_served_the_others_are_asked() {
    let [s0, s1, s2, s3] = SiteId::first();
    let mut world = all_wait(4, &[("focused", "yes")]);
    let _ = world.release(s0);
    for _ in 0..3 {
        world.settle();
        let _ = world.release(only(world.inside()));
    }
    // Another has the token by now.
    let _ = world.request(s2);
    world.settle();
    assert_eq!(*world.inside(), sites(&[2]));
    assert_eq!(world.request(s0), [send(s3, Message::Focus { number: number(1), expects: number(1) })]);
    assert_eq!(world.deliver(s0, s3), [send(s0, Message::Miss { number: number(1) })]);
    assert_eq!(world.deliver(s3, s0), [send(s1, request(1)), send(s2, request(1))]);
    world.settle();
    assert_eq!(world.release(s2), [send(s0, token(5, &[0], &[1, 1, 2, 1]))]);
    // It has come again.
    let before = world.sites().to_vec();
    assert_eq!(world.inject(s3, s0, Message::Miss { number: number(1) }), []);
    assert_eq!(world.inject(s0, s3, Message::Focus { number: number(1), expects: number(1) }), []);
    assert_eq!(world.sites(), before);
}

/// Each site asks again when the next one is inside: messages of two hundred entries.
fn soon_after(options: Options) -> u64 {
    let mut world = all_wait(10, options);
    let before = world.messages();
    for _ in 0..200 {
        let left = only(world.inside());
        let _ = world.release(left);
        world.settle();
        let _ = world.request(left);
        world.settle();
    }
    world.messages() - before
}

/// As long as at least half are known to wait, two messages; then the row is asked, which the token tells to the next
/// round.
#[test]
fn who_asks_soon_after_it_left_pays_less() {
    assert_eq!(soon_after(&[]), 2000);
    assert_eq!(soon_after(&[("focused", "yes")]), 727);
}
