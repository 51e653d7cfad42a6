//! The three improvements that section 5 of the paper suggests.

use super::*;
use crate::registry::values::Values;
use crate::world::{enter, misbehaved, send};
use crate::{Algorithm, Cluster, Described, Effect, PlanError};

fn with(option: &str) -> Lodha {
    Lodha::with(3, &[(option, "yes")])
}

/// A request whose sender has answered the receiver's request `answers`.
fn request_that_answers(answers: u64, clock: u64) -> Message {
    Message::Request { clock: Clock::at(clock), answers: Some(Clock::at(answers)) }
}

/// S0 is inside; S2's request crossed its own, S1's came after S1's reply.
fn s0_owes_both(mut world: Lodha) -> Lodha {
    let [s0, s1, s2] = SiteId::first();
    assert_eq!(world.request(s0), [send(s1, request(1)), send(s2, request(1))]);
    assert_eq!(world.deliver(s0, s1), [send(s0, reply(1))]);
    assert_eq!(world.deliver(s1, s0), []);
    let _ = world.request(s1);
    assert_eq!(world.deliver(s1, s0), []);
    let _ = world.request(s2);
    assert_eq!(world.deliver(s0, s2), []);
    assert_eq!(world.deliver(s1, s2), []);
    assert_eq!(world.deliver(s2, s0), [enter()]);
    assert_eq!(world.deliver(s2, s1), []);
    world
}

/// Reference: section 5, first improvement.
#[test]
fn one_message_at_the_exit_tells_the_first_what_the_others_are_to_know() {
    let [s0, s1, s2] = SiteId::first();
    let mut plain = s0_owes_both(Lodha::of(3));
    assert_eq!(plain.release(s0), [send(s2, flush(1)), send(s1, reply_after(1, 2))]);
    let mut world = s0_owes_both(with("combined-exit"));
    let all = handover(1, id(1, s0), &[(id(1, s2), &[]), (id(2, s1), &[s0])]);
    assert_eq!(world.release(s0), [send(s2, all.clone())]);
    assert_eq!(world.deliver(s0, s2), [enter()]);
    let rest = handover(1, id(1, s2), &[(id(2, s1), &[s0])]);
    assert_eq!(world.release(s2), [send(s1, rest)]);
    assert_eq!(world.deliver(s2, s1), [enter()]);
    assert_eq!(world.release(s1), []);
    assert!(world.is_quiet());
    // A duplicate is known by its number.
    assert_eq!(world.inject(s0, s2, all), [misbehaved(s0, "a hand-over that came before")]);
    assert!(world.is_quiet());
}

/// The paper does not see this: what goes through others can be overtaken. S0's next request reaches S1 before S0's
/// answer to S1 does. If S1 took it for a request that crosses its own, S0 would wait for a reply for ever; this is the
/// shortest run that ends so.
#[test]
fn a_request_says_that_its_sender_has_answered_before() {
    let [s0, s1, s2] = SiteId::first();
    let mut world = s0_owes_both(with("combined-exit"));
    let _ = world.release(s0);
    assert_eq!(world.deliver(s0, s2), [enter()]);
    let next = [send(s1, request_that_answers(2, 3)), send(s2, request_that_answers(1, 3))];
    assert_eq!(world.request(s0), next);
    assert_eq!(world.deliver(s0, s1), []);
    assert_eq!(queue(&world, s1), "(1,S2) (2,S1)");
    assert_eq!(answered(&world, s1), "{0,2}");
    assert_eq!(world.deliver(s0, s2), []);
    let both = handover(1, id(1, s2), &[(id(2, s1), &[s0]), (id(3, s0), &[s2])]);
    assert_eq!(world.release(s2), [send(s1, both)]);
    assert_eq!(world.deliver(s2, s1), [enter()]);
    let last = handover(1, id(2, s1), &[(id(3, s0), &[s1, s2])]);
    assert_eq!(world.release(s1), [send(s0, last)]);
    assert_eq!(world.deliver(s1, s0), [enter()]);
    assert_eq!(world.release(s0), []);
    assert!(world.is_quiet());
}

/// S2 has been served before S0's HANDOVER comes: S1 let it in.
#[test]
fn who_no_longer_waits_passes_a_handover_on_at_once() {
    let [s0, s1, s2, s3] = SiteId::first();
    let mut world = Lodha::with(4, &[("combined-exit", "yes")]);
    // S0 asks; S1 and S3 reply, then ask themselves; S2's request crosses S0's.
    let _ = world.request(s0);
    assert_eq!(world.deliver(s0, s1), [send(s0, reply(1))]);
    assert_eq!(world.deliver(s0, s3), [send(s0, reply(1))]);
    world.site_mut(s2).clock = Clock::at(2);
    world.site_mut(s3).clock = Clock::at(3);
    for site in [s1, s2, s3] {
        let _ = world.request(site);
    }
    // S0 sees S1's reply and all that S2 and S3 sent, not S1's request.
    for from in [s1, s3, s3] {
        assert_eq!(world.deliver(from, s0), []);
    }
    assert_eq!(world.deliver(s2, s0), [enter()]);
    let late = handover(1, id(1, s0), &[(id(3, s2), &[]), (id(4, s3), &[s0])]);
    assert_eq!(world.release(s0), [send(s2, late)]);
    // S1, S2 and S3 see each other's requests. S1 enters with S0's reply, and its FLUSH lets S2 in.
    for (from, to) in [(s1, s2), (s1, s3), (s2, s1), (s2, s3), (s3, s1), (s3, s2), (s0, s2)] {
        assert_eq!(world.deliver(from, to), []);
    }
    assert_eq!(world.deliver(s1, s0), [send(s1, reply_after(1, 2))]);
    assert_eq!(world.deliver(s0, s1), [enter()]);
    assert_eq!(world.release(s1), [send(s2, flush(2))]);
    assert_eq!(world.deliver(s1, s2), [enter()]);
    assert_eq!(world.release(s2), [send(s3, flush(3))]);
    // S3 still misses S0's answer. It is in the HANDOVER, which S2 has no use for.
    assert_eq!(world.deliver(s2, s3), []);
    let rest = handover(1, id(3, s2), &[(id(4, s3), &[s0])]);
    assert_eq!(world.deliver(s0, s2), [send(s3, rest)]);
    assert_eq!(world.deliver(s2, s3), [enter()]);
    assert_eq!(world.release(s3), []);
    assert!(world.is_quiet());
}

/// Reference: section 5, second improvement. Both replies are saved: S0's to S1, and S1's to S0.
#[test]
fn deferred_requests_count_as_crossing_if_the_process_asks_again_at_once() {
    let [s0, s1] = SiteId::first();
    let mut world = Lodha::with(2, &[("keep-deferred", "yes")]);
    assert_eq!(world.request(s0), [send(s1, request(1))]);
    assert_eq!(world.deliver(s0, s1), [send(s0, reply(1))]);
    assert_eq!(world.request(s1), [send(s0, request(2))]);
    assert_eq!(world.deliver(s1, s0), [enter()]);
    assert_eq!(world.deliver(s1, s0), []);
    assert_eq!(world.release(s0), [Effect::Timer { delays: 1 }]);
    assert_eq!(world.request(s0), [send(s1, request(3))]);
    assert_eq!((answered(&world, s0), queue(&world, s0)), ("{1}".into(), "(2,S1) (3,S0)".into()));
    assert_eq!(world.deliver(s0, s1), [enter()]);
    assert_eq!(world.release(s1), [send(s0, flush(2))]);
    assert_eq!(world.deliver(s1, s0), [enter()]);
    // The timer has nothing left to do.
    assert_eq!(world.wake(s0), []);
    assert_eq!(world.release(s0), []);
    assert!(world.is_quiet());
}

#[test]
fn deferred_requests_get_their_replies_if_the_process_does_not_ask_again() {
    let [s0, s1, s2] = SiteId::first();
    let mut world = s0_owes_both(with("keep-deferred"));
    assert_eq!(world.release(s0), [send(s2, flush(1)), Effect::Timer { delays: 1 }]);
    assert!(!world.site(s0).is_quiet());
    assert_eq!(world.wake(s0), [send(s1, reply_after(1, 2))]);
    assert!(world.site(s0).is_quiet());
}

/// Reference: section 5, third improvement. S1's reply tells S0 of requests that S0 has not seen.
#[test]
fn every_message_may_carry_the_highest_sequence_number() {
    let [s0, s1, s2] = SiteId::first();
    for (option, next) in [("no", 2), ("yes", 6)] {
        let mut world = Lodha::with(3, &[("sequence-on-all", option)]);
        world.site_mut(s1).clock = Clock::at(5);
        let _ = world.request(s0);
        world.settle();
        assert_eq!(world.release(s0), []);
        assert_eq!(world.request(s0), [send(s1, request(next)), send(s2, request(next))]);
    }
}

#[test]
fn the_printed_text_goes_without_the_improvements() {
    let mut values = Values::defaults(&LodhaKshemkalyani::INFO);
    for (name, value) in [("text", "printed"), ("keep-deferred", "yes")] {
        values.set(name, value).unwrap();
    }
    let refused = LodhaKshemkalyani::plan(Cluster::of(3), &values);
    assert!(matches!(refused, Err(PlanError::Option { option: "text", .. })));
}
