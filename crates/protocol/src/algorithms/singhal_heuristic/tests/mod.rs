//! Scenarios, by subject, and what they share.

mod failures;
mod plain;

use super::*;
use crate::world::World;

type Heuristic = World<SinghalHeuristic>;

fn number(count: u32) -> Number {
    Number { life: 0, count }
}

fn request(count: u32) -> Message {
    Message::Request { number: number(count) }
}

fn sites(indices: &[usize]) -> SiteSet {
    indices.iter().map(|&index| SiteId::new(index)).collect()
}

fn token(passes: u64, requesting: &[usize], numbers: &[u32]) -> Message {
    let numbers = numbers.iter().map(|&count| number(count)).collect();
    Message::Token(Box::new(Token { passes, requesting: sites(requesting), numbers }))
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
