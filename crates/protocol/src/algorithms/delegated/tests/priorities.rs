//! Scenarios of priorities.

use super::*;

/// Whether of two that wait the more urgent one is served first, although it asked later.
pub(super) fn the_more_urgent_is_served_first(options: &[(&str, &str)]) -> bool {
    let [s0, s1, s2, s3] = SiteId::first();
    let mut world = sharing_world(4, &[&[("chain", "1")], options].concat(), &[(s1, Mode::Exclusive)]);
    let _ = world.request(s2);
    let _ = world.deliver(s2, s0);
    let urgent = Demand::PLAIN.with_priority(1);
    assert_eq!(world.request_as(s3, urgent), [send(s0, ask(1, urgent))]);
    let _ = world.deliver(s3, s0);
    let _ = world.release(s1);
    world.deliver(s1, s0) == [send(s3, perm(1, &[], &[]))]
}

#[test]
fn of_two_that_wait_the_more_urgent_is_served_first() {
    assert!(the_more_urgent_is_served_first(&[]));
    assert!(the_more_urgent_is_served_first(&[("priority", "strict")]));
}

#[test]
fn of_two_that_are_equally_urgent_the_first_that_came_is_served_first() {
    let [s0, s1, s2, s3] = SiteId::first();
    for strict in ["ages", "strict"] {
        let mut world = sharing_world(4, &[("chain", "1"), ("priority", strict)], &[(s1, Mode::Exclusive)]);
        for site in [s2, s3] {
            let _ = world.request_as(site, Demand::PLAIN.with_priority(2));
            let _ = world.deliver(site, s0);
        }
        let _ = world.release(s1);
        assert_eq!(world.deliver(s1, s0), [send(s2, perm(1, &[], &[]))]);
    }
}

/// S1 asks with the least priority; S2 and S3 with the largest one, again and again. How many of those enter before S1, of a hundred.
pub(super) fn enter_before_the_least_urgent(options: &[(&str, &str)]) -> usize {
    let [s0, s1, s2, s3] = SiteId::first();
    let mut world = sharing_world(4, options, &[(s2, Mode::Exclusive)]);
    let urgent = SHARED.with_priority(3);
    for (site, demand) in [(s1, Demand::PLAIN), (s3, urgent)] {
        let _ = world.request_as(site, demand);
        // So that S1 is in no chain: nobody is appended behind one that shares.
        if site == s1 {
            let _ = world.change_mode(s2, Mode::Shared);
            let _ = world.deliver(s2, s0);
        }
        let _ = world.deliver(site, s0);
    }
    world.settle();
    for entered in 0..100 {
        if world.inside().contains(s1) {
            return entered;
        }
        let site = world.inside().first().expect("somebody is inside");
        let _ = world.release_and_request_as(site, urgent);
        world.settle();
    }
    100
}

#[test]
fn with_priorities_that_age_the_least_urgent_is_served_and_with_strict_ones_it_may_wait_for_ever() {
    let passed = enter_before_the_least_urgent(&[]);
    assert!((2..=5 + 3 * 4).contains(&passed), "{passed}");
    assert_eq!(enter_before_the_least_urgent(&[("priority", "strict")]), 100);
}

#[test]
fn an_urgent_writer_is_appended_like_any_other_if_nobody_is_queued() {
    let [s0, s1, s2] = SiteId::first();
    let mut world = sharing_world(3, &[], &[(s1, Mode::Exclusive)]);
    let _ = world.request_as(s2, Demand::PLAIN.with_priority(3));
    assert_eq!(world.deliver(s2, s0), [send(s1, append(0, (s2, 1)))]);
}

#[test]
fn an_urgent_reader_joins_those_who_share_before_a_writer_that_waits() {
    let [s0, s1, s2, s3] = SiteId::first();
    let mut world = sharing_world(4, &[], &[(s1, Mode::Shared)]);
    let _ = world.request(s2);
    let _ = world.deliver(s2, s0);
    let _ = world.request_as(s3, SHARED.with_priority(1));
    assert_eq!(world.deliver(s3, s0), [send(s3, share(1))]);
}

#[test]
fn only_with_priorities_that_age_a_bypass_bound_is_claimed() {
    let claims = |options| sharing_world(3, options, &[]).site(SiteId::new(1)).bypass_claim().is_some();
    assert!(claims(&[]));
    assert!(!claims(&[("priority", "strict")]));
    assert!(!claims(&[("chain", "4")]), "a chain longer than the number of sites");
}
