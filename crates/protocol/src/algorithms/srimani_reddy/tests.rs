//! Scenarios of `srimani-reddy`, and its cost under load.

use super::*;
use crate::Effect;
use crate::world::{World, misbehaved, send};

fn world(sites: usize, permits: usize, holders: &[SiteId]) -> World<SrimaniReddy> {
    let cluster = Cluster::of(sites).with_permits(permits);
    let holders = Holders::new(cluster, holders.iter().copied()).unwrap();
    World::new(cluster, &Values::defaults(&SrimaniReddy::INFO), &holders).unwrap()
}

fn request(number: u64) -> Message {
    Message::Request { number }
}

fn token(slot: u32, moves: u64, served: &[u64], queue: &[SiteId]) -> Message {
    let queue = queue.iter().copied().collect();
    Message::Token(Box::new(SrimaniReddyToken { slot: Slot(slot), moves, served: served.into(), queue }))
}

fn enter(slot: u32) -> Effect<Message> {
    Effect::Enter { slot: Slot(slot) }
}

#[test]
fn alone_a_site_gets_every_idle_token_and_keeps_those_it_does_not_need() {
    let [s0, s1, s2] = SiteId::first();
    let mut world = world(3, 2, &[]);
    assert_eq!(world.request(s2), [send(s0, request(1)), send(s1, request(1))]);
    assert_eq!(world.deliver(s2, s0), [send(s2, token(0, 1, &[0, 0, 0], &[]))]);
    assert_eq!(world.deliver(s2, s1), [send(s2, token(1, 1, &[0, 0, 0], &[]))]);
    assert_eq!(world.deliver(s0, s2), [enter(0)]);
    assert_eq!(world.deliver(s1, s2), [], "it keeps the second");
    assert_eq!(world.messages(), 3 + 2 - 1, "N+K−1");
    // Inside, it answers with the one that it does not use.
    let _ = world.request(s0);
    assert_eq!(world.deliver(s0, s2), [send(s0, token(1, 2, &[0, 0, 1], &[]))]);
    assert_eq!(world.deliver(s2, s0), [enter(1)]);
    // Token 0 does not know that token 1 serves S0.
    assert_eq!(world.release(s2), [send(s0, token(0, 2, &[0, 0, 1], &[]))]);
    assert_eq!(world.deliver(s2, s0), [], "S0 keeps it");
    assert_eq!(world.deliver(s0, s1), []);
    assert_eq!(world.release(s0), []);
    assert!(world.is_quiet());
    assert_eq!(world.request(s0), [enter(1)], "with an idle token there is no message");
}

#[test]
fn a_token_that_comes_when_no_longer_needed_is_passed_on() {
    let [s0, s1, s2, s3] = SiteId::first();
    let mut world = world(4, 2, &[s0, s1]);
    for site in [s2, s3] {
        let _ = world.request(site);
        assert_eq!(world.deliver(site, s0), []);
        assert_eq!(world.deliver(site, s1), []);
    }
    let _ = world.deliver(s2, s3);
    let _ = world.deliver(s3, s2);
    assert_eq!(world.release(s0), [send(s2, token(0, 1, &[0, 0, 0, 0], &[s3]))]);
    assert_eq!(world.release(s1), [send(s2, token(1, 1, &[0, 0, 0, 0], &[s3]))]);
    assert_eq!(world.deliver(s0, s2), [enter(0)]);
    assert_eq!(world.deliver(s1, s2), [send(s3, token(1, 2, &[0, 0, 1, 0], &[]))]);
    assert_eq!(world.deliver(s2, s3), [enter(1)]);
    assert_eq!(world.release(s2), [send(s3, token(0, 2, &[0, 0, 1, 0], &[]))]);
    assert_eq!(world.deliver(s2, s3), []);
    assert_eq!(world.release(s3), []);
    assert_eq!(world.site(s3).tokens(), 2);
    assert!(world.is_quiet());
}

#[test]
fn who_waits_is_appended_from_the_site_after_the_holder() {
    let [s0, s1, s2] = SiteId::first();
    let mut world = world(3, 1, &[s1]);
    for site in [s0, s2] {
        let _ = world.request(site);
        let _ = world.deliver(site, s1);
    }
    assert_eq!(world.release(s1), [send(s2, token(0, 1, &[0, 0, 0], &[s0]))]);
}

#[test]
fn a_request_that_a_newer_one_has_overtaken_is_ignored() {
    let [s0, s1, s2] = SiteId::first();
    let mut world = world(3, 1, &[]);
    let _ = world.request(s1);
    let _ = world.deliver(s1, s0);
    let _ = world.deliver(s0, s1);
    let _ = world.release(s1);
    let _ = world.request(s0);
    let _ = world.deliver(s0, s1);
    let _ = world.deliver(s1, s0);
    let _ = world.request(s1);
    assert_eq!(world.deliver_nth(s1, s2, 1), []);
    assert_eq!(world.deliver(s1, s2), []);
    assert_eq!(world.site(s2).requested[1], 2);
}

/// Everyone always wants to enter; in each round all messages arrive that were on their way.
#[test]
fn under_load_an_entry_costs_at_most_n_and_k_less_one_messages() {
    for (sites, permits) in [(3, 1), (5, 2), (10, 3)] {
        let mut world = world(sites, permits, &[]);
        for site in SiteId::all(sites) {
            let _ = world.request(site);
        }
        for _ in 0..1000 {
            let on_their_way: Vec<_> = world.in_flight().map(|(from, to, _)| (from, to)).collect();
            for (from, to) in on_their_way {
                let _ = world.deliver(from, to);
            }
            for site in world.inside().clone().iter() {
                let _ = world.release_and_request(site);
            }
        }
        let requests = world.entries().len() + sites;
        let most = (sites + permits - 1) * requests;
        assert!(world.messages() <= most as u64, "N={sites}, K={permits}: {}", world.messages());
    }
}

#[test]
fn what_no_correct_peer_sends_changes_nothing_and_is_reported() {
    let [s0, s1, s2] = SiteId::first();
    let mut world = world(3, 1, &[]);
    let stranger = SiteId::new(9);
    let _ = world.request(s1);
    let _ = world.deliver(s1, s0);
    let _ = world.deliver(s1, s2);
    let _ = world.deliver(s0, s1);
    let before = world.sites().to_vec();
    for (from, to, message, why) in [
        (stranger, s0, request(1), NOT_A_PEER),
        (s0, s0, request(1), NOT_A_PEER),
        (s1, s2, request(1), "a request that has come before"),
        (s0, s1, token(0, 1, &[0, 0, 0], &[]), "a token that has come before"),
        (s0, s2, token(0, 0, &[0, 0, 0], &[]), "a token that has come before"),
        (s0, s1, token(0, 5, &[0, 0, 0], &[]), "a token that is here already"),
        (s0, s2, token(1, 5, &[0, 0, 0], &[]), "a token that does not exist"),
        (s0, s2, token(0, 5, &[0, 0], &[]), "a token that cannot be"),
        (s0, s2, token(0, 5, &[0, 0, 0], &[s2]), "a token that cannot be"),
        (s0, s2, token(0, u64::MAX, &[0, 0, 0], &[]), "a token that cannot be"),
        (s0, s2, token(0, 5, &[0, 0, 0], &[stranger]), "a token that cannot be"),
    ] {
        assert_eq!(world.inject(from, to, message), [misbehaved(from, why)]);
        assert_eq!(world.sites(), before);
    }
}

/// The paper does not say which of several idle tokens a site uses.
#[test]
fn with_any_token_the_host_chooses_which_idle_one_is_used() {
    for slot in 0..2 {
        let mut values = Values::defaults(&SrimaniReddy::INFO);
        values.set("token", "any").unwrap();
        // One site has both tokens.
        let cluster = Cluster::of(1).with_permits(2);
        let mut world = World::<SrimaniReddy>::new(cluster, &values, &Holders::none()).unwrap();
        world.answer(&[slot]);
        assert_eq!(world.request(SiteId::new(0)), [Effect::Chose { taken: slot, of: 2 }, enter(slot)]);
        assert!(world.end_answers());
    }
}
