//! Whether a free permit reaches a waiting site while others keep theirs for ever: users of a semaphore expect it, but not every
//! algorithm for K permits guarantees it.

use fastrand::Rng;
use meshlock_protocol::registry::info::Permits;
use meshlock_protocol::registry::{ALL, AnySite};
use meshlock_protocol::world::{Action, Delivery, World};
use meshlock_protocol::{Cluster, Holders, SiteId, Spec};
use meshlock_testing::within_steps;

/// Returns whether no site waits in the end although a permit is free. One site keeps one of two permits; the others enter and leave.
fn a_free_permit_was_given(spec: &Spec, sites: usize, seed: u64) -> bool {
    let mut draw = Rng::with_seed(seed);
    let cluster = Cluster::of(sites).with_permits(2);
    let mut world = World::<AnySite>::new(cluster, &spec.values, &Holders::none()).expect("defaults fit");
    let keeper = SiteId::new(draw.usize(..sites));
    let _ = world.request(keeper);
    for _ in 0..draw.usize(..200) {
        let mut actions: Vec<Action> = world.deliveries(Delivery::Fifo).collect();
        actions.extend(world.requests());
        actions.extend(world.releases().filter(|action| *action != Action::Release(keeper)));
        let action = actions[draw.usize(..actions.len())];
        let _ = world.apply(action);
    }
    within_steps("all sites but the keeper have left", || {
        within_steps("all messages are delivered", || {
            let next = world.deliveries(Delivery::Fifo).next();
            next.map(|action| world.apply(action)).is_none()
        });
        let other = world.inside().iter().find(|site| *site != keeper);
        other.map(|site| world.release(site)).is_none()
    });
    !SiteId::all(sites).any(|site| world.is_waiting(site))
}

#[test]
fn a_free_permit_always_reaches_a_waiting_site_exactly_where_the_registry_states_it() {
    for info in ALL.iter().filter(|info| info.permits != Permits::One) {
        let spec = Spec::plain(info);
        let always = (0..400).all(|seed| a_free_permit_was_given(&spec, 4, seed));
        assert_eq!(always, info.permits == Permits::Many, "{}", info.name);
    }
}
