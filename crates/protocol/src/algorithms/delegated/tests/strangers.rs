//! Messages about modes that no correct peer could send change nothing and are reported.

use super::*;
use Mode::{Exclusive, Shared, Upgradeable};

const NOT_INSIDE: &str = "a change of what is not inside";
const NOT_FROM_THERE: &str = "a change to a mode that cannot follow";
const NOT_THE_LEADER: &str = "a word of the leader's from a site that does not lead";

fn change_nothing(mut world: World<Delegated>, refused: &[(SiteId, SiteId, Message, &'static str)]) {
    let before = world.sites().to_vec();
    for (from, to, message, why) in refused {
        assert_eq!(world.inject(*from, *to, message.clone()), [misbehaved(*from, why)], "{message}");
        assert_eq!(world.sites(), before);
    }
}

#[test]
fn what_no_correct_peer_says_to_those_who_share_is_refused() {
    let [s0, s1, s2, s3] = SiteId::first();
    let mut world = sharing_world(4, &[], &[(s1, Upgradeable), (s2, Shared)]);
    let _ = world.request_as(s3, SHARED);
    let unwanted = "a share that nobody waits for";
    let nobody = "an upgrade that nobody waits for";
    change_nothing(
        world,
        &[
            (s1, s3, share(1), unwanted),
            (s0, s3, share(2), unwanted),
            (s0, s2, share(0), unwanted),
            (s1, s2, close(0), NOT_THE_LEADER),
            (s0, s2, close(1), "a close for what does not share"),
            (s2, s1, upgraded(0, 0), NOT_THE_LEADER),
            (s0, s1, upgraded(0, 0), nobody),
            (s0, s1, upgraded(0, 1), nobody),
            (s0, s3, append(1, (s1, 1)), "an append to what asks to share"),
            (s0, s3, perm(1, &[], &[]), "a permit that nobody waits for"),
        ],
    );
}

#[test]
fn what_no_correct_peer_tells_the_leader_of_sharing_is_refused() {
    let [s0, s1, s2, s3] = SiteId::first();
    let mut world = sharing_world(4, &[], &[(s1, Upgradeable), (s2, Shared)]);
    let _ = world.request(s3);
    let _ = world.deliver(s3, s0);
    let next = "a request that is not its next one";
    change_nothing(
        world,
        &[
            (s1, s0, ask(1, Demand::PLAIN), "a plain request that says more than it must"),
            (s1, s0, ask(2, SHARED), next),
            (s3, s0, ask(1, SHARED), next),
            (s1, s2, ask(1, SHARED), "a request to a site that does not lead"),
            (s3, s0, done(1), NOT_INSIDE),
            (s3, s0, done(0), NOT_INSIDE),
            (s1, s0, done(1), NOT_INSIDE),
            (s1, s2, done(0), "news for a site that does not lead"),
            (s3, s0, upgrade(1, 1), NOT_INSIDE),
            (s1, s0, upgrade(1, 1), NOT_INSIDE),
            (s2, s0, upgrade(0, 1), NOT_FROM_THERE),
            (s2, s0, downgrade(0, 1, Shared), NOT_FROM_THERE),
            (s1, s0, downgrade(0, 1, Upgradeable), NOT_FROM_THERE),
            (s1, s0, downgrade(0, 1, Exclusive), NOT_FROM_THERE),
            (s1, s0, home(0, 1, Shared), "a permit that is not out"),
            (s1, s0, home(0, 1, Exclusive), "a downgrade to what is not lower"),
        ],
    );
}

#[test]
fn an_exclusive_one_neither_is_told_to_close_nor_brings_news_of_another() {
    let [s0, s1, s2] = SiteId::first();
    let mut world = sharing_world(3, &[], &[(s1, Exclusive)]);
    let _ = world.request(s2);
    let _ = world.deliver(s2, s0);
    let change = "a permit of another's";
    change_nothing(
        world,
        &[
            (s0, s1, close(0), "a close for what does not share"),
            (s0, s2, close(1), "a close for what does not share"),
            (s2, s0, home(0, 1, Shared), change),
            (s2, s0, done(0), NOT_INSIDE),
        ],
    );
}

#[test]
fn a_permit_that_is_shared_is_not_handed_back_by_one_that_waits_for_it() {
    let [s0, s1, s2] = SiteId::first();
    let mut world = sharing_world(3, &[], &[(s1, Exclusive)]);
    let _ = world.request(s2);
    let _ = world.deliver(s2, s0);
    let _ = world.change_mode(s1, Shared);
    let _ = world.deliver(s1, s0);
    change_nothing(
        world,
        &[
            (s2, s0, rel(1, &[]), "a permit that is not out"),
            (s2, s0, home(1, 1, Shared), "a permit that is not out"),
            (s2, s0, done(1), NOT_INSIDE),
        ],
    );
}

#[test]
fn news_of_two_that_both_bring_the_permit_are_refused() {
    let [s0, s1, s2] = SiteId::first();
    let mut world = sharing_world(3, &[], &[(s1, Exclusive)]);
    let _ = world.request(s2);
    let _ = world.deliver(s2, s0);
    assert_eq!(world.inject(s1, s0, done(0)), [], "S1 may be bringing the permit");
    let before = world.site(s0).clone();
    assert_eq!(world.inject(s2, s0, done(1)), [misbehaved(s2, NOT_INSIDE)]);
    assert_eq!(*world.site(s0), before);
}

#[test]
fn an_exclusive_one_does_not_upgrade_again() {
    let [s0, s1] = SiteId::first();
    let mut world = sharing_world(2, &[], &[(s1, Upgradeable)]);
    let _ = world.change_mode(s1, Exclusive);
    world.settle();
    change_nothing(world, &[(s1, s0, upgrade(0, 2), NOT_FROM_THERE)]);
}

#[test]
fn modes_are_refused_where_permits_are_many() {
    let [s0, s1, s2] = SiteId::first();
    let world = world(3, 2, "sites", &[s1]);
    let many = "a mode, where permits are many";
    let with_permit =
        Message::Downgrade { number: 0, change: 1, to: Shared, permit: Some(Box::new(permit(0, &[], &[]))) };
    change_nothing(
        world,
        &[
            (s2, s0, ask(1, SHARED), many),
            (s1, s0, done(0), many),
            (s1, s0, upgrade(0, 1), many),
            (s1, s0, with_permit, "a downgrade to what is not lower"),
        ],
    );
}
