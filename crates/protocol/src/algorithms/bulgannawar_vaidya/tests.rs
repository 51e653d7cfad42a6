//! The report's figures, its choices, and its text as printed.

use super::*;
use crate::registry::values::Values;
use crate::world::{World, enter, misbehaved, send};
use crate::{Described, Effect, Holders};

/// The report's token 1 and token 2.
const ONE: Slot = Slot(0);
const TWO: Slot = Slot(1);

/// The report's node `number`, which counts from 1.
fn node(number: usize) -> SiteId {
    SiteId::new(number - 1)
}

fn world(cluster: Cluster, options: &[(&str, &str)], holders: &[SiteId]) -> World<BulgannawarVaidya> {
    let mut values = Values::defaults(&BulgannawarVaidya::INFO);
    for (name, value) in options {
        values.set(name, value).unwrap();
    }
    let holders = Holders::new(cluster, holders.iter().copied()).unwrap();
    World::new(cluster, &values, &holders).unwrap()
}

/// The first request of `site`, on its way for the `hops`-th time; nobody knew of any possession.
fn request(site: SiteId, token: Slot, hops: u32) -> Message {
    Message::Request { ask: RequestId { site, number: 1 }, token, hops, possessions: 0 }
}

fn entry(site: SiteId, by: Option<SiteId>) -> QueueEntry {
    QueueEntry { ask: RequestId { site, number: 1 }, tag: by.map(|by| Tag { by, possessions: 0 }) }
}

fn token(id: Slot, possessions: u64, queue: &[QueueEntry]) -> Message {
    Message::Token(Box::new(BulgannawarToken { id, possessions, queue: queue.iter().copied().collect() }))
}

fn inform(token: Slot, possessions: u64) -> Message {
    Message::Inform { token, possessions }
}

fn enter_on(slot: Slot) -> Effect<Message> {
    Effect::Enter { slot }
}

fn pointer(world: &World<BulgannawarVaidya>, site: SiteId, token: Slot) -> SiteId {
    world.site(site).ways[token.0 as usize].pointer
}

/// A world of ten nodes with two tokens in which node 2 is inside with token 2, and these nodes ask it, for these tokens.
fn figure_1(asking: &[(usize, Slot)]) -> World<BulgannawarVaidya> {
    let mut world = world(Cluster::of(10).with_permits(2), &[], &[node(1), node(2)]);
    for &(number, token) in asking {
        let site = world.site_mut(node(number));
        site.last_seen = token;
        site.way_mut(token).pointer = node(2);
        assert_eq!(world.request(node(number)), [send(node(2), request(node(number), token, 0))]);
        assert_eq!(world.deliver(node(number), node(2)), []);
    }
    world
}

/// Reference: section 2.1, Figure 1 and its two examples: the token-queue of token 2 begins with node 3, tagged 2, and its last
/// entry with a NULL tag is node 9.
#[test]
fn the_token_goes_to_the_head_of_its_queue_and_the_pointer_to_the_last_that_asked_for_it() {
    let mut world = figure_1(&[(3, ONE), (7, TWO), (9, TWO), (5, ONE)]);
    let queue = [
        entry(node(3), Some(node(2))),
        entry(node(7), None),
        entry(node(9), None),
        entry(node(5), Some(node(2))),
    ];
    assert_eq!(world.release(node(2)), [send(node(3), token(TWO, 0, &queue))]);
    assert_eq!(pointer(&world, node(2), TWO), node(9));
    // Node 3 had requested token 1: its pointer for that is set to its tag, node 2.
    assert_eq!(world.deliver(node(2), node(3)), [enter_on(TWO)]);
    assert_eq!(pointer(&world, node(3), ONE), node(2));
    assert_eq!(pointer(&world, node(3), TWO), node(3));
    assert_eq!(world.release(node(3)), [send(node(7), token(TWO, 1, &queue[1..]))]);
}

/// Reference: section 2.1, Figure 1: "if none of the tag fields were NULL then node I would have set pointer[2] equal to 3".
#[test]
fn without_an_untagged_entry_the_pointer_goes_to_the_head_of_the_queue() {
    let mut world = figure_1(&[(3, ONE), (5, ONE)]);
    let queue = [entry(node(3), Some(node(2))), entry(node(5), Some(node(2)))];
    assert_eq!(world.release(node(2)), [send(node(3), token(TWO, 0, &queue))]);
    assert_eq!(pointer(&world, node(2), TWO), node(3));
}

/// Reference: section 2.1, Figure 2: node 4 requests token 1 along its forest, through node 3, from node 5.
#[test]
fn a_request_travels_along_the_forest_and_turns_the_pointers() {
    let mut world = world(Cluster::of(5), &[], &[node(5)]);
    let _ = world.release(node(5));
    world.settle();
    world.site_mut(node(4)).way_mut(ONE).pointer = node(3);
    assert_eq!(world.request(node(4)), [send(node(3), request(node(4), ONE, 0))]);
    assert_eq!(world.deliver(node(4), node(3)), [send(node(5), request(node(4), ONE, 1))]);
    assert_eq!(pointer(&world, node(3), ONE), node(4));
    let queue = [entry(node(4), None)];
    assert_eq!(world.deliver(node(3), node(5)), [send(node(4), token(ONE, 0, &queue))]);
    assert_eq!(pointer(&world, node(5), ONE), node(4));
    assert_eq!(world.deliver(node(5), node(4)), [enter()]);
    // It leaves with the queue empty and tells two others.
    assert_eq!(world.release(node(4)), [send(node(2), inform(ONE, 1)), send(node(3), inform(ONE, 1))]);
    world.settle();
    assert_eq!(pointer(&world, node(2), ONE), node(4));
    assert!(world.is_quiet());
}

/// Reference: section 2.1, `Handle_REQUEST` case 1a and `Handle_TOKEN` case 2.
#[test]
fn requests_kept_by_a_site_that_is_served_by_another_token_inherit_its_tag() {
    let [a, b, c, d] = SiteId::first();
    let mut world = world(Cluster::of(4).with_permits(2), &[], &[a, b]);
    // C asks for token 1 but reaches B, which has token 2; D asks for token 1 and reaches C, which waits for it.
    world.site_mut(c).way_mut(ONE).pointer = b;
    world.site_mut(d).way_mut(ONE).pointer = c;
    world.site_mut(d).last_seen = ONE;
    assert_eq!(world.request(c), [send(b, request(c, ONE, 0))]);
    assert_eq!(world.deliver(c, b), []);
    assert_eq!(world.request(d), [send(c, request(d, ONE, 0))]);
    assert_eq!(world.deliver(d, c), []);
    assert_eq!(world.release(b), [send(c, token(TWO, 0, &[entry(c, Some(b))]))]);
    assert_eq!(world.deliver(b, c), [enter_on(TWO)]);
    assert_eq!(world.release(c), [send(d, token(TWO, 1, &[entry(d, Some(b))]))]);
    assert_eq!(world.deliver(c, d), [enter_on(TWO)]);
    assert_eq!(pointer(&world, d, ONE), b);
}

/// The schedule of the next test, up to S0's second request.
fn an_inform_is_late(text: &str) -> World<BulgannawarVaidya> {
    let [s0, s1, s2] = SiteId::first();
    let mut world = world(Cluster::of(3), &[("inform", "1"), ("text", text)], &[s0]).tolerant();
    // S0 leaves and tells S2 (the message is slow); the token goes on to S1, to S2 and again to S1.
    world.site_mut(s0).requests = 1;
    assert_eq!(world.release(s0), [send(s2, inform(ONE, 0))]);
    let _ = world.request(s1);
    let _ = world.deliver(s1, s0);
    assert_eq!(world.deliver(s0, s1), [enter()]);
    let _ = world.request(s2);
    let _ = world.deliver(s2, s0);
    assert_eq!(world.deliver(s0, s1), []);
    let _ = world.release(s1);
    assert_eq!(world.deliver(s1, s2), [enter()]);
    let _ = world.request(s0);
    let _ = world.request(s1);
    let _ = world.deliver(s1, s2);
    let _ = world.release(s2);
    // Now S0's old INFORM arrives at S2, and then its request, which should go on to S1.
    assert_eq!(world.deliver(s0, s2), []);
    let _ = world.deliver(s0, s2);
    world
}

/// Reference: section 2.1, `Handle_INFORM`, which the proof of section 2 overlooks.
#[test]
fn as_printed_a_late_inform_sends_a_request_home_and_its_site_waits_for_ever() {
    let [s0, s1, s2] = SiteId::first();
    let mut world = an_inform_is_late("printed");
    assert_eq!(world.deliver(s2, s0), [misbehaved(s2, "a request of no other site")]);
    assert_eq!(world.deliver(s2, s1), [enter()]);
    let _ = world.release(s1);
    world.settle();
    assert!(world.is_waiting(s0) && world.inside().is_empty());
}

#[test]
fn repaired_the_late_inform_is_no_news_and_the_request_is_served() {
    let [s0, s1, _] = SiteId::first();
    let mut world = an_inform_is_late("repaired");
    world.settle();
    let _ = world.release(s1);
    world.settle();
    assert!(world.inside().contains(s0));
    assert_eq!(world.violation(), None);
}

#[test]
fn the_last_seen_token_is_asked_for_and_the_first_choice_is_spread() {
    let sites = world(Cluster::of(6).with_permits(3), &[], &[]).sites().to_vec();
    let mut out = Outbox::new();
    assert_eq!(sites.iter().map(|site| site.choose(&mut out).0).collect::<Vec<_>>(), [0, 1, 2, 0, 1, 2]);
    let mut hearing = sites[3].clone();
    hearing.receive(SiteId::new(2), inform(Slot(2), 4), &mut out);
    assert_eq!((hearing.choose(&mut out), out.effects()), (Slot(2), &[][..]));
    // What is no news is not seen.
    hearing.receive(SiteId::new(1), inform(Slot(1), 0), &mut out);
    assert_eq!(hearing.choose(&mut out), Slot(2));
}

/// Reference: section 2.1, `Entry_CS`, "Choose token t using some heuristics"; section 3, "choose the token randomly".
#[test]
fn with_a_random_choice_the_host_says_which_token_is_asked_for() {
    for chosen in 0..3 {
        let mut world = world(Cluster::of(6).with_permits(3), &[("choice", "random")], &[]);
        world.answer(&[chosen]);
        let holder = SiteId::new(chosen as usize);
        let expected =
            [Effect::Chose { taken: chosen, of: 3 }, send(holder, request(node(6), Slot(chosen), 0))];
        assert_eq!(world.request(node(6)), expected);
        assert!(world.end_answers());
    }
}

/// Reference: section 2.1, `Exit_CS`, "send INFORM(I, t) message to any ν nodes".
#[test]
fn the_host_says_who_is_informed() {
    let options = [("inform", "2"), ("informed", "any")];
    let mut told = Vec::new();
    for (first, second) in [(0, 0), (0, 1), (1, 0), (1, 1), (2, 0), (2, 1)] {
        let mut world = world(Cluster::of(4), &options, &[node(1)]);
        world.answer(&[first, second]);
        let effects = world.release(node(1));
        assert!(world.end_answers());
        let [
            Effect::Chose { .. },
            Effect::Chose { .. },
            Effect::Send { to: one, .. },
            Effect::Send { to: other, .. },
        ] = effects[..]
        else {
            panic!("two choices and two messages: {effects:?}")
        };
        assert!(one < other, "the order of messages to different sites does not matter");
        told.push((one, other));
    }
    told.sort_unstable();
    told.dedup();
    assert_eq!(told, [(node(2), node(3)), (node(2), node(4)), (node(3), node(4))]);
}

#[test]
fn where_every_site_has_a_token_nobody_asks() {
    let [s0, s1] = SiteId::first();
    let mut world = world(Cluster::of(2).with_permits(5), &[("inform", "0")], &[s1]);
    assert_eq!(world.request(s0), [enter_on(TWO)]);
    assert_eq!(world.release(s1), []);
    assert_eq!(world.request(s1), [enter_on(ONE)]);
}

#[test]
fn what_no_correct_peer_sends_changes_nothing_and_is_reported() {
    let [s0, s1, s2] = SiteId::first();
    let mut world = world(Cluster::of(3), &[], &[s0]);
    let stranger = SiteId::new(9);
    let _ = world.request(s1);
    let before = world.sites().to_vec();
    let (unwanted, shape) = ("a token that nobody waits for", "a token of a wrong shape");
    let mine = entry(s1, None);
    let reports = [
        (s0, token(ONE, 0, &[mine]), unwanted),
        (s1, token(ONE, 0, &[]), shape),
        (s1, token(Slot(7), 0, &[mine]), shape),
        (s1, token(ONE, 0, &[mine, entry(stranger, None)]), shape),
        (s1, token(ONE, 0, &[entry(s1, Some(stranger))]), shape),
        (s1, token(ONE, 0, &[entry(s1, Some(s1))]), shape),
        (s1, token(ONE, 0, &[entry(s2, None)]), unwanted),
        (s1, token(ONE, 0, &[entry(s1, Some(s0))]), unwanted),
        (s0, request(stranger, ONE, 0), "a request of no other site"),
        (s0, request(s0, ONE, 0), "a request of no other site"),
        (s0, request(s1, Slot(7), 0), "a request for a token that does not exist"),
        (s0, inform(Slot(7), 3), "news of a token that does not exist"),
    ];
    for (to, message, why) in reports {
        assert_eq!(world.inject(s2, to, message), [misbehaved(s2, why)]);
    }
    assert_eq!(world.sites(), before);
    let _ = world.deliver(s1, s0);
    assert_eq!(world.inject(s1, s0, request(s1, ONE, 0)), [misbehaved(s1, "a request that was here before")]);
}
