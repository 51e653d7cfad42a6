//! What the matrix of `docs/CHECKED.md` does not show: texts that fail as printed, what breaks on a weaker network, several
//! failures, settings that no variant lists. State counts are golden: one that changes means that an algorithm changed; say in the
//! commit why. One program, so that the explorer is compiled once.

mod assumptions;
mod heuristic;
mod lodha;
mod permits;
mod quorum_algos;
mod sanders;
mod simple;
mod trees;

use meshlock_check::{Bounds, Properties, Property};

/// Without following fences, whose knowledge adds states of its own: the counts are those of sites and messages alone.
fn bounds(sites: usize, entries: u8) -> Bounds {
    Bounds::new(sites, entries).checking(Properties::all().without(Property::Fences))
}
