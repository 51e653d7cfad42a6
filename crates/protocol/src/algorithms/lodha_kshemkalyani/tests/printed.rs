//! What Figure 2 does as printed: the shortest runs that exploration finds, and the same runs repaired.

use super::*;
use crate::world::{Violation, enter, send};

fn printed() -> Lodha {
    Lodha::with(3, &[("text", "printed")]).tolerant()
}

/// S0, S1 and S2 ask at once, but S0's request reaches S2 last of all, when S0 and S1 are done. The world, and whether
/// S1's FLUSH, and then S0's request, let S2 in.
fn a_request_comes_late(mut world: Lodha) -> (Lodha, bool) {
    let [s0, s1, s2] = SiteId::first();
    let _ = world.request(s0);
    let _ = world.request(s1);
    assert_eq!(world.deliver(s0, s1), []);
    assert_eq!(world.deliver(s1, s0), []);
    let _ = world.request(s2);
    assert_eq!(world.deliver(s1, s2), []);
    assert_eq!(world.deliver(s2, s0), [enter()]);
    assert_eq!(world.deliver(s2, s1), []);
    assert_eq!(world.release(s0), [send(s1, flush(1))]);
    assert_eq!(world.deliver(s0, s1), [enter()]);
    assert_eq!(world.release(s1), [send(s2, flush(1))]);
    assert_eq!(world.deliver(s1, s2), []);
    let entered = world.deliver(s0, s2) == [enter()];
    (world, entered)
}

/// Reference: Figure 2, `RcvReq`, step 2a. S2 queues what is finished, and nobody will ever tell it so.
#[test]
fn as_printed_a_request_that_comes_late_blocks_its_receiver_for_ever() {
    let [_, _, s2] = SiteId::first();
    let (world, entered) = a_request_comes_late(printed());
    assert!(!entered && world.is_waiting(s2));
    assert_eq!(world.in_flight().count(), 0);
    assert_eq!(queue(&world, s2), "(1,S0) (1,S2)");
}

#[test]
fn a_request_that_comes_late_counts_as_an_answer_and_is_not_queued() {
    let [_, _, s2] = SiteId::first();
    let (world, entered) = a_request_comes_late(Lodha::of(3));
    assert!(entered);
    assert_eq!(queue(&world, s2), "(1,S2)");
}

/// S1's FLUSH for the first request of S2 arrives when S2 has been served and has asked again; S1 has asked again, too,
/// with the earlier request.
fn a_flush_comes_late(mut world: Lodha) -> Lodha {
    let [s0, s1, s2] = SiteId::first();
    let _ = world.request(s0);
    assert_eq!(world.deliver(s0, s2), [send(s0, reply(1))]);
    assert_eq!(world.deliver(s2, s0), []);
    let _ = world.request(s1);
    assert_eq!(world.deliver(s0, s1), []);
    assert_eq!(world.deliver(s1, s0), [enter()]);
    assert_eq!(world.release(s0), [send(s1, flush(1))]);
    assert_eq!(world.deliver(s0, s1), []);
    assert_eq!(world.request(s0), [send(s1, request(2)), send(s2, request(2))]);
    assert_eq!(world.deliver(s0, s1), []);
    assert_eq!(world.request(s2), [send(s0, request(2)), send(s1, request(2))]);
    assert_eq!(world.deliver(s0, s2), []);
    assert_eq!(world.deliver(s1, s2), []);
    assert_eq!(world.deliver(s2, s0), []);
    assert_eq!(world.deliver(s2, s1), [enter()]);
    // This FLUSH is slow.
    assert_eq!(world.release(s1), [send(s2, flush(1)), send(s0, reply_after(1, 2))]);
    assert_eq!(world.deliver(s1, s0), [enter()]);
    assert_eq!(world.release(s0), [send(s2, flush(2))]);
    assert_eq!(world.deliver(s0, s2), [enter()]);
    assert_eq!(world.release(s2), []);
    assert_eq!(world.request(s1), [send(s0, request(3)), send(s2, request(3))]);
    assert_eq!(world.deliver(s1, s0), [send(s1, reply_after(2, 3))]);
    assert_eq!(world.deliver(s0, s1), []);
    assert_eq!(world.request(s2), [send(s0, request(3)), send(s1, request(3))]);
    assert_eq!(world.deliver(s1, s2), []);
    assert_eq!(world.deliver(s2, s0), [send(s2, reply_after(2, 3))]);
    world
}

/// Reference: Figure 2, `RcvFlush`, step 1. S2 takes the late FLUSH for S1's answer and enters past S1's request.
#[test]
fn as_printed_a_flush_that_comes_late_lets_two_in() {
    let [s0, s1, s2] = SiteId::first();
    let mut world = a_flush_comes_late(printed());
    assert_eq!(world.deliver(s0, s2), [enter()]);
    assert_eq!(world.violation(), Some(&Violation::OutOfOrder { site: s2, passed: s1 }));
    assert_eq!(world.deliver(s2, s1), [enter()]);
    assert_eq!(world.inside().to_string(), "{1,2}");
}

#[test]
fn a_flush_that_comes_late_answers_nothing() {
    let [s0, s1, s2] = SiteId::first();
    let mut world = a_flush_comes_late(Lodha::of(3));
    assert_eq!(world.deliver(s0, s2), []);
    assert_eq!(world.deliver(s2, s1), [enter()]);
    assert_eq!(world.deliver(s1, s2), []);
    assert_eq!(world.release(s1), [send(s2, flush(3))]);
    assert_eq!(world.deliver(s1, s2), [enter()]);
}

/// Reference: Figure 2, `InvMutEx`, step 1: as printed two requests of S0 have one number, so the second precedes one
/// that S0 has let pass.
#[test]
fn a_sites_own_request_raises_its_highest_number() {
    let [s0, s1] = SiteId::first();
    for (options, number) in [(&[("text", "printed")] as &[_], 1), (&[], 2)] {
        let mut world = Lodha::with(2, options).tolerant();
        let _ = world.request(s0);
        world.settle();
        assert_eq!(world.release(s0), []);
        assert_eq!(world.request(s0), [send(s1, request(number))]);
    }
}

/// The fourth part of the repair: without it this run, the shortest such, ends in a deadlock of S1 and S2. S1 queues
/// S0's request, and nobody flushes to S1: S0 flushes to S2, and S2 has left when S1's request comes. But S2 asks again.
#[test]
fn a_new_request_tells_that_its_senders_previous_one_is_finished() {
    let [s0, s1, s2] = SiteId::first();
    let mut world = Lodha::of(3);
    let _ = world.request(s0);
    let _ = world.request(s2);
    assert_eq!(world.deliver(s0, s2), []);
    assert_eq!(world.deliver(s2, s0), []);
    assert_eq!(world.deliver(s2, s1), [send(s2, reply(1))]);
    assert_eq!(world.deliver(s1, s2), []);
    assert_eq!(world.request(s1), [send(s0, request(2)), send(s2, request(2))]);
    assert_eq!(world.deliver(s0, s1), []);
    assert_eq!(world.deliver(s1, s0), [enter()]);
    assert_eq!(world.release(s0), [send(s2, flush(1))]);
    assert_eq!(world.deliver(s0, s2), [enter()]);
    assert_eq!(world.release(s2), []);
    assert_eq!(world.request(s2), [send(s0, request(2)), send(s1, request(2))]);
    assert_eq!(world.deliver(s1, s2), []);
    assert_eq!(world.deliver(s2, s0), [send(s2, reply_after(1, 2))]);
    assert_eq!(world.deliver(s0, s2), []);
    // (1,S0) precedes (1,S2), which is finished now that S2 asks again.
    assert_eq!(queue(&world, s1), "(1,S0) (2,S1)");
    assert_eq!(world.deliver(s2, s1), [enter()]);
    assert_eq!(queue(&world, s1), "(2,S1) (2,S2)");
}
