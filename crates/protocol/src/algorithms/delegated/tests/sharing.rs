//! Scenarios of sites that share: who enters with whom, and what an open one is told.

use super::*;

#[test]
fn a_reader_alone_costs_what_a_lock_costs_and_the_leaders_own_nothing() {
    let [s0, s1] = SiteId::first();
    let mut world = sharing_world(2, &[], &[]);
    assert_eq!(world.request_as(s1, SHARED), [send(s0, ask(1, SHARED))]);
    assert_eq!(world.deliver(s1, s0), [send(s1, share_open(1))]);
    assert_eq!(world.deliver(s0, s1), [enter(0)]);
    assert!(world.site(s1).may_share(), "nobody waits");
    assert_eq!(world.release(s1), [send(s0, done(1))]);
    assert_eq!(world.deliver(s1, s0), []);
    assert!(world.is_quiet());
    assert_eq!(world.request_as(s0, SHARED), [enter(0)]);
    assert_eq!(world.release_and_request_as(s0, SHARED), [enter(0)]);
    assert_eq!(world.release(s0), []);
    assert!(world.is_quiet());
}

/// S1 is inside alone; S2 and S4 ask to share, S3 in upgradeable mode, all at the leader.
fn three_wait() -> World<Delegated> {
    let [s0, s1, s2, s3, s4] = SiteId::first();
    let mut world = sharing_world(5, &[], &[(s1, Mode::Exclusive)]);
    for (site, demand) in [(s2, SHARED), (s3, UPGRADEABLE), (s4, SHARED)] {
        let _ = world.request_as(site, demand);
        assert_eq!(world.deliver(site, s0), [], "an exclusive one is inside");
    }
    world
}

#[test]
fn readers_that_wait_together_enter_together_and_one_upgradeable_with_them() {
    let [s0, s1, s2, s3, s4] = SiteId::first();
    let mut world = three_wait();
    assert_eq!(world.release(s1), [send(s0, rel(0, &[]))]);
    let all = [send(s2, share_open(1)), send(s3, share_open(1)), send(s4, share_open(1))];
    assert_eq!(world.deliver(s1, s0), all, "each by one message, at the same moment");
    for site in [s2, s3, s4] {
        assert_eq!(world.deliver(s0, site), [enter(0)]);
    }
    assert_eq!(world.inside().len(), 3);
    let fences: Vec<_> = world.entries().iter().map(|entry| entry.fence).collect();
    assert_eq!(fences.len(), 3);
}

#[test]
fn a_batch_ends_before_a_second_upgradeable_one_and_nobody_passes_that() {
    let [s0, s1, s2, s3, s4] = SiteId::first();
    let mut world = sharing_world(5, &[], &[(s1, Mode::Upgradeable)]);
    let _ = world.request_as(s2, SHARED);
    assert_eq!(world.deliver(s2, s0), [send(s2, share_open(1))]);
    let _ = world.request_as(s3, UPGRADEABLE);
    let told = [send(s1, close(0)), send(s2, close(1))];
    assert_eq!(world.deliver(s3, s0), told, "those who are open are told that one waits");
    let _ = world.request_as(s4, SHARED);
    assert_eq!(world.deliver(s4, s0), [], "it would pass S3");
    let _ = world.release(s1);
    assert_eq!(
        world.deliver(s1, s0),
        [send(s3, share_open(1)), send(s4, share_open(1))],
        "S2 is still inside"
    );
}

/// Whether a reader that comes while a writer waits for a reader is let in before that.
pub(super) fn a_reader_passes_a_writer() -> bool {
    let [s0, s1, s2, s3] = SiteId::first();
    let mut world = sharing_world(4, &[("share", "asked")], &[(s1, Mode::Shared)]);
    let _ = world.request(s2);
    assert_eq!(world.deliver(s2, s0), [], "S1 is not open, so it need not be told");
    let _ = world.request_as(s3, SHARED);
    !world.deliver(s3, s0).is_empty()
}

#[test]
fn a_reader_does_not_pass_a_writer_that_waits() {
    assert!(!a_reader_passes_a_writer());
}

#[test]
fn a_chain_takes_the_writers_before_the_first_reader_and_the_reader_follows_it() {
    let [s0, s1, s2, s3, s4] = SiteId::first();
    let mut world = sharing_world(5, &[], &[(s1, Mode::Shared)]);
    let _ = world.request(s2);
    assert_eq!(world.deliver(s2, s0), [send(s1, close(0))]);
    for (site, demand) in [(s3, Demand::PLAIN), (s4, SHARED)] {
        let _ = world.request_as(site, demand);
        assert_eq!(world.deliver(site, s0), []);
    }
    let _ = world.release(s1);
    assert_eq!(world.deliver(s1, s0), [send(s2, perm(1, &[(s3, 1)], &[]))]);
    let _ = world.deliver(s0, s2);
    assert_eq!(world.release(s2), [send(s3, perm(1, &[], &[]))], "writers hand over directly");
    let _ = world.deliver(s2, s3);
    let _ = world.release(s3);
    assert_eq!(world.deliver(s3, s0), [send(s4, share_open(1))]);
}

#[test]
fn a_writer_behind_a_reader_is_not_appended_to_the_chain_that_runs() {
    let [s0, s1, s2, s3] = SiteId::first();
    let mut world = sharing_world(4, &[], &[(s1, Mode::Exclusive)]);
    let _ = world.request_as(s2, SHARED);
    assert_eq!(world.deliver(s2, s0), []);
    let _ = world.request(s3);
    assert_eq!(world.deliver(s3, s0), []);
    let _ = world.release(s1);
    assert_eq!(world.deliver(s1, s0), [send(s2, share(1))], "and S2 knows that one waits");
}

#[test]
fn a_close_may_overtake_the_share_or_come_when_the_reader_is_out() {
    let [s0, s1, s2] = SiteId::first();
    let mut world = sharing_world(3, &[], &[]);
    let _ = world.request_as(s1, SHARED);
    assert_eq!(world.deliver(s1, s0), [send(s1, share_open(1))]);
    let _ = world.request(s2);
    assert_eq!(world.deliver(s2, s0), [send(s1, close(1))]);
    let mut late = world.clone();
    assert_eq!(world.deliver_nth(s0, s1, 1), [], "the close comes first");
    assert_eq!(world.deliver(s0, s1), [enter(0)]);
    assert!(!world.site(s1).may_share());
    // The other way: S1 is out, and has asked again, when it comes.
    assert_eq!(late.deliver(s0, s1), [enter(0)]);
    assert!(late.site(s1).may_share());
    assert_eq!(late.release_and_request_as(s1, SHARED), [send(s0, done(1)), send(s0, ask(2, SHARED))]);
    let before = late.site(s1).clone();
    assert_eq!(late.deliver(s0, s1), []);
    assert_eq!(*late.site(s1), before);
}

#[test]
fn a_request_may_overtake_the_end_of_the_last_one() {
    let [s0, s1] = SiteId::first();
    let mut world = sharing_world(2, &[], &[(s1, Mode::Shared)]);
    let _ = world.release(s1);
    let _ = world.request(s1);
    assert_eq!(world.deliver_nth(s1, s0, 1), [send(s1, close(0))], "for the leader S1 still shares");
    assert_eq!(world.deliver(s1, s0), [send(s1, perm(1, &[], &[]))]);
    assert_eq!(world.deliver_nth(s0, s1, 1), [enter(0)]);
    assert_eq!(world.deliver(s0, s1), [], "it shares no more");
}

#[test]
fn holders_that_share_at_the_start_are_known_to_the_leader() {
    let [s0, s1, s2, s3] = SiteId::first();
    let holders = [(s0, Mode::Shared), (s1, Mode::Upgradeable)];
    let mut world = sharing_world(4, &[], &holders);
    assert!(world.site(s0).may_share() && world.site(s1).may_share());
    let _ = world.request_as(s2, SHARED);
    assert_eq!(world.deliver(s2, s0), [send(s2, share_open(1))]);
    let _ = world.request(s3);
    assert_eq!(world.deliver(s3, s0), [send(s1, close(0)), send(s2, close(1))]);
    assert!(!world.site(s0).may_share(), "the leader's own process is told without a message");
    world.settle();
    assert_eq!(world.release(s0), []);
    for site in [s1, s2] {
        let _ = world.release(site);
    }
    assert_eq!(world.deliver(s1, s0), []);
    assert_eq!(world.deliver(s2, s0), [send(s3, perm(1, &[], &[]))]);
}

#[test]
fn a_picture_shows_who_shares_who_upgrades_and_who_waits_in_which_mode() {
    let [s0, s1, s2, s3, s4] = SiteId::first();
    let mut world = sharing_world(5, &[], &[(s1, Mode::Upgradeable), (s2, Mode::Shared)]);
    let queue = |world: &World<Delegated>, name| {
        let view = world.site(s0).view();
        let found = view.queues.into_iter().find(|(queue, _)| *queue == name);
        found.map(|(_, items)| items).unwrap_or_default()
    };
    assert_eq!(queue(&world, "share"), ["S1 upgradeable, open", "S2 shared, open"]);
    for (site, demand) in [(s3, Demand::PLAIN), (s4, SHARED)] {
        let _ = world.request_as(site, demand);
        let _ = world.deliver(site, s0);
    }
    let _ = world.change_mode(s1, Mode::Exclusive);
    let _ = world.deliver(s1, s0);
    assert_eq!(queue(&world, "share"), ["S1 upgradeable, upgrades", "S2 shared"]);
    assert_eq!(queue(&world, "queue"), ["S3", "S4 shared"]);
    assert_eq!(world.site(s1).view().values, [("is", "upgradeable, upgrades".to_owned())]);
    assert_eq!(world.site(s4).view().values, [("asks to be", "shared".to_owned())]);
}
