//! Explorations that the matrix of `docs/CHECKED.md` does not contain: printed texts that fail, weaker networks, several failures,
//! settings that no variant lists. State counts are golden: if one changes, an algorithm has changed; say why in the commit. These
//! tests are one program, so that the explorer is compiled once.

mod assumptions;
mod choices;
mod heuristic;
mod lodha;
mod modes;
mod news;
mod permits;
mod quorum_algos;
mod sanders;
mod shortest;
mod simple;
mod trees;
mod walks;

use meshlock_check::{Bounds, Properties, Property};

/// Bounds for all properties except fences, which would add states: the counts are those of sites and messages alone.
fn bounds(sites: usize, entries: u8) -> Bounds {
    Bounds::new(sites, entries).checking(Properties::all().without(Property::Fences))
}
