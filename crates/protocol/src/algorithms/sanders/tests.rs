//! The paper's worked examples, step by step. "Reference" names the section.

use super::*;
use crate::registry::values::Values;
use crate::world::{World, enter, misbehaved, send};
use crate::{Algorithm, Described, Effect, Holders, PlanError};

fn request(clock: u64) -> Message {
    asked(clock, 0, &[])
}

fn asked(clock: u64, round: u32, failed: &[SiteId]) -> Message {
    Message::Request { clock: Clock::at(clock), round, failed: failed.iter().copied().collect() }
}

fn grant(to: u64, round: u32) -> Message {
    Message::Grant { to: Clock::at(to), round }
}

fn fail(to: u64) -> Message {
    Message::Fail { to: Clock::at(to), round: 0 }
}

fn inquire(about: u64) -> Message {
    Message::Inquire { about: Clock::at(about), round: 0 }
}

fn yielded(request: u64) -> Message {
    Message::Yield { request: Clock::at(request), round: 0 }
}

fn release(request: u64) -> Message {
    Message::Release { request: Clock::at(request) }
}

fn world(sites: usize, options: &[(&str, &str)]) -> World<Sanders> {
    World::with(sites, options)
}

fn refusal(sites: usize, structure: &str) -> String {
    let mut values = Values::defaults(&Sanders::INFO);
    values.set("structure", structure).unwrap();
    match Sanders::plan(Cluster::of(sites), &values) {
        Err(error @ PlanError::Option { .. }) => error.to_string(),
        other => panic!("{structure} should be refused, not {other:?}"),
    }
}

/// Reference: section 4, the theorem.
#[test]
fn a_structure_that_cannot_exclude_is_refused_with_the_pair_and_what_it_lacks() {
    assert_eq!(
        refusal(3, "figure-3a"),
        "option structure: condition b: sites 0 and 1 can be inside at once: no site keeps track of both, and 1 does not \
         ask 0; put 0 into R_1, or one site into both inform sets (case 4b of the proof, Figure 3a)"
    );
    assert!(refusal(4, "figure-3b").contains("put 1 into R_0 and 0 into R_1"));
    assert!(refusal(2, "0.1-1/0.1").contains("condition a: site 0 informs {1} without asking"));
    assert!(refusal(3, "figure-1a").contains("figure-1a has 4 sites, not 3"));
    assert!(refusal(3, "0/1").contains("2 entries for 3 sites"));
}

/// Reference: section 4, case 4b: the events in the order given there.
#[test]
fn figure_3a_lets_two_in_if_it_is_forced() {
    let [i, j, k] = SiteId::first();
    let mut world = world(3, &[("structure", "figure-3a"), ("force", "yes")]).tolerant();
    assert_eq!(world.request(i), [send(j, request(1)), send(k, request(1))]);
    assert_eq!(world.request(j), [send(k, request(1))]);
    // k does not keep track of j and forgets the grant; j grants i, which precedes it.
    assert_eq!(world.deliver(j, k), [send(j, grant(1, 0))]);
    assert_eq!(world.deliver(i, j), [send(i, grant(1, 0))]);
    assert_eq!(world.deliver(i, k), [send(i, grant(1, 0))]);
    assert_eq!(world.deliver(k, j), [enter()]);
    assert_eq!(world.deliver(j, i), []);
    assert_eq!(world.violation(), None);
    assert_eq!(world.deliver(k, i), [enter()]);
    assert!(world.violation().is_some());
    assert_eq!(world.inside().len(), 2);
}

/// Reference: section 4, case 4c.
#[test]
fn figure_3b_lets_two_in_if_it_is_forced() {
    let [i, j, k, m] = SiteId::first();
    let mut world = world(4, &[("structure", "figure-3b"), ("force", "yes")]).tolerant();
    assert_eq!(world.request(i), [send(k, request(1)), send(m, request(1))]);
    assert_eq!(world.request(j), [send(k, request(1)), send(m, request(1))]);
    // The REQUEST of i reaches m first, that of j reaches k first; neither grant is remembered.
    for (from, to) in [(i, m), (j, k), (i, k), (j, m)] {
        assert_eq!(world.deliver(from, to), [send(from, grant(1, 0))]);
    }
    assert_eq!(world.deliver(k, i), []);
    assert_eq!(world.deliver(m, i), [enter()]);
    assert_eq!(world.deliver(k, j), []);
    assert_eq!(world.deliver(m, j), [enter()]);
    assert!(world.violation().is_some());
    assert_eq!(world.inside().len(), 2);
}

/// Site 0 asks with timestamp (1,0), site 2 with (1,2), and the REQUEST of 2 reaches 1 first.
fn figure_4(deadlock: &str) -> World<Sanders> {
    let [s0, s1, s2] = SiteId::first();
    let mut world = world(3, &[("structure", "figure-4"), ("deadlock", deadlock)]);
    assert_eq!(world.request(s0), [send(s1, request(1))]);
    assert_eq!(world.request(s2), [send(s0, request(1)), send(s1, request(1))]);
    assert_eq!(world.deliver(s2, s1), [send(s2, grant(1, 0))]);
    world
}

/// Reference: section 5, the example of Figure 4.
#[test]
fn figure_4_deadlocks_under_the_plain_rules() {
    let [s0, s1, s2] = SiteId::first();
    let mut world = figure_4("plain");
    assert_eq!(world.deliver(s0, s1), []);
    assert_eq!(world.deliver(s2, s0), []);
    assert_eq!(world.deliver(s1, s2), []);
    assert_eq!(world.in_flight().count(), 0);
    assert!(world.is_waiting(s0) && world.is_waiting(s2));
}

/// Reference: section 5, the same with FAIL, INQUIRE and YIELD.
#[test]
fn figure_4_resolves_because_site_2_yields_once_it_has_a_fail() {
    let [s0, s1, s2] = SiteId::first();
    let mut world = figure_4("fail");
    // Site 1 has granted 2 and gets the earlier request of 0.
    assert_eq!(world.deliver(s0, s1), [send(s2, inquire(1))]);
    assert_eq!(world.deliver(s1, s2), []);
    // The INQUIRE comes before the FAIL: 2 remembers it, and yields when the FAIL comes.
    assert_eq!(world.deliver(s1, s2), []);
    assert_eq!(world.deliver(s2, s0), [send(s2, fail(1))]);
    assert_eq!(world.deliver(s0, s2), [send(s1, yielded(1))]);
    // Site 1 does not keep track of 0, so it grants 0, which must have 1's word, and then 2 again.
    assert_eq!(world.deliver(s2, s1), [send(s0, grant(1, 0)), send(s2, grant(1, 1))]);
    assert_eq!(world.deliver(s1, s0), [enter()]);
    assert_eq!(world.deliver(s1, s2), []);
    assert_eq!(world.release(s0), [send(s2, grant(1, 0))]);
    assert_eq!(world.deliver(s0, s2), [enter()]);
    assert_eq!(world.release(s2), [send(s0, release(1)), send(s1, release(1))]);
    world.settle();
    assert!(world.is_quiet());
}

#[test]
fn without_fail_messages_site_2_yields_at_once() {
    let [s0, s1, s2] = SiteId::first();
    let mut world = figure_4("yield");
    assert_eq!(world.deliver(s0, s1), [send(s2, inquire(1))]);
    assert_eq!(world.deliver(s1, s2), []);
    assert_eq!(world.deliver(s1, s2), [send(s1, yielded(1))]);
    assert_eq!(world.deliver(s2, s1), [send(s0, grant(1, 0)), send(s2, grant(1, 1))]);
    assert_eq!(world.deliver(s1, s0), [enter()]);
    assert_eq!(world.deliver(s2, s0), []);
}

/// Reference: section 5, INQUIRE, step 2: as printed an INQUIRE that comes before the FAIL is forgotten.
#[test]
fn as_printed_figure_4_deadlocks_if_the_inquire_comes_before_the_fail() {
    let [s0, s1, s2] = SiteId::first();
    let mut world = world(3, &[("structure", "figure-4"), ("text", "printed")]);
    let _ = (world.request(s0), world.request(s2));
    assert_eq!(world.deliver(s2, s1), [send(s2, grant(1, 0))]);
    assert_eq!(world.deliver(s0, s1), [send(s2, inquire(1))]);
    assert_eq!(world.deliver(s1, s2), []);
    assert_eq!(world.deliver(s1, s2), []);
    assert_eq!(world.deliver(s2, s0), [send(s2, fail(1))]);
    assert_eq!(world.deliver(s0, s2), []);
    assert_eq!(world.in_flight().count(), 0);
    assert!(world.is_waiting(s0) && world.is_waiting(s2));
}

/// Reference: section 3.2, Figure 1b as Ricart and Agrawala's algorithm; section 5, "always yielding when an
/// inquire has been received".
#[test]
fn fully_distributed_sites_need_two_messages_for_each_other_site_even_when_they_conflict() {
    let [s0, s1] = SiteId::first();
    let mut world = world(2, &[("structure", "distributed")]);
    assert_eq!(world.request(s1), [send(s0, request(1))]);
    assert_eq!(world.request(s0), [send(s1, request(1))]);
    assert_eq!(world.deliver(s1, s0), []);
    assert_eq!(world.deliver(s0, s1), [send(s0, grant(1, 0))]);
    assert_eq!(world.deliver(s1, s0), [enter()]);
    assert_eq!(world.release(s0), [send(s1, grant(1, 0))]);
    assert_eq!(world.deliver(s0, s1), [enter()]);
    assert_eq!(world.release(s1), []);
    assert!(world.is_quiet());
}

/// Reference: section 6.1: the centralised structure "can always achieve the lower bound".
#[test]
fn the_central_structure_serves_in_order_of_timestamps_for_three_messages() {
    let [s0, s1, s2] = SiteId::first();
    let mut world = world(3, &[("structure", "central")]);
    assert_eq!(world.request(s1), [send(s0, request(1))]);
    assert_eq!(world.request(s2), [send(s0, request(1))]);
    assert_eq!(world.deliver(s2, s0), [send(s2, grant(1, 0))]);
    assert_eq!(world.deliver(s1, s0), []);
    assert_eq!(world.deliver(s0, s2), [enter()]);
    assert_eq!(world.release(s2), [send(s0, release(1))]);
    assert_eq!(world.deliver(s2, s0), [send(s1, grant(1, 0))]);
    assert_eq!(world.deliver(s0, s1), [enter()]);
}

#[test]
fn a_holder_from_the_start_is_remembered_by_its_inform_set() {
    let [s0, s1, s2] = SiteId::first();
    let mut world = World::<Sanders>::held_by(3, &[s0]);
    // The grid of three: I_0 = {0,1,2}, I_1 = {0,1}, I_2 = {0,2}.
    assert_eq!(world.request(s1), [send(s0, request(1))]);
    assert_eq!(world.deliver(s1, s0), [send(s1, fail(1))]);
    assert_eq!(world.release(s0), [send(s1, grant(1, 0)), send(s1, release(0)), send(s2, release(0))]);
    world.settle();
    assert!(world.inside().contains(s1));
}

/// Reference: section 7, "Processes 0, 2, and 3 need to know if 1 has failed"; section 7.1, step 4.
#[test]
fn when_the_centre_fails_a_waiting_site_asks_the_others() {
    let [s0, s1, s2, s3] = SiteId::first();
    let mut world = world(4, &[("structure", "figure-1a")]);
    assert_eq!(world.request(s0), [send(s1, request(1))]);
    world.fail(s1);
    assert_eq!(world.tell(s0, s1), [send(s2, asked(1, 0, &[s1])), send(s3, asked(1, 0, &[s1]))]);
    // Site 2 learns of the failure from the request.
    assert_eq!(world.deliver(s0, s2), [send(s0, grant(1, 0))]);
    assert_eq!(world.request(s2), [send(s0, asked(2, 0, &[s1])), send(s3, asked(2, 0, &[s1]))]);
    assert_eq!(world.tell(s2, s1), []);
    assert_eq!(world.deliver(s0, s3), [send(s0, grant(1, 0))]);
    assert_eq!(world.deliver(s2, s0), []);
    assert_eq!(world.deliver(s3, s0), [enter()]);
}

/// Reference: section 7.1, step 4: "i should act as if a RELEASE had actually been received".
#[test]
fn when_the_holder_fails_its_inform_set_grants_the_next() {
    let [_, s1, s2, s3] = SiteId::first();
    let mut world = world(4, &[("structure", "figure-1a")]);
    let _ = world.request(s2);
    world.settle();
    assert_eq!(world.request(s3), [send(s1, request(1))]);
    assert_eq!(world.deliver(s3, s1), []);
    world.fail(s2);
    assert_eq!(world.tell(s1, s2), [send(s3, grant(1, 0))]);
    assert_eq!(world.deliver(s1, s3), [enter()]);
}

/// The centre grants site 2 and fails; site 1 learns of it, asks, and 2 still has the grant.
fn the_centre_fails_with_a_grant_given(text: &str) -> (World<Sanders>, Vec<Effect<Message>>) {
    let [s0, s1, s2] = SiteId::first();
    let mut world = world(3, &[("structure", "central"), ("text", text)]).tolerant();
    let _ = world.request(s2);
    assert_eq!(world.deliver(s2, s0), [send(s2, grant(1, 0))]);
    world.fail(s0);
    let _ = (world.tell(s1, s0), world.request(s1));
    let answer = world.deliver(s1, s2);
    (world, answer)
}

/// Reference: section 7.1: "the algorithm will never violate mutual exclusion" does not hold as printed.
#[test]
fn as_printed_local_recovery_lets_two_in_because_a_grant_was_not_remembered() {
    let [s0, s1, s2] = SiteId::first();
    let (mut world, answer) = the_centre_fails_with_a_grant_given("printed");
    assert_eq!(answer, [send(s1, grant(1, 0))]);
    assert_eq!(world.deliver(s0, s2), [enter()]);
    assert_eq!(world.deliver(s2, s1), [enter()]);
    assert_eq!(world.inside().len(), 2);
    assert!(world.violation().is_some());
}

#[test]
fn a_request_that_names_the_failed_sites_makes_its_receiver_ask_back() {
    let [s0, s1, s2] = SiteId::first();
    let (mut world, answer) = the_centre_fails_with_a_grant_given("repaired");
    assert_eq!(answer, [send(s1, asked(1, 0, &[s0])), send(s1, grant(1, 0))]);
    // What the centre had sent is void for a site that knows of its failure.
    assert_eq!(world.deliver(s0, s2), []);
    assert_eq!(world.deliver(s2, s1), []);
    assert_eq!(world.deliver(s2, s1), [enter()]);
    assert_eq!(world.release(s1), [send(s2, grant(1, 0))]);
    assert_eq!(world.deliver(s1, s2), [enter()]);
    assert_eq!(world.violation(), None);
}

/// Sites 2 and 3 share the inform sites 0 and 1, hold the grant of one each, and learn of the failure of the other.
fn both_shared_sites_fail(text: &str) -> World<Sanders> {
    let [s0, s1, s2, s3] = SiteId::first();
    let mut world = world(4, &[("structure", "figure-2"), ("text", text)]).tolerant();
    let _ = (world.request(s2), world.request(s3));
    let _ = (world.deliver(s2, s0), world.deliver(s0, s2));
    let _ = (world.deliver(s3, s1), world.deliver(s1, s3));
    world.fail(s0);
    world.fail(s1);
    let _ = (world.tell(s2, s1), world.tell(s3, s0));
    world
}

/// Reference: section 7.1, step 2: the check finds nothing to mend, because each of the two still counts on a site.
#[test]
fn as_printed_two_failures_that_two_sites_learn_in_different_order_let_both_in() {
    let world = both_shared_sites_fail("printed");
    assert_eq!(world.inside().len(), 2);
    assert!(world.violation().is_some());
}

#[test]
fn two_sites_that_lost_half_of_what_they_shared_ask_each_other() {
    let [s0, s1, s2, s3] = SiteId::first();
    let mut world = both_shared_sites_fail("repaired");
    assert_eq!(world.inside().len(), 0);
    assert_eq!(world.deliver(s3, s2), [send(s3, fail(1))]);
    assert_eq!(world.deliver(s2, s3), [send(s2, grant(1, 0))]);
    assert_eq!(world.deliver(s3, s2), [enter()]);
    assert_eq!(world.release(s2), [send(s3, grant(1, 0))]);
    assert_eq!(world.deliver(s2, s3), []);
    assert_eq!(world.deliver(s2, s3), [enter()]);
    assert_eq!((world.tell(s2, s0), world.tell(s3, s1)), (vec![], vec![]));
    assert_eq!(world.violation(), None);
}

/// Site 0 has asked 1 before the two come to rely on each other: what 1 granted then it did not have to remember.
#[test]
fn a_site_that_was_asked_before_a_failure_is_asked_anew() {
    let [s0, s1, s2] = SiteId::first();
    let mut world = world(3, &[("structure", "0.2+1/1.2/2")]);
    assert_eq!(world.request(s0), [send(s1, request(1)), send(s2, request(1))]);
    assert_eq!(world.deliver(s0, s1), [send(s0, grant(1, 0))]);
    assert_eq!(world.deliver(s1, s0), []);
    assert_eq!(world.request(s1), [send(s2, request(2))]);
    assert_eq!(world.deliver(s1, s2), [send(s1, grant(2, 0))]);
    assert_eq!(world.deliver(s2, s1), [enter()]);
    world.fail(s2);
    assert_eq!(world.tell(s0, s2), [send(s1, asked(1, 1, &[s2]))]);
    // Site 1 is inside and makes 0 wait.
    assert_eq!(world.deliver(s0, s1), []);
    assert_eq!(world.release(s1), [send(s0, grant(1, 1))]);
    assert_eq!(world.deliver(s1, s0), [enter()]);
}

#[test]
fn what_no_correct_peer_sends_changes_nothing_and_is_reported() {
    let [s0, s1, s2] = SiteId::first();
    let mut world = world(3, &[("structure", "figure-4")]);
    let _ = world.request(s0);
    let before = world.sites().to_vec();
    let impossible = "a request that reports an impossible failure";
    let wrong = [
        (s1, s0, grant(2, 0), "a grant that nobody waits for"),
        (s1, s0, grant(1, 1), "a grant that nobody waits for"),
        (s2, s0, grant(1, 0), "a grant that nobody waits for"),
        (s2, s0, fail(1), "a FAIL for a request that it was never asked"),
        (s1, s0, fail(7), "a FAIL for a request that it was never asked"),
        (s1, s0, inquire(1), "an INQUIRE about a grant that it never remembered"),
        (s1, s0, yielded(1), "a YIELD of what it was not asked for"),
        (s2, s0, release(1), "a RELEASE of what it was not granted"),
        (s0, s2, request(1), "a request from a site that need not ask"),
        (s2, s0, request(0), "a request that is not newer than its last"),
        (s2, s0, asked(1, 1, &[]), "a request put again to a site that keeps track of it"),
        (s1, s0, asked(1, 0, &[s0]), impossible),
        (s1, s0, asked(1, 0, &[s1]), impossible),
        (s1, s0, asked(1, 0, &[SiteId::new(7)]), impossible),
    ];
    for (from, to, message, why) in wrong {
        assert_eq!(world.inject(from, to, message), [misbehaved(from, why)]);
        assert_eq!(world.sites(), before);
    }
}

#[test]
fn a_second_request_before_the_first_is_granted_is_refused() {
    let [s0, s1] = SiteId::first();
    let mut world = World::<Sanders>::held_by(2, &[s0]);
    let _ = world.request(s1);
    let _ = world.deliver(s1, s0);
    let why = "a second request before the first was granted";
    assert_eq!(world.inject(s1, s0, request(2)), [misbehaved(s1, why)]);
}

/// Reference: section 6.1: no entry costs more than the upper bound, and a lone one costs the lower bound.
#[test]
fn a_lone_entry_costs_the_lower_bound_of_the_structure() {
    for word in ["figure-1a", "figure-1b", "figure-1c", "figure-2"] {
        for site in SiteId::all(4) {
            let mut world = world(4, &[("structure", word)]);
            let _ = world.request(site);
            world.settle();
            let _ = world.release(site);
            world.settle();
            let structure = &world.site(site).rules.structure;
            assert_eq!(world.messages(), structure.min_messages(site) as u64, "{word}, {site}");
        }
    }
}

#[test]
fn everyone_at_once_costs_no_more_than_the_upper_bounds_together() {
    for word in ["figure-1a", "figure-1b", "figure-1c", "figure-2"] {
        for deadlock in ["fail", "yield"] {
            let mut world = world(4, &[("structure", word), ("deadlock", deadlock)]);
            for site in SiteId::all(4).rev() {
                let _ = world.request(site);
            }
            world.settle();
            while let Some(inside) = world.inside().first() {
                let _ = world.release(inside);
                world.settle();
            }
            assert_eq!(world.entries().len(), 4);
            let structure = &world.site(SiteId::new(0)).rules.structure;
            let most: usize = structure.all().map(|site| structure.max_messages(site)).sum();
            assert!(world.messages() <= most as u64, "{word}: {} > {most}", world.messages());
        }
    }
}

#[test]
fn holders_are_taken_for_every_structure() {
    for word in ["figure-1a", "figure-1b", "figure-1c", "figure-2"] {
        let mut values = Values::defaults(&Sanders::INFO);
        values.set("structure", word).unwrap();
        for holder in SiteId::all(4) {
            let holders = Holders::new(Cluster::of(4), [holder]).unwrap();
            let mut world = World::<Sanders>::new(Cluster::of(4), &values, &holders).unwrap();
            for site in SiteId::all(4).filter(|&site| site != holder) {
                let _ = world.request(site);
            }
            world.settle();
            while let Some(inside) = world.inside().first() {
                let _ = world.release(inside);
                world.settle();
            }
            assert_eq!(world.entries().len(), 3, "{word}, {holder}");
            assert!(world.is_quiet());
        }
    }
}
