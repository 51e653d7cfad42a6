//! The sweep: when memory runs out, the oldest levels are discarded and the search goes on.
//!
//! Most algorithms make progress with every step: one more message has arrived, one more request was granted. Then a
//! state is only ever reached after one number of steps, or a few, and to recognise it the latest levels are enough. So
//! whenever all memory is used, the older half of the known states is discarded, in whole levels; if less than a level
//! would be left, all but the next level, and each state of the present one as soon as it is expanded. (The sweep-line
//! method of Christensen, Kristensen and Mailund, 2001, with the number of steps as the measure of progress.)
//!
//! Nothing is missed by this. A state that is reached again after its level was discarded is visited and counted again;
//! and if there is a cycle longer than what is known, the search does not end by itself. So a search that ends, and in
//! which no step led to a state of the same or an earlier level, has shown that every run ends: there is no cycle in
//! which a site could starve. If there were such steps, it has shown that only where no site ever returns to an earlier
//! state; elsewhere the search is given up.
//!
//! In a sweep a state keeps no parent but its origin: the state of the level where the sweep began from which it was
//! reached. If something is wrong, the levels up to there, which did fit into memory, are explored again for the path
//! to the origin, and the rest of the path is searched from the origin alone.

use rayon::prelude::*;

use crate::search::{Found, Progress, Search};
use crate::store::{Shard, StatePlace};
use crate::table::Table;
use crate::{Bounds, Entries};

/// A sweep that goes on for more levels than this is given up: there is probably a cycle.
const MAX_LEVELS: usize = 1000;

/// Where a sweep began.
pub(crate) struct Sweep {
    /// The level that was expanded when the sweep began.
    depth: usize,
    /// By shard: where that level ends.
    ends: Vec<u64>,
}

/// A state of the level at which a sweep began.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SweepOrigin {
    depth: usize,
    place: StatePlace,
}

impl Sweep {
    /// The parent that is recorded in the successors of the state at `place`: that state, or its own parent.
    pub(crate) fn way(sweep: Option<&Sweep>, place: StatePlace, parent: StatePlace) -> StatePlace {
        match sweep {
            Some(sweep) if place.offset() >= sweep.ends[place.shard()] => parent,
            _ => place,
        }
    }

    /// The origin of a state that names `way`.
    pub(crate) fn origin(&self, way: StatePlace) -> SweepOrigin {
        SweepOrigin { depth: self.depth, place: way }
    }
}

impl Search {
    /// Discards the oldest levels, if it is memory that is short. Returns whether the search can go on.
    pub(crate) fn make_room(&mut self) -> bool {
        let is_memory_short = self.progress.states <= self.table.bounds.max_states;
        if !is_memory_short || !self.can_end() {
            return false;
        }
        while self.progress.memory > self.table.bounds.max_memory {
            let Some(starts) = self.later_half() else { return false };
            let shards = self.shards.par_iter_mut().zip(starts);
            shards.for_each(|(shard, start)| shard.know_from(start));
            let depth = *self.progress.swept.get_or_insert(self.progress.depth);
            self.sweep.get_or_insert_with(|| Sweep { depth, ends: self.level_ends.clone() });
            self.forget_worked_off();
            self.measure();
        }
        true
    }

    /// Whether, by all that is known, every run ends.
    pub(crate) fn can_end(&self) -> bool {
        let counted = matches!(self.table.bounds.entries, Entries::Each(_));
        counted && (self.back_edges == 0 || no_site_returns_to_a_state(&self.table))
    }

    /// By shard: where the later half of the known states begins, in whole levels, or else the next level. `None` if
    /// only the next level is known.
    fn later_half(&self) -> Option<Vec<u64>> {
        let known: Vec<u64> = self.shards.iter().map(Shard::known_from).collect();
        let bytes = |starts: &[u64]| {
            let shards = self.shards.iter().zip(starts);
            shards.map(|(shard, start)| shard.end() - start).sum::<u64>()
        };
        let half = bytes(&known) / 2;
        let level = self.level_starts.iter().find(|starts| bytes(starts) <= half).unwrap_or(&self.level_ends);
        (known != self.level_ends).then(|| level.clone())
    }

    /// Frees the states that are neither known nor still to be expanded.
    pub(crate) fn forget_worked_off(&mut self) {
        for (shard, &cursor) in self.shards.iter_mut().zip(&self.cursors) {
            shard.forget_before(cursor.min(shard.known_from()));
        }
    }

    /// Whether the sweep has gone on for so long that there is probably a cycle.
    pub(crate) fn seems_endless(&self) -> bool {
        self.sweep.as_ref().is_some_and(|sweep| self.progress.depth > sweep.depth + MAX_LEVELS)
    }

    /// Searches again for the path to what a sweep has found.
    pub(crate) fn retrace(self, origin: SweepOrigin) -> (Self, Found) {
        // What follows one state is little compared with what follows all of its level.
        let bounds = Bounds { max_memory: usize::MAX, ..self.table.bounds.clone() };
        let progress = self.progress;
        let ignore = &mut |_: &Progress| {};
        let group = self.table.symmetry.as_ref().map(|symmetry| symmetry.group.clone());
        let mut again = match group {
            Some(group) => Search::up_to(&bounds, self.into_sites(), group),
            None => Search::new(&bounds, self.into_sites()),
        };
        while again.progress.depth < origin.depth {
            let found = again.level(ignore);
            assert!(found.is_none(), "the first search went on from here");
        }
        let (mut path, first) = if again.table.symmetry.is_some() {
            again.run_along(&again.places_to(origin.place))
        } else {
            (again.path_to(origin.place), again.state_at(origin.place))
        };
        let mut rest = Search::from(again.table, &first);
        let found = rest.run(ignore);
        path.extend(found.path);
        rest.progress = progress;
        (rest, Found::new(found.verdict, path))
    }
}

/// Whether no site, by all that was learnt, returns to a state that it was in; a message may change nothing, if none is
/// sent for it. Then no run has a cycle: a step that changes no site takes a message away, or is one of a bounded
/// number of faults.
pub(crate) fn no_site_returns_to_a_state(table: &Table) -> bool {
    let mut edges = Vec::new();
    for (before, after, takes) in table.steps() {
        if before != after {
            edges.push((before, after));
        } else if !takes {
            return false;
        }
    }
    !has_cycle(table.local_states(), edges)
}

/// Whether a graph has a cycle: whether nodes are left when those without a predecessor are removed again and again.
fn has_cycle(nodes: usize, mut edges: Vec<(u32, u32)>) -> bool {
    edges.sort_unstable();
    let mut predecessors = vec![0_u32; nodes];
    for &(_, to) in &edges {
        predecessors[to as usize] += 1;
    }
    let mut free: Vec<usize> = (0..nodes).filter(|&node| predecessors[node] == 0).collect();
    let mut removed = 0;
    while let Some(node) = free.pop() {
        removed += 1;
        let first = edges.partition_point(|&(from, _)| (from as usize) < node);
        for &(_, to) in edges[first..].iter().take_while(|&&(from, _)| from as usize == node) {
            predecessors[to as usize] -= 1;
            if predecessors[to as usize] == 0 {
                free.push(to as usize);
            }
        }
    }
    removed < nodes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cycle_is_seen_wherever_it_is() {
        assert!(!has_cycle(0, Vec::new()));
        assert!(!has_cycle(4, vec![(0, 1), (0, 2), (1, 3), (2, 3), (0, 3)]));
        assert!(has_cycle(4, vec![(0, 1), (1, 2), (2, 3), (3, 1)]));
        assert!(has_cycle(3, vec![(2, 1), (1, 2)]));
    }
}
