//! Section VI-B: the four cases of a failed site, and what its own recovery needs.

use meshlock_testing::within_steps;

use super::*;
use crate::world::{Action, Delivery, enter, misbehaved, send};
use crate::{Algorithm, Phase};

const fn unknown(round: u32, count: u32, waiting: bool) -> Message {
    let (round, number) = (Number { incarnation: 0, count: round }, Number { incarnation: 0, count });
    Message::Answer { round, trail: Trail::Unknown, number, waiting }
}

fn ask(round: u32, dead: usize) -> Message {
    Message::Ask {
        round: number(round),
        incarnation: 0,
        dead: [Death { site: SiteId::new(dead), incarnation: Some(0) }].into(),
    }
}

fn recovering() -> Message {
    Message::Recovering { incarnation: 1 }
}

fn welcome() -> Message {
    Message::Welcome { incarnation: 1, mine: 0, unsettled: false }
}

/// `site` fails and all others learn of it; all that this causes happens.
fn fails(world: &mut Heuristic, site: SiteId) {
    world.fail(site);
    for to in world.untold(site).iter() {
        let _ = world.tell(to, site);
    }
    world.settle();
}

/// Reference: case I, and the crash recovery procedure.
#[test]
fn a_failed_site_without_token_or_request_disturbs_nobody_and_comes_back_at_the_high_end() {
    let [s0, s1, s2] = SiteId::first();
    let mut world = Heuristic::of(3);
    let _ = world.request(s2);
    world.settle();
    let _ = world.release(s2);
    assert_eq!(rows(&world), [sites(&[2]), sites(&[0, 2]), sites(&[])]);
    world.fail(s1);
    // S0, the smallest, asks the others; S2 answers when it knows of the failure itself.
    assert_eq!(world.tell(s0, s1), [send(s2, ask(1, 1))]);
    assert_eq!(world.deliver(s0, s2), []);
    let trail = Trail::Held { passes: 1 };
    let held = Message::Answer { round: number(1), trail, number: number(1), waiting: false };
    assert_eq!(world.tell(s2, s1), [send(s0, held)]);
    assert_eq!(world.deliver(s2, s0), []);
    assert!(world.is_quiet());
    // It comes back: it looks to all, nobody looks to it.
    assert_eq!(world.recover(s1), [send(s0, recovering()), send(s2, recovering())]);
    assert_eq!(world.request(s1), []);
    assert_eq!(world.deliver(s1, s0), [send(s1, welcome())]);
    assert_eq!(world.deliver(s1, s2), [send(s1, welcome())]);
    assert_eq!(world.deliver(s0, s1), []);
    // Welcomed by all it asks. Its number is later than all of its former incarnation.
    let first = Message::Request { number: Number { incarnation: 1, count: 1 } };
    assert_eq!(world.deliver(s2, s1), [send(s0, first.clone()), send(s2, first)]);
    world.settle();
    assert!(world.inside().contains(s1));
    let _ = world.release(s1);
    assert!(is_strict_staircase(&world));
}

/// Reference: case II.
#[test]
fn the_smallest_site_replaces_a_token_lost_with_its_holder() {
    let [s0, s1, s2, s3] = SiteId::first();
    let mut world = Heuristic::of(4);
    assert_eq!(world.request(s0), [enter()]);
    let _ = world.request(s2);
    world.settle();
    world.fail(s0);
    assert_eq!(world.tell(s1, s0), [send(s2, ask(1, 0)), send(s3, ask(1, 0))]);
    assert_eq!(world.tell(s3, s0), []);
    assert_eq!(world.deliver(s1, s3), [send(s1, unknown(1, 0, false))]);
    assert_eq!(world.deliver(s3, s1), []);
    assert_eq!(world.tell(s2, s0), []);
    assert_eq!(world.deliver(s1, s2), [send(s1, unknown(1, 1, true))]);
    // All have answered and nobody has seen the token. S2 waits, so it gets the new one.
    assert_eq!(world.deliver(s2, s1), [send(s2, token(2, &[2], &[0, 1, 1, 0]))]);
    assert_eq!(world.deliver(s1, s2), [enter()]);
    assert_eq!(world.release(s2), []);
    assert!(world.is_quiet());
}

/// Reference: case II with nobody waiting: the maker keeps the token, and those it looked to learn to look to it.
#[test]
fn requests_go_to_the_site_that_replaced_the_token() {
    let [s0, s1, s2] = SiteId::first();
    let mut world = Heuristic::of(3);
    fails(&mut world, s0);
    assert!(matches!(world.site(s1).state, SinghalState::Holding { .. }));
    assert_eq!(world.site(s2).row, sites(&[1]));
    assert_eq!(world.request(s2), [send(s1, request(1))]);
    world.settle();
    assert_eq!(*world.inside(), sites(&[2]));
}

/// Reference: case III, first situation: the others learn of it in time.
#[test]
fn a_failed_site_that_waited_does_not_get_the_token() {
    let [s0, s1, s2] = SiteId::first();
    let mut world = Heuristic::of(3);
    assert_eq!(world.request(s0), [enter()]);
    for site in [s1, s2] {
        let _ = world.request(site);
    }
    world.settle();
    fails(&mut world, s1);
    assert_eq!(world.release(s0), [send(s2, token(1, &[2], &[0, 0, 1]))]);
    assert_eq!(world.deliver(s0, s2), [enter()]);
}

/// Reference: case III, second situation: the token was on its way.
#[test]
fn a_token_sent_to_a_failed_site_is_replaced() {
    let [s0, s1, s2] = SiteId::first();
    let mut world = Heuristic::of(3);
    let _ = world.request(s1);
    let _ = world.deliver(s1, s0);
    world.fail(s1);
    assert_eq!(world.deliver(s0, s1), []);
    assert_eq!(world.tell(s2, s1), []);
    assert_eq!(world.tell(s0, s1), [send(s2, ask(1, 1))]);
    assert_eq!(world.deliver(s0, s2), [send(s0, unknown(1, 0, false))]);
    assert_eq!(world.deliver(s2, s0), []);
    assert!(matches!(world.site(s0).state, SinghalState::Holding { .. }));
    assert!(world.is_quiet());
}

/// Reference: case III, "if the failed site had recovered before the token arrives". The others know for certain that it
/// had failed and make a new token, so that the old one must not count.
#[test]
fn a_token_for_a_former_incarnation_is_not_entered_on() {
    let [s0, s1, s2] = SiteId::first();
    let mut world = Heuristic::of(3);
    let _ = world.request(s1);
    assert_eq!(world.deliver(s1, s0), [send(s1, token(1, &[1], &[0, 1, 0]))]);
    world.fail(s1);
    let _ = world.tell(s2, s1);
    let _ = world.tell(s0, s1);
    let _ = world.recover(s1);
    assert_eq!(world.request(s1), []);
    // The old token arrives.
    assert_eq!(world.deliver(s0, s1), []);
    assert_eq!(world.site(s1).phase(), Phase::Waiting);
    // S0 finds that it is lost, makes another, and welcomes S1, which asks for it.
    world.settle();
    assert_eq!(*world.inside(), sites(&[1]));
    assert_eq!(world.site(s0).tokens() + world.site(s2).tokens(), 0);
}

/// Reference: case IV. The paper lets a site whose only witness failed ask all others; here its answer says that it waits.
#[test]
fn a_request_that_only_the_failed_site_knew_is_not_lost() {
    let [s0, s1, s2] = SiteId::first();
    let mut world = Heuristic::of(3);
    assert_eq!(world.request(s1), [send(s0, request(1))]);
    let _ = world.request(s0);
    let _ = world.deliver(s1, s0);
    world.fail(s0);
    assert_eq!(world.tell(s2, s0), []);
    assert_eq!(world.tell(s1, s0), [send(s2, ask(1, 0))]);
    assert_eq!(world.deliver(s1, s2), [send(s1, unknown(1, 0, false))]);
    assert_eq!(world.deliver(s2, s1), [enter()]);
}

/// Reference: crash recovery procedure; two at once must not both stop looking to the other.
#[test]
fn of_two_that_come_back_one_still_looks_to_the_other() {
    let [s0, s1, s2] = SiteId::first();
    let mut world = Heuristic::of(3);
    fails(&mut world, s1);
    let _ = world.recover(s1);
    let _ = world.deliver(s1, s0);
    // S2 fails before it has heard of that, and comes back.
    world.fail(s2);
    let _ = world.tell(s0, s2);
    let _ = world.tell(s1, s2);
    let _ = world.recover(s2);
    world.settle();
    assert!(world.is_quiet());
    assert!(world.site(s1).row.contains(s2) || world.site(s2).row.contains(s1));
    for site in [s1, s2] {
        let _ = world.request(site);
        world.settle();
        assert!(world.inside().contains(site));
        let _ = world.release(site);
    }
}

#[test]
fn messages_of_recovery_that_come_again_change_nothing() {
    let [s0, s1, s2] = SiteId::first();
    let mut world = Heuristic::of(3);
    fails(&mut world, s1);
    let _ = world.recover(s1);
    world.settle();
    let before = world.sites().to_vec();
    assert_eq!(world.inject(s1, s0, recovering()), []);
    assert_eq!(world.inject(s0, s1, welcome()), []);
    assert_eq!(world.inject(s0, s2, ask(1, 1)), []);
    assert_eq!(world.inject(s2, s0, unknown(1, 0, false)), []);
    assert_eq!(world.sites(), before);
}

#[test]
fn a_single_site_creates_its_token_again() {
    let [s0] = SiteId::first();
    let mut world = Heuristic::of(1);
    world.fail(s0);
    assert_eq!(world.recover(s0), []);
    assert_eq!(world.request(s0), [enter()]);
}

/// One random run in which one site after the other fails at any moment and comes back; then all who wait are served.
fn random_run(sites: usize, options: Options, delivery: Delivery, seed: u64) -> Heuristic {
    let mut draws = Draws(seed);
    let mut world = Heuristic::with(sites, options);
    for _ in 0..300 {
        if draws.below(16) == 0 {
            match world.down().first() {
                None => world.fail(SiteId::new(draws.below(sites))),
                Some(down) if world.can_recover(down) => drop(world.recover(down)),
                Some(_) => {}
            }
        }
        let own = world.releases().chain(world.returns()).chain(world.requests());
        let actions: Vec<Action> = world.deliveries(delivery).chain(own).collect();
        if !actions.is_empty() {
            let _ = world.apply(actions[draws.below(actions.len())]);
        }
    }
    serve(&mut world, delivery);
    if let Some(down) = world.down().first() {
        let _ = world.recover(down);
        serve(&mut world, delivery);
    }
    world
}

fn serve(world: &mut Heuristic, delivery: Delivery) {
    within_steps("nothing is left to deliver or release", || {
        let next = world.deliveries(delivery).chain(world.releases()).next();
        next.map(|action| world.apply(action)).is_none()
    });
}

#[test]
fn every_running_site_is_served_whichever_sites_fail_and_when() {
    for (options, delivery) in settings(&[&[], &[("adaptive", "yes"), ("focused", "yes")]]) {
        for seed in 0..SEEDS {
            let count = 1 + usize::try_from(seed).unwrap() % 6;
            let world = random_run(count, options, delivery, seed);
            let run = format!("{options:?}, {delivery:?}, seed {seed}: {:#?}", world.sites());
            assert_eq!(SiteId::all(count).find(|&site| world.is_waiting(site)), None, "{run}");
            assert!(world.is_quiet(), "{run}");
        }
    }
}

#[test]
fn an_answer_that_names_a_site_outside_the_view_is_refused() {
    let [s0, s1, s2] = SiteId::first();
    let mut world = Heuristic::of(3);
    world.fail(s2);
    assert_eq!(world.tell(s0, s2), [send(s1, ask(1, 2))]);
    let trail = Trail::Sent { passes: 9, to: SiteId::new(99), number: number(1) };
    let lie = Message::Answer { round: number(1), trail, number: number(0), waiting: false };
    assert_eq!(world.inject(s1, s0, lie), [misbehaved(s1, "a trail to a site that does not exist")]);
}

#[test]
fn nobody_can_talk_a_site_out_of_the_token_that_it_has() {
    let [s0, s1, s2] = SiteId::first();
    let mut world = Heuristic::of(3);
    assert_eq!(world.request(s0), [enter()]);
    world.fail(s2);
    assert_eq!(world.tell(s0, s2), [send(s1, ask(1, 2))]);
    let trail = Trail::Cut { passes: 99 };
    let lie = Message::Answer { round: number(1), trail, number: number(0), waiting: false };
    assert_eq!(world.inject(s1, s0, lie), []);
    assert_eq!(world.site(s0).phase(), Phase::Executing);
    let _ = world.release(s0);
}
