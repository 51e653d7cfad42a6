//! Requests along stars, lines and other trees, the direct hand-over, and what no correct peer sends.

use super::*;
use crate::world::{World, enter, misbehaved, send};

fn request(site: SiteId, number: u64, crossing: u64) -> Message {
    Message::Request { originator: RequestId { site, number }, crossing }
}

fn privilege(serves: u64) -> Message {
    Message::Privilege { serves }
}

fn nexts(world: &World<NeilsenMizuno>) -> Vec<Option<SiteId>> {
    world.sites().iter().map(|site| site.next).collect()
}

/// Reference: the lone exchange at the head of the file, and the abstract's three messages.
#[test]
fn in_a_star_an_entry_costs_three_messages_at_most() {
    let [s0, s1, s2] = SiteId::first();
    let mut world = World::<NeilsenMizuno>::of(3);
    let _ = world.request(s2);
    world.settle();
    let _ = world.release(s2);
    let before = world.messages();
    assert_eq!(world.request(s1), [send(s0, request(s1, 1, 1))]);
    assert_eq!(world.deliver(s1, s0), [send(s2, request(s1, 1, 2))]);
    assert_eq!(world.deliver(s0, s2), [send(s1, privilege(1))]);
    assert_eq!(world.deliver(s2, s1), [enter()]);
    assert_eq!(nexts(&world), [Some(s1), None, Some(s0)]);
    assert_eq!(world.messages() - before, 3);
}

/// Reference: the contended exchange at the head of the file.
#[test]
fn whoever_asks_later_follows_and_the_privilege_passes_no_site_between() {
    let [s0, s1, s2, s3] = SiteId::first();
    let mut world = World::<NeilsenMizuno>::held_by(4, &[s2]);
    assert_eq!(world.request(s1), [send(s0, request(s1, 1, 1))]);
    assert_eq!(world.deliver(s1, s0), [send(s2, request(s1, 1, 1))]);
    assert_eq!(world.deliver(s0, s2), []);
    assert_eq!(world.request(s3), [send(s0, request(s3, 1, 1))]);
    assert_eq!(world.deliver(s3, s0), [send(s1, request(s3, 1, 2))]);
    assert_eq!(world.deliver(s0, s1), []);
    assert_eq!(world.release(s2), [send(s1, privilege(1))]);
    assert_eq!(world.deliver(s2, s1), [enter()]);
    assert_eq!(world.release(s1), [send(s3, privilege(1))]);
    assert_eq!(world.deliver(s1, s3), [enter()]);
    assert_eq!(world.release(s3), []);
    assert!(world.is_quiet());
}

/// D requests and one privilege: the line is the worst tree.
#[test]
fn along_a_line_a_request_turns_every_edge_to_its_originator() {
    let [s0, s1, s2, s3] = SiteId::first();
    let mut world = World::<NeilsenMizuno>::with(4, &[("tree", "line")]);
    assert_eq!(nexts(&world), [None, Some(s0), Some(s1), Some(s2)]);
    assert_eq!(world.request(s3), [send(s2, request(s3, 1, 1))]);
    assert_eq!(world.deliver(s3, s2), [send(s1, request(s3, 1, 1))]);
    assert_eq!(world.deliver(s2, s1), [send(s0, request(s3, 1, 1))]);
    assert_eq!(world.deliver(s1, s0), [send(s3, privilege(1))]);
    assert_eq!(world.deliver(s0, s3), [enter()]);
    assert_eq!(nexts(&world), [Some(s1), Some(s2), Some(s3), None]);
    assert_eq!(world.messages(), 4);
}

/// Two requests that walk at the same time: where they meet, the second follows the first, though neither has ended its way.
#[test]
fn a_request_that_meets_the_way_of_another_turns_off_after_it() {
    let [s0, s1, s2, s3] = SiteId::first();
    let mut world = World::<NeilsenMizuno>::with(4, &[("tree", "0-1/1-2/1-3")]);
    let _ = world.request(s2);
    let _ = world.request(s3);
    assert_eq!(world.deliver(s2, s1), [send(s0, request(s2, 1, 1))]);
    assert_eq!(world.deliver(s3, s1), [send(s2, request(s3, 1, 2))]);
    assert_eq!(world.deliver(s1, s2), []);
    assert_eq!(world.deliver(s1, s0), [send(s2, privilege(1))]);
    assert_eq!(world.deliver(s0, s2), [enter()]);
    assert_eq!(world.release(s2), [send(s3, privilege(1))]);
}

#[test]
fn the_site_that_keeps_the_privilege_enters_again_without_a_message() {
    let [_, s1] = SiteId::first();
    let mut world = World::<NeilsenMizuno>::of(2);
    let _ = world.request(s1);
    world.settle();
    assert_eq!(world.release(s1), []);
    assert_eq!(world.request(s1), [enter()]);
}

#[test]
fn what_no_correct_peer_sends_changes_nothing_and_is_reported() {
    let [s0, s1, s2, s3] = SiteId::first();
    let mut world = World::<NeilsenMizuno>::with(4, &[("tree", "line")]);
    let stranger = SiteId::new(9);
    let before = world.sites().to_vec();
    assert_eq!(world.inject(stranger, s0, privilege(1)), [misbehaved(stranger, NOT_A_PEER)]);
    assert_eq!(world.inject(s0, s0, request(s1, 1, 1)), [misbehaved(s0, NOT_A_PEER)]);
    let no_neighbour = "a request of a site that is no neighbour";
    assert_eq!(world.inject(s2, s0, request(s2, 1, 1)), [misbehaved(s2, no_neighbour)]);
    for (to, of) in [(s2, s1), (s2, s2), (s2, s0), (s2, stranger)] {
        let effects = world.inject(s3, to, request(of, 1, 1));
        assert_eq!(effects, [misbehaved(s3, "a request of no site on that side")]);
    }
    let turned = "a request along an edge that does not lead here";
    assert_eq!(world.inject(s0, s1, request(s0, 1, 1)), [misbehaved(s0, turned)]);
    assert_eq!(world.inject(s2, s1, request(s2, 1, 2)), [misbehaved(s2, turned)]);
    assert_eq!(world.inject(s0, s1, privilege(0)), [misbehaved(s0, "a privilege that nobody waits for")]);
    assert_eq!(world.sites(), before);
    let _ = world.request(s1);
    assert_eq!(world.inject(s0, s1, privilege(2)), [misbehaved(s0, "a privilege that nobody waits for")]);
}
