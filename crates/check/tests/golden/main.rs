//! Every interleaving of small runs, with golden state counts: a count that changes means that an algorithm changed; say in
//! the commit why. One program, so that the explorer is compiled once.

mod heuristic;
mod permits;
mod quorum_algos;
mod sanders;
mod simple;
mod singhal_lodha;
mod trees;

use meshlock_check::{Bounds, Properties, Property};

/// Without following fences, whose knowledge adds states of its own: the counts are those of sites and messages alone.
fn bounds(sites: usize, entries: u8) -> Bounds {
    Bounds::new(sites, entries).checking(Properties::all().without(Property::Fences))
}
