//! Scenarios of `raymond-k`.

use super::*;
use crate::world::{World, enter, misbehaved, send};

fn request(clock: u64) -> Message {
    Message::Request { clock: Clock::at(clock) }
}

fn reply(to: u64) -> Message {
    Message::Reply { to: Clock::at(to) }
}

fn world(sites: usize, permits: usize) -> World<RaymondK> {
    let cluster = Cluster::of(sites).with_permits(permits);
    World::new(cluster, &Values::defaults(&RaymondK::INFO), &Holders::none()).unwrap()
}

#[test]
fn alone_a_site_enters_with_all_but_one_reply_of_two_permits() {
    let [s0, s1, s2] = SiteId::first();
    let mut world = world(3, 2);
    assert_eq!(world.request(s0), [send(s1, request(1)), send(s2, request(1))]);
    assert_eq!(world.deliver(s0, s1), [send(s0, reply(1))]);
    assert_eq!(world.deliver(s1, s0), [enter()]);
    assert_eq!(world.release(s0), []);
    // The reply that was not needed is still sent and taken: 2(N−1) messages in all.
    assert_eq!(world.deliver(s0, s2), [send(s0, reply(1))]);
    assert_eq!(world.deliver(s2, s0), []);
    assert!(world.is_quiet());
    assert_eq!(world.messages(), 4);
}

/// Three ask for two permits: the two with the smaller timestamps get in, and the first to leave lets in the third.
#[test]
fn the_third_of_two_permits_waits_for_one_to_leave() {
    let [s0, s1, s2] = SiteId::first();
    let mut world = world(3, 2);
    for site in [s0, s1, s2] {
        let _ = world.request(site);
    }
    assert_eq!(world.deliver(s0, s1), [send(s0, reply(1))], "S0 precedes S1");
    assert_eq!(world.deliver(s1, s0), [], "and defers it");
    assert_eq!(world.deliver(s1, s0), [enter()], "one reply is enough");
    assert_eq!(world.deliver(s2, s0), []);
    assert_eq!(world.deliver(s1, s2), [send(s1, reply(1))]);
    assert_eq!(world.deliver(s2, s1), []);
    assert_eq!(world.deliver(s2, s1), [enter()], "S1 does without the reply of S0");
    assert_eq!(world.deliver(s0, s2), [send(s0, reply(1))]);
    assert_eq!(world.deliver(s2, s0), []);
    // Both inside have deferred S2, and S0 has deferred S1 too.
    assert_eq!(world.release(s0), [send(s1, reply(1)), send(s2, reply(1))]);
    assert_eq!(world.deliver(s0, s2), [enter()]);
    assert_eq!(world.deliver(s0, s1), [], "the reply that S1 did without");
    assert_eq!(world.release(s1), [send(s2, reply(1))]);
    assert_eq!(world.release(s2), []);
    assert_eq!(world.deliver(s1, s2), []);
    assert!(world.is_quiet());
}

/// What the paper's counts are for: S0's first request was deferred by S1; the reply to it is on its way when S0 has
/// asked again and S1 is inside again.
#[test]
fn a_late_reply_to_an_old_request_is_not_credited_to_the_new_one() {
    let [s0, s1, s2] = SiteId::first();
    let cluster = Cluster::of(3).with_permits(2);
    let holders = Holders::new(cluster, [s1]).unwrap();
    let mut world = World::<RaymondK>::new(cluster, &Values::defaults(&RaymondK::INFO), &holders).unwrap();
    let _ = world.request(s0);
    assert_eq!(world.deliver(s0, s1), [], "S1 is inside");
    assert_eq!(world.deliver(s0, s2), [send(s0, reply(1))]);
    assert_eq!(world.deliver(s2, s0), [enter()]);
    assert_eq!(world.release(s0), []);
    assert_eq!(world.release(s1), [send(s0, reply(1))], "on its way for long");
    // S1 enters again, with the reply of S2; S2 enters, with the reply of S0; then S0 asks again.
    let _ = world.request(s1);
    assert_eq!(world.deliver(s1, s2), [send(s1, reply(2))]);
    assert_eq!(world.deliver(s2, s1), [enter()]);
    let _ = world.request(s2);
    assert_eq!(world.deliver(s2, s0), [send(s2, reply(3))]);
    assert_eq!(world.deliver(s0, s2), [enter()]);
    assert_eq!(world.request(s0), [send(s1, request(4)), send(s2, request(4))]);
    assert_eq!(world.deliver(s1, s0), [], "the reply to the first request lets nobody in");
    assert_eq!(world.inside().len(), 2);
}

/// One reply answers the deferred requests of a site together: 2N−K−1 messages for one of them.
#[test]
fn two_deferred_requests_of_one_site_get_one_reply() {
    let [s0, s1, s2] = SiteId::first();
    let cluster = Cluster::of(3).with_permits(2);
    let holders = Holders::new(cluster, [s1]).unwrap();
    let mut world = World::<RaymondK>::new(cluster, &Values::defaults(&RaymondK::INFO), &holders).unwrap();
    for _ in 0..2 {
        let _ = world.request(s0);
        assert_eq!(world.deliver(s0, s1), []);
        let _ = world.deliver(s0, s2);
        assert_eq!(world.deliver(s2, s0), [enter()]);
        assert_eq!(world.release(s0), []);
    }
    assert_eq!(world.release(s1), [send(s0, reply(2))]);
    assert_eq!(world.messages(), 2 * 2 + 3);
}

#[test]
fn a_request_overtaken_by_a_newer_one_needs_no_answer() {
    let [s0, s1, s2] = SiteId::first();
    let mut world = world(3, 2);
    let _ = world.request(s0);
    let _ = world.deliver(s0, s2);
    assert_eq!(world.deliver(s2, s0), [enter()]);
    let _ = world.release(s0);
    let _ = world.request(s0);
    assert_eq!(world.deliver_nth(s0, s1, 1), [send(s0, reply(2))]);
    assert_eq!(world.deliver(s1, s0), [enter()]);
    assert_eq!(world.deliver(s0, s1), []);
}

#[test]
fn holders_from_the_start_are_waited_for() {
    let [s0, s1, s2] = SiteId::first();
    let mut world = World::<RaymondK>::held_by(3, &[s1, s2]);
    let _ = world.request(s0);
    assert_eq!(world.deliver(s0, s1), []);
    assert_eq!(world.deliver(s0, s2), []);
    assert_eq!(world.release(s2), [send(s0, reply(1))]);
    assert_eq!(world.deliver(s2, s0), [enter()]);
}

#[test]
fn with_a_permit_for_everyone_nobody_asks() {
    let [s0, s1] = SiteId::first();
    let mut world = world(2, 2);
    assert_eq!(world.request(s0), [enter()]);
    assert_eq!(world.request(s1), [enter()]);
    assert_eq!(world.release(s0), []);
    assert_eq!(world.request(s0), [enter()]);
}

#[test]
fn what_no_correct_peer_sends_changes_nothing_and_is_reported() {
    let [s0, s1, s2] = SiteId::first();
    let mut world = world(3, 1);
    let stranger = SiteId::new(9);
    let unasked = "a reply that nobody waits for";
    assert_eq!(world.inject(stranger, s0, request(1)), [misbehaved(stranger, NOT_A_PEER)]);
    assert_eq!(world.inject(s0, s0, request(1)), [misbehaved(s0, NOT_A_PEER)]);
    assert_eq!(world.inject(s1, s0, reply(0)), [misbehaved(s1, unasked)]);
    assert_eq!(world.inject(s1, s0, reply(5)), [misbehaved(s1, unasked)]);
    let _ = world.request(s1);
    let _ = world.deliver(s1, s2);
    let _ = world.deliver(s2, s1);
    let (waits, idle) = (world.site(s1).clone(), world.site(s2).clone());
    assert_eq!(world.inject(s2, s1, reply(1)), [misbehaved(s2, unasked)], "a second reply");
    assert_eq!(world.inject(s1, s2, request(1)), [misbehaved(s1, "a request that has come before")]);
    assert_eq!((world.site(s1), world.site(s2)), (&waits, &idle));
}
