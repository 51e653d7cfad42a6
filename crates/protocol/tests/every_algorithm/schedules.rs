//! Every algorithm under random schedules: whatever the order of requests, messages and exits, at most K are inside,
//! everyone is served, fences increase, tokens are conserved, the invariants hold after every step (the world checks
//! all of that), and at the end the sites are quiet.

use crate::runs::{Run, for_random_runs, pick, specs_with_modes};
use meshlock_protocol::registry::info::Channels;
use meshlock_protocol::registry::{ALL, AnySite};
use meshlock_protocol::world::{Action, Delivery, World};
use meshlock_protocol::{SiteId, Spec};

/// Runs a random schedule, then serves all waiting sites until every site is quiet.
fn follow(spec: &Spec, run: &Run, delivery: Delivery) {
    let mut world = run.world(spec);
    for &draw in &run.draws {
        let _ = world.apply(pick(&world, delivery, draw));
    }
    drain(&mut world, delivery, &run.draws);
    assert!(world.is_quiet(), "at the end nothing is owed: {:#?}", world.sites());
}

/// The same with processes that share, change their modes and differ in urgency.
fn follow_sharing(spec: &Spec, run: &Run, delivery: Delivery) {
    let mut world = run.sharing_world(spec);
    for &draw in &run.draws {
        let _ = world.apply(pick(&world, delivery, draw));
    }
    drain(&mut world, delivery, &run.draws);
    assert!(world.is_quiet(), "at the end nothing is owed: {:#?}", world.sites());
}

/// Performs all actions except requests and changes of mode in a random order until none is left. Whoever upgrades leaves only when
/// that is done.
fn drain(world: &mut World<AnySite>, delivery: Delivery, draws: &[u16]) {
    for step in 0..100_000 {
        let upgrades = |action: &Action| matches!(action, Action::Release(site) if world.is_upgrading(*site));
        let releases = world.releases().filter(|action| !upgrades(action));
        let actions: Vec<Action> = world.deliveries(delivery).chain(releases).collect();
        if actions.is_empty() {
            assert!(world.inside().is_empty(), "upgrades for ever: {:#?}", world.sites());
            let waiting = SiteId::all(world.cluster().sites).find(|&site| world.is_waiting(site));
            assert_eq!(waiting, None, "waits for ever: {:#?}", world.sites());
            return;
        }
        let draw = draws.get(step % draws.len().max(1)).copied().unwrap_or_default();
        let _ = world.apply(actions[usize::from(draw) % actions.len()]);
    }
    panic!("the run never ends");
}

fn holds_for(spec: &str, delivery: Delivery) {
    for_random_runs(spec, |spec, run| follow(spec, run, delivery));
}

#[test]
fn every_algorithm_holds_over_fifo_channels() {
    for spec in ALL.iter().flat_map(|info| info.specs()) {
        holds_for(spec, Delivery::Fifo);
    }
}

#[test]
fn every_algorithm_holds_whatever_is_chosen_of_what_its_paper_leaves_open() {
    for info in ALL {
        let delivery = match info.channels {
            Channels::Fifo => Delivery::Fifo,
            Channels::Unordered => Delivery::Unordered,
        };
        if let Some(spec) = info.open_spec() {
            holds_for(&spec, delivery);
        }
    }
}

#[test]
fn every_algorithm_that_claims_to_need_no_order_holds_without_it() {
    let claims = ALL.iter().filter(|info| info.channels == Channels::Unordered);
    for spec in claims.flat_map(|info| info.specs()) {
        holds_for(spec, Delivery::Unordered);
    }
}

#[test]
fn every_algorithm_with_modes_serves_all_who_share_upgrade_and_are_urgent() {
    assert!(specs_with_modes().next().is_some());
    for spec in specs_with_modes() {
        let info = spec.parse::<Spec>().expect("a spec of the registry").info;
        for_random_runs(spec, |spec, run| follow_sharing(spec, run, Delivery::Fifo));
        if info.channels == Channels::Unordered {
            for_random_runs(spec, |spec, run| follow_sharing(spec, run, Delivery::Unordered));
        }
    }
}
