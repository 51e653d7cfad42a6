//! Scenarios of sites that change their mode while they are inside.

use super::*;
use Mode::{Exclusive, Shared, Upgradeable};

#[test]
fn an_upgrade_waits_for_the_readers_and_nobody_passes_it() {
    let [s0, s1, s2, s3, s4] = SiteId::first();
    let mut world = sharing_world(5, &[], &[(s1, Upgradeable), (s2, Shared)]);
    let _ = world.request(s3);
    let _ = world.deliver(s3, s0);
    assert_eq!(world.change_mode(s1, Exclusive), [send(s0, upgrade(0, 1))]);
    assert!(world.site(s1).is_upgrading());
    assert_eq!(world.site(s1).mode(), Upgradeable);
    assert_eq!(world.deliver(s1, s0), []);
    let _ = world.request_as(s4, SHARED);
    assert_eq!(world.deliver(s4, s0), []);
    let _ = world.release(s2);
    assert_eq!(world.deliver(s2, s0), [send(s1, upgraded(0, 1))], "before S3, which had asked earlier");
    let _ = world.deliver(s0, s2);
    assert_eq!(world.deliver_nth(s0, s1, 1), [Effect::Upgraded]);
    assert_eq!(world.site(s1).mode(), Exclusive);
    assert_eq!(world.release(s1), [send(s0, done(0))]);
    assert_eq!(world.deliver(s1, s0), [send(s3, perm(1, &[], &[]))]);
}

#[test]
fn an_upgrade_that_finds_nobody_else_is_answered_at_once_and_the_leaders_own_without_a_message() {
    let [s0, s1] = SiteId::first();
    let mut world = sharing_world(2, &[], &[(s1, Upgradeable)]);
    let _ = world.change_mode(s1, Exclusive);
    assert_eq!(world.deliver(s1, s0), [send(s1, upgraded(0, 1))]);
    let mut world = sharing_world(2, &[], &[(s0, Upgradeable)]);
    assert_eq!(world.change_mode(s0, Exclusive), [Effect::Upgraded]);
    assert_eq!(world.change_mode(s0, Upgradeable), []);
    assert_eq!(world.change_mode(s0, Exclusive), [Effect::Upgraded]);
    assert_eq!(world.release(s0), []);
    assert!(world.is_quiet());
}

/// Whether a reader that comes while an upgrade waits is let in before that.
pub(super) fn a_reader_passes_an_upgrade() -> bool {
    let [s0, s1, s2, s3] = SiteId::first();
    let mut world = sharing_world(4, &[("share", "asked")], &[(s1, Upgradeable), (s2, Shared)]);
    let _ = world.change_mode(s1, Exclusive);
    assert_eq!(world.deliver(s1, s0), [], "S2 is inside");
    let _ = world.request_as(s3, SHARED);
    !world.deliver(s3, s0).is_empty()
}

#[test]
fn a_reader_does_not_pass_an_upgrade_that_waits() {
    assert!(!a_reader_passes_an_upgrade());
}

#[test]
fn an_upgrade_closes_those_who_are_open() {
    let [s0, s1, s2] = SiteId::first();
    let mut world = sharing_world(3, &[], &[(s1, Upgradeable), (s2, Shared)]);
    let _ = world.change_mode(s1, Exclusive);
    assert!(!world.site(s1).may_share(), "it closes itself");
    assert_eq!(world.deliver(s1, s0), [send(s2, close(0))]);
}

#[test]
fn who_leaves_while_its_upgrade_waits_has_left_and_the_answer_that_crosses_it_is_ignored() {
    let [s0, s1, s2] = SiteId::first();
    let mut world = sharing_world(3, &[("share", "asked")], &[(s1, Upgradeable)]);
    let _ = world.change_mode(s1, Exclusive);
    assert_eq!(world.deliver(s1, s0), [send(s1, upgraded(0, 1))]);
    assert_eq!(world.release(s1), [send(s0, done(0))]);
    assert_eq!(world.request_as(s1, UPGRADEABLE), [send(s0, ask(1, UPGRADEABLE))]);
    assert_eq!(world.deliver(s0, s1), [], "it was for a request that has ended");
    let _ = world.request_as(s2, SHARED);
    assert_eq!(world.deliver(s2, s0), []);
    assert_eq!(world.deliver(s1, s0), [send(s2, share(1))]);
    assert_eq!(world.deliver(s1, s0), [send(s1, share(1))]);
}

#[test]
fn an_end_may_overtake_the_upgrade_that_it_takes_back() {
    let [s0, s1, s2] = SiteId::first();
    let mut world = sharing_world(3, &[("share", "asked")], &[(s1, Upgradeable), (s2, Shared)]);
    let _ = world.change_mode(s1, Exclusive);
    let _ = world.release(s1);
    assert_eq!(world.deliver_nth(s1, s0, 1), [], "the end comes first");
    assert_eq!(world.deliver(s1, s0), [], "and the upgrade is of a request that has ended");
    let _ = world.request_as(s1, SHARED);
    assert_eq!(world.deliver(s1, s0), [send(s1, share(1))]);
}

#[test]
fn a_downgrade_lets_in_the_readers_that_stand_before_every_writer_and_no_writer() {
    let [s0, s1, s2, s3, s4] = SiteId::first();
    let mut world = sharing_world(5, &[], &[(s1, Exclusive)]);
    for (site, demand) in [(s2, SHARED), (s3, Demand::PLAIN), (s4, SHARED)] {
        let _ = world.request_as(site, demand);
        let _ = world.deliver(site, s0);
    }
    assert_eq!(world.change_mode(s1, Shared), [send(s0, home(0, 1, Shared))]);
    assert_eq!(world.site(s1).mode(), Shared);
    assert_eq!(world.deliver(s1, s0), [send(s2, share(1))], "not S4, which stands behind S3");
    let _ = world.release(s1);
    assert_eq!(world.deliver(s1, s0), []);
    let _ = world.deliver(s0, s2);
    let _ = world.release(s2);
    assert_eq!(world.deliver(s2, s0), [send(s3, perm(1, &[], &[]))]);
}

#[test]
fn after_a_downgrade_the_rest_of_the_chain_keeps_its_order_and_its_place_before_all() {
    let [s0, s1, s2, s3, s4] = SiteId::first();
    let mut world = sharing_world(5, &[("chain", "3")], &[(s1, Exclusive)]);
    for (site, tail) in [(s2, s1), (s3, s2)] {
        let _ = world.request(site);
        assert_eq!(world.deliver(site, s0).len(), 1);
        assert_eq!(world.deliver(s0, tail), [], "who follows it");
    }
    let urgent = SHARED.with_priority(3);
    let _ = world.request_as(s4, urgent);
    assert_eq!(world.deliver(s4, s0), []);
    assert_eq!(world.change_mode(s1, Upgradeable), [send(s0, home(0, 1, Upgradeable))]);
    assert_eq!(world.deliver(s1, s0), [], "S4 does not pass S2, which was in the chain");
    let _ = world.change_mode(s1, Exclusive);
    assert_eq!(world.deliver(s1, s0), [send(s1, upgraded(0, 2))], "nobody passes the upgrade");
    assert_eq!(world.deliver(s0, s1), [Effect::Upgraded]);
    let _ = world.release(s1);
    assert_eq!(world.deliver(s1, s0), [send(s2, perm(1, &[(s3, 1)], &[]))]);
}

#[test]
fn requests_that_ride_on_a_permit_come_home_with_a_downgrade() {
    let [s0, s1, s2] = SiteId::first();
    let mut world = sharing_world(3, &[], &[(s1, Exclusive)]);
    let _ = world.request(s2);
    let _ = world.deliver(s2, s0);
    let _ = world.deliver(s0, s1);
    assert_eq!(world.release_and_request(s1), [send(s2, perm(1, &[], &[(s1, 1)]))]);
    assert_eq!(world.deliver(s1, s2), [enter(0)]);
    let back = Some(Box::new(permit(0, &[], &[(s1, 1)])));
    let lowered = Message::Downgrade { number: 1, change: 1, to: Shared, permit: back };
    assert_eq!(world.change_mode(s2, Shared), [send(s0, lowered)]);
    assert_eq!(world.deliver(s2, s0), [], "S1 waits for S2");
    let _ = world.release(s2);
    assert_eq!(world.deliver(s2, s0), [send(s1, perm(1, &[], &[]))]);
}

#[test]
fn what_overtakes_the_permit_of_a_downgrade_counts_when_that_comes_home() {
    let [s0, s1] = SiteId::first();
    let mut world = sharing_world(2, &[], &[(s1, Exclusive)]);
    let _ = world.change_mode(s1, Upgradeable);
    let _ = world.change_mode(s1, Exclusive);
    let mut left = world.clone();
    assert_eq!(world.deliver_nth(s1, s0, 1), [], "the upgrade comes first");
    assert_eq!(world.deliver(s1, s0), [send(s1, upgraded(0, 2))]);
    let _ = left.release(s1);
    assert_eq!(left.deliver_nth(s1, s0, 2), [], "the end comes first of all");
    assert_eq!(left.deliver_nth(s1, s0, 1), [], "then the upgrade, which it has taken back");
    assert_eq!(left.deliver(s1, s0), []);
    assert!(left.is_quiet());
}

#[test]
fn a_lower_mode_admits_a_second_upgradeable_one() {
    let [s0, s1, s2] = SiteId::first();
    let mut world = sharing_world(3, &[], &[(s1, Upgradeable)]);
    let _ = world.request_as(s2, UPGRADEABLE);
    assert_eq!(world.deliver(s2, s0), [send(s1, close(0))]);
    assert_eq!(world.change_mode(s1, Shared), [send(s0, downgrade(0, 1, Shared))]);
    assert_eq!(world.deliver(s1, s0), [send(s2, share_open(1))]);
}
