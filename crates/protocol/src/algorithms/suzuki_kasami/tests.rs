//! Scenarios of Suzuki and Kasami's algorithm.

use super::*;
use crate::Effect;
use crate::world::{World, enter, misbehaved, send};

fn request(number: u64) -> Message {
    Message::Request { number: Count::at(number) }
}

/// The token with these numbers served, this queue, handed over so many times.
fn token(served: &[u64], queue: &[SiteId], handovers: u64) -> Message {
    Message::Token(Box::new(SuzukiKasamiToken {
        served: served.iter().map(|&number| Count::at(number)).collect(),
        queue: queue.iter().copied().collect(),
        handovers: Count::at(handovers),
    }))
}

/// Reference: chapter 9, section 9.11, Algorithm 9.7 and "Performance": no message with the token, N without.
#[test]
fn the_idle_token_goes_to_whoever_asks_and_stays_there() {
    let [s1, s2, s3] = SiteId::first();
    let mut world = World::<SuzukiKasami>::of(3);
    assert_eq!(world.request(s1), [enter()]);
    assert_eq!(world.release(s1), []);
    assert_eq!(world.request(s3), [send(s1, request(1)), send(s2, request(1))]);
    assert_eq!(world.deliver(s3, s1), [send(s3, token(&[0, 0, 0], &[], 1))]);
    assert_eq!(world.deliver(s1, s3), [enter()]);
    assert_eq!(world.deliver(s3, s2), []);
    assert_eq!(world.release(s3), []);
    assert_eq!(world.request(s3), [enter()]);
    assert_eq!(world.release(s3), []);
    assert!(world.is_quiet());
    assert_eq!(world.messages(), 3);
}

/// Reference: chapter 9, Algorithm 9.7, steps (d) to (f).
#[test]
fn whoever_asked_during_the_critical_section_is_served_in_turn_from_the_site_after_the_holder() {
    let [s1, s2, s3] = SiteId::first();
    let mut world = World::<SuzukiKasami>::held_by(3, &[s2]);
    assert_eq!(world.request(s1), [send(s2, request(1)), send(s3, request(1))]);
    assert_eq!(world.request(s3), [send(s1, request(1)), send(s2, request(1))]);
    assert_eq!(world.deliver(s1, s2), []);
    assert_eq!(world.deliver(s3, s2), []);
    // S3 comes after S2 in the round, S1 after S3.
    assert_eq!(world.release(s2), [send(s3, token(&[0, 0, 0], &[s1], 1))]);
    assert_eq!(world.deliver(s2, s3), [enter()]);
    assert_eq!(world.release(s3), [send(s1, token(&[0, 0, 1], &[], 2))]);
    // The requests of S1 and S3 reach the others when they are served already: outdated, nothing happens.
    assert_eq!(world.deliver(s1, s3), []);
    assert_eq!(world.deliver(s3, s1), []);
    assert_eq!(world.deliver(s3, s1), [enter()]);
    assert_eq!(world.release(s1), []);
    assert!(world.is_quiet());
}

/// Reference: chapter 9, section 9.11, first design issue.
#[test]
fn an_outdated_request_does_not_move_the_token() {
    let [s1, s2, s3] = SiteId::first();
    let mut world = World::<SuzukiKasami>::of(3);
    let _ = world.request(s2);
    let _ = world.deliver(s2, s1);
    let _ = world.deliver(s1, s2);
    let _ = world.release(s2);
    let _ = world.request(s3);
    assert_eq!(world.deliver(s3, s2), [send(s3, token(&[0, 1, 0], &[], 2))]);
    assert_eq!(world.deliver(s2, s3), []); // S2's first request, late; S3 still waits.
    assert_eq!(world.deliver(s2, s3), [enter()]);
    assert_eq!(world.release(s3), []);
    assert_eq!(world.deliver(s3, s1), []);
    assert!(world.is_quiet());
}

#[test]
fn a_lone_request_costs_nothing_with_the_token_and_a_message_a_site_without() {
    for sites in [2, 3, 7, 31] {
        for (site, cost) in [(0, 0), (sites - 1, sites as u64)] {
            let mut world = World::<SuzukiKasami>::of(sites);
            let _ = world.request(SiteId::new(site));
            world.settle();
            let _ = world.release(SiteId::new(site));
            world.settle();
            assert_eq!(world.messages(), cost);
        }
    }
}

#[test]
fn a_single_site_enters_without_a_message() {
    let [s1] = SiteId::first();
    let mut world = World::<SuzukiKasami>::of(1);
    assert_eq!(world.request(s1), [enter()]);
    assert_eq!(world.release(s1), []);
}

#[test]
fn what_no_correct_peer_sends_changes_nothing_and_is_reported() {
    let [s1, s2, s3] = SiteId::first();
    let mut world = World::<SuzukiKasami>::of(3);
    let stranger = SiteId::new(9);
    let start = world.site(s1).clone();
    assert_eq!(world.inject(stranger, s1, request(1)), [misbehaved(stranger, NOT_A_PEER)]);
    assert_eq!(world.inject(s1, s1, request(1)), [misbehaved(s1, NOT_A_PEER)]);
    assert_eq!(world.inject(s2, s1, request(0)), [misbehaved(s2, "a request with the number of its last")]);
    let ahead = "a request ahead of one that was not served";
    assert_eq!(world.inject(s2, s1, request(2)), [misbehaved(s2, ahead)]);
    let unasked = "a token that nobody waits for";
    assert_eq!(world.inject(s2, s1, token(&[0, 0, 0], &[], 1)), [misbehaved(s2, unasked)]);
    assert_eq!(world.inject(s2, s3, token(&[0, 0, 0], &[], 1)), [misbehaved(s2, unasked)]);
    assert_eq!(*world.site(s1), start);

    let _ = world.request(s2);
    let waiting = world.site(s2).clone();
    for (served, queue) in [
        (&[0, 0][..], &[][..]),
        (&[0, 0, 0, 0], &[]),
        (&[0, 1, 0], &[]),
        (&[0, 0, 0], &[stranger]),
        (&[0, 0, 0], &[s2]),
        (&[0, 0, 0], &[s3, s3]),
    ] {
        let forged = token(served, queue, 1);
        assert_eq!(world.inject(s3, s2, forged), [misbehaved(s3, "a token of a wrong shape")]);
    }
    assert_eq!(*world.site(s2), waiting);
    world.settle();
    assert_eq!(world.inject(s3, s2, token(&[0, 0, 0], &[], 2)), [misbehaved(s3, unasked)]);
}

#[test]
fn a_duplicate_at_any_later_time_changes_nothing() {
    let [s1, s2] = SiteId::first();
    let mut world = World::<SuzukiKasami>::of(2);
    let _ = world.request(s2);
    world.settle();
    let _ = world.release(s2);
    assert_eq!(world.inject(s2, s1, request(1)), [misbehaved(s2, "a request with the number of its last")]);
    let _ = world.request(s1);
    world.settle();
    let _ = world.request(s2);
    // S2 waits for the token again; the one it had before does not let it in.
    let waiting = world.site(s2).clone();
    let old = token(&[0, 0], &[], 1);
    assert_eq!(world.inject(s1, s2, old), [misbehaved(s1, "a token that has been handed over since")]);
    assert_eq!(*world.site(s2), waiting);
    // An old request, once it has been overtaken, could also be late: ignored.
    world.settle();
    let inside = world.site(s1).clone();
    assert_eq!(world.inject(s2, s1, request(1)), []);
    assert_eq!(*world.site(s1), inside);
}

/// Reference: chapter 9, Algorithm 9.7, step (b): "if `RN_j[i] = LN[j] + 1`".
#[test]
fn as_printed_an_idle_holder_keeps_the_token_from_a_site_that_waits() {
    let [s1, s2] = SiteId::first();
    let mut world = World::<SuzukiKasami>::with(2, &[("text", "printed")]);
    let _ = world.request(s2);
    world.settle();
    let _ = world.release(s2);
    assert_eq!(world.request(s1), [send(s2, request(1))]);
    // LN[S2] is 1, so the holder looks for S1's second request, and this is its first.
    assert_eq!(world.deliver(s1, s2), []);
    assert_eq!(world.in_flight().count(), 0);
    assert!(world.is_waiting(s1) && world.site(s2).tokens() == 1);
}

/// Reference: chapter 9, Algorithm 9.7, step (e), which leaves the order open.
#[test]
fn with_any_order_of_appending_the_host_chooses_it() {
    let [s1, s2, s3, s4] = SiteId::first();
    let orders = [[0, 0], [0, 1], [1, 0], [1, 1], [2, 0], [2, 1]].map(|answers| {
        let mut values = Values::defaults(&SuzukiKasami::INFO);
        values.set("append", "any").unwrap();
        let holders = Holders::new(Cluster::of(4), [s1]).unwrap();
        let mut world = World::<SuzukiKasami>::new(Cluster::of(4), &values, &holders).unwrap();
        for site in [s2, s3, s4] {
            let _ = world.request(site);
            assert_eq!(world.deliver(site, s1), []);
        }
        world.answer(&answers);
        let effects = world.release(s1);
        assert!(world.end_answers());
        let Some(Effect::Send { to, message: Message::Token(token) }) = effects.last() else {
            panic!("the token goes on: {effects:?}")
        };
        [*to, token.queue[0], token.queue[1]]
    });
    let mut sorted = orders;
    sorted.sort_unstable();
    assert_eq!(sorted, [[s2, s3, s4], [s2, s4, s3], [s3, s2, s4], [s3, s4, s2], [s4, s2, s3], [s4, s3, s2]]);
}
