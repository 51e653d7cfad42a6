//! Scenarios, by subject, and what they share.

mod adaptive;
mod failures;
mod partitions;
mod plain;

use super::*;
use crate::world::{Delivery, World};

/// Numbers that look random and are the same on every machine.
struct Draws(u64);

impl Draws {
    /// A number below `bound`.
    fn below(&mut self, bound: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        usize::try_from(self.0 >> 33).unwrap() % bound
    }
}

/// How many schedules a random test tries for each setting.
const SEEDS: u64 = 200;

/// Options as they are given to a world.
type Options<'a> = &'a [(&'a str, &'a str)];

/// Each of the `options` on each kind of network.
fn settings<'a>(options: &[Options<'a>]) -> Vec<(Options<'a>, Delivery)> {
    let networks = [Delivery::Fifo, Delivery::Unordered];
    options.iter().flat_map(|&options| networks.map(|network| (options, network))).collect()
}

type Heuristic = World<SinghalHeuristic>;

fn number(count: u32) -> Number {
    Number { incarnation: 0, count }
}

fn request(count: u32) -> Message {
    Message::Request { number: number(count) }
}

fn sites(indices: &[usize]) -> SiteSet {
    indices.iter().map(|&index| SiteId::new(index)).collect()
}

fn token(passes: u64, requesting: &[usize], numbers: &[u32]) -> Message {
    let numbers = numbers.iter().map(|&count| number(count)).collect();
    Message::Token(Box::new(SinghalToken { passes, requesting: sites(requesting), numbers }))
}

fn rows(world: &Heuristic) -> Vec<SiteSet> {
    world.sites().iter().map(|site| site.row.clone()).collect()
}

/// Theorem 2: the sites can be ordered so that each has exactly those before it in its row.
fn is_strict_staircase(world: &Heuristic) -> bool {
    let mut order: Vec<&SinghalHeuristic> = world.sites().iter().collect();
    order.sort_by_key(|site| site.row.len());
    let mut lower = SiteSet::new();
    order.iter().all(|site| {
        let fits = site.row == lower;
        lower.insert(site.me);
        fits
    })
}
