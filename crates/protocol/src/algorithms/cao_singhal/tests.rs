//! Permissions that are passed on, messages that overtake each other on the way, section 9.8.1's deadlock, and what no correct
//! peer sends.

use super::*;
use crate::algorithms::arbiter::Turn;
use crate::algorithms::maekawa::Maekawa;
use crate::registry::values::Values;
use crate::world::{World, enter, misbehaved, send};
use crate::{Algorithm, Cluster, Described, Effect, Holders};

/// One arbiter that sites 0 and 1 share, and nobody else.
const ONE_ARBITER: &[(&str, &str)] = &[("quorums", "0.2/1.2/2")];

fn request(clock: u64) -> Message {
    Message::Request { clock: Clock::at(clock) }
}

fn next(clock: u64, site: SiteId, turn: u32) -> NextRequest {
    NextRequest { request: Timestamp::new(Clock::at(clock), site), turn: Turn::at(turn) }
}

fn reply(arbiter: SiteId, to: u64, turn: u32, clock: u64) -> Message {
    Message::Reply { arbiter, to: Clock::at(to), turn: Turn::at(turn), clock: Clock::at(clock), next: None }
}

fn failed(to: u64) -> Message {
    Message::Failed { to: Clock::at(to) }
}

fn transfer(to: u64, turn: u32, next: NextRequest) -> Message {
    Message::Transfer { to: Clock::at(to), turn: Turn::at(turn), next }
}

fn inquire(to: u64, turn: u32, next: NextRequest) -> Message {
    Message::Inquire { to: Clock::at(to), turn: Turn::at(turn), next }
}

fn yields(request: u64, turn: u32) -> Message {
    Message::Yield { request: Clock::at(request), turn: Turn::at(turn) }
}

fn release(request: u64) -> Message {
    Message::Release { request: Clock::at(request), forwarded: None }
}

fn forwarded(request: u64, to: NextRequest) -> Message {
    Message::Release { request: Clock::at(request), forwarded: Some(to.request) }
}

/// S0 is inside with the permission of S2, and has been told that S1 is next.
fn s1_waits_for_s0() -> World<CaoSinghal> {
    let [s0, s1, s2] = SiteId::first();
    let mut world = World::<CaoSinghal>::with(3, ONE_ARBITER);
    assert_eq!(world.request(s0), [send(s2, request(1))]);
    assert_eq!(world.deliver(s0, s2), [send(s0, reply(s2, 1, 1, 1))]);
    assert_eq!(world.deliver(s2, s0), [enter()]);
    assert_eq!(world.request(s1), [send(s2, request(1))]);
    let told = [send(s0, transfer(1, 1, next(1, s1, 1))), send(s1, failed(1))];
    assert_eq!(world.deliver(s1, s2), told);
    assert_eq!(world.deliver(s2, s0), []);
    assert_eq!(world.deliver(s2, s1), []);
    world
}

/// Reference: the contended exchange at the head of `mod.rs`: one message from the exit to the entry.
#[test]
fn whoever_leaves_sends_the_arbiters_permission_straight_to_the_next() {
    let [s0, s1, s2] = SiteId::first();
    let mut world = s1_waits_for_s0();
    let next = next(1, s1, 1);
    assert_eq!(world.release(s0), [send(s1, reply(s2, 1, 1, 1)), send(s2, forwarded(1, next))]);
    assert_eq!(world.deliver(s0, s1), [enter()]);
    assert_eq!(world.deliver(s0, s2), []);
    assert_eq!(world.release(s1), [send(s2, release(1))]);
    assert_eq!(world.deliver(s1, s2), []);
    assert!(world.is_quiet());
}

#[test]
fn without_a_transfer_the_permission_goes_back_to_the_arbiter() {
    let [s0, s1, s2] = SiteId::first();
    let mut world = World::<CaoSinghal>::with(3, ONE_ARBITER);
    let _ = world.request(s0);
    world.settle();
    let _ = world.request(s1);
    let told = [send(s0, transfer(1, 1, next(1, s1, 1))), send(s1, failed(1))];
    assert_eq!(world.deliver(s1, s2), told);
    // S0 leaves before it hears of S1.
    assert_eq!(world.release(s0), [send(s2, release(1))]);
    assert_eq!(world.deliver(s2, s0), []);
    assert_eq!(world.deliver(s0, s2), [send(s1, reply(s2, 1, 1, 1))]);
}

/// The RELEASE of the second says that the first has left, too.
#[test]
fn the_release_of_a_forwarded_permission_may_come_before_the_one_that_says_so() {
    let [s0, s1, s2] = SiteId::first();
    let mut world = s1_waits_for_s0();
    let _ = world.release(s0);
    assert_eq!(world.deliver(s0, s1), [enter()]);
    assert_eq!(world.release(s1), [send(s2, release(1))]);
    assert_eq!(world.deliver(s1, s2), []);
    assert!(world.site(s2).arbiter.is_free());
    assert_eq!(world.deliver(s0, s2), []);
    assert!(world.is_quiet());
}

/// The permission itself comes with the RELEASE: a request alone does not say where it is.
#[test]
fn a_request_that_overtakes_a_release_waits_for_it() {
    let [s0, _, s2] = SiteId::first();
    let mut world = World::<CaoSinghal>::with(3, ONE_ARBITER);
    let _ = world.request(s0);
    world.settle();
    assert_eq!(world.release(s0), [send(s2, release(1))]);
    assert_eq!(world.request(s0), [send(s2, request(2))]);
    assert_eq!(world.deliver_nth(s0, s2, 1), [send(s0, failed(2))]);
    assert_eq!(world.deliver(s0, s2), [send(s0, reply(s2, 2, 1, 2))]);
}

/// S1 passes S3's permission on to S2, while S0, which precedes both, asks for it.
#[test]
fn an_inquiry_that_overtakes_the_reply_still_says_who_is_next() {
    let [s0, s1, s2, s3] = SiteId::first();
    let mut world = World::<CaoSinghal>::with(4, &[("quorums", "0.3/1.3/2.3/3")]);
    let _ = world.request(s1);
    world.settle();
    let _ = world.request(s2);
    world.settle();
    let (second, first) = (next(1, s2, 1), next(1, s0, 1));
    assert_eq!(world.release(s1), [send(s2, reply(s3, 1, 1, 1)), send(s3, forwarded(1, second))]);
    assert_eq!(world.request(s0), [send(s3, request(1))]);
    assert_eq!(world.deliver(s0, s3), [send(s1, inquire(1, 1, first))]);
    assert_eq!(world.deliver(s3, s1), []);
    assert_eq!(world.deliver(s1, s3), [send(s2, inquire(1, 1, first))]);
    assert_eq!(world.deliver(s3, s2), []);
    assert_eq!(world.deliver(s1, s2), [enter()]);
    assert_eq!(world.release(s2), [send(s0, reply(s3, 1, 1, 1)), send(s3, forwarded(1, first))]);
    assert_eq!(world.deliver(s2, s0), [enter()]);
}

#[test]
fn an_arbiter_that_waits_itself_gets_its_permission_with_the_release() {
    let [s0, s1, s2] = SiteId::first();
    // The sets are {0,1}, {1,2} and {0,2}.
    let mut world = World::<CaoSinghal>::held_by(3, &[s1]);
    assert_eq!(world.request(s2), [send(s0, request(1))]);
    assert_eq!(world.deliver(s2, s0), [send(s2, reply(s0, 1, 1, 1))]);
    assert_eq!(world.deliver(s0, s2), []);
    assert_eq!(world.release(s1), [send(s2, release(0))]);
    assert_eq!(world.deliver(s1, s2), [enter()]);
}

/// Kshemkalyani and Singhal, chapter 9, section 9.8.1: three requesters, and for each pair a site that they share.
#[test]
fn the_deadlock_of_three_is_resolved_by_one_yield_and_the_rest_is_passed_on() {
    let [i, j, k, ij, jk, ki] = SiteId::first();
    let sets = ("quorums", "0.3.5/1.3.4/2.4.5/0.1.3.4.5/0.1.3.4.5/1.2.3.4.5");
    let mut world = World::<CaoSinghal>::with(6, &[sets]);
    for (requester, arbiter) in [(i, ij), (j, jk), (k, ki)] {
        let _ = world.request(requester);
        assert_eq!(world.deliver(requester, arbiter), [send(requester, reply(arbiter, 1, 1, 1))]);
        assert_eq!(world.deliver(arbiter, requester), []);
    }
    let (of_j, of_k, of_i) = (next(1, j, 1), next(1, k, 1), next(1, i, 1));
    assert_eq!(world.deliver(j, ij), [send(i, transfer(1, 1, of_j)), send(j, failed(1))]);
    assert_eq!(world.deliver(k, jk), [send(j, transfer(1, 1, of_k)), send(k, failed(1))]);
    assert_eq!(world.deliver(i, ki), [send(k, inquire(1, 1, of_i))]);
    assert_eq!(world.deliver(ki, k), []);
    assert_eq!(world.deliver(jk, k), [send(ki, yields(1, 1))]);
    let again = next(1, k, 2);
    let Effect::Send { to, message } = &world.deliver(k, ki)[0] else { panic!("a reply") };
    let expected = Message::Reply {
        arbiter: ki,
        to: Clock::at(1),
        turn: Turn::at(1),
        clock: Clock::at(1),
        next: Some(again),
    };
    assert_eq!((*to, *message), (i, expected));
    assert_eq!(world.deliver(ki, i), [enter()]);
    assert_eq!(world.deliver(ij, i), []);
    let both = [
        send(j, reply(ij, 1, 1, 1)),
        send(ij, forwarded(1, of_j)),
        send(k, reply(ki, 1, 2, 1)),
        send(ki, forwarded(1, again)),
    ];
    assert_eq!(world.release(i), both);
    assert_eq!(world.deliver(i, j), [enter()]);
}

/// What the site was told before it gave the permission back is void: the arbiter decides anew.
#[test]
fn a_site_that_yields_forgets_to_whom_it_was_to_pass_the_permission_on() {
    let [s0, s1, s2, s3, s4] = SiteId::first();
    let sets = ("quorums", "0.3.4/1.3.4/2.3.4/3.4/3.4");
    let mut world = World::<CaoSinghal>::with(5, &[sets, ("deadlock", "yield")]);
    let _ = world.request(s1);
    assert_eq!(world.deliver(s1, s3), [send(s1, reply(s3, 1, 1, 1))]);
    assert_eq!(world.deliver(s3, s1), []);
    let _ = world.request(s2);
    assert_eq!(world.deliver(s2, s3), [send(s1, transfer(1, 1, next(1, s2, 1)))]);
    assert_eq!(world.deliver(s3, s1), []);
    assert_eq!(world.site(s1).requester.forwards().count(), 1);
    let _ = world.request(s0);
    assert_eq!(world.deliver(s0, s3), [send(s1, inquire(1, 1, next(1, s0, 1)))]);
    assert_eq!(world.deliver(s3, s1), [send(s3, yields(1, 1))]);
    assert_eq!(world.site(s1).requester.forwards().count(), 0);
    // A TRANSFER about the permission that was given back changes nothing.
    let before = world.sites().to_vec();
    assert_eq!(world.inject(s3, s1, transfer(1, 1, next(1, s2, 1))), []);
    assert_eq!(world.sites(), before);
    assert_eq!(world.deliver(s0, s4), [send(s0, reply(s4, 1, 1, 1))]);
}

#[test]
fn what_no_correct_peer_sends_changes_nothing_and_is_reported() {
    let [s0, s1, s2] = SiteId::first();
    let mut world = s1_waits_for_s0();
    let before = world.sites().to_vec();
    let stranger = SiteId::new(9);
    assert_eq!(world.inject(stranger, s0, request(1)), [misbehaved(stranger, NOT_A_PEER)]);
    assert_eq!(world.inject(s0, s0, request(1)), [misbehaved(s0, NOT_A_PEER)]);
    let (unasked, not_there) =
        ("a reply that nobody waits for", "a permission that is to go on to no other site");
    assert_eq!(world.inject(s2, s0, reply(s2, 1, 1, 1)), [misbehaved(s2, unasked)]);
    assert_eq!(world.inject(s2, s1, reply(s0, 1, 1, 1)), [misbehaved(s2, unasked)]);
    assert_eq!(world.inject(s2, s1, reply(s2, 1, 2, 1)), [misbehaved(s2, unasked)]);
    for nobody in [s0, stranger] {
        assert_eq!(world.inject(s2, s0, transfer(1, 1, next(1, nobody, 1))), [misbehaved(s2, not_there)]);
    }
    let not_given = "a word about a permission that was not given";
    assert_eq!(world.inject(s2, s0, inquire(1, 2, next(1, s1, 1))), [misbehaved(s2, not_given)]);
    let not_asked = "an answer from a site that was not asked";
    assert_eq!(world.inject(s1, s0, failed(1)), [misbehaved(s1, not_asked)]);
    let not_made = "an answer to a request that was not made";
    assert_eq!(world.inject(s2, s0, failed(5)), [misbehaved(s2, not_made)]);
    assert_eq!(world.inject(s0, s2, yields(1, 1)), [misbehaved(s0, "a yield that nobody asked for")]);
    let (unheld, unoffered) =
        ("a release of what it does not have", "a permission forwarded to a request that it was not offered");
    assert_eq!(world.inject(s1, s2, release(4)), [misbehaved(s1, unheld)]);
    assert_eq!(world.inject(s0, s2, forwarded(1, next(2, s1, 1))), [misbehaved(s0, unoffered)]);
    assert_eq!(
        world.inject(s1, s2, request(1)),
        [misbehaved(s1, "a request that is not newer than its last")]
    );
    assert_eq!(world.sites(), before);
}

/// A request that was offered the permission may be over, so that the next one of its site is taken; but no third.
#[test]
fn a_site_cannot_fill_the_queue() {
    let [_, s1, s2] = SiteId::first();
    let mut world = s1_waits_for_s0();
    let _ = world.inject(s1, s2, request(2));
    let second = "a second request before the first was permitted";
    for clock in 3..10 {
        assert_eq!(world.inject(s1, s2, request(clock)), [misbehaved(s1, second)]);
    }
    assert_eq!(world.site(s2).arbiter.waiting().count(), 2);
}

#[test]
fn its_quorums_are_those_of_maekawa() {
    for sites in [1, 3, 7, 10, 13] {
        let cluster = Cluster::of(sites);
        let ours = CaoSinghal::plan(cluster, &Values::defaults(&CaoSinghal::INFO)).unwrap();
        let theirs = Maekawa::plan(cluster, &Values::defaults(&Maekawa::INFO)).unwrap();
        for me in SiteId::all(sites) {
            let (ours, theirs) = (
                CaoSinghal::start(&ours, me, &Holders::none()),
                Maekawa::start(&theirs, me, &Holders::none()),
            );
            assert_eq!(ours.view().sets, theirs.view().sets);
        }
    }
}
