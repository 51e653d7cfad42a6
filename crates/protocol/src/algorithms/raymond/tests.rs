//! The chapter's worked examples, its costs, its start and its recovery.

use super::*;
use crate::registry::values::Values;
use crate::world::{World, enter, misbehaved, send};
use crate::{Algorithm, Cluster, Described, Effect, Holders};

/// Figure 9.17: the sites A to G are 0 to 6.
const FIGURE: &str = "0-1/1-2/2-6/2-3/0-4/1-5";

fn request(crossings: u64) -> Message {
    Message::Request { crossings }
}

fn privilege(crossings: u64) -> Message {
    Message::Privilege { crossings }
}

fn restart(incarnation: u32) -> Message {
    Message::Restart { incarnation }
}

fn advise(holder_is_you: bool, asked: bool, crossings: u64) -> Message {
    Message::Advise { incarnation: 1, holder_is_you, asked, crossings }
}

fn values(tree: &str) -> Values {
    let mut values = Values::defaults(&Raymond::INFO);
    values.set("tree", tree).unwrap();
    values
}

fn world(tree: &str, sites: usize, holder: usize) -> World<Raymond> {
    let cluster = Cluster::of(sites);
    let holders = Holders::new(cluster, [SiteId::new(holder)]).unwrap();
    World::new(cluster, &values(tree), &holders).unwrap()
}

fn holders(world: &World<Raymond>) -> Vec<Option<SiteId>> {
    let holder = |site: &Raymond| match site.holder {
        Holder::Via { neighbour, .. } => Some(neighbour),
        Holder::Me | Holder::Unknown | Holder::Sought(_) => None,
    };
    world.sites().iter().map(holder).collect()
}

fn queue(world: &World<Raymond>, site: SiteId) -> Vec<SiteId> {
    world.site(site).queue.iter().copied().collect()
}

/// Figure 9.19: after Figure 9.18, in which G is inside, B has asked and got in.
fn figure_9_19() -> World<Raymond> {
    let [a, b, c, _, _, _, g] = SiteId::first();
    let mut world = world(FIGURE, 7, 6);
    // Figure 9.18: all edges point towards G.
    assert_eq!(holders(&world), [Some(b), Some(c), Some(g), Some(c), Some(a), Some(b), None]);
    assert_eq!(world.request(b), [send(c, request(0))]);
    assert_eq!(world.deliver(b, c), [send(g, request(0))]);
    assert_eq!(world.deliver(c, g), []);
    assert_eq!(world.release(g), [send(c, privilege(1))]);
    assert_eq!(world.deliver(g, c), [send(b, privilege(1))]);
    assert_eq!(world.deliver(c, b), [enter()]);
    world
}

/// Reference: section 9.12.1, Figures 9.17 to 9.19.
#[test]
fn the_edges_that_the_privilege_crosses_turn_round() {
    let [a, b, c, ..] = SiteId::first::<7>();
    let world = figure_9_19();
    // Figure 9.19: all edges point towards B.
    assert_eq!(holders(&world), [Some(b), None, Some(b), Some(c), Some(a), Some(b), Some(c)]);
}

/// Reference: section 9.12.4, "Starvation is impossible".
#[test]
fn a_site_behind_others_is_served_in_its_turn() {
    let [a, b, c, _, e, ..] = SiteId::first::<7>();
    let mut world = figure_9_19();
    // C is at the head of B's queue, then E's request comes to B through A.
    assert_eq!(world.request(c), [send(b, request(1))]);
    assert_eq!(world.deliver(c, b), []);
    assert_eq!(world.request(e), [send(a, request(0))]);
    assert_eq!(world.deliver(e, a), [send(b, request(0))]);
    assert_eq!(world.deliver(a, b), []);
    assert_eq!([e, a, b].map(|site| queue(&world, site)), [vec![e], vec![e], vec![c, a]]);
    // B leaves: the privilege goes to C, and B asks for it back on behalf of A.
    assert_eq!(world.release(b), [send(c, privilege(2)), send(c, request(2))]);
    assert_eq!(world.deliver(b, c), [enter()]);
    assert_eq!(world.deliver(b, c), []);
    assert_eq!([c, b, a, e].map(|site| queue(&world, site)), [vec![b], vec![a], vec![e], vec![e]]);
    // C leaves: the next to enter is E, along the path B, A, E.
    assert_eq!(world.release(c), [send(b, privilege(3))]);
    assert_eq!(world.deliver(c, b), [send(a, privilege(1))]);
    assert_eq!(world.deliver(b, a), [send(e, privilege(1))]);
    assert_eq!(world.deliver(a, e), [enter()]);
    assert_eq!(world.release(e), []);
    assert!(world.is_quiet());
}

/// Reference: section 9.12.3, "Message overtaking", Figure 9.20.
#[test]
fn a_request_that_overtakes_the_privilege_is_queued_behind_it() {
    let [a, b] = SiteId::first();
    let mut world = world("line", 2, 0);
    assert_eq!(world.request(b), [send(a, request(0))]);
    assert_eq!(world.deliver(b, a), []);
    assert_eq!(world.release(a), [send(b, privilege(1))]);
    assert_eq!(world.request(a), [send(b, request(1))]);
    assert_eq!(world.deliver_nth(a, b, 1), []);
    assert_eq!(world.deliver(a, b), [enter()]);
    assert_eq!(world.release(b), [send(a, privilege(2))]);
}

/// Reference: section 9.12.5, "approximately 2N/3": with (N²−1)/(3N) as the average distance, also to itself.
#[test]
fn on_a_line_a_lone_request_costs_two_thirds_of_n_on_average() {
    let sites = 7;
    let mut messages = 0;
    for home in 0..sites {
        for site in (0..sites).filter(|&site| site != home).map(SiteId::new) {
            let mut world = world("line", sites, home);
            let _ = world.release(SiteId::new(home));
            let _ = world.request(site);
            world.settle();
            messages += world.messages();
        }
    }
    // Over all N² pairs: 2(N²−1)/(3N).
    assert_eq!(3 * messages, 2 * (sites * sites - 1) as u64 * sites as u64);
}

/// Reference: section 9.12.5: "the best topology is the radiating star".
#[test]
fn on_a_star_a_lone_request_costs_four_messages_from_leaf_to_leaf() {
    let [hub, leaf, other] = SiteId::first();
    for (site, cost) in [(leaf, 0), (hub, 2), (other, 4)] {
        let mut world = world("star", 7, 1);
        let _ = world.release(leaf);
        let _ = world.request(site);
        world.settle();
        assert_eq!(world.messages(), cost);
    }
}

/// Reference: section 9.12.5: 4(N−1) messages let all N sites in once, whatever the tree.
#[test]
fn under_heavy_load_an_entry_costs_four_messages() {
    for tree in ["balanced", "star", "line", FIGURE] {
        let mut world = world(tree, 7, 0);
        for site in SiteId::all(7).skip(1) {
            let _ = world.request(site);
        }
        let mut at_entry = vec![];
        for _ in 0..10 * 7 {
            world.settle();
            let inside = world.inside().first().unwrap();
            let _ = world.release(inside);
            let _ = world.request(inside);
            at_entry.push(world.messages());
        }
        let rounds = at_entry.len() / 7;
        let per_round = (at_entry[7 * rounds - 1] - at_entry[7 * 5 - 1]) / (rounds as u64 - 5);
        assert_eq!(per_round, 4 * (7 - 1), "{tree}");
    }
}

/// Reference: section 9.12.6.
#[test]
fn a_site_asks_as_soon_as_it_is_initialized() {
    let plan = Raymond::plan(Cluster::of(4), &values("line")).unwrap();
    let [s0, s1, s2, s3] = SiteId::first();
    let mut sites = [s0, s1, s2, s3].map(|me| Raymond::unaware(&plan, me));
    let mut out = Outbox::new();
    let did = |out: &mut Outbox<Message>| -> Vec<Effect<Message>> { out.drain().collect() };
    sites[3].request(&mut out);
    assert_eq!(did(&mut out), []);
    sites[1].initialize(&mut out);
    assert_eq!(did(&mut out), [send(s0, Message::Initialize), send(s2, Message::Initialize)]);
    sites[2].receive(s1, Message::Initialize, &mut out);
    assert_eq!(did(&mut out), [send(s3, Message::Initialize)]);
    sites[3].receive(s2, Message::Initialize, &mut out);
    assert_eq!(did(&mut out), [send(s2, request(0))]);
    sites[3].receive(s2, Message::Initialize, &mut out);
    assert_eq!(did(&mut out), [misbehaved(s2, "an initialization of a site that knows the way")]);
    // S0 is not initialized yet, and S3 gets in.
    sites[2].receive(s3, request(0), &mut out);
    assert_eq!(did(&mut out), [send(s1, request(0))]);
    sites[1].receive(s2, request(0), &mut out);
    assert_eq!(did(&mut out), [send(s2, privilege(1))]);
    sites[2].receive(s1, privilege(1), &mut out);
    assert_eq!(did(&mut out), [send(s3, privilege(1))]);
    sites[3].receive(s2, privilege(1), &mut out);
    assert_eq!(did(&mut out), [enter()]);
}

/// Lets `site` fail, all others learn of it, and run again.
fn fail_and_restart(world: &mut World<Raymond>, site: SiteId) -> Vec<Effect<Message>> {
    world.fail(site);
    for other in world.untold(site).iter() {
        let _ = world.tell(other, site);
    }
    world.recover(site)
}

/// Reference: section 9.12.7: if all neighbours have A for their HOLDER, A holds the privilege.
#[test]
fn a_site_that_failed_inside_finds_that_it_has_the_privilege() {
    let [s0, s1, s2] = SiteId::first();
    let mut world = world("line", 3, 1);
    assert_eq!(world.request(s2), [send(s1, request(0))]);
    assert_eq!(world.deliver(s2, s1), []);
    assert_eq!(fail_and_restart(&mut world, s1), [send(s0, restart(1)), send(s2, restart(1))]);
    assert_eq!(world.deliver(s1, s2), [send(s1, advise(true, true, 0))]);
    // S2's request is recorded, but one ADVISE is not enough.
    assert_eq!(world.deliver(s2, s1), []);
    assert_eq!(world.deliver(s1, s0), [send(s1, advise(true, false, 0))]);
    assert_eq!(world.deliver(s0, s1), [send(s2, privilege(1))]);
    assert_eq!(world.deliver(s1, s2), [enter()]);
}

#[test]
fn a_privilege_lost_on_its_way_to_a_failed_site_is_there_when_it_recovers() {
    let [s0, s1] = SiteId::first();
    let mut world = world("line", 2, 0);
    let _ = world.request(s1);
    assert_eq!(world.deliver(s1, s0), []);
    world.fail(s1);
    assert_eq!(world.release(s0), [send(s1, privilege(1))]);
    assert_eq!(world.deliver(s0, s1), []);
    assert_eq!(world.tell(s0, s1), []);
    assert_eq!(world.recover(s1), [send(s0, restart(1))]);
    assert_eq!(world.request(s1), []);
    assert_eq!(world.deliver(s1, s0), [send(s1, advise(true, false, 1))]);
    assert_eq!(world.deliver(s0, s1), [enter()]);
}

#[test]
fn a_site_that_recovers_asks_again_for_those_behind_it() {
    let [s0, s1, s2] = SiteId::first();
    let mut world = world("line", 3, 0);
    let _ = world.request(s2);
    assert_eq!(world.deliver(s2, s1), [send(s0, request(0))]);
    assert_eq!(world.deliver(s1, s0), []);
    assert_eq!(fail_and_restart(&mut world, s1), [send(s0, restart(1)), send(s2, restart(1))]);
    // The failed site's place in the queue is gone, so S0 keeps the privilege.
    assert_eq!(world.release(s0), []);
    assert_eq!(world.deliver(s1, s0), [send(s1, advise(false, false, 0))]);
    assert_eq!(world.deliver(s1, s2), [send(s1, advise(true, true, 0))]);
    assert_eq!(world.deliver(s0, s1), []);
    assert_eq!(world.deliver(s2, s1), [send(s0, request(0))]);
    world.settle();
    assert!(world.inside().contains(s2));
}

/// Both ends have forgotten where the privilege is; it is lost between them.
#[test]
fn of_two_neighbours_that_recover_together_the_smaller_takes_the_lost_privilege() {
    let [s0, s1] = SiteId::first();
    let mut world = world("line", 2, 0);
    world.fail(s0);
    world.fail(s1);
    assert_eq!(world.recover(s0), [send(s1, restart(1))]);
    assert_eq!(world.recover(s1), [send(s0, restart(1))]);
    let fresh = advise(true, false, 2 << 32);
    assert_eq!(world.deliver(s0, s1), [send(s0, restart(1)), send(s0, fresh)]);
    assert_eq!(world.deliver(s1, s0), [send(s1, restart(1)), send(s1, fresh)]);
    world.settle();
    assert_eq!(holders(&world), [None, Some(s0)]);
    assert!(world.is_quiet());
}

#[test]
fn what_no_correct_peer_sends_changes_nothing_and_is_reported() {
    let [s0, s1, s2] = SiteId::first();
    let mut world = world("line", 3, 0);
    let (unasked, elsewhere) =
        ("a privilege that nobody asked for", "a request for a privilege that is not on this side");
    let second = "a second request before the first was served";
    assert_eq!(world.inject(s2, s0, request(0)), [misbehaved(s2, NOT_A_PEER)]);
    assert_eq!(world.inject(s0, s1, privilege(1)), [misbehaved(s0, unasked)]);
    assert_eq!(world.inject(s0, s1, request(0)), [misbehaved(s0, elsewhere)]);
    let late = "advice that nobody waits for";
    assert_eq!(world.inject(s0, s1, advise(true, true, 0)), [misbehaved(s0, late)]);
    let _ = world.request(s1);
    assert_eq!(world.deliver(s1, s0), []);
    assert_eq!(world.inject(s1, s0, request(0)), [misbehaved(s1, second)]);
    assert_eq!(world.inject(s0, s1, privilege(2)), [misbehaved(s0, unasked)]);
    let _ = world.release(s0);
    assert_eq!(world.inject(s1, s0, request(0)), [misbehaved(s1, elsewhere)]);
}

#[test]
fn a_tree_that_does_not_fit_the_cluster_is_refused() {
    let error = World::<Raymond>::new(Cluster::of(4), &values("0-1/1-2"), &Holders::none()).unwrap_err();
    assert_eq!(error.to_string(), "option tree: no way leads from 0 to 3: 4 sites need 3 edges");
}
