//! Majorities by ring and by votes, with failures and a return.

use super::*;
use crate::algorithms::arbiter::{Incarnation, Message, Turn};
use crate::world::{World, enter, send};
use crate::{Algorithm, Described, Effect};

fn request(clock: u64) -> Message {
    Message::Request { clock: Clock::at(clock) }
}

fn reply(to: u64, turn: u32, clock: u64) -> Message {
    Message::Reply { to: Clock::at(to), turn: Turn::at(turn), clock: Clock::at(clock) }
}

fn release(request: u64) -> Message {
    Message::Release { request: Clock::at(request) }
}

fn hello(incarnation: u32) -> Message {
    Message::Hello { incarnation: Incarnation::at(incarnation) }
}

fn welcome(clock: u64) -> Message {
    Message::Welcome { incarnation: Incarnation::at(1), arbiter: true, clock: Clock::at(clock) }
}

fn votes(sites: usize, text: &str) -> Result<Votes, PlanError> {
    let mut values = Values::defaults(&Majority::INFO);
    values.set("votes", text).expect("the notation has digits or is a word");
    Votes::build(Cluster::of(sites), &values)
}

/// The quorum of a site as text, with these sites away.
fn quorum(votes: &Votes, me: usize, absent: &[usize]) -> Option<String> {
    let absent = absent.iter().map(|&site| SiteId::new(site)).collect();
    votes.quorum(SiteId::new(me), Clock::ZERO, &absent).map(|quorum| quorum.to_string())
}

#[test]
fn a_site_asks_itself_and_the_next_ones_in_the_ring() {
    let five = votes(5, "equal").unwrap();
    assert_eq!(quorum(&five, 3, &[]).unwrap(), "{0,3,4}");
    assert_eq!(quorum(&five, 3, &[4]).unwrap(), "{0,1,3}");
    assert_eq!(quorum(&five, 3, &[0, 4]).unwrap(), "{1,2,3}");
    assert_eq!(quorum(&five, 3, &[0, 1, 4]), None);
}

#[test]
fn more_than_half_of_the_votes_are_a_quorum_and_none_of_them_is_too_many() {
    let weighted = votes(4, "3.1.1.1").unwrap();
    assert_eq!(quorum(&weighted, 0, &[]).unwrap(), "{0,1}");
    assert_eq!(quorum(&weighted, 1, &[]).unwrap(), "{0,1}", "S2 and S3 on the way to S0 are not needed");
    assert_eq!(quorum(&weighted, 1, &[0]), None, "three of six are not more than half");
    let witness = votes(4, "1.1.1.0").unwrap();
    assert_eq!(quorum(&witness, 3, &[]).unwrap(), "{0,1}", "a site without a vote does not ask itself");
}

#[test]
fn votes_that_do_not_fit_are_refused() {
    let why = |text| votes(3, text).unwrap_err().to_string();
    assert_eq!(why("1.1"), "option votes: 2 numbers for 3 sites; each site needs one");
    assert_eq!(why("1.x.1"), "option votes: 'x' is no number of votes; write them as 3.1.1.1");
    assert_eq!(why("0.0.0"), "option votes: nobody has a vote: give at least one site one");
}

#[test]
fn a_waiting_site_asks_the_next_one_when_an_asked_one_fails() {
    let [s1, s2, s3] = SiteId::first();
    let mut world = World::<Majority>::of(3);
    assert_eq!(world.request(s1), [send(s2, request(1))]);
    world.fail(s2);
    assert_eq!(world.tell(s1, s2), [send(s3, request(1))]);
    assert_eq!(world.deliver(s1, s3), [send(s1, reply(1, 1, 1))]);
    assert_eq!(world.deliver(s3, s1), [enter()]);
    assert_eq!(world.release(s1), [send(s3, release(1))]);
}

/// A returned arbiter that forgot whom it had permitted must not permit anyone while that one is inside.
#[test]
fn a_returned_site_is_no_arbiter_before_whoever_is_inside_has_left() {
    let [s1, s2, s3] = SiteId::first();
    let mut world = World::<Majority>::of(3);
    let _ = world.request(s1);
    world.settle();
    assert!(world.inside().contains(s1), "by S1 and S2");
    world.fail(s2);
    assert_eq!(world.tell(s1, s2), []);
    assert_eq!(world.tell(s3, s2), []);
    assert_eq!(world.recover(s2), [send(s1, hello(1)), send(s3, hello(1))]);
    assert_eq!(world.deliver(s2, s3), [send(s2, welcome(0))]);
    assert_eq!(world.deliver(s3, s2), []);
    assert_eq!(world.deliver(s2, s1), [], "S1 is inside: its welcome waits");
    // S3 and S2 would be a majority, but S2 is not asked: S3 asks S1, which is with itself.
    assert_eq!(world.request(s3), [send(s1, request(1))]);
    assert_eq!(world.deliver(s3, s1), []);
    assert_eq!(world.release(s1), [send(s2, welcome(1)), send(s3, reply(1, 1, 1))]);
    assert_eq!(world.deliver(s1, s2), [send(s1, Message::Ready), send(s3, Message::Ready)]);
    assert_eq!(world.deliver(s1, s3), [enter()]);
}

#[test]
fn without_a_majority_a_request_waits_until_a_return_makes_one() {
    let [s1, s2] = SiteId::first();
    let mut world = World::<Majority>::of(2);
    world.fail(s2);
    assert_eq!(world.tell(s1, s2), []);
    assert_eq!(world.request(s1), []);
    assert!(!world.site(s1).survives(world.down()));
    let _ = world.recover(s2);
    assert_eq!(world.deliver(s2, s1), [send(s2, welcome(1))]);
    assert_eq!(world.deliver(s1, s2), [send(s1, Message::Ready)]);
    assert_eq!(world.deliver(s2, s1), [send(s2, request(1))]);
    assert_eq!(world.deliver(s1, s2), [send(s1, reply(1, 1, 1))]);
    assert_eq!(world.deliver(s2, s1), [enter()]);
}

/// A step that random runs take, from a number.
fn random_step(world: &mut World<Majority>, draw: usize) -> Vec<Effect<Message>> {
    use crate::world::Delivery;
    let site = SiteId::new(draw / 32 % world.cluster().sites);
    if draw.is_multiple_of(32) && world.down().len() < 2 && world.is_up(site) {
        world.fail(site);
        return Vec::new();
    }
    if draw % 32 == 1 && world.can_recover(site) {
        return world.recover(site);
    }
    let actions: Vec<_> =
        world.deliveries(Delivery::Fifo).chain(world.releases()).chain(world.requests()).collect();
    match actions.len() {
        0 => Vec::new(),
        count => world.apply(actions[draw % count]),
    }
}

#[test]
fn correct_sites_are_never_reported_whatever_fails_and_returns() {
    for (sites, seed) in (2..=5).flat_map(|sites| (1..40_u64).map(move |seed| (sites, seed))) {
        let mut world = World::<Majority>::of(sites);
        let mut state = seed.wrapping_mul(0x9E37_79B9_7F4A_7C15);
        for _ in 0..2_000 {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            let effects = random_step(&mut world, usize::try_from(state >> 33).unwrap());
            let reported = effects.iter().any(|effect| matches!(effect, Effect::Misbehaved { .. }));
            assert!(!reported, "N={sites}, seed {seed}: {effects:?}");
        }
    }
}

/// Reference: section 9.7, "a majority of sites": any.
#[test]
fn with_any_quorum_the_host_chooses_a_majority() {
    let mut asked = Vec::new();
    for answers in [[0, 0], [0, 1], [1, 0], [1, 1], [2, 0], [2, 1]] {
        let mut world = World::<Majority>::with(3, &[("quorum", "any")]);
        world.answer(&answers);
        let _ = world.request(SiteId::new(2));
        assert!(world.end_answers());
        let mut to: Vec<usize> = world.in_flight().map(|(_, to, _)| to.index()).collect();
        to.sort_unstable();
        asked.push(to);
    }
    asked.sort_unstable();
    asked.dedup();
    assert_eq!(asked, [vec![0], vec![0, 1], vec![1]]);
}
