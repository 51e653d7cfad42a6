//! Scenarios of Ricart and Agrawala's algorithm: its paper's, and those of processes that share.

use super::*;
use crate::Effect;
use crate::world::{Violation, World, enter, misbehaved, send};

fn request(clock: u64) -> Message {
    Message::Request { clock: Clock::at(clock) }
}

fn reply(to: u64) -> Message {
    Message::Reply { to: Clock::at(to) }
}

/// Reference: chapter 9, Figures 9.7 to 9.10, with the timestamps (2,1) and (1,2) of the text. (The captions of
/// the figures name the other site.)
#[test]
fn the_earlier_of_two_requests_enters_first_and_its_exit_lets_the_other_in() {
    let [s1, s2, s3] = SiteId::first();
    let mut world = World::<RicartAgrawala>::of(3);
    world.site_mut(s1).clock = Clock::at(1);
    // Figure 9.7: both ask.
    assert_eq!(world.request(s1), [send(s2, request(2)), send(s3, request(2))]);
    assert_eq!(world.request(s2), [send(s1, request(1)), send(s3, request(1))]);
    // Figure 9.8: S2 precedes, defers S1, and enters with the replies of S1 and S3.
    assert_eq!(world.deliver(s1, s2), []);
    assert_eq!(world.deliver(s2, s1), [send(s2, reply(1))]);
    assert_eq!(world.deliver(s2, s3), [send(s2, reply(1))]);
    assert_eq!(world.deliver(s1, s3), [send(s1, reply(2))]);
    assert_eq!(world.deliver(s1, s2), []);
    assert_eq!(world.deliver(s3, s2), [enter()]);
    // Figure 9.9: it leaves and sends the deferred reply. Figure 9.10: S1 enters.
    assert_eq!(world.deliver(s3, s1), []);
    assert_eq!(world.release(s2), [send(s1, reply(2))]);
    assert_eq!(world.deliver(s2, s1), [enter()]);
    assert_eq!(world.release(s1), []);
    assert!(world.is_quiet());
}

#[test]
fn a_holder_from_the_start_is_waited_for() {
    let [s1, s2] = SiteId::first();
    let mut world = World::<RicartAgrawala>::held_by(2, &[s2]);
    assert_eq!(world.request(s1), [send(s2, request(1))]);
    assert_eq!(world.deliver(s1, s2), []);
    assert_eq!(world.release(s2), [send(s1, reply(1))]);
    assert_eq!(world.deliver(s2, s1), [enter()]);
}

#[test]
fn what_no_correct_peer_sends_changes_nothing_and_is_reported() {
    let [s1, s2, s3] = SiteId::first();
    let mut world = World::<RicartAgrawala>::of(3);
    let stranger = SiteId::new(9);
    assert_eq!(world.inject(stranger, s1, request(1)), [misbehaved(stranger, NOT_A_PEER)]);
    assert_eq!(world.inject(s1, s1, request(1)), [misbehaved(s1, NOT_A_PEER)]);
    assert_eq!(world.inject(s2, s1, reply(0)), [misbehaved(s2, "a reply that nobody waits for")]);
    let _ = world.request(s2);
    world.settle();
    let before = world.site(s1).clone();
    let stale = "a request that is not newer than its last";
    assert_eq!(world.inject(s2, s1, request(1)), [misbehaved(s2, stale)]);
    assert_eq!(world.inject(s3, s2, reply(1)), [misbehaved(s3, "a reply that nobody waits for")]);
    assert_eq!(*world.site(s1), before);
}

/// Reference: Lodha and Kshemkalyani, Figure 1, `RcvReq`: the clock is raised in one of three branches only.
#[test]
fn as_printed_by_lodha_two_sites_get_in() {
    let [s1, s2] = SiteId::first();
    let mut world = World::<RicartAgrawala>::with(2, &[("text", "printed")]).tolerant();
    // S2 enters twice; S1 replies without noting the clock, so its own request precedes the one that S2 is
    // inside on.
    let _ = world.request(s2);
    world.settle();
    let _ = world.release(s2);
    let _ = world.request(s2);
    world.settle();
    assert_eq!(world.request(s1), [send(s2, request(1))]);
    assert_eq!(world.deliver(s1, s2), [send(s1, reply(1))]);
    assert_eq!(world.deliver(s2, s1), [enter()]);
    assert_eq!(world.violation(), Some(&Violation::TooManyInside { inside: 2, permits: 1 }));
}

/// Sites with the option `modes`, whose processes ask for any of them.
fn sharing(sites: usize) -> World<RicartAgrawala> {
    let mut values = Values::defaults(&RicartAgrawala::INFO);
    values.set("modes", "yes").unwrap();
    let world = World::new(Cluster::of(sites), &values, &Holders::none()).unwrap();
    world.demanding(&values, &Mode::ALL.map(Demand::of)).unwrap()
}

fn shared(clock: u64) -> Message {
    Message::RequestAs { clock: Clock::at(clock), mode: Mode::Shared }
}

fn upgrade(clock: u64, withdrawn: u64) -> Message {
    Message::Upgrade { clock: Clock::at(clock), withdrawn: Clock::at(withdrawn) }
}

fn yields(to: u64) -> Message {
    Message::Yield { to: Clock::at(to) }
}

const READ: Demand = Demand::of(Mode::Shared);
const MAY_WRITE: Demand = Demand::of(Mode::Upgradeable);

#[test]
fn readers_that_ask_at_the_same_time_enter_together_and_a_writer_waits_for_both() {
    let [s1, s2, s3] = SiteId::first();
    let mut world = sharing(3);
    assert_eq!(world.request_as(s1, READ), [send(s2, shared(1)), send(s3, shared(1))]);
    let _ = world.request_as(s2, READ);
    world.settle();
    let _ = world.request(s3);
    world.settle();
    assert!(world.inside().contains(s1) && world.inside().contains(s2) && world.is_waiting(s3));
    assert!(!world.site(s1).may_share(), "a writer waits, whom no other reader may pass");
    assert_eq!(world.release(s1), [send(s3, reply(2))]);
    assert_eq!(world.deliver(s1, s3), []);
    assert_eq!(world.release(s2), [send(s3, reply(2))]);
    assert_eq!(world.deliver(s2, s3), [enter()]);
}

#[test]
fn exclusive_requests_say_with_modes_exactly_what_they_say_without() {
    let [s1, s2, s3] = SiteId::first();
    let run = |mut world: World<RicartAgrawala>| {
        let mut effects = vec![world.request(s3), world.request(s1)];
        effects.extend([world.deliver(s3, s1), world.deliver(s1, s3), world.deliver(s1, s2)]);
        world.settle();
        effects.push(world.release(s1));
        world.settle();
        effects.extend([world.release_and_request(s3), world.request(s2)]);
        world.settle();
        (effects, world.sent().clone())
    };
    assert_eq!(run(sharing(3)), run(World::of(3)));
}

/// S2 waits for S1, and the reader S3 for S2: if S3 kept the upgrade waiting, all would wait for ever.
#[test]
fn an_upgrade_passes_a_reader_that_waits_behind_a_writer() {
    let [s1, s2, s3] = SiteId::first();
    let mut world = sharing(3);
    let _ = world.request_as(s1, MAY_WRITE);
    world.settle();
    let _ = world.request(s2);
    world.settle();
    assert_eq!(world.request_as(s3, READ), [send(s1, shared(3)), send(s2, shared(3))]);
    assert_eq!(world.deliver(s3, s1), [send(s3, reply(3))]);
    assert_eq!(world.deliver(s1, s3), []);
    assert_eq!(world.deliver(s3, s2), []);
    // What S1 has replied to S3 is withdrawn; to S2 it has not replied.
    assert_eq!(world.change_mode(s1, Mode::Exclusive), [send(s2, upgrade(4, 0)), send(s3, upgrade(4, 3))]);
    assert_eq!(world.deliver(s1, s2), [send(s1, reply(4))]);
    assert_eq!(world.deliver(s1, s3), [send(s1, yields(4))]);
    assert_eq!(world.deliver(s2, s1), []);
    assert_eq!(world.deliver(s3, s1), [Effect::Upgraded]);
    assert_eq!(world.release(s1), [send(s2, reply(2)), send(s3, reply(4))]);
    assert_eq!(world.deliver(s1, s3), []);
    assert_eq!(world.deliver(s1, s2), [enter()]);
    assert_eq!(world.release(s2), [send(s3, reply(3))]);
    assert_eq!(world.deliver(s2, s3), [enter()]);
}

#[test]
fn a_withdrawn_reply_that_is_overtaken_is_awaited_before_the_upgrade_is_answered() {
    let [s1, s2] = SiteId::first();
    let mut world = sharing(2);
    let _ = world.request_as(s1, MAY_WRITE);
    world.settle();
    let _ = world.request_as(s2, READ);
    assert_eq!(world.deliver(s2, s1), [send(s2, reply(2))]);
    assert_eq!(world.change_mode(s1, Mode::Exclusive), [send(s2, upgrade(3, 2))]);
    assert_eq!(world.deliver_nth(s1, s2, 1), []);
    assert_eq!(world.deliver(s1, s2), [send(s1, yields(3))]);
    assert_eq!(world.deliver(s2, s1), [Effect::Upgraded]);
    // A second copy of the withdrawn reply is not the renewed one.
    assert_eq!(world.inject(s1, s2, reply(2)), [misbehaved(s1, "a reply that nobody waits for")]);
    assert_eq!(world.release(s1), [send(s2, reply(3))]);
    assert_eq!(world.deliver(s1, s2), [enter()]);
}

#[test]
fn a_downgrade_lets_readers_in_and_no_writer_and_no_reader_past_a_writer() {
    let [s1, s2, s3] = SiteId::first();
    for (reader, writer) in [(s2, s3), (s3, s2)] {
        let mut world = sharing(3);
        let _ = world.request(s1);
        world.settle();
        // Both ask with the clock 2, so that the smaller id is the earlier one.
        let _ = (world.request_as(reader, READ), world.request(writer));
        world.settle();
        assert_eq!(world.change_mode(s1, Mode::Shared), [send(reader, reply(2))]);
        let lets_in = if reader < writer { vec![enter()] } else { Vec::new() };
        assert_eq!(world.deliver(s1, reader), lets_in);
        assert_eq!(world.release(s1), [send(writer, reply(2))]);
        let lets_in = if writer < reader { vec![enter()] } else { Vec::new() };
        assert_eq!(world.deliver(s1, writer), lets_in);
    }
}

#[test]
fn who_leaves_while_its_upgrade_waits_ignores_what_comes_of_it() {
    let [s1, s2] = SiteId::first();
    let both_inside = || {
        let mut world = sharing(2);
        let _ = world.request_as(s1, MAY_WRITE);
        world.settle();
        let _ = world.request_as(s2, READ);
        world.settle();
        assert_eq!(world.change_mode(s1, Mode::Exclusive), [send(s2, upgrade(3, 2))]);
        assert_eq!(world.release(s1), []);
        world
    };
    let mut world = both_inside();
    assert_eq!(world.deliver(s1, s2), []);
    assert_eq!(world.release(s2), [send(s1, reply(3))]);
    assert_eq!(world.deliver(s2, s1), []);
    assert!(world.is_quiet());
    // Its next request overtakes the upgrade.
    let mut world = both_inside();
    let _ = world.request(s1);
    assert_eq!(world.deliver_nth(s1, s2, 1), []);
    assert_eq!(world.deliver(s1, s2), []);
    assert_eq!(world.release(s2), [send(s1, reply(4))]);
    assert_eq!(world.deliver(s2, s1), [enter()]);
}

#[test]
fn holders_share_from_the_start_and_one_of_them_upgrades() {
    let [s1, s2, s3] = SiteId::first();
    let mut values = Values::defaults(&RicartAgrawala::INFO);
    values.set("modes", "yes").unwrap();
    let holders = [(s1, Mode::Upgradeable), (s3, Mode::Shared)];
    let holders = Holders::sharing(Cluster::of(3), holders).unwrap();
    let mut world = World::<RicartAgrawala>::new(Cluster::of(3), &values, &holders).unwrap();
    assert_eq!(world.change_mode(s1, Mode::Exclusive), [send(s2, upgrade(1, 0)), send(s3, upgrade(1, 0))]);
    world.settle();
    assert!(world.is_upgrading(s1));
    assert_eq!(world.release(s3), [send(s1, reply(1))]);
    assert_eq!(world.deliver(s3, s1), [Effect::Upgraded]);
}

#[test]
fn messages_of_modes_are_reported_where_no_correct_peer_sends_them() {
    let [s1, s2] = SiteId::first();
    let mut plain = World::<RicartAgrawala>::of(2);
    for message in [shared(1), upgrade(1, 0), yields(1)] {
        assert_eq!(plain.inject(s2, s1, message), [misbehaved(s2, NOT_SHARING)]);
    }
    let mut world = sharing(2);
    let before = world.site(s1).clone();
    let exclusive = Message::RequestAs { clock: Clock::at(1), mode: Mode::Exclusive };
    let why = "an exclusive request in the form of the others";
    assert_eq!(world.inject(s2, s1, exclusive), [misbehaved(s2, why)]);
    assert_eq!(world.inject(s2, s1, yields(1)), [misbehaved(s2, "it yields to no upgrade of mine")]);
    assert_eq!(*world.site(s1), before);
}

#[test]
fn the_printed_text_has_no_modes() {
    let spec: crate::Spec = "ricart-agrawala:text=printed,modes".parse().unwrap();
    let error = RicartAgrawala::plan(Cluster::of(2), &spec.values).unwrap_err();
    assert_eq!(error.to_string(), "option modes: the printed text has none; leave text=printed out");
}

/// The explorer has found this with three sites, of which one is upgradeable at the start: the reader took its first reply for one that the
/// second upgrade did not withdraw.
#[test]
fn a_second_upgrade_withdraws_the_renewed_reply_too() {
    let [s1, s2, s3] = SiteId::first();
    let mut world = sharing(3);
    let _ = world.request_as(s1, MAY_WRITE);
    world.settle();
    // The reply of S2 stays away, so that S3 goes on waiting.
    let _ = world.request_as(s3, READ);
    assert_eq!(world.deliver(s3, s1), [send(s3, reply(2))]);
    assert_eq!(world.deliver(s1, s3), []);
    assert_eq!(world.change_mode(s1, Mode::Exclusive), [send(s2, upgrade(3, 0)), send(s3, upgrade(3, 2))]);
    assert_eq!(world.deliver(s1, s3), [send(s1, yields(3))]);
    assert_eq!(world.deliver(s1, s2), [send(s1, reply(3))]);
    assert_eq!(world.deliver(s3, s1), []);
    assert_eq!(world.deliver(s2, s1), [Effect::Upgraded]);
    assert_eq!(world.release(s1), [send(s3, reply(3))]);
    assert_eq!(world.deliver(s1, s3), []);
    let _ = world.request_as(s1, MAY_WRITE);
    assert_eq!(world.deliver(s1, s2), [send(s1, reply(4))]);
    assert_eq!(world.deliver(s1, s3), [send(s1, reply(4))]);
    assert_eq!(world.deliver(s2, s1), []);
    assert_eq!(world.deliver(s3, s1), [enter()]);
    assert_eq!(world.change_mode(s1, Mode::Exclusive), [send(s2, upgrade(5, 0)), send(s3, upgrade(5, 3))]);
    assert_eq!(world.deliver(s1, s3), [send(s1, yields(5))]);
}
