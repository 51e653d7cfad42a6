//! Scenarios of exclusive requests: chains, late appends, requests that ride, and the costs under load.

use super::*;

#[test]
fn alone_a_request_costs_three_messages_and_the_leaders_own_none() {
    let [s0, s1] = SiteId::first();
    let mut world = World::<Delegated>::of(2);
    assert_eq!(world.request(s1), [send(s0, req(1))]);
    assert_eq!(world.deliver(s1, s0), [send(s1, perm(1, &[], &[]))]);
    assert_eq!(world.deliver(s0, s1), [enter(0)]);
    assert_eq!(world.release(s1), [send(s0, rel(1, &[]))]);
    assert_eq!(world.deliver(s1, s0), []);
    assert!(world.is_quiet());
    assert_eq!(world.request(s0), [enter(0)]);
    assert_eq!(world.release(s0), []);
    assert!(world.is_quiet());
}

#[test]
fn a_late_waiter_is_appended_to_the_tail_and_gets_the_permit_directly() {
    let [s0, s1, s2, s3] = SiteId::first();
    let mut world = World::<Delegated>::of(4);
    let _ = world.request(s1);
    world.settle();
    let _ = world.request(s2);
    assert_eq!(world.deliver(s2, s0), [send(s1, append(1, (s2, 1)))]);
    let _ = world.request(s3);
    assert_eq!(world.deliver(s3, s0), [send(s2, append(1, (s3, 1)))], "S2 is the tail now");
    assert_eq!(world.deliver(s0, s1), []);
    assert_eq!(world.deliver(s0, s2), [], "S2 is told before it has the permit");
    assert_eq!(world.release(s1), [send(s2, perm(1, &[], &[]))]);
    assert_eq!(world.deliver(s1, s2), [enter(0)]);
    assert_eq!(world.release(s2), [send(s3, perm(1, &[], &[]))]);
    assert_eq!(world.deliver(s2, s3), [enter(0)]);
    assert_eq!(world.release(s3), [send(s0, rel(1, &[]))], "only the last reports back");
    assert_eq!(world.deliver(s3, s0), []);
    assert!(world.is_quiet());
}

#[test]
fn an_append_that_comes_too_late_is_ignored_and_the_leader_issues_it_again() {
    let [s0, s1, s2, s3] = SiteId::first();
    let mut world = World::<Delegated>::of(4);
    let _ = world.request(s1);
    world.settle();
    let _ = world.request(s2);
    let _ = world.deliver(s2, s0);
    let _ = world.request(s3);
    let _ = world.deliver(s3, s0);
    assert_eq!(world.deliver(s0, s2), [], "S2 knows that S3 follows it");
    assert_eq!(world.release(s1), [send(s0, rel(1, &[]))], "but S1 does not know of S2");
    assert_eq!(world.deliver(s1, s0), [send(s2, perm(1, &[(s3, 1)], &[]))]);
    assert_eq!(world.deliver(s0, s1), [], "too late");
    assert_eq!(world.deliver(s0, s2), [enter(0)]);
    assert_eq!(world.release(s2), [send(s3, perm(1, &[], &[]))], "S3 is served once");
    assert_eq!(world.deliver(s2, s3), [enter(0)]);
    assert_eq!(world.release(s3), [send(s0, rel(1, &[]))]);
    assert_eq!(world.deliver(s3, s0), []);
    assert!(world.is_quiet());
}

#[test]
fn an_append_may_overtake_the_permit_or_come_while_inside() {
    let [s0, s1, s2] = SiteId::first();
    let mut world = World::<Delegated>::of(3);
    let _ = world.request(s1);
    let _ = world.deliver(s1, s0);
    let _ = world.request(s2);
    let _ = world.deliver(s2, s0);
    assert_eq!(world.deliver_nth(s0, s1, 1), [], "the append comes first");
    assert_eq!(world.deliver(s0, s1), [enter(0)]);
    assert_eq!(world.release(s1), [send(s2, perm(1, &[], &[]))]);
}

#[test]
fn what_waits_while_a_chain_is_full_makes_the_next_chain() {
    let [s0, s1, s2, s3] = SiteId::first();
    let mut world = world(4, 1, "1", &[]);
    let _ = world.request(s1);
    world.settle();
    for site in [s2, s3, s0] {
        let _ = world.request(site);
    }
    assert_eq!(world.deliver(s2, s0), [], "B = 1: nothing is appended");
    assert_eq!(world.deliver(s3, s0), []);
    let _ = world.release(s1);
    // The leader's own request came first: it was made at the dispatcher.
    assert_eq!(world.deliver(s1, s0), [enter(0)]);
    assert_eq!(world.release(s0), [send(s2, perm(1, &[], &[]))]);
    assert_eq!(world.deliver(s0, s2), [enter(0)]);
    assert_eq!(world.release(s2), [send(s0, rel(1, &[]))]);
    assert_eq!(world.deliver(s2, s0), [send(s3, perm(1, &[], &[]))]);
}

#[test]
fn a_request_rides_to_the_leader_along_the_chain() {
    let [s0, s1, s2] = SiteId::first();
    let mut world = world(3, 1, "2", &[]);
    let _ = world.request(s0);
    for site in [s1, s2] {
        let _ = world.request(site);
        let _ = world.deliver(site, s0);
    }
    // S0 is inside with S1 to follow; the chain is full, so S2 waits at the dispatcher.
    assert_eq!(world.release_and_request(s0), [send(s1, perm(1, &[], &[(s0, 2)]))]);
    assert_eq!(world.deliver(s0, s1), [enter(0)]);
    assert_eq!(world.release_and_request(s1), [send(s0, rel(1, &[(s0, 2), (s1, 2)]))]);
    // S2 came while the chain ran: those that rode on it asked before.
    assert_eq!(world.deliver(s1, s0), [enter(0)]);
    assert_eq!(world.release_and_request(s0), [send(s1, perm(2, &[], &[(s0, 3)]))]);
    assert_eq!(world.deliver(s0, s1), [enter(0)]);
    assert_eq!(world.release_and_request(s1), [send(s0, rel(2, &[(s0, 3), (s1, 3)]))]);
    // Now S2 was there before the chain.
    assert_eq!(world.deliver(s1, s0), [send(s2, perm(1, &[(s0, 3)], &[]))]);
}

#[test]
fn the_leader_alone_enters_again_without_a_message() {
    let [s0] = SiteId::first();
    let mut world = World::<Delegated>::of(2);
    assert_eq!(world.request(s0), [enter(0)]);
    assert_eq!(world.release_and_request(s0), [enter(0)]);
}

#[test]
fn each_permit_has_a_chain_of_its_own() {
    let [s0, s1, s2, s3] = SiteId::first();
    let mut world = world(4, 2, "sites", &[]);
    assert_eq!(world.request(s0), [enter(0)]);
    let _ = world.request(s1);
    let granted = Message::Perm { number: 1, permit: Box::new(permit(1, &[], &[])) };
    assert_eq!(world.deliver(s1, s0), [send(s1, granted)]);
    assert_eq!(world.deliver(s0, s1), [enter(1)]);
    // Both are out: S2 goes behind S0, without a message, and S3 to the shorter chain.
    let _ = world.request(s2);
    assert_eq!(world.deliver(s2, s0), []);
    let _ = world.request(s3);
    assert_eq!(world.deliver(s3, s0), [send(s1, append(1, (s3, 1)))]);
    assert_eq!(world.deliver(s0, s1), []);
    let handed = Message::Perm { number: 1, permit: Box::new(permit(1, &[], &[])) };
    assert_eq!(world.release(s1), [send(s3, handed)]);
    assert_eq!(world.release(s0), [send(s2, perm(1, &[], &[]))]);
}

#[test]
fn holders_from_the_start_are_chains_of_their_own() {
    let [s0, s1, s2] = SiteId::first();
    let mut world = world(3, 3, "sites", &[s1, s2]);
    assert_eq!(world.request(s0), [enter(2)], "the third permit is at home");
    let handed = Message::Release { number: 0, permit: Box::new(permit(1, &[], &[(s2, 1)])) };
    assert_eq!(world.release_and_request(s2), [send(s0, handed)]);
    let granted = Message::Perm { number: 1, permit: Box::new(permit(1, &[], &[])) };
    assert_eq!(world.deliver(s2, s0), [send(s2, granted)]);
    assert_eq!(world.release(s1), [send(s0, rel(0, &[]))]);
    assert_eq!(world.deliver(s1, s0), []);
}

#[test]
fn the_leader_is_given_modulo_the_number_of_sites() {
    let [s0, s1] = SiteId::first();
    let mut world = World::<Delegated>::with(2, &[("leader", "7")]);
    assert_eq!(world.request(s0), [send(s1, req(1))]);
    assert_eq!(world.deliver(s0, s1), [send(s0, perm(1, &[], &[]))]);
    let mut values = Values::defaults(&Delegated::INFO);
    values.set("chain", "0").unwrap();
    let error = Delegated::plan(Cluster::of(2), &values).unwrap_err().to_string();
    assert_eq!(error, "option chain: '0' is neither 'sites' nor a whole number from 1");
}

#[test]
fn what_no_correct_peer_sends_changes_nothing_and_is_reported() {
    let [s0, s1, s2] = SiteId::first();
    let mut world = World::<Delegated>::of(3);
    let stranger = SiteId::new(9);
    let _ = world.request(s1);
    let _ = world.deliver(s1, s0);
    let before = world.sites().to_vec();
    let unwanted = "a permit that nobody waits for";
    let forged = "a permit with requests that cannot be";
    let riders =
        |again: &[(SiteId, u64)]| Message::Release { number: 1, permit: Box::new(permit(0, &[], again)) };
    for (from, to, message, why) in [
        (stranger, s0, req(1), NOT_A_PEER),
        (s1, s0, req(1), "a request that is not its next one"),
        (s1, s0, req(u64::MAX), "a request that is not its next one"),
        (s1, s2, req(2), "a request to a site that does not lead"),
        (s0, s2, perm(0, &[], &[]), unwanted),
        (s0, s1, perm(2, &[], &[]), unwanted),
        (s0, s1, Message::Perm { number: 1, permit: Box::new(permit(1, &[], &[])) }, unwanted),
        (s0, s1, perm(1, &[(stranger, 1)], &[]), unwanted),
        (s0, s1, perm(1, &[], &[(stranger, 1)]), unwanted),
        (s2, s1, append(1, (s2, 1)), "an append that no leader could send"),
        (s0, s1, append(2, (s2, 1)), "an append that no leader could send"),
        (s0, s1, append(1, (stranger, 1)), "an append that no leader could send"),
        (s2, s0, rel(1, &[]), "a permit of another's"),
        (s1, s2, rel(1, &[]), "a permit handed back to a site that does not lead"),
        (
            s1,
            s0,
            Message::Release { number: 1, permit: Box::new(permit(7, &[], &[])) },
            "a permit that is not out",
        ),
        (s1, s0, riders(&[(s2, 1)]), forged),
        (s1, s0, riders(&[(stranger, 1)]), forged),
        (s1, s0, riders(&[(s1, 2), (s1, 2)]), forged),
    ] {
        assert_eq!(world.inject(from, to, message), [misbehaved(from, why)]);
        assert_eq!(world.sites(), before);
    }
    // A second request while the first is queued.
    let mut world = self::world(3, 1, "1", &[s0]);
    let _ = world.request(s1);
    let _ = world.deliver(s1, s0);
    let twice = "a second request before the first was served";
    assert_eq!(world.inject(s1, s0, req(2)), [misbehaved(s1, twice)]);
}

/// Everyone always wants to enter: in each round all messages arrive that were on their way, and whoever is inside
/// leaves and asks again. Gives messages per entry, without the first rounds.
fn cost_under_load(sites: usize, rides: bool) -> f64 {
    let mut world = World::<Delegated>::of(sites);
    for site in SiteId::all(sites) {
        let _ = world.request(site);
    }
    let mut warm = (0, 0);
    for round in 0..200 * sites {
        if round == 10 * sites {
            warm = (world.messages(), world.entries().len());
        }
        let on_their_way: Vec<_> = world.in_flight().map(|(from, to, _)| (from, to)).collect();
        for (from, to) in on_their_way {
            let _ = world.deliver(from, to);
        }
        for site in world.inside().clone().iter() {
            if rides {
                let _ = world.release_and_request(site);
            } else {
                let _ = world.release(site);
                let _ = world.request(site);
            }
        }
    }
    (world.messages() - warm.0) as f64 / (world.entries().len() - warm.1) as f64
}

#[test]
fn under_load_an_entry_costs_two_messages_and_one_report_a_chain() {
    for sites in [2, 3, 5, 10, 20] {
        let cost = cost_under_load(sites, false);
        assert!(cost <= 2.0 + 1.0 / sites as f64, "N={sites}: {cost}");
    }
}

#[test]
fn under_load_with_riding_requests_an_entry_costs_one_message_and_one_report_a_chain() {
    for sites in [2, 3, 5, 10, 20] {
        let cost = cost_under_load(sites, true);
        assert!(cost <= 1.0 + 1.0 / sites as f64, "N={sites}: {cost}");
    }
}

#[test]
fn a_forged_rider_does_not_make_an_idle_leader_enter() {
    let [s0, s1] = SiteId::first();
    let mut world = world(2, 1, "2", &[]);
    let _ = world.request(s1);
    let _ = world.deliver(s1, s0);
    let _ = world.deliver(s0, s1);
    let before = world.site(s0).clone();
    let refused = [misbehaved(s1, "a permit with requests that cannot be")];
    assert_eq!(world.inject(s1, s0, rel(1, &[(s0, 1)])), refused);
    assert_eq!(*world.site(s0), before);
}
