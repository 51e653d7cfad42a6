//! Section 9.8.1's deadlock, resolved by both sets of rules and not by the printed ones; request sets by option.

use super::*;
use crate::algorithms::arbiter::{Message, Turn};
use crate::registry::values::Values;
use crate::world::{World, enter, misbehaved, send};
use crate::{Algorithm, Described, Holders, NOT_A_PEER};

fn request(clock: u64) -> Message {
    Message::Request { clock: Clock::at(clock) }
}

fn reply(to: u64, turn: u32, clock: u64) -> Message {
    Message::Reply { to: Clock::at(to), turn: Turn::at(turn), clock: Clock::at(clock) }
}

fn failed(to: u64) -> Message {
    Message::Failed { to: Clock::at(to) }
}

fn inquire(to: u64, turn: u32) -> Message {
    Message::Inquire { to: Clock::at(to), turn: Turn::at(turn) }
}

fn yields(request: u64, turn: u32) -> Message {
    Message::Yield { request: Clock::at(request), turn: Turn::at(turn) }
}

fn release(request: u64) -> Message {
    Message::Release { request: Clock::at(request) }
}

/// The sites of section 9.8.1: three requesters, and for each pair a site that they share.
struct Triangle {
    world: World<Maekawa>,
    requesters: [SiteId; 3],
    shared: [SiteId; 3],
}

/// Section 9.8.1: S_ij has been locked by S_i, S_jk by S_j and S_ki by S_k; the other request of each has just arrived.
/// Gives the effects of those three arrivals.
fn section_9_8_1(options: &[(&str, &str)]) -> (Triangle, [Vec<crate::Effect<Message>>; 3]) {
    let [i, j, k, ij, jk, ki] = SiteId::first();
    let sets = ("quorums", "0.3.5/1.3.4/2.4.5/0.1.3.4.5/0.1.3.4.5/1.2.3.4.5");
    let mut world = World::<Maekawa>::with(6, &[&[sets], options].concat());
    assert_eq!(world.request(i), [send(ij, request(1)), send(ki, request(1))]);
    assert_eq!(world.request(j), [send(ij, request(1)), send(jk, request(1))]);
    assert_eq!(world.request(k), [send(jk, request(1)), send(ki, request(1))]);
    assert_eq!(world.deliver(i, ij), [send(i, reply(1, 1, 1))]);
    assert_eq!(world.deliver(j, jk), [send(j, reply(1, 1, 1))]);
    assert_eq!(world.deliver(k, ki), [send(k, reply(1, 1, 1))]);
    for (arbiter, requester) in [(ij, i), (jk, j), (ki, k)] {
        assert_eq!(world.deliver(arbiter, requester), []);
    }
    let crossing = [world.deliver(j, ij), world.deliver(k, jk), world.deliver(i, ki)];
    (Triangle { world, requesters: [i, j, k], shared: [ij, jk, ki] }, crossing)
}

/// Reference: section 9.9.6, the example: the quorums {1,2,3}, {2,4,5} and {4,1,6}; sites 3, 5 and 6 request, and 3's
/// request comes first to both sites that it asks.
#[test]
fn of_three_that_share_a_site_pair_by_pair_the_one_that_both_permit_enters_alone() {
    let [s1, s2, s3, s4, s5, s6] = SiteId::first();
    let sets = ("quorums", "0.1.2/0.1.2/0.1.2/1.3.4/1.3.4/0.3.5");
    let mut world = World::<Maekawa>::with(6, &[sets, ("deadlock", "fail")]);
    assert_eq!(world.request(s3), [send(s1, request(1)), send(s2, request(1))]);
    assert_eq!(world.request(s5), [send(s2, request(1)), send(s4, request(1))]);
    assert_eq!(world.request(s6), [send(s1, request(1)), send(s4, request(1))]);
    assert_eq!(world.deliver(s3, s2), [send(s3, reply(1, 1, 1))]);
    assert_eq!(world.deliver(s3, s1), [send(s3, reply(1, 1, 1))]);
    // Sites 2 and 1 reject the others.
    assert_eq!(world.deliver(s5, s2), [send(s5, failed(1))]);
    assert_eq!(world.deliver(s6, s1), [send(s6, failed(1))]);
    assert_eq!(world.deliver(s2, s3), []);
    assert_eq!(world.deliver(s1, s3), [enter()]);
    // Whomever site 4 permits, no other enters before site 3 leaves.
    world.settle();
    assert_eq!(world.inside().iter().collect::<Vec<_>>(), [s3]);
    let _ = world.release(s3);
    world.settle();
    assert_eq!(world.inside().iter().collect::<Vec<_>>(), [s5]);
}

/// Reference: section 9.8.1, "the following scenario is possible". Of the three, S_i has the smallest timestamp.
#[test]
fn the_deadlock_of_three_is_resolved_by_one_yield() {
    let (Triangle { mut world, requesters: [i, j, k], shared: [ij, jk, ki] }, crossing) = section_9_8_1(&[]);
    assert_eq!(crossing, [vec![], vec![], vec![send(k, inquire(1, 1))]]);
    assert_eq!(world.deliver(ki, k), [send(ki, yields(1, 1))]);
    assert_eq!(world.deliver(k, ki), [send(i, reply(1, 1, 1))]);
    assert_eq!(world.deliver(ki, i), [enter()]);
    assert_eq!(world.release(i), [send(ij, release(1)), send(ki, release(1))]);
    assert_eq!(world.deliver(i, ij), [send(j, reply(1, 1, 1))]);
    assert_eq!(world.deliver(i, ki), [send(k, reply(1, 2, 1))]);
    assert_eq!(world.deliver(ij, j), [enter()]);
    assert_eq!(world.deliver(ki, k), []);
    assert_eq!(world.release(j), [send(ij, release(1)), send(jk, release(1))]);
    assert_eq!(world.deliver(j, jk), [send(k, reply(1, 1, 1))]);
    assert_eq!(world.deliver(jk, k), [enter()]);
    let _ = world.release(k);
    world.settle();
    assert!(world.is_quiet());
    // Three lone requests and one INQUIRE, one YIELD, one REPLY more.
    assert_eq!(world.messages(), 3 * 3 * 2 + 3);
}

/// Reference: section 9.8.1, with FAILED.
#[test]
fn with_refusals_the_deadlock_of_three_is_resolved_too() {
    let (Triangle { mut world, requesters: [_, j, k], shared: [ij, jk, ki] }, crossing) =
        section_9_8_1(&[("deadlock", "fail")]);
    assert_eq!(crossing, [vec![send(j, failed(1))], vec![send(k, failed(1))], vec![send(k, inquire(1, 1))]]);
    // S_k has not heard of its refusal at S_jk: it remembers the INQUIRE, and yields when it does.
    assert_eq!(world.deliver(ij, j), []);
    assert_eq!(world.deliver(ki, k), []);
    assert_eq!(world.deliver(jk, k), [send(ki, yields(1, 1))]);
    world.settle();
    assert_eq!(world.entries().len(), 1);
}

/// Reference: section 9.8.1, "in response to an INQUIRE": printed, S_k yields only if it *has received* a FAILED.
#[test]
fn as_printed_the_three_wait_for_ever_if_the_inquiry_comes_first() {
    let (Triangle { mut world, requesters: [i, j, k], shared: [_, jk, ki] }, crossing) =
        section_9_8_1(&[("text", "printed")]);
    assert_eq!(crossing, [vec![send(j, failed(1))], vec![send(k, failed(1))], vec![send(k, inquire(1, 1))]]);
    assert_eq!(world.deliver(ki, k), []);
    assert_eq!(world.deliver(jk, k), []);
    world.settle();
    assert!([i, j, k].iter().all(|&site| world.is_waiting(site)));
    assert_eq!(world.entries(), []);
}

#[test]
fn a_holder_from_the_start_is_waited_for_at_the_shared_site() {
    let [s1, s2, s3] = SiteId::first();
    let mut world = World::<Maekawa>::held_by(3, &[s2]);
    // The sets are {0,1}, {1,2} and {0,2}: S1 asks itself and S2.
    assert_eq!(world.request(s1), [send(s2, request(1))]);
    assert_eq!(world.deliver(s1, s2), []);
    assert_eq!(world.release(s2), [send(s3, release(0)), send(s1, reply(1, 1, 1))]);
    assert_eq!(world.deliver(s2, s1), [enter()]);
}

#[test]
fn a_site_that_was_idle_for_long_comes_first_once_only() {
    let [s1, s2, _] = SiteId::first::<3>();
    let mut world = World::<Maekawa>::of(3);
    for _ in 0..5 {
        let _ = world.request(s2);
        world.settle();
        let _ = world.release(s2);
        world.settle();
    }
    // S1 has seen nothing of it. The REPLY of S2 tells.
    assert_eq!(world.request(s1), [send(s2, request(1))]);
    assert_eq!(world.deliver(s1, s2), [send(s1, reply(1, 1, 5))]);
    assert_eq!(world.deliver(s2, s1), [enter()]);
    assert_eq!(world.release(s1), [send(s2, release(1))]);
    assert_eq!(world.request(s1), [send(s2, request(6))]);
}

#[test]
fn what_no_correct_peer_sends_changes_nothing_and_is_reported() {
    let [s1, s2, s3] = SiteId::first();
    let mut world = World::<Maekawa>::of(3);
    let _ = world.request(s1);
    let before = world.sites().to_vec();
    let stranger = SiteId::new(9);
    assert_eq!(world.inject(stranger, s1, request(1)), [misbehaved(stranger, NOT_A_PEER)]);
    assert_eq!(world.inject(s1, s1, request(1)), [misbehaved(s1, NOT_A_PEER)]);
    let unasked = "a reply that nobody waits for";
    assert_eq!(world.inject(s3, s1, reply(1, 1, 1)), [misbehaved(s3, unasked)]);
    assert_eq!(world.inject(s2, s1, reply(1, 2, 1)), [misbehaved(s2, unasked)]);
    assert_eq!(world.inject(s2, s3, release(4)), [misbehaved(s2, "a release of what it does not have")]);
    assert_eq!(world.inject(s2, s3, yields(4, 1)), [misbehaved(s2, "a yield that nobody asked for")]);
    assert_eq!(world.inject(s2, s1, failed(1)), [misbehaved(s2, "a refusal, where the rules know none")]);
    assert_eq!(
        world.inject(s2, s3, inquire(4, 1)),
        [misbehaved(s2, "an answer to a request that was not made")]
    );
    assert_eq!(world.inject(s2, s3, Message::Ready), [misbehaved(s2, "an arbiter that never was away")]);
    assert_eq!(world.sites(), before);
}

#[test]
fn a_clock_driven_to_its_end_stalls_the_lock_and_nothing_more() {
    let [s1, s2, _] = SiteId::first::<3>();
    let mut world = World::<Maekawa>::of(3).tolerant();
    let _ = world.inject(s1, s2, request(u64::MAX));
    for _ in 0..2 {
        if world.is_idle(s2) {
            let _ = world.request(s2);
        }
        world.settle();
        if world.inside().contains(s2) {
            let _ = world.release(s2);
        }
        world.settle();
    }
    assert!(world.is_waiting(s2), "its own arbiter is with a request that does not exist");
}

fn plan(sites: usize, quorums: &str) -> Result<Vec<usize>, PlanError> {
    let mut values = Values::defaults(&Maekawa::INFO);
    values.set("quorums", quorums).expect("the notation has digits or is a word");
    let sets = RequestSets::build(Cluster::of(sites), &values)?;
    Ok(sets.sets.quorums().iter().map(SiteSet::len).collect())
}

#[test]
fn the_best_sets_are_the_plane_or_its_folding() {
    let largest = |sites| plan(sites, "best").unwrap().into_iter().max();
    assert_eq!([1, 2, 3, 7, 10, 13, 31, 100].map(largest), [1, 2, 2, 3, 4, 4, 6, 12].map(Some));
    assert_eq!(plan(10, "grid").unwrap().into_iter().max(), Some(6));
    assert_eq!(plan(7, "plane").unwrap(), [3; 7]);
}

#[test]
fn given_sets_must_be_one_for_each_site_with_the_site_in_it_and_all_meet() {
    let why = |quorums| plan(3, quorums).unwrap_err().to_string();
    assert_eq!(plan(3, "0.1/1.2/0.2"), Ok(vec![2, 2, 2]));
    assert_eq!(why("0.1/1.2"), "option quorums: 2 sets for 3 sites; each site needs one");
    assert_eq!(why("0.1/0.2/0.2"), "option quorums: the set {0,2} of site 1 does not contain it");
    assert_eq!(why("0/0.1/1.2"), "option quorums: the sets {0} of site 0 and {1,2} of site 2 do not meet");
    assert_eq!(why("0/1/9"), "option quorums: site 9 does not exist: the sites are 0 to 2");
}

#[test]
fn the_quorum_of_a_site_is_what_it_asks() {
    let sets = Maekawa::plan(Cluster::of(7), &Values::defaults(&Maekawa::INFO)).unwrap();
    for me in SiteId::all(7) {
        assert_eq!(Maekawa::start(&sets, me, &Holders::none()).quorum(), Some(3));
    }
}
