//! What no correct peer sends changes nothing and is reported; and how a run starts with a holder.

use super::*;
use crate::world::{enter, misbehaved, send};

#[test]
fn a_holder_from_the_start_is_waited_for() {
    let [s0, s1, s2] = SiteId::first();
    let mut world = Lodha::held_by(3, &[s1]);
    assert_eq!(world.request(s0), [send(s1, request(1)), send(s2, request(1))]);
    assert_eq!(world.deliver(s0, s1), []);
    assert_eq!(world.deliver(s0, s2), [send(s0, reply(1))]);
    assert_eq!(world.deliver(s2, s0), []);
    assert_eq!(world.release(s1), [send(s0, reply_after(0, 1))]);
    assert_eq!(world.deliver(s1, s0), [enter()]);
}

/// Lets `from` send each of `messages` to `to` and expects the objection, and nothing else.
fn assert_refused(world: &mut Lodha, from: SiteId, to: SiteId, messages: &[Message], why: &'static str) {
    let before = world.sites().to_vec();
    for message in messages {
        assert_eq!(world.inject(from, to, message.clone()), [misbehaved(from, why)]);
    }
    assert_eq!(world.sites(), before);
}

#[test]
fn what_comes_from_outside_the_view_is_refused() {
    let [s0, ..] = SiteId::first::<3>();
    let mut world = Lodha::of(3);
    let all = [request(1), reply(1), flush(1)];
    assert_refused(&mut world, SiteId::new(9), s0, &all, NOT_A_PEER);
    assert_refused(&mut world, s0, s0, &all, NOT_A_PEER);
}

#[test]
fn replies_and_flushes_that_answer_nothing_are_refused() {
    let [s0, s1, s2] = SiteId::first();
    let mut world = Lodha::of(3);
    let unwanted = "a reply that nobody waits for";
    assert_refused(&mut world, s1, s0, &[reply(0), reply(1), reply_after(0, 0)], unwanted);
    assert_refused(&mut world, s1, s0, &[flush(0), flush(1)], "a flush that calls finished what is not");
    let _ = world.request(s0);
    assert_refused(&mut world, s1, s0, &[reply(0), reply(2)], unwanted);
    let false_claim = "a reply that calls finished what is not";
    assert_refused(&mut world, s1, s0, &[reply_after(1, 1), reply_after(u64::MAX, 1)], false_claim);
    // S1's request, later than S0's, cannot be finished while S0 waits.
    let _ = world.request(s1);
    assert_eq!(world.deliver(s1, s0), []);
    assert_refused(&mut world, s1, s0, &[flush(1)], "a flush that calls finished what is not");
    assert_refused(&mut world, s1, s0, &[request(5)], "a second request before the first was served");
    assert_refused(&mut world, s1, s0, &[reply_after(1, 1)], unwanted);
    world.settle();
    assert_eq!(world.inside().to_string(), "{0}");
    assert_refused(&mut world, s2, s0, &[reply(1)], unwanted);
}

#[test]
fn duplicates_change_nothing() {
    let [s0, s1, s2] = SiteId::first();
    let mut world = Lodha::of(3);
    let _ = world.request(s0);
    let _ = world.request(s1);
    world.settle();
    let stale = "a request that is not newer than its last";
    assert_refused(&mut world, s0, s2, &[request(1)], stale);
    assert_refused(&mut world, s1, s0, &[request(1)], stale);
    let _ = world.request(s2);
    world.settle();
    assert_refused(&mut world, s2, s0, &[request(9)], "a second request before the first was served");
    assert_eq!(world.release(s0), [send(s1, flush(1)), send(s2, reply_after(1, 2))]);
    world.settle();
    // A FLUSH may come after its news: nothing to report.
    let before = world.sites().to_vec();
    assert_eq!(world.inject(s0, s1, flush(1)), []);
    assert_eq!(world.sites(), before);
    assert_refused(&mut world, s0, s2, &[reply_after(1, 2)], "a reply that nobody waits for");
}

#[test]
fn a_handover_without_the_option_is_refused() {
    let [s0, s1, s2] = SiteId::first();
    let mut world = Lodha::of(3);
    let _ = world.request(s0);
    let one = handover(1, id(0, s1), &[(id(1, s0), &[s1, s2])]);
    assert_refused(&mut world, s1, s0, &[one], "a hand-over without combined-exit");
}

#[test]
fn handovers_of_a_wrong_shape_are_refused() {
    let [s0, s1, s2] = SiteId::first();
    let mut world = Lodha::with(3, &[("combined-exit", "yes")]);
    let _ = world.request(s0);
    let (done, mine, theirs, stranger) = (id(0, s1), id(1, s0), id(1, s2), SiteId::new(9));
    let wrong = [
        handover(1, done, &[]),
        handover(1, done, &[(theirs, &[s1])]),
        handover(1, done, &[(mine, &[]), (mine, &[])]),
        handover(1, done, &[(mine, &[]), (id(0, s2), &[])]),
        handover(1, done, &[(mine, &[s0])]),
        handover(1, done, &[(mine, &[stranger])]),
        handover(1, done, &[(mine, &[]), (id(2, stranger), &[])]),
        handover(1, id(0, stranger), &[(mine, &[])]),
        handover(1, done, &[(mine, &[]), (id(2, s2), &[]), (id(3, s2), &[]), (id(4, s2), &[])]),
    ];
    assert_refused(&mut world, s1, s0, &wrong, "a hand-over of a wrong shape");
    let false_claim = "a hand-over that calls finished what is not";
    assert_refused(&mut world, s1, s0, &[handover(1, mine, &[(mine, &[])])], false_claim);
    let unnumbered = handover(0, done, &[(mine, &[])]);
    assert_refused(&mut world, s1, s0, &[unnumbered], "a hand-over that came before");
}
