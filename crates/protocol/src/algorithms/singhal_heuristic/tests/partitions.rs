//! Section VI-C: a network that splits into two parts or more, and both ways of becoming one again.

use meshlock_testing::within_steps;

use super::*;
use crate::world::{Action, Delivery, enter, send};

/// S0 and S1 apart from S2, S3 and S4; S0 has the token. S3 waits on its side.
fn split(merge: &str) -> Heuristic {
    let [_, _, _, s3] = SiteId::first();
    let mut world = Heuristic::with(5, &[("merge", merge)]);
    world.split(&sites(&[2, 3, 4]));
    assert_eq!(rows(&world), [sites(&[]), sites(&[0]), sites(&[]), sites(&[2]), sites(&[2, 3])]);
    let _ = world.request(s3);
    world.settle();
    world
}

/// Reference: section VI-C, handling network partitioning.
#[test]
fn only_the_part_with_the_token_goes_on() {
    let [s0, s1, _, s3] = SiteId::first();
    let mut world = split("order");
    assert!(world.is_waiting(s3));
    assert_eq!(world.request(s1), [send(s0, request(1))]);
    world.settle();
    assert_eq!(*world.inside(), sites(&[1]));
}

/// Lets the asker have all answers; what it then sends to all is on its way.
fn heal(world: &mut Heuristic) {
    let [s0, s1, s2, s3, s4] = SiteId::first();
    world.heal();
    for site in [s1, s2, s3, s4] {
        let _ = world.deliver(s0, site);
        let _ = world.deliver(site, s0);
    }
}

/// Reference: section VI-C, the second method: every site of the joining part knows its place.
#[test]
fn parts_merge_by_their_order() {
    let [s0, s1, s2, s3, s4] = SiteId::first();
    let mut world = split("order");
    heal(&mut world);
    assert_eq!(world.deliver(s0, s1), []);
    assert_eq!(world.deliver(s0, s2), []);
    // S3 waits: it asks all it looks to, with a new number.
    assert_eq!(world.deliver(s0, s3), [send(s0, request(2)), send(s1, request(2)), send(s4, request(2))]);
    assert_eq!(world.deliver(s0, s4), []);
    assert_eq!(
        rows(&world),
        [sites(&[]), sites(&[0]), sites(&[0, 1, 3, 4]), sites(&[0, 1, 4]), sites(&[0, 1])]
    );
    assert_eq!(world.deliver(s3, s0), [send(s3, token(1, &[3], &[0, 0, 0, 2, 0]))]);
    world.settle();
    let _ = world.release(s3);
    assert!(world.is_quiet() && is_strict_staircase(&world));
}

/// Reference: section VI-C, the first method, with what it forgets: i1 must look to all it tells not to look to it.
#[test]
fn parts_merge_one_after_the_other() {
    let [s0, s1, s2, s3, s4] = SiteId::first();
    let mut world = split("chain");
    heal(&mut world);
    let part =
        |settled: Option<u32>| Message::RecoveringPart { round: number(1), settled: settled.map(number) };
    assert_eq!(world.deliver(s0, s1), []);
    assert_eq!(world.deliver(s0, s4), []);
    assert_eq!(world.deliver(s0, s2), [send(s3, part(Some(0))), send(s4, part(Some(0)))]);
    let asked = [send(s0, request(2)), send(s1, request(2)), send(s2, request(2))];
    assert_eq!(world.deliver(s0, s3), asked);
    assert_eq!(world.deliver(s2, s4), []);
    // S3 comes next. Its request still waits, so S4 keeps looking to it.
    assert_eq!(world.deliver(s2, s3), [send(s4, part(None)), send(s4, request(2))]);
    assert_eq!(world.deliver(s3, s4), []);
    assert_eq!(world.deliver(s3, s4), []);
    assert_eq!(world.site(s4).row, sites(&[0, 1, 3]));
    world.settle();
    assert_eq!(*world.inside(), sites(&[3]));
    let _ = world.release(s3);
    assert!(world.is_quiet() && is_strict_staircase(&world));
}

/// The paper's clean split: none of the messages across arrives, and the token may be among them.
#[test]
fn a_token_that_was_on_its_way_across_a_partition_is_replaced() {
    let [s0, _, s2] = SiteId::first();
    let mut world = Heuristic::of(3);
    let _ = world.request(s2);
    assert_eq!(world.deliver(s2, s0), [send(s2, token(1, &[2], &[0, 0, 1]))]);
    world.split(&sites(&[2]));
    world.settle();
    assert!(world.is_waiting(s2));
    world.heal();
    world.settle();
    assert_eq!(*world.inside(), sites(&[2]));
    let _ = world.release(s2);
    assert!(world.is_quiet());
}

/// If it had arrived, nothing is made.
#[test]
fn a_token_that_had_arrived_before_the_split_is_found() {
    let [s0, s1, s2] = SiteId::first();
    let mut world = Heuristic::of(3);
    let _ = world.request(s2);
    let _ = world.deliver(s2, s0);
    assert_eq!(world.deliver(s0, s2), [enter()]);
    world.split(&sites(&[2]));
    let _ = world.request(s1);
    world.settle();
    world.heal();
    world.settle();
    assert_eq!(*world.inside(), sites(&[2]));
    let _ = world.release(s2);
    world.settle();
    assert_eq!(*world.inside(), sites(&[1]));
}

/// S0 with the token, S1, and S2 with S3 and S4, each apart from the others. S1 and S3 wait.
fn split_into_three(merge: &str) -> Heuristic {
    let [_, s1, _, s3] = SiteId::first();
    let mut world = Heuristic::with(5, &[("merge", merge)]);
    world.split(&sites(&[1, 2, 3, 4]));
    world.split(&sites(&[2, 3, 4]));
    assert_eq!(world.parts(), [sites(&[0]), sites(&[1]), sites(&[2, 3, 4])]);
    for site in [s1, s3] {
        let _ = world.request(site);
    }
    world.settle();
    assert_eq!(*world.inside(), sites(&[]));
    world
}

/// Reference: section VI-C, "all the sites in both partitions have to be notified that they are now a part of a bigger (inactive)
/// partition". One joins the other, and nobody makes a token: it is beyond the other split.
#[test]
fn two_inactive_parts_become_a_bigger_one() {
    let [s0, s1, s2, s3, s4] = SiteId::first();
    for merge in ["order", "chain"] {
        let mut world = split_into_three(merge);
        world.merge(s1, s3);
        world.settle();
        assert_eq!(*world.inside(), sites(&[]));
        // Of S1 and S3, which wait, each must be looked to; the others are in the order of their numbers.
        let arranged = [s1, s2, s3, s4].map(|site| world.site(site).row.clone());
        let waiting = sites(&[1, 3]);
        assert!(world.site(s1).row.contains(s3) && world.site(s3).row.contains(s1), "{merge}: {arranged:?}");
        assert!(
            [s2, s4].iter().all(|&site| waiting.is_subset(&world.site(site).row)),
            "{merge}: {arranged:?}"
        );
        assert!(world.sites()[1..].iter().all(|site| !site.row.contains(s0)), "{merge}: {arranged:?}");
        // The bigger part joins the active one as any inactive part does.
        world.heal();
        world.settle();
        for _ in 0..2 {
            let inside = world.inside().first().expect("one after the other enters");
            let _ = world.release(inside);
            world.settle();
        }
        assert!(world.is_quiet(), "{merge}");
    }
}

/// Reference: section VI-C; a third part is still away.
#[test]
fn an_inactive_part_joins_the_active_one_while_another_is_away() {
    let [s0, s1, _, s3] = SiteId::first();
    for merge in ["order", "chain"] {
        let mut world = split_into_three(merge);
        world.merge(s0, s3);
        world.settle();
        assert_eq!(*world.inside(), sites(&[3]), "{merge}");
        let _ = world.release(s3);
        world.settle();
        assert!(world.is_waiting(s1), "{merge}");
        world.heal();
        world.settle();
        assert_eq!(*world.inside(), sites(&[1]), "{merge}");
        let _ = world.release(s1);
        assert!(world.is_quiet() && is_strict_staircase(&world), "{merge}");
    }
}

/// S0 sent the token to S2 before the split and cannot know whether it arrived. It has, so S0 and S1 must not make another.
#[test]
fn a_token_is_not_replaced_while_it_may_be_in_another_part() {
    let [s0, s1, s2] = SiteId::first();
    let mut world = Heuristic::of(3);
    let _ = world.request(s2);
    assert_eq!(world.deliver(s2, s0), [send(s2, token(1, &[2], &[0, 0, 1]))]);
    assert_eq!(world.deliver(s0, s2), [enter()]);
    world.split(&sites(&[2]));
    world.split(&sites(&[1]));
    let _ = world.request(s1);
    world.merge(s0, s1);
    world.settle();
    assert_eq!(*world.inside(), sites(&[2]));
    world.heal();
    world.settle();
    let _ = world.release(s2);
    world.settle();
    assert_eq!(*world.inside(), sites(&[1]));
}

/// One random run in which parts split and merge at any moment.
fn random_run(sites: usize, options: Options, delivery: Delivery, seed: u64) -> Heuristic {
    let mut draws = Draws(seed);
    let mut world = Heuristic::with(sites, options);
    for _ in 0..300 {
        if draws.below(40) == 0 && is_mended(&world) {
            let parts = world.parts();
            if parts.len() > 1 && draws.below(2) == 0 {
                merge_two(&mut world, &parts, draws.below(parts.len()));
            } else {
                world.split(&SiteId::all(sites).filter(|_| draws.below(2) == 0).collect());
            }
        }
        let own = world.releases().chain(world.returns()).chain(world.requests());
        let actions: Vec<Action> = world.deliveries(delivery).chain(own).collect();
        if !actions.is_empty() {
            let _ = world.apply(actions[draws.below(actions.len())]);
        }
    }
    within_steps("the network is whole, and nothing is left to deliver or release", || {
        let parts = world.parts();
        if parts.len() > 1 && is_mended(&world) {
            merge_two(&mut world, &parts, draws.below(parts.len()));
        }
        let next = world.deliveries(delivery).chain(world.releases()).next();
        next.map(|action| world.apply(action)).is_none() && world.parts().len() == 1
    });
    world
}

/// Merges the part with this place and the one after it.
fn merge_two(world: &mut Heuristic, parts: &[SiteSet], place: usize) {
    let [one, other] = [place, place + 1].map(|at| parts[at % parts.len()].first().unwrap());
    world.merge(one, other);
}

/// Whether the last split or merger has been dealt with: one at a time.
fn is_mended(world: &Heuristic) -> bool {
    let settled =
        |site: &SinghalHeuristic| site.recovery.as_ref().is_none_or(|recovery| recovery.is_settled());
    world.sites().iter().all(settled)
        && world
            .in_flight()
            .all(|(_, _, message)| matches!(message, Message::Request { .. } | Message::Token(_)))
}

#[test]
fn every_site_is_served_whatever_partitions_happen_and_when() {
    let chain = ("merge", "chain");
    for (options, delivery) in settings(&[&[], &[chain], &[chain, ("adaptive", "yes"), ("focused", "yes")]]) {
        for seed in 0..SEEDS {
            let count = 2 + usize::try_from(seed).unwrap() % 5;
            let world = random_run(count, options, delivery, seed);
            let run = format!("{options:?}, {delivery:?}, seed {seed}: {:#?}", world.sites());
            assert_eq!(SiteId::all(count).find(|&site| world.is_waiting(site)), None, "{run}");
            assert!(world.is_quiet(), "{run}");
        }
    }
}
