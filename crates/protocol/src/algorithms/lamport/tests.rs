//! Scenarios of Lamport's algorithm.

use super::*;
use crate::world::{World, enter, misbehaved, send};

const STALE: &str = "a message that is not newer than its last";

fn request(clock: u64) -> Message {
    Message::Request { clock: Clock::at(clock) }
}

fn reply(clock: u64, to: u64) -> Message {
    Message::Reply { clock: Clock::at(clock), to: Clock::at(to) }
}

fn release(clock: u64) -> Message {
    Message::Release { clock: Clock::at(clock) }
}

/// Reference: chapter 9, Figures 9.3 to 9.6.
#[test]
fn the_smaller_timestamp_enters_first_and_its_release_lets_the_other_in() {
    let [s1, s2, s3] = SiteId::first();
    let mut world = World::<Lamport>::of(3);
    // Figure 9.3: S1 and S2 ask with the timestamps (1,1) and (1,2).
    assert_eq!(world.request(s1), [send(s2, request(1)), send(s3, request(1))]);
    assert_eq!(world.request(s2), [send(s1, request(1)), send(s3, request(1))]);
    // Figure 9.4: both get all replies, S1 heads its queue and enters, S2 does not.
    assert_eq!(world.deliver(s1, s2), [send(s1, reply(2, 1))]);
    assert_eq!(world.deliver(s1, s3), [send(s1, reply(2, 1))]);
    assert_eq!(world.deliver(s2, s1), [send(s2, reply(2, 1))]);
    assert_eq!(world.deliver(s2, s3), [send(s2, reply(3, 1))]);
    assert_eq!(world.deliver(s2, s1), []);
    assert_eq!(world.deliver(s3, s1), [enter()]);
    assert_eq!(world.deliver(s1, s2), []);
    assert_eq!(world.deliver(s3, s2), []);
    // Figure 9.5: S1 leaves and says so.
    assert_eq!(world.release(s1), [send(s2, release(3)), send(s3, release(3))]);
    // Figure 9.6: now S2 heads its queue and enters.
    assert_eq!(world.deliver(s1, s2), [enter()]);
    assert_eq!(world.deliver(s1, s3), []);
    assert_eq!(world.release(s2), [send(s1, release(4)), send(s3, release(4))]);
    assert_eq!(world.deliver(s2, s1), []);
    assert_eq!(world.deliver(s2, s3), []);
    assert!(world.is_quiet());
    assert_eq!(world.messages(), 2 * 3 * 2);
}

/// Reference: chapter 9, exercise 9.4, and "An optimization" in section 9.3, on Figures 9.3 to 9.6.
#[test]
fn a_later_request_that_has_been_sent_is_the_reply() {
    let [s1, s2, s3] = SiteId::first();
    let mut world = World::<Lamport>::with(3, &[("omit-replies", "yes")]);
    assert_eq!(world.request(s1), [send(s2, request(1)), send(s3, request(1))]);
    assert_eq!(world.request(s2), [send(s1, request(1)), send(s3, request(1))]);
    // S2 has sent (1,2), which is later than (1,1): no reply. S1 must still reply to S2.
    assert_eq!(world.deliver(s1, s2), []);
    assert_eq!(world.deliver(s2, s1), [send(s2, reply(2, 1))]);
    assert_eq!(world.deliver(s1, s3), [send(s1, reply(2, 1))]);
    assert_eq!(world.deliver(s2, s3), [send(s2, reply(3, 1))]);
    assert_eq!(world.deliver(s3, s1), [enter()]);
    assert_eq!(world.deliver(s1, s2), []);
    assert_eq!(world.deliver(s3, s2), []);
    assert_eq!(world.release(s1), [send(s2, release(3)), send(s3, release(3))]);
    assert_eq!(world.deliver(s1, s2), [enter()]);
    assert_eq!(world.messages(), 2 + 2 + 3 + 2);
}

/// Reference: chapter 9, exercise 9.4: between 2(N−1) and 3(N−1) messages.
#[test]
fn when_all_ask_at_once_half_of_the_replies_are_omitted() {
    let sites = 5;
    let cost = |options: &[(&str, &str)]| {
        let mut world = World::<Lamport>::with(sites, options);
        SiteId::all(sites).for_each(|site| drop(world.request(site)));
        world.settle();
        for site in SiteId::all(sites) {
            let _ = world.release(site);
            world.settle();
        }
        assert!(world.is_quiet());
        world.messages()
    };
    assert_eq!(cost(&[]), 5 * 3 * 4);
    assert_eq!(cost(&[("omit-replies", "yes")]), 5 * 3 * 4 - 5 * 4 / 2);
}

/// Reference: chapter 9, exercise 9.3: a site inside need not head the queue of another site.
#[test]
fn a_site_inside_may_be_second_in_a_queue_that_has_not_heard_of_the_last_exit() {
    let [s1, s2, s3] = SiteId::first();
    let mut world = World::<Lamport>::of(3);
    let _ = world.request(s1);
    let _ = world.request(s2);
    world.settle();
    let _ = world.release(s1);
    assert_eq!(world.deliver(s1, s2), [enter()]);
    let queue: Vec<SiteId> = world.site(s3).queue.iter().map(|request| request.site).collect();
    assert_eq!(queue, [s1, s2]);
}

#[test]
fn a_lone_request_costs_three_messages_for_every_other_site() {
    for sites in [1, 2, 3, 7, 31] {
        let mut world = World::<Lamport>::of(sites);
        let last = SiteId::new(sites - 1);
        let _ = world.request(last);
        world.settle();
        let _ = world.release(last);
        world.settle();
        assert_eq!(world.messages(), 3 * (sites as u64 - 1));
        assert!(world.is_quiet());
    }
}

#[test]
fn a_single_site_enters_without_a_message() {
    let [s1] = SiteId::first();
    let mut world = World::<Lamport>::of(1);
    assert_eq!(world.request(s1), [enter()]);
    assert_eq!(world.release(s1), []);
    assert!(world.is_quiet());
}

#[test]
fn a_holder_from_the_start_heads_every_queue() {
    let [s1, s2] = SiteId::first();
    let mut world = World::<Lamport>::held_by(2, &[s2]);
    assert_eq!(world.request(s1), [send(s2, request(1))]);
    assert_eq!(world.deliver(s1, s2), [send(s1, reply(2, 1))]);
    assert_eq!(world.deliver(s2, s1), []);
    assert_eq!(world.release(s2), [send(s1, release(3))]);
    assert_eq!(world.deliver(s2, s1), [enter()]);
}

/// Reference: chapter 9, section 9.3: "requires communication channels to deliver messages in FIFO order".
#[test]
fn without_fifo_channels_two_sites_get_in() {
    let [s1, s2] = SiteId::first();
    let mut world = World::<Lamport>::of(2).tolerant();
    assert_eq!(world.request(s1), [send(s2, request(1))]);
    assert_eq!(world.request(s2), [send(s1, request(1))]);
    assert_eq!(world.deliver(s2, s1), [send(s2, reply(2, 1)), enter()]);
    // The reply overtakes the request, and S2 takes it for the proof that nothing earlier will follow.
    assert_eq!(world.deliver_nth(s1, s2, 1), [enter()]);
    assert_eq!(world.inside().len(), 2);
    assert!(world.violation().is_some());
}

#[test]
fn what_no_correct_peer_sends_changes_nothing_and_is_reported() {
    let [s1, s2, s3] = SiteId::first();
    let mut world = World::<Lamport>::of(3);
    let stranger = SiteId::new(9);
    let start = world.site(s1).clone();
    assert_eq!(world.inject(stranger, s1, request(1)), [misbehaved(stranger, NOT_A_PEER)]);
    assert_eq!(world.inject(s1, s1, request(1)), [misbehaved(s1, NOT_A_PEER)]);
    assert_eq!(world.inject(s2, s1, request(0)), [misbehaved(s2, STALE)]);
    assert_eq!(world.inject(s2, s1, reply(9, 1)), [misbehaved(s2, "a reply to no request of mine")]);
    assert_eq!(world.inject(s2, s1, release(9)), [misbehaved(s2, "a release without a request")]);
    assert_eq!(*world.site(s1), start);

    let _ = world.request(s1);
    let _ = world.request(s2);
    world.settle();
    let inside = world.site(s1).clone();
    let twice = "a second request before the first was released";
    assert_eq!(world.inject(s2, s1, request(9)), [misbehaved(s2, twice)]);
    assert_eq!(world.inject(s3, s1, reply(9, 1)), [misbehaved(s3, "a reply to no request of mine")]);
    assert_eq!(world.inject(s2, s1, release(9)), [misbehaved(s2, "a release before its turn")]);
    assert_eq!(*world.site(s1), inside);
}

#[test]
fn a_duplicate_at_any_later_time_changes_nothing() {
    let [s1, s2] = SiteId::first();
    let mut world = World::<Lamport>::of(2);
    let _ = world.request(s1);
    world.settle();
    let _ = world.release(s1);
    world.settle();
    let _ = world.request(s1);
    let (waiting, idle) = (world.site(s1).clone(), world.site(s2).clone());
    assert_eq!(world.inject(s2, s1, reply(2, 1)), [misbehaved(s2, STALE)]);
    assert_eq!(world.inject(s1, s2, request(1)), [misbehaved(s1, STALE)]);
    assert_eq!(world.inject(s1, s2, release(3)), [misbehaved(s1, STALE)]);
    assert_eq!((world.site(s1), world.site(s2)), (&waiting, &idle));
}
