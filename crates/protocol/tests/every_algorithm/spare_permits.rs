//! Whether a permit that is free reaches whoever waits, while others keep theirs for ever: what the users of a semaphore
//! expect, and what not every algorithm for K permits gives.

use fastrand::Rng;
use meshlock_protocol::registry::info::Permits;
use meshlock_protocol::registry::{ALL, AnySite};
use meshlock_protocol::world::{Action, Delivery, World};
use meshlock_protocol::{Cluster, Holders, SiteId, Spec};

/// Two permits, one of which a site takes and keeps; the others come and go. Says whether the other permit was always given to
/// someone who waited for it.
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
    loop {
        while let Some(action) = { world.deliveries(Delivery::Fifo).next() } {
            let _ = world.apply(action);
        }
        let others: Vec<SiteId> = world.inside().iter().filter(|site| *site != keeper).collect();
        let waits = SiteId::all(sites).any(|site| world.is_waiting(site));
        match others.first() {
            Some(site) => drop(world.release(*site)),
            None => return !waits,
        }
    }
}

#[test]
fn a_free_permit_reaches_whoever_waits_where_the_registry_says_so_and_not_always_elsewhere() {
    for info in ALL.iter().filter(|info| info.permits != Permits::One) {
        let spec = Spec::plain(info);
        let always = (0..400).all(|seed| a_free_permit_was_given(&spec, 4, seed));
        assert_eq!(always, info.permits == Permits::Many, "{}", info.name);
    }
}
