//! The worked examples of section 9.5.2, step by step.

use super::*;
use crate::world::{World, enter, misbehaved, send};

fn request(clock: u64) -> Message {
    Message::Request { clock: Clock::at(clock) }
}

fn reply(to: u64, clock: u64) -> Message {
    Message::Reply { to: Clock::at(to), clock: Clock::at(clock) }
}

fn asks(world: &World<SinghalDynamic>, site: SiteId) -> String {
    world.site(site).request_set.to_string()
}

/// The five sites of the example of section 9.5.2, where S2 and S3 ask at once. `s2_clock` is S2's clock before that, so
/// that its request gets the timestamp that the scenario wants.
fn s2_and_s3_ask(s2_clock: u64) -> World<SinghalDynamic> {
    let [s1, s2, s3, ..] = SiteId::first::<5>();
    let mut world = World::<SinghalDynamic>::of(5);
    world.site_mut(s2).clock = Clock::at(s2_clock);
    assert_eq!(world.request(s3), [send(s1, request(1)), send(s2, request(1))]);
    assert_eq!(world.request(s2), [send(s1, request(s2_clock + 1))]);
    world
}

/// Reference: section 9.5.2, example, scenario 1. (S3 need not have the smaller clock: at equal clocks S2 precedes,
/// so S2 asks with clock 2.)
#[test]
fn a_waiting_site_replies_to_a_request_that_precedes_and_asks_in_turn() {
    let [s1, s2, s3, s4, s5] = SiteId::first();
    let mut world = s2_and_s3_ask(1);
    assert_eq!(world.deliver(s3, s2), [send(s3, reply(1, 2)), send(s3, request(2))]);
    assert_eq!(asks(&world, s2), "{0,2}");
    // S1 wants nothing: it replies to both, and will ask both.
    assert_eq!(world.deliver(s2, s1), [send(s2, reply(2, 2))]);
    assert_eq!(world.deliver(s3, s1), [send(s3, reply(1, 2))]);
    assert_eq!(asks(&world, s1), "{1,2}");
    assert_eq!(world.deliver(s2, s3), []);
    assert_eq!(asks(&world, s3), "{0}");
    assert_eq!(world.deliver(s1, s3), [enter()]);
    // S2's request reaches S3 inside; its exit lets S2 in.
    assert_eq!(world.deliver(s1, s2), []);
    assert_eq!(world.deliver(s2, s3), []);
    assert_eq!(world.release(s3), [send(s2, reply(2, 2))]);
    assert_eq!(world.deliver(s3, s2), [enter()]);
    assert_eq!(world.release(s2), []);
    // The last to enter stands at the lower end.
    assert!(world.is_quiet());
    let all = [s2, s3, s1, s4, s5].map(|site| asks(&world, site));
    assert_eq!(all, ["{}", "{1}", "{1,2}", "{0,1,2}", "{0,1,2,3}"]);
}

/// Reference: section 9.5.2, example, scenario 2.
#[test]
fn a_waiting_site_that_precedes_defers_its_reply_until_it_leaves() {
    let [s1, s2, s3, ..] = SiteId::first::<5>();
    let mut world = s2_and_s3_ask(0);
    assert_eq!(world.deliver(s3, s2), []);
    assert_eq!(world.deliver(s2, s1), [send(s2, reply(1, 1))]);
    assert_eq!(world.deliver(s1, s2), [enter()]);
    assert_eq!(world.release(s2), [send(s3, reply(1, 1))]);
    assert_eq!(asks(&world, s2), "{2}");
    assert_eq!(world.deliver(s2, s3), []);
    assert_eq!(world.deliver(s3, s1), [send(s3, reply(1, 1))]);
    assert_eq!(world.deliver(s1, s3), [enter()]);
    assert_eq!(world.release(s3), []);
    assert!(world.is_quiet());
}

/// Reference: section 9.5.2, example, scenario 3. The request that S2 enters past is the earlier one: service is
/// not in timestamp order.
#[test]
fn a_site_inside_defers_its_reply_even_to_an_earlier_request() {
    let [s1, s2, s3, ..] = SiteId::first::<5>();
    let mut world = s2_and_s3_ask(1);
    assert_eq!(world.deliver(s2, s1), [send(s2, reply(2, 2))]);
    assert_eq!(world.deliver(s1, s2), [enter()]);
    assert_eq!(world.deliver(s3, s2), []);
    assert_eq!(world.release(s2), [send(s3, reply(1, 2))]);
    assert_eq!(world.deliver(s2, s3), []);
    assert_eq!(world.deliver(s3, s1), [send(s3, reply(1, 2))]);
    assert_eq!(world.deliver(s1, s3), [enter()]);
    assert_eq!(world.release(s3), []);
    assert!(world.is_quiet());
}

/// Reference: section 9.5.1, last paragraph, and section 9.5.4.
#[test]
fn who_entered_last_enters_again_for_nothing() {
    let [s1, s2, s3] = SiteId::first();
    let mut world = World::<SinghalDynamic>::of(3);
    assert_eq!(world.request(s3), [send(s1, request(1)), send(s2, request(1))]);
    world.settle();
    assert_eq!(world.release(s3), []);
    assert_eq!(world.request(s3), [enter()]);
    assert_eq!(world.release(s3), []);
    assert_eq!(world.messages(), 4);
}

#[test]
fn a_holder_from_the_start_stands_at_the_lower_end() {
    let [s1, s2, s3] = SiteId::first();
    let mut world = World::<SinghalDynamic>::held_by(3, &[s2]);
    assert_eq!([s2, s1, s3].map(|site| asks(&world, site)), ["{}", "{1}", "{0,1}"]);
    assert_eq!(world.request(s1), [send(s2, request(1))]);
    assert_eq!(world.deliver(s1, s2), []);
    assert_eq!(world.release(s2), [send(s1, reply(1, 1))]);
    assert_eq!(world.deliver(s2, s1), [enter()]);
}

#[test]
fn what_no_correct_peer_sends_changes_nothing_and_is_reported() {
    let [s1, s2, s3] = SiteId::first();
    let mut world = World::<SinghalDynamic>::of(3);
    let stranger = SiteId::new(9);
    let unwanted = "a reply that nobody waits for";
    assert_eq!(world.inject(stranger, s1, request(1)), [misbehaved(stranger, NOT_A_PEER)]);
    assert_eq!(world.inject(s1, s1, request(1)), [misbehaved(s1, NOT_A_PEER)]);
    assert_eq!(world.inject(s2, s1, reply(0, 7)), [misbehaved(s2, unwanted)]);
    let _ = world.request(s3);
    let before = world.site(s3).clone();
    assert_eq!(world.inject(s1, s3, reply(0, 7)), [misbehaved(s1, unwanted)]);
    assert_eq!(*world.site(s3), before);
    world.settle();
    let before = world.sites().to_vec();
    let stale = "a request that is not newer than its last";
    assert_eq!(world.inject(s3, s1, request(1)), [misbehaved(s3, stale)]);
    assert_eq!(world.inject(s1, s3, reply(1, 1)), [misbehaved(s1, unwanted)]);
    assert_eq!(world.sites(), before);
    let _ = world.request(s2);
    let _ = world.deliver(s2, s3);
    let early = "a second request before the first was answered";
    assert_eq!(world.inject(s2, s3, request(9)), [misbehaved(s2, early)]);
}
