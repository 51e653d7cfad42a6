//! Scenarios of Carvalho and Roucairol's algorithm.

use super::*;
use crate::world::{World, enter, misbehaved, send};

fn request(clock: u64, ask: u64) -> Message {
    Message::Request { clock: Clock::at(clock), ask: Count::at(ask) }
}

fn grant(ask: u64) -> Message {
    Message::Grant { ask: Count::at(ask) }
}

fn set(sites: &[SiteId]) -> SiteSet {
    sites.iter().copied().collect()
}

/// Lets `site` in and out while nobody else wants anything.
fn visit(world: &mut World<CarvalhoRoucairol>, site: SiteId) {
    let _ = world.request(site);
    world.settle();
    let _ = world.release(site);
}

/// Reference: Sanders section 8 and Figure 5: (a) the start, (b) after process 0 was in, (c) after process 2 was in. The
/// order is the one that makes true what the text says of process 3 in Figure 5c.
#[test]
fn each_entry_moves_the_permissions_to_whoever_entered_last() {
    let [p0, p1, p2, p3] = SiteId::first();
    let mut world = World::<CarvalhoRoucairol>::of(4);
    // (a): everyone must ask everyone.
    assert_eq!(
        world.request(p0),
        [send(p1, request(1, 1)), send(p2, request(1, 1)), send(p3, request(1, 1))]
    );
    assert_eq!(world.deliver(p0, p1), [send(p0, grant(1))]);
    assert_eq!(world.deliver(p0, p2), [send(p0, grant(1))]);
    assert_eq!(world.deliver(p0, p3), [send(p0, grant(1))]);
    assert_eq!(world.deliver(p1, p0), []);
    assert_eq!(world.deliver(p2, p0), []);
    assert_eq!(world.deliver(p3, p0), [enter()]);
    assert_eq!(world.release(p0), []);
    // (b): process 0 asks nobody as long as it is alone.
    assert_eq!(world.site(p0).held, set(&[p1, p2, p3]));
    assert_eq!(world.request(p0), [enter()]);
    assert_eq!(world.release(p0), []);
    assert_eq!(world.messages(), 6);
    visit(&mut world, p2);
    // (c): process 0 must ask process 2 again. Process 3 asks all, for it does not know what 0 and 1 know.
    assert_eq!(world.site(p0).held, set(&[p1, p3]));
    assert_eq!(world.site(p2).held, set(&[p0, p1, p3]));
    assert_eq!(
        world.request(p3),
        [send(p0, request(3, 1)), send(p1, request(3, 1)), send(p2, request(3, 1))]
    );
    world.settle();
    let _ = world.release(p3);
    assert_eq!(world.request(p0), [send(p2, request(4, 2)), send(p3, request(4, 2))]);
}

/// Three sites, of which S2 holds the permission of S1 only, and S3 holds all. S1 and S2 ask at the same time.
fn crossing(text: &str) -> World<CarvalhoRoucairol> {
    let [s1, s2, s3] = SiteId::first();
    let mut world = World::<CarvalhoRoucairol>::with(3, &[("text", text)]);
    visit(&mut world, s2);
    visit(&mut world, s3);
    assert_eq!(world.request(s1), [send(s2, request(3, 1)), send(s3, request(3, 1))]);
    assert_eq!(world.request(s2), [send(s3, request(3, 2))]);
    world
}

/// Reference: Sanders section 8, with the request that its rules lack.
#[test]
fn a_waiting_site_that_grants_an_earlier_request_asks_again_with_its_old_timestamp() {
    let [s1, s2, s3] = SiteId::first();
    let mut world = crossing("repaired");
    assert_eq!(world.deliver(s1, s2), [send(s1, grant(1)), send(s1, request(3, 2))]);
    assert_eq!(world.deliver(s1, s3), [send(s1, grant(1))]);
    assert_eq!(world.deliver(s2, s3), [send(s2, grant(2))]);
    assert_eq!(world.deliver(s3, s2), []);
    // The request may even overtake the grant.
    assert_eq!(world.deliver_nth(s2, s1, 1), []);
    assert_eq!(world.deliver(s2, s1), []);
    assert_eq!(world.deliver(s3, s1), [enter()]);
    assert_eq!(world.release(s1), [send(s2, grant(2))]);
    assert_eq!(world.deliver(s1, s2), [enter()]);
    assert_eq!(world.release(s2), []);
    assert!(world.is_quiet());
}

/// Reference: Sanders section 8, rules (1) and (2).
#[test]
fn as_printed_a_waiting_site_that_grants_waits_for_ever() {
    let [s1, s2, _] = SiteId::first();
    let mut world = crossing("printed");
    assert_eq!(world.deliver(s1, s2), [send(s1, grant(1))]);
    world.settle();
    assert!(world.inside().contains(s1));
    assert_eq!(world.release(s1), []);
    assert_eq!(world.in_flight().count(), 0);
    assert!(world.is_waiting(s2));
}

/// Reference: Sanders section 8: "a process will only ask permission from processes that it has never received
/// permission from, or that have been granted permission by it since".
#[test]
fn a_lone_request_costs_two_messages_for_every_other_site_and_nothing_the_second_time() {
    for sites in [1, 2, 3, 7, 31] {
        let mut world = World::<CarvalhoRoucairol>::of(sites);
        let last = SiteId::new(sites - 1);
        visit(&mut world, last);
        assert_eq!(world.messages(), 2 * (sites as u64 - 1));
        visit(&mut world, last);
        assert_eq!(world.messages(), 2 * (sites as u64 - 1));
        assert!(world.is_quiet());
    }
}

/// Order is not promised: whoever holds all permissions does not hear of an earlier request.
#[test]
fn a_site_that_holds_all_permissions_may_overtake_an_earlier_request() {
    let [s1, s2] = SiteId::first();
    let mut world = World::<CarvalhoRoucairol>::of(2);
    visit(&mut world, s2);
    visit(&mut world, s2);
    assert_eq!(world.request(s1), [send(s2, request(2, 1))]);
    assert_eq!(world.request(s2), [enter()]);
    assert!(world.site(s1).timestamp() < world.site(s2).timestamp());
    assert_eq!(world.deliver(s1, s2), []);
    assert_eq!(world.release(s2), [send(s1, grant(1))]);
    assert_eq!(world.deliver(s2, s1), [enter()]);
}

#[test]
fn a_holder_from_the_start_is_waited_for() {
    let [s1, s2] = SiteId::first();
    let mut world = World::<CarvalhoRoucairol>::held_by(2, &[s2]);
    assert_eq!(world.request(s1), [send(s2, request(1, 1))]);
    assert_eq!(world.deliver(s1, s2), []);
    assert_eq!(world.release(s2), [send(s1, grant(1))]);
    assert_eq!(world.deliver(s2, s1), [enter()]);
}

#[test]
fn what_no_correct_peer_sends_changes_nothing_and_is_reported() {
    let [s1, s2, s3] = SiteId::first();
    let mut world = World::<CarvalhoRoucairol>::of(3);
    let stranger = SiteId::new(9);
    let start = world.site(s1).clone();
    let (not_next, unasked) = ("a request that is not its next", "a grant that nobody waits for");
    assert_eq!(world.inject(stranger, s1, request(1, 1)), [misbehaved(stranger, NOT_A_PEER)]);
    assert_eq!(world.inject(s1, s1, grant(1)), [misbehaved(s1, NOT_A_PEER)]);
    assert_eq!(world.inject(s2, s1, request(1, 0)), [misbehaved(s2, not_next)]);
    assert_eq!(world.inject(s2, s1, request(1, 2)), [misbehaved(s2, not_next)]);
    assert_eq!(world.inject(s2, s1, grant(0)), [misbehaved(s2, unasked)]);
    assert_eq!(*world.site(s1), start);

    let _ = world.request(s1);
    let _ = world.request(s2);
    world.settle();
    let inside = world.site(s1).clone();
    let twice = "a second request before the first was answered";
    assert_eq!(world.inject(s2, s1, request(2, 2)), [misbehaved(s2, twice)]);
    assert_eq!(world.inject(s3, s1, grant(1)), [misbehaved(s3, unasked)]);
    assert_eq!(*world.site(s1), inside);
}

#[test]
fn a_duplicate_at_any_later_time_changes_nothing() {
    let [s1, s2, s3] = SiteId::first();
    let mut world = crossing("repaired");
    let _ = world.deliver(s1, s2);
    let _ = world.deliver(s2, s3);
    let _ = world.deliver(s3, s2);
    // S2 lacks only the permission of S1 and has asked for it twice; the first grant does not count twice.
    let waiting = world.site(s2).clone();
    assert_eq!(world.inject(s1, s2, grant(1)), [misbehaved(s1, "a grant that nobody waits for")]);
    assert_eq!(*world.site(s2), waiting);
    let asked = world.site(s1).clone();
    assert_eq!(world.inject(s2, s1, request(1, 1)), [misbehaved(s2, "a request that is not its next")]);
    assert_eq!(*world.site(s1), asked);
}
