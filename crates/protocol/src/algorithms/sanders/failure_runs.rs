//! Random structures of five sites under random schedules in which up to four of them fail: more than exploration
//! can go through, and structures that nobody would draw.

use super::*;
use crate::information::InformationStructure;
use crate::registry::values::Values;
use crate::world::{Action, Delivery, World};
use crate::{Described, Holders};

const SITES: usize = 5;

/// A small generator of its own (xorshift), so that a failing run is named by its seed.
struct Draws(u64);

impl Draws {
    fn below(&mut self, bound: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        usize::try_from(self.0 % bound as u64).unwrap()
    }

    fn subset(&mut self, out_of: usize) -> SiteSet {
        SiteId::all(SITES).filter(|_| self.below(out_of) == 0).collect()
    }
}

/// A structure that satisfies the theorem: random inform sets, the request sets that they need, and some requests
/// too many.
fn structure(draws: &mut Draws) -> InformationStructure {
    let inform: Vec<SiteSet> = SiteId::all(SITES)
        .map(|i| {
            let mut set = draws.subset(2);
            set.insert(i);
            set
        })
        .collect();
    InformationStructure::from_fn(SITES, |i| {
        let mut request = inform[i.index()].clone();
        request.extend(SiteId::all(SITES).filter(|k| !inform[i.index()].intersects(&inform[k.index()])));
        request.union_with(&draws.subset(6));
        (inform[i.index()].clone(), request)
    })
}

fn run(seed: u64, deadlock: &str, delivery: Delivery) {
    let mut draws = Draws(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1);
    let mut values = Values::defaults(&Sanders::INFO);
    values.set("structure", &structure(&mut draws).to_string()).unwrap();
    values.set("deadlock", deadlock).unwrap();
    let mut world = World::<Sanders>::new(Cluster::of(SITES), &values, &Holders::none()).unwrap();
    let crashes = draws.below(SITES);
    for _ in 0..300 {
        if world.down().len() < crashes && draws.below(40) == 0 {
            let up: Vec<SiteId> = SiteId::all(SITES).filter(|&site| world.is_up(site)).collect();
            world.fail(up[draws.below(up.len())]);
        }
        let actions: Vec<Action> =
            world.deliveries(delivery).chain(world.releases()).chain(world.requests()).collect();
        let _ = world.apply(actions[draws.below(actions.len())]);
    }
    loop {
        let actions: Vec<Action> = world.deliveries(delivery).chain(world.releases()).collect();
        if actions.is_empty() {
            break;
        }
        let _ = world.apply(actions[draws.below(actions.len())]);
    }
    let waiting = SiteId::all(SITES).find(|&site| world.is_waiting(site));
    assert_eq!(waiting, None, "seed {seed}, {deadlock}, {delivery:?}: waits for ever {:#?}", world.sites());
    assert!(world.is_quiet(), "seed {seed}, {deadlock}, {delivery:?}");
}

#[test]
fn random_structures_of_five_sites_survive_random_failures() {
    for seed in 0..500 {
        for deadlock in ["fail", "yield"] {
            for delivery in [Delivery::Fifo, Delivery::Unordered] {
                run(seed, deadlock, delivery);
            }
        }
    }
}
