//! Scenarios of the algorithm while nothing fails: the paper's initial state, its rules, and where its text is wrong.

use meshlock_testing::within_steps;

use super::*;
use crate::registry::values::Values;
use crate::world::{Action, Delivery, enter, misbehaved, send};
use crate::{Algorithm, Cluster, Described, Effect, Holders, Phase};

/// Reference: section III-F, Figure 1.
#[test]
fn the_rows_form_a_staircase_at_the_start() {
    let world = Heuristic::of(5);
    assert_eq!(
        rows(&world),
        [sites(&[]), sites(&[0]), sites(&[0, 1]), sites(&[0, 1, 2]), sites(&[0, 1, 2, 3])]
    );
    assert!(matches!(world.site(SiteId::new(0)).state, SinghalState::Holding { .. }));
}

/// Reference: section III-F; the holder stands at the low end, the others follow it in the order of ids.
#[test]
fn a_holder_from_the_start_stands_at_the_low_end() {
    let [s0, s1, s2] = SiteId::first();
    let mut world = Heuristic::held_by(3, &[s1]);
    assert_eq!(rows(&world), [sites(&[1, 2]), sites(&[]), sites(&[1])]);
    assert_eq!(world.request(s2), [send(s1, request(1))]);
    assert_eq!(world.deliver(s2, s1), []);
    assert_eq!(world.release(s1), [send(s2, token(1, &[2], &[0, 0, 1]))]);
    assert_eq!(world.deliver(s1, s2), [enter()]);
    assert_eq!(world.site(s0).phase(), Phase::Idle);
}

/// Reference: section III-H: "after a site has executed its CS, the staircase pattern is satisfied but now S(i) occupies
/// the rightmost position and S1 is second from the right".
#[test]
fn who_was_in_moves_to_the_low_end_of_the_staircase() {
    let [s0, s1, s2, s3] = SiteId::first();
    let mut world = Heuristic::of(4);
    assert_eq!(world.request(s2), [send(s0, request(1)), send(s1, request(1))]);
    assert_eq!(world.deliver(s2, s0), [send(s2, token(1, &[2], &[0, 0, 1, 0]))]);
    assert_eq!(world.deliver(s2, s1), []);
    assert_eq!(world.deliver(s0, s2), [enter()]);
    assert_eq!(world.release(s2), []);
    assert_eq!(rows(&world), [sites(&[2]), sites(&[0, 2]), sites(&[]), sites(&[0, 1, 2])]);
    assert!(is_strict_staircase(&world));
    // Again at once: it has the token. S0, next to it, now asks one site.
    assert_eq!(world.request(s2), [enter()]);
    assert_eq!(world.release(s2), []);
    assert_eq!(world.request(s0), [send(s2, request(1))]);
    assert_eq!(world.deliver(s0, s2), [send(s0, token(2, &[0], &[1, 0, 1, 0]))]);
    assert_eq!(world.deliver(s2, s0), [enter()]);
    assert_eq!(world.site(s3).row, sites(&[0, 1, 2]));
}

/// Reference: section III-G-3, Rules 9, 10 and 3: two wait, each learns of the other, and the one that leaves passes the
/// token on.
#[test]
fn of_two_that_wait_the_first_served_passes_the_token_to_the_other() {
    let [s0, s1, s2] = SiteId::first();
    let mut world = Heuristic::of(3);
    assert_eq!(world.request(s1), [send(s0, request(1))]);
    assert_eq!(world.request(s2), [send(s0, request(1)), send(s1, request(1))]);
    assert_eq!(world.deliver(s1, s0), [send(s1, token(1, &[1], &[0, 1, 0]))]);
    // Rule 9: S1 waits and had not asked S2.
    assert_eq!(world.deliver(s2, s1), [send(s2, request(1))]);
    assert_eq!(world.deliver(s0, s1), [enter()]);
    assert_eq!(world.release(s1), [send(s2, token(2, &[2], &[0, 1, 1]))]);
    assert_eq!(world.deliver(s1, s2), []);
    assert_eq!(world.deliver(s1, s2), [enter()]);
    assert_eq!(world.deliver(s2, s0), []);
    assert_eq!(world.release(s2), []);
    assert!(world.is_quiet() && is_strict_staircase(&world));
}

/// Reference: section III-G, the second form of step 1: every entry counts.
#[test]
fn an_entry_on_the_idle_token_counts_only_in_the_second_form_of_step_1() {
    let [s0] = SiteId::first();
    for (form, count) in [("requests", 0), ("entries", 2)] {
        let mut world = Heuristic::with(3, &[("count", form)]);
        for _ in 0..2 {
            assert_eq!(world.request(s0), [enter()]);
            assert_eq!(world.release(s0), []);
        }
        assert_eq!(world.site(s0).number, number(count));
    }
}

/// S2, S3 and S1 wait in a world of four while S0 is inside; S3 has been in before, so that its number is higher.
fn three_wait(arbitration: &str) -> (Heuristic, [SiteId; 4]) {
    let all @ [s0, s1, s2, s3] = SiteId::first();
    let mut world = Heuristic::with(4, &[("arbitration", arbitration)]);
    for site in [s1, s0] {
        let _ = world.request(site);
        world.settle();
        if site == s1 {
            let _ = world.release(site);
        }
    }
    for site in [s3, s2, s1] {
        let _ = world.request(site);
    }
    for site in [s1, s2, s3] {
        let _ = world.deliver(site, s0);
    }
    (world, all)
}

/// Reference: section III-G-2, rule 2.
#[test]
fn the_nearest_site_is_next() {
    let (mut world, [s0, s1, ..]) = three_wait("nearest");
    assert_eq!(world.release(s0), [send(s1, token(3, &[1, 2, 3], &[1, 2, 1, 1]))]);
}

/// Reference: section III-G-2, rule 1; of equals the nearest.
#[test]
fn the_site_with_the_lowest_sequence_number_is_next() {
    let (mut world, [s0, _, s2, _]) = three_wait("lowest");
    assert_eq!(world.release(s0), [send(s2, token(3, &[1, 2, 3], &[1, 2, 1, 1]))]);
}

/// After this S1 has the token inside, and S2's request to it, served long ago, is still on its way.
fn a_late_request(world: &mut Heuristic) {
    let [s0, s1, s2] = SiteId::first();
    let _ = world.request(s1);
    let _ = world.request(s2);
    let _ = world.deliver(s2, s0);
    assert_eq!(world.deliver(s0, s2), [enter()]);
    assert_eq!(world.release(s2), []);
    assert_eq!(world.request(s0), [send(s2, request(1))]);
    let _ = world.deliver(s0, s2);
    assert_eq!(world.deliver(s2, s0), [enter()]);
    let _ = world.deliver(s1, s0);
    let _ = world.release(s0);
    assert_eq!(world.deliver(s0, s1), [enter()]);
}

/// The shortest run without an end. Reference: section IV-B, Lemma 3 and Theorem 2, which exclude it.
#[test]
fn as_printed_a_request_waits_for_ever() {
    let [s0, s1, s2] = SiteId::first();
    let mut world = Heuristic::with(3, &[("text", "printed")]);
    a_late_request(&mut world);
    // Rule 10 notes the late request, Rule 4 forgets it: S1 and S2 do not look to each other any more.
    assert_eq!(world.deliver(s2, s1), []);
    assert_eq!(world.release(s1), []);
    assert_eq!(world.request(s2), [send(s0, request(2))]);
    assert_eq!(world.deliver(s2, s0), []);
    assert!(world.is_waiting(s2));
    assert_eq!(world.in_flight().count(), 0);
    assert!(matches!(world.site(s1).state, SinghalState::Holding { .. }));
}

#[test]
fn repaired_the_site_that_keeps_the_token_answers_a_late_request_with_its_own() {
    let [s0, s1, s2] = SiteId::first();
    let mut world = Heuristic::of(3);
    a_late_request(&mut world);
    assert_eq!(world.deliver(s2, s1), []);
    assert_eq!(world.release(s1), [send(s2, request(1))]);
    assert_eq!(world.request(s2), [send(s0, request(2))]);
    // Rule 9: S2 learns that S1 may have the token.
    assert_eq!(world.deliver(s1, s2), [send(s1, request(2))]);
    assert_eq!(world.deliver(s2, s1), [send(s2, token(4, &[2], &[1, 1, 2]))]);
    assert_eq!(world.deliver(s1, s2), [enter()]);
    // The same if the late request comes when the token is idle.
    let mut world = Heuristic::of(3);
    a_late_request(&mut world);
    assert_eq!(world.release(s1), []);
    assert_eq!(world.deliver(s2, s1), [send(s2, request(1))]);
}

#[test]
fn what_no_correct_peer_sends_changes_nothing() {
    let [s0, s1, s2] = SiteId::first();
    let mut world = Heuristic::of(3);
    let _ = world.request(s2);
    let before = world.sites().to_vec();
    let stranger = SiteId::new(9);
    assert_eq!(world.inject(stranger, s1, request(1)), [misbehaved(stranger, NOT_A_PEER)]);
    assert_eq!(world.inject(s1, s1, request(1)), [misbehaved(s1, NOT_A_PEER)]);
    let shape = "a token of another shape";
    assert_eq!(world.inject(s1, s2, token(5, &[2], &[0, 0])), [misbehaved(s1, shape)]);
    assert_eq!(world.inject(s1, s2, token(5, &[7], &[0, 0, 1])), [misbehaved(s1, shape)]);
    let unasked = "a token that was not asked for";
    assert_eq!(world.inject(s2, s1, token(5, &[1], &[0, 1, 0])), [misbehaved(s2, unasked)]);
    assert_eq!(world.inject(s2, s0, token(5, &[0], &[1, 0, 0])), [misbehaved(s2, unasked)]);
    assert_eq!(world.sites(), before);
    world.settle();
    let _ = world.release(s2);
    let _ = world.request(s0);
    world.settle();
    let _ = world.request(s2);
    let again = "a token that has been here before";
    assert_eq!(world.inject(s0, s2, token(1, &[2], &[0, 0, 1])), [misbehaved(s0, again)]);
}

/// Draws a schedule; with `prompt`, a site's token waits until no request of that site is on its way.
fn random_run(sites: usize, prompt: bool, seed: u64) -> Heuristic {
    let mut draws = Draws(seed);
    let mut world = Heuristic::of(sites);
    for step in 0..400 {
        let asking = step < 300;
        let requests = world.requests().filter(|_| asking);
        let actions: Vec<Action> = world
            .deliveries(Delivery::Unordered)
            .filter(|&action| !prompt || !overtakes_a_request(&world, action))
            .chain(world.releases())
            .chain(requests)
            .collect();
        if actions.is_empty() {
            break;
        }
        let _ = world.apply(actions[draws.below(actions.len())]);
    }
    within_steps("nothing is left to deliver or release", || {
        let next = world.deliveries(Delivery::Fifo).chain(world.releases()).next();
        next.map(|action| world.apply(action)).is_none()
    });
    world
}

/// Whether `action` brings a site the token while a request of that site is still on its way.
fn overtakes_a_request(world: &Heuristic, action: Action) -> bool {
    let Action::Deliver { from, to, nth } = action else { return false };
    let mut channel = world.in_flight().filter(|&(a, b, _)| (a, b) == (from, to));
    let is_token = matches!(channel.nth(nth), Some((_, _, Message::Token(_))));
    is_token && world.in_flight().any(|(a, _, message)| a == to && matches!(message, Message::Request { .. }))
}

/// Reference: Appendix, Theorem 2, with the condition that it lacks: no request comes after its sender was served. (Without
/// the condition the invariants I5 and I6, checked after each step of every run, are what holds.)
#[test]
fn the_staircase_is_strict_whenever_all_is_quiet_if_no_request_is_late() {
    for seed in 0..300 {
        let sites = 2 + usize::try_from(seed).unwrap() % 6;
        let world = random_run(sites, true, seed);
        assert!(world.is_quiet());
        assert!(is_strict_staircase(&world), "{sites} sites, seed {seed}: {:?}", rows(&world));
    }
}

/// Where Theorem 2 as stated fails: a request that comes when its sender has long been served makes two sites look to each
/// other. It costs a message more and heals at the next entry of either.
#[test]
fn the_staircase_is_not_strict_after_a_late_request() {
    let [s0, s1, s2, s3] = SiteId::first();
    let mut world = Heuristic::of(4);
    a_late_request(&mut world);
    assert_eq!(world.deliver(s2, s1), []);
    let _ = world.request(s3);
    for site in [s0, s1, s2] {
        let _ = world.deliver(s3, site);
    }
    let _ = world.release(s1);
    let _ = world.deliver(s1, s3);
    let _ = world.release(s3);
    assert!(world.is_quiet() && !is_strict_staircase(&world));
    assert_eq!(rows(&world), [sites(&[1, 3]), sites(&[2, 3]), sites(&[0, 3]), sites(&[])]);
}

/// Reference: section III-G-2, footnote 2: "a site can safely schedule the token to any site with an R entry in TSV".
#[test]
fn with_any_arbitration_the_host_chooses_who_is_next() {
    let [s0, s1, s2] = SiteId::first();
    for (answer, next) in [(0, s1), (1, s2)] {
        let mut values = Values::defaults(&SinghalHeuristic::INFO);
        values.set("arbitration", "any").unwrap();
        let holders = Holders::new(Cluster::of(3), [s0]).unwrap();
        let mut world = Heuristic::new(Cluster::of(3), &values, &holders).unwrap();
        for site in [s1, s2] {
            let _ = world.request(site);
            assert_eq!(world.deliver(site, s0), []);
        }
        world.answer(&[answer]);
        let effects = world.release(s0);
        assert!(world.end_answers());
        assert_eq!(effects[0], Effect::Chose { taken: answer, of: 2 });
        assert!(matches!(effects[1], Effect::Send { to, message: Message::Token(_) } if to == next));
    }
}
