//! Figure 9.16's tree: which quorum each site chooses, and what it does when sites on it fail.

use super::*;
use crate::algorithms::arbiter::{Message, Turn};
use crate::registry::values::Values;
use crate::world::{World, enter, send};
use crate::{Algorithm, Described, Effect, Holders};

fn request(clock: u64) -> Message {
    Message::Request { clock: Clock::at(clock) }
}

fn reply(to: u64, turn: u32, clock: u64) -> Message {
    Message::Reply { to: Clock::at(to), turn: Turn::at(turn), clock: Clock::at(clock) }
}

/// A site as the chapter counts: from 1.
fn site(number: usize) -> SiteId {
    SiteId::new(number - 1)
}

/// The quorum that a site of Figure 9.16 chooses at `clock`, as the chapter counts sites.
fn choice(me: usize, clock: u64, failed: &[usize]) -> Option<Vec<usize>> {
    let tree = TreePaths { rules: DeadlockRules::Yield, tree: Tree::new(15), is_open: false };
    let failed = failed.iter().map(|&number| site(number)).collect();
    let quorum = tree.quorum(site(me), Clock::at(clock), &failed)?;
    Some(quorum.iter().map(|site| site.index() + 1).collect())
}

/// Reference: section 9.9.4, Figure 9.16: "a quorum has all sites along any path from root to leaf".
#[test]
fn a_leaf_asks_the_path_above_it() {
    assert_eq!(choice(8, 1, &[]).unwrap(), [1, 2, 4, 8]);
    assert_eq!(choice(13, 1, &[]).unwrap(), [1, 3, 6, 13]);
    assert_eq!(choice(15, 9, &[]).unwrap(), [1, 3, 7, 15]);
}

#[test]
fn from_request_to_request_the_paths_go_to_other_leaves() {
    let leaves = |me| -> SiteSet {
        let last = |clock| *choice(me, clock, &[]).unwrap().last().unwrap();
        (0..8).map(|clock| SiteId::new(last(clock))).collect()
    };
    assert_eq!(leaves(1).to_string(), "{8,9,10,11,12,13,14,15}", "the root spreads over all leaves");
    assert_eq!(leaves(3).to_string(), "{12,13,14,15}", "an inner site over those below it");
    assert_eq!(leaves(12).to_string(), "{12}");
}

/// Reference: section 9.9.4, "when node 3 fails".
#[test]
fn a_failed_inner_site_is_replaced_by_paths_from_both_its_children() {
    let below_3 = choice(12, 1, &[3]).unwrap();
    assert!(
        [vec![1, 6, 7, 12, 14], vec![1, 6, 7, 12, 15]].contains(&below_3),
        "one of the eight of the text, through the requester: {below_3:?}"
    );
    assert_eq!(choice(8, 1, &[3]).unwrap(), [1, 2, 4, 8], "elsewhere nothing changes");
}

/// Reference: section 9.9.4, "if sites 1 and 2 are down" and "when sites 1, 2, 4, and 8 are inaccessible".
#[test]
fn with_the_upper_sites_failed_a_quorum_has_seven_sites_and_with_a_whole_path_failed_there_is_none() {
    for me in 3..=15 {
        let quorum = choice(me, 1, &[1, 2]).unwrap();
        assert_eq!(quorum.len(), 7);
        assert!([3, 4, 5].iter().all(|site| quorum.contains(site)));
    }
    assert_eq!(choice(5, 1, &[1, 2, 4, 8]), None);
    // Line 15 exits here as printed; but the sibling's path goes on.
    assert_eq!(choice(8, 1, &[9]).unwrap(), [1, 2, 4, 8]);
    assert_eq!(choice(8, 1, &[8]).unwrap(), [1, 2, 4, 9]);
}

#[test]
fn every_two_quorums_meet_whatever_each_site_knows_of_failures() {
    let tree = TreePaths { rules: DeadlockRules::Yield, tree: Tree::new(7), is_open: false };
    let sets = (0..128_usize).map(|bits| SiteId::all(7).filter(|s| bits >> s.index() & 1 == 1).collect());
    let known: Vec<SiteSet> = sets.collect();
    let mut quorums: Vec<SiteSet> = Vec::new();
    for me in SiteId::all(7) {
        quorums.extend(known.iter().filter_map(|failed| tree.quorum(me, Clock::at(1), failed)));
    }
    quorums.sort();
    quorums.dedup();
    assert!(quorums.len() > 8);
    assert!(quorums.iter().all(|a| quorums.iter().all(|b| a.intersects(b))));
}

/// Reference: section 9.9.1: a failed site is substituted by paths from its children, here while the request waits.
#[test]
fn a_waiting_site_goes_around_a_site_that_fails_and_keeps_what_it_has() {
    let [s1, s2, s3, s4, s5, s6, s7] = SiteId::first();
    let mut world = World::<TreeQuorum>::of(7);
    assert_eq!(world.request(s4), [send(s1, request(1)), send(s2, request(1))]);
    assert_eq!(world.deliver(s4, s2), [send(s4, reply(1, 1, 1))]);
    assert_eq!(world.deliver(s2, s4), []);
    world.fail(s2);
    // S2's permission counts no more; S4 itself and S5 stand in for it.
    assert_eq!(world.tell(s4, s2), [send(s5, request(1))]);
    assert_eq!(world.deliver(s4, s5), [send(s4, reply(1, 1, 1))]);
    assert_eq!(world.deliver(s5, s4), []);
    // The root fails too: both its sides must permit.
    world.fail(s1);
    assert_eq!(world.tell(s4, s1), [send(s3, request(1)), send(s6, request(1))]);
    assert_eq!(world.deliver(s4, s3), [send(s4, reply(1, 1, 1))]);
    assert_eq!(world.deliver(s4, s6), [send(s4, reply(1, 1, 1))]);
    assert_eq!(world.deliver(s3, s4), []);
    assert_eq!(world.deliver(s6, s4), [enter()]);
    let over = Message::Release { request: Clock::at(1) };
    assert_eq!(world.release(s4), [send(s3, over), send(s5, over), send(s6, over)]);
    let _ = s7;
}

#[test]
fn what_a_failed_site_had_is_given_on() {
    let [s1, s2, s3] = SiteId::first();
    let mut world = World::<TreeQuorum>::held_by(3, &[s2]);
    assert_eq!(world.request(s3), [send(s1, request(1))]);
    assert_eq!(world.deliver(s3, s1), []);
    world.fail(s2);
    assert_eq!(world.tell(s1, s2), [send(s3, reply(1, 1, 1))]);
    assert_eq!(world.deliver(s1, s3), [enter()]);
}

#[test]
fn a_lone_request_asks_every_site_above_and_below_once() {
    for (sites, most) in [(1, 1), (2, 2), (3, 2), (4, 3), (7, 3), (15, 4), (31, 5), (100, 7)] {
        let plan = TreeQuorum::plan(Cluster::of(sites), &Values::defaults(&TreeQuorum::INFO)).unwrap();
        let sizes =
            SiteId::all(sites).map(|me| TreeQuorum::start(&plan, me, &Holders::none()).quorum().unwrap());
        assert_eq!(sizes.max(), Some(most));
        let askers: usize = SiteId::all(sites).map(|arbiter| plan.askers(arbiter)).max().unwrap();
        assert_eq!(askers, sites, "all ask the root");
    }
}

/// Reference: section 9.9.4, "any path from root to leaf".
#[test]
fn with_any_path_the_host_chooses_a_child_at_every_site() {
    let mut paths = Vec::new();
    for (first, second) in [(0, 0), (0, 1), (1, 0), (1, 1)] {
        let mut world = World::<TreeQuorum>::with(7, &[("path", "any")]);
        world.answer(&[first, second]);
        let effects = world.request(site(4));
        assert!(world.end_answers());
        let to = |effect: &Effect<Message>| match effect {
            Effect::Send { to, .. } => Some(*to),
            Effect::Chose { .. }
            | Effect::Enter { .. }
            | Effect::Upgraded
            | Effect::Timer { .. }
            | Effect::Misbehaved { .. } => None,
        };
        paths.push(effects.iter().filter_map(to).collect::<Vec<_>>());
    }
    let asked = [vec![1, 2], vec![1, 2, 5], vec![1, 3, 6], vec![1, 3, 7]];
    assert_eq!(paths, asked.map(|path| path.into_iter().map(site).collect::<Vec<_>>()));
}
