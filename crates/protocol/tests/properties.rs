//! Every algorithm under random schedules: whatever the order of requests, messages and exits, at most K are inside,
//! everyone is served, fences increase, tokens are conserved, the invariants hold after every step (the world checks
//! all of that), and at the end the sites are quiet.

use meshlock_protocol::registry::info::{Channels, Permits};
use meshlock_protocol::registry::{ALL, Visitor};
use meshlock_protocol::world::{Action, Delivery, World};
use meshlock_protocol::{Algorithm, Cluster, Holders, Info, SiteId, Spec};
use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};

/// One random run: its size, who is inside at the start, and what is drawn at each step.
#[derive(Clone, Debug)]
struct Run {
    cluster: Cluster,
    holders: Vec<usize>,
    draws: Vec<u16>,
}

fn runs(permits: Permits) -> impl Strategy<Value = Run> {
    let most_permits = if permits == Permits::Many { 3_usize } else { 1 };
    let size = (1_usize..=7, 1..=most_permits);
    size.prop_flat_map(|(sites, permits)| {
        let holders = proptest::sample::subsequence((0..sites).collect::<Vec<_>>(), 0..=permits.min(sites));
        (Just(Cluster { sites, permits }), holders, proptest::collection::vec(any::<u16>(), 0..400))
    })
    .prop_map(|(cluster, holders, draws)| Run { cluster, holders, draws })
}

/// Draws the schedule of a run, then lets everyone who waits in and out until all is quiet.
struct Schedule<'a> {
    run: &'a Run,
    delivery: Delivery,
}

impl Visitor for Schedule<'_> {
    type Output = ();

    fn visit<A: Algorithm>(self, spec: &Spec) {
        let Schedule { run, delivery } = self;
        let sites = run.holders.iter().map(|&site| SiteId::new(site));
        let holders = Holders::new(run.cluster, sites).expect("the strategy draws valid holders");
        let mut world =
            World::<A>::new(run.cluster, &spec.values, &holders).expect("the defaults fit any cluster");
        for &draw in &run.draws {
            let actions: Vec<Action> =
                world.deliveries(delivery).chain(world.releases()).chain(world.requests()).collect();
            let _ = world.apply(actions[usize::from(draw) % actions.len()]);
        }
        drain(&mut world, delivery, &run.draws);
        assert!(world.is_quiet(), "at the end nothing is owed: {:#?}", world.sites());
    }
}

/// Nobody asks any more; everything else goes on, in an order that the draws still vary, until nothing is left to do.
fn drain<A: Algorithm>(world: &mut World<A>, delivery: Delivery, draws: &[u16]) {
    for step in 0..100_000 {
        let actions: Vec<Action> = world.deliveries(delivery).chain(world.releases()).collect();
        if actions.is_empty() {
            let waiting = SiteId::all(world.cluster().sites).find(|&site| world.is_waiting(site));
            assert_eq!(waiting, None, "waits for ever: {:#?}", world.sites());
            return;
        }
        let draw = draws.get(step % draws.len().max(1)).copied().unwrap_or_default();
        let _ = world.apply(actions[usize::from(draw) % actions.len()]);
    }
    panic!("the run never ends");
}

/// The algorithm with its defaults, and its other settings that must hold.
fn specs(info: &'static Info) -> impl Iterator<Item = &'static str> {
    std::iter::once(info.name).chain(info.variants.iter().copied())
}

fn holds_for(spec: &str, delivery: Delivery) {
    let spec: Spec = spec.parse().expect("a registered name");
    let config = Config { cases: 200, failure_persistence: None, ..Config::default() };
    let checked = TestRunner::new(config).run(&runs(spec.info.permits), |run| {
        spec.visit(Schedule { run: &run, delivery });
        Ok(())
    });
    if let Err(failure) = checked {
        panic!("{spec} over {delivery:?} channels: {failure}");
    }
}

#[test]
fn every_algorithm_holds_over_fifo_channels() {
    for spec in ALL.iter().flat_map(|info| specs(info)) {
        holds_for(spec, Delivery::Fifo);
    }
}

#[test]
fn every_algorithm_that_claims_to_need_no_order_holds_without_it() {
    for info in ALL.iter().filter(|info| info.channels == Channels::Unordered) {
        for spec in specs(info) {
            holds_for(spec, Delivery::Unordered);
        }
    }
}
