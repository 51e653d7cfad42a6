//! Scenarios of `makki`, and its cost under load.

use super::*;
use crate::registry::values::Values;
use crate::world::{World, enter, misbehaved, send};
use crate::{Algorithm, Described, Effect, Holders};

fn world(sites: usize, permits: usize, holders: &[SiteId]) -> World<Makki> {
    let cluster = Cluster::of(sites).with_permits(permits);
    let holders = Holders::new(cluster, holders.iter().copied()).unwrap();
    World::new(cluster, &Values::defaults(&Makki::INFO), &holders).unwrap()
}

fn request(site: SiteId, number: u64, round: u64) -> Message {
    Message::Request { waiter: Waiter { site, number }, round }
}

/// The token at its `moves`-th move, for the receiver's first request.
fn token(moves: u64, semaphore: usize, round: u64, queue: &[SiteId], told: &[SiteId]) -> Message {
    let queue = queue.iter().map(|&site| Waiter { site, number: 1 }).collect();
    let told = told.iter().copied().collect();
    Message::Token { number: 1, token: Box::new(MakkiToken { semaphore, queue, round, told, moves }) }
}

fn release(at: u64, total: u64) -> Message {
    Message::Release { at, total }
}

fn announce(round: u64) -> Message {
    Message::Announce { round }
}

fn timer() -> Effect<Message> {
    Effect::Timer { delays: 2 }
}

#[test]
fn alone_a_request_moves_the_token_and_its_holder_announces_itself() {
    let [s0, s1, s2, s3] = SiteId::first();
    let mut world = World::<Makki>::of(4);
    assert_eq!(world.request(s1), [send(s0, request(s1, 1, 0))]);
    assert_eq!(world.deliver(s1, s0), [send(s1, token(1, 1, 1, &[], &[s0, s1]))]);
    assert_eq!(world.deliver(s0, s1), [timer(), enter()]);
    assert_eq!(world.release(s1), [], "the token is here");
    assert_eq!(world.wake(s1), [send(s2, announce(1)), send(s3, announce(1))], "S0 knows");
    world.settle();
    assert_eq!(world.messages(), 4, "N");
    assert!(world.is_quiet());
    assert_eq!(world.request(s2), [send(s1, request(s2, 1, 1))], "to the one that collects now");
    assert_eq!(world.request(s1), [enter()], "with the token there is no message");
}

#[test]
fn the_token_is_passed_on_from_inside_and_the_release_follows_it() {
    let [s0, s1, s2] = SiteId::first();
    let mut world = World::<Makki>::of(3);
    let _ = world.request(s1);
    let _ = world.deliver(s1, s0);
    assert_eq!(world.deliver(s0, s1), [timer(), enter()]);
    // S2 still asks S0, which forwards; S1 collects until its timer has run out.
    assert_eq!(world.request(s2), [send(s0, request(s2, 1, 0))]);
    assert_eq!(world.deliver(s2, s0), [send(s1, request(s2, 1, 1))]);
    assert_eq!(world.deliver(s0, s1), []);
    assert_eq!(world.wake(s1), [send(s2, token(2, 0, 2, &[], &[s1, s2]))]);
    assert_eq!(world.deliver(s1, s2), [timer()], "its turn, without a permit");
    assert_eq!(world.release(s1), [send(s2, release(2, 1))]);
    assert_eq!(world.deliver(s1, s2), [enter()]);
    assert_eq!(world.release(s2), []);
    assert_eq!(world.wake(s2), [send(s0, announce(2))]);
    assert_eq!(world.deliver(s2, s0), []);
    assert!(world.is_quiet());
}

#[test]
fn a_release_that_overtakes_the_token_waits_for_it() {
    let [s0, s1] = SiteId::first();
    let mut world = world(2, 1, &[s0]);
    let _ = world.request(s1);
    assert_eq!(world.deliver(s1, s0), [send(s1, token(1, 0, 1, &[], &[s0, s1]))], "from inside");
    assert_eq!(world.release(s0), [send(s1, release(1, 1))]);
    assert_eq!(world.deliver_nth(s0, s1, 1), []);
    assert_eq!(world.deliver(s0, s1), [timer(), enter()]);
}

/// Two permits, both in use: the release of the first site goes the way of the token, over the second.
#[test]
fn a_release_follows_the_token_from_site_to_site() {
    let [s0, s1, s2] = SiteId::first();
    let mut world = world(3, 2, &[s0]);
    let _ = world.request(s1);
    assert_eq!(world.deliver(s1, s0), [send(s1, token(1, 1, 1, &[], &[s0, s1]))]);
    assert_eq!(world.deliver(s0, s1), [timer(), enter()]);
    let _ = world.wake(s1);
    assert_eq!(world.deliver(s1, s2), []);
    assert_eq!(world.request(s2), [send(s1, request(s2, 1, 1))]);
    assert_eq!(world.deliver(s2, s1), [send(s2, token(2, 0, 2, &[], &[s1, s2]))], "it rested there");
    assert_eq!(world.deliver(s1, s2), [timer()]);
    assert_eq!(world.release(s0), [send(s1, release(1, 1))]);
    assert_eq!(world.deliver(s0, s1), [send(s2, release(2, 1))]);
    assert_eq!(world.deliver(s1, s2), [enter()]);
}

/// Two permits and a queue of three: both releases go to the third, where the token stops, and wait for it.
#[test]
fn a_release_goes_to_where_the_token_will_stop() {
    let [s0, s1, s2, s3] = SiteId::first();
    let mut world = world(4, 2, &[]);
    let _ = world.request(s0);
    let _ = world.release(s0);
    let _ = world.request(s1);
    let _ = world.deliver(s1, s0);
    let _ = world.deliver(s0, s1);
    for site in [s2, s3] {
        let _ = world.request(site);
        let _ = world.deliver(site, s0);
        let _ = world.deliver(s0, s1);
    }
    let _ = world.request(s0);
    let _ = world.deliver(s0, s1);
    let _ = world.release(s1);
    // S2 and S3 can enter on the two permits; S0 could not.
    let effects = world.wake(s1);
    assert!(matches!(&effects[..], [Effect::Send { to, .. }] if *to == s2));
    let _ = world.deliver(s1, s2);
    assert_eq!(world.release(s2), [send(s0, release(4, 1))]);
    assert_eq!(world.deliver(s2, s0), [], "the token is yet to come");
    let _ = world.deliver(s2, s3);
    assert_eq!(world.deliver(s3, s0), [timer(), enter()]);
    assert_eq!(world.release(s3), [send(s0, release(4, 1))]);
}

#[test]
fn those_in_the_queue_see_from_the_token_who_collects() {
    let [s0, s1, s2, s3] = SiteId::first();
    let mut world = World::<Makki>::of(4);
    let _ = world.request(s1);
    let _ = world.deliver(s1, s0);
    let _ = world.deliver(s0, s1);
    for site in [s2, s3] {
        let _ = world.request(site);
        let _ = world.deliver(site, s0);
        let _ = world.deliver(s0, s1);
    }
    let _ = world.release(s1);
    assert_eq!(world.wake(s1), [send(s2, token(2, 1, 2, &[s3], &[s1, s2, s3]))]);
    assert_eq!(world.request(s1), [send(s3, request(s1, 2, 2))], "S3 will be the last");
    assert_eq!(world.deliver(s1, s3), [], "and collects before it has seen the token");
    assert_eq!(world.deliver(s1, s2), [enter(), send(s3, token(3, 0, 2, &[], &[s1, s2, s3]))]);
    assert_eq!(world.release(s2), [send(s3, release(3, 1))]);
    assert_eq!(world.request(s2), [send(s3, request(s2, 2, 2))]);
}

#[test]
fn who_collects_and_wants_in_again_queues_behind_those_who_have_asked() {
    let [s0, s1, s2] = SiteId::first();
    let mut world = World::<Makki>::of(3);
    let _ = world.request(s1);
    let _ = world.deliver(s1, s0);
    let _ = world.deliver(s0, s1);
    let _ = world.request(s2);
    let _ = world.deliver(s2, s0);
    let _ = world.deliver(s0, s1);
    let _ = world.release(s1);
    assert_eq!(world.request(s1), []);
    let effects = world.wake(s1);
    let queue = VecDeque::from([Waiter { site: s1, number: 2 }]);
    let told = [s1, s2].into_iter().collect();
    let sent = Box::new(MakkiToken { semaphore: 1, queue, round: 2, told, moves: 2 });
    assert_eq!(effects, [send(s2, Message::Token { number: 1, token: sent })]);
    assert_eq!(world.site(s1).collector, Collector { round: 2, site: s1 }, "it will collect again");
}

#[test]
fn holders_from_the_start_give_back_to_the_token() {
    let [s0, s1, s2] = SiteId::first();
    let mut world = world(3, 2, &[s1, s2]);
    assert_eq!(world.request(s0), [send(s1, request(s0, 1, 0))], "the token is at the first holder");
    assert_eq!(world.deliver(s0, s1), [send(s0, token(1, 0, 1, &[], &[s0, s1]))]);
    assert_eq!(world.deliver(s1, s0), [timer()]);
    assert_eq!(world.release(s2), [send(s1, release(0, 1))]);
    assert_eq!(world.deliver(s2, s1), [send(s0, release(1, 1))]);
    assert_eq!(world.deliver(s1, s0), [enter()]);
    assert_eq!(world.release(s1), [send(s0, release(1, 2))]);
}

#[test]
fn what_no_correct_peer_sends_changes_nothing_and_is_reported() {
    let [s0, s1, s2] = SiteId::first();
    let mut world = World::<Makki>::of(3);
    let stranger = SiteId::new(9);
    let _ = world.request(s1);
    let _ = world.deliver(s1, s0);
    let _ = world.request(s2);
    let before = world.sites().to_vec();
    let unwanted = "a token that nobody waits for";
    let misfit = "a token that cannot be";
    let elsewhere = "a request to a site that does not collect";
    for (from, to, message, why) in [
        (stranger, s0, announce(1), NOT_A_PEER),
        (s0, s0, announce(1), NOT_A_PEER),
        (s1, s0, request(s1, 1, 0), "a request that has come before"),
        (s1, s0, request(stranger, 1, 0), "a request of nobody"),
        (s1, s0, request(s1, 2, 5), elsewhere),
        (s0, s2, request(s1, 2, 0), elsewhere),
        (s1, s0, token(2, 1, 1, &[], &[]), unwanted),
        (s0, s1, token(0, 1, 1, &[], &[]), unwanted),
        (s0, s1, token(1, 2, 1, &[], &[]), misfit),
        (s0, s1, token(1, 1, 1, &[stranger], &[]), misfit),
        (s0, s1, token(1, 1, 1, &[s1], &[]), misfit),
        (s0, s1, token(1, 1, 1, &[], &[stranger]), misfit),
        (s0, s1, token(u64::MAX, 1, 1, &[], &[]), misfit),
        (s2, s0, release(0, 2), "more permits than there are"),
        (s2, s1, release(7, u64::MAX), "more permits than there are"),
    ] {
        assert_eq!(world.inject(from, to, message), [misbehaved(from, why)]);
        assert_eq!(world.sites(), before);
    }
}

/// Everyone always wants to enter: in each round all messages arrive that were on their way, timers run out after two
/// rounds, and whoever is inside leaves and asks again. Gives messages per entry.
fn cost_under_load(sites: usize, permits: usize) -> f64 {
    let mut world = world(sites, permits, &[]);
    let mut timers: VecDeque<(usize, SiteId)> = VecDeque::new();
    for site in SiteId::all(sites) {
        let _ = world.request(site);
    }
    for round in 0..200 * sites {
        let on_their_way: Vec<_> = world.in_flight().map(|(from, to, _)| (from, to)).collect();
        for (from, to) in on_their_way {
            if world.deliver(from, to).contains(&timer()) {
                timers.push_back((round + 2, to));
            }
        }
        while timers.front().is_some_and(|&(at, _)| at <= round) {
            let (_, site) = timers.pop_front().unwrap();
            let _ = world.wake(site);
        }
        for site in world.inside().clone().iter() {
            let _ = world.release_and_request(site);
        }
    }
    world.messages() as f64 / world.entries().len() as f64
}

#[test]
fn under_load_an_entry_costs_about_three_messages() {
    for (sites, permits) in [(5, 1), (10, 1), (10, 3), (30, 3)] {
        let cost = cost_under_load(sites, permits);
        assert!((2.5..=3.5).contains(&cost), "N={sites}, K={permits}: {cost}");
    }
}

/// Outside a world, whose checks of the whole take it for granted that nobody lies.
#[test]
fn a_peer_that_gives_back_more_than_there_is_is_refused() {
    let [s0, s1] = SiteId::first();
    let plan = crate::registry::plan::<Makki>(Cluster::of(2), &Values::defaults(&Makki::INFO)).unwrap();
    let (mut site, mut out) = (Makki::start(&plan, s0, &Holders::none()), Outbox::new());
    site.request(&mut out);
    site.receive(s1, release(0, 1), &mut out);
    site.release(&mut out);
    let _ = out.drain().count();
    site.receive(s1, release(0, 2), &mut out);
    assert_eq!(out.effects(), [misbehaved(s1, "more permits than there are")]);
}
