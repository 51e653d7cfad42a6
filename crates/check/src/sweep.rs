//! What happens when memory ends: the oldest levels are let go, and the search goes on.
//!
//! Most algorithms make progress with every step: a message more has arrived, a request more was served. Then a state is only ever
//! reached after one number of steps, or a few, and to know it again the latest levels are enough. So whenever all memory is used,
//! the older half of what is known is let go, in whole levels; if less than a level would be left, all but the next level, and from
//! the present one each state once it was worked off. (The sweep-line method of Christensen, Kristensen and Mailund, 2001, with the
//! number of steps as the measure of progress.)
//!
//! Nothing is missed by this. A state that is reached once more after its level was let go is visited and counted once more; and if
//! there is a circle longer than what is known, the search does not end by itself. So one that ends, and in which no step led to a
//! state of the same or an earlier level, has shown that every run ends: there is no circle in which a site could starve. If steps
//! did, it has shown so only where no site ever comes back to a state that it was in; elsewhere the search is given up.
//!
//! A state keeps no parent then, but its origin: the state of the level where the sweep began that it was reached from. If
//! something is wrong, the levels up to there, which did fit, are made once more for the way to the origin, and the rest of the
//! way is searched from there alone.

use meshlock_protocol::PlanError;
use meshlock_protocol::registry::values::Values;
use rayon::prelude::*;

use crate::search::{Found, Progress, Search};
use crate::store::{Place, Shard};
use crate::table::Table;
use crate::{Algorithm, Bounds, Entries};

/// How many levels a sweep follows before it takes the run for one that goes round for ever.
const MOST_LEVELS: usize = 1000;

/// Where levels began to be let go.
pub(crate) struct Sweep {
    /// The level that was worked off then.
    depth: usize,
    /// Where it ends, by shard.
    ends: Vec<u64>,
}

/// A state of the level where a sweep began.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Origin {
    depth: usize,
    place: Place,
}

impl Sweep {
    /// What the states that follow the one at `place` are told to have been reached from: that one, or its origin.
    pub(crate) fn way(sweep: Option<&Sweep>, place: Place, parent: Place) -> Place {
        match sweep {
            Some(sweep) if place.offset() >= sweep.ends[place.shard()] => parent,
            _ => place,
        }
    }

    /// Where the way to a state went through, which was told to have been reached so.
    pub(crate) fn origin(&self, way: Place) -> Origin {
        Origin { depth: self.depth, place: way }
    }
}

impl<A: Algorithm> Search<A> {
    /// Lets go of the oldest levels, if it is memory that is short; says whether the search can go on.
    pub(crate) fn make_room(&mut self) -> bool {
        let is_memory_short = self.progress.states <= self.table.bounds.most_states;
        if !is_memory_short || !self.can_end() {
            return false;
        }
        while self.progress.memory > self.table.bounds.most_memory {
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

    /// Whether nothing speaks against that every run ends.
    pub(crate) fn can_end(&self) -> bool {
        let counted = matches!(self.table.bounds.entries, Entries::Each(_));
        counted && (self.retreats == 0 || no_site_comes_back(&self.table))
    }

    /// Where in each shard the later half begins of what is known, in whole levels, or else the next level; nothing, if that is all
    /// that is known.
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

    /// Lets go of the states that are neither known nor to be worked off.
    pub(crate) fn forget_worked_off(&mut self) {
        for (shard, &cursor) in self.shards.iter_mut().zip(&self.cursors) {
            shard.forget_before(cursor.min(shard.known_from()));
        }
    }

    /// Whether the sweep has gone on for so long that there is probably a circle.
    pub(crate) fn seems_endless(&self) -> bool {
        self.sweep.as_ref().is_some_and(|sweep| self.progress.depth > sweep.depth + MOST_LEVELS)
    }

    /// Searches once more for the way to what was found by a sweep.
    pub(crate) fn retrace(self, origin: Origin, values: &Values) -> Result<(Self, Found), PlanError> {
        // What follows one state is little beside what follows all of its level.
        let bounds = Bounds { most_memory: usize::MAX, ..self.table.bounds.clone() };
        let progress = self.progress;
        drop(self);
        let ignore = &mut |_: &Progress| {};
        let mut again = Search::<A>::new(&bounds, values)?;
        while again.progress.depth < origin.depth {
            let found = again.level(ignore);
            assert!(found.is_none(), "the first search went on from here");
        }
        let (mut path, first) = (again.path_to(origin.place), again.state_at(origin.place));
        let mut rest = Search::from(again.table, &first);
        let found = rest.run(ignore);
        path.extend(found.path);
        rest.progress = progress;
        Ok((rest, Found::new(found.verdict, path)))
    }
}

/// Whether no site, by all that was learnt, comes back to a state that it was in; a message may change nothing, if none is sent for
/// it. Then no run goes round: what changes no site takes a message away, or is one of a bounded number of faults.
fn no_site_comes_back<A: Algorithm>(table: &Table<A>) -> bool {
    let mut edges = Vec::new();
    for (before, after, takes) in table.steps() {
        if before != after {
            edges.push((before, after));
        } else if !takes {
            return false;
        }
    }
    !goes_round(table.local_states(), edges)
}

/// Whether a graph of so many nodes has a circle: whether some are left when those that nothing leads to are taken away, again and
/// again.
fn goes_round(nodes: usize, mut edges: Vec<(u32, u32)>) -> bool {
    edges.sort_unstable();
    let mut ways_in = vec![0_u32; nodes];
    for &(_, to) in &edges {
        ways_in[to as usize] += 1;
    }
    let mut free: Vec<usize> = (0..nodes).filter(|&node| ways_in[node] == 0).collect();
    let mut taken = 0;
    while let Some(node) = free.pop() {
        taken += 1;
        let first = edges.partition_point(|&(from, _)| (from as usize) < node);
        for &(_, to) in edges[first..].iter().take_while(|&&(from, _)| from as usize == node) {
            ways_in[to as usize] -= 1;
            if ways_in[to as usize] == 0 {
                free.push(to as usize);
            }
        }
    }
    taken < nodes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_circle_is_seen_wherever_it_is() {
        assert!(!goes_round(0, Vec::new()));
        assert!(!goes_round(4, vec![(0, 1), (0, 2), (1, 3), (2, 3), (0, 3)]));
        assert!(goes_round(4, vec![(0, 1), (1, 2), (2, 3), (3, 1)]));
        assert!(goes_round(3, vec![(2, 1), (1, 2)]));
    }
}
