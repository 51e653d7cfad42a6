//! What happens when memory ends: levels that were worked off are let go, and the search goes on.
//!
//! Most algorithms make progress with every step: a message more has arrived, a request more was served. Then a state is only ever
//! reached after one number of steps, and to know it again the present level and the next are enough. So when all memory is
//! used, and no step so far has led to a state of the same or an earlier level, all earlier levels are let go, and from then
//! on each one once it was worked off. (The sweep-line method of Christensen, Kristensen and Mailund, 2001, with the number of
//! steps as the measure of progress.)
//!
//! Nothing is missed by this. If a state is reached after different numbers of steps all the same, it is visited and counted once
//! for each; and if there is a circle, the search does not end by itself. So one that ends has shown that every
//! run ends: there is no circle in which a site could starve.
//!
//! A state keeps no parent then, but its origin: the state of the level where the sweep began that it was reached from. If
//! something is wrong, the levels up to there, which did fit, are made once more for the way to the origin, and the rest of the
//! way is searched from there alone.

use meshlock_protocol::PlanError;
use meshlock_protocol::registry::values::Values;
use rayon::prelude::*;

use crate::search::{Found, Progress, Search};
use crate::store::Place;
use crate::{Algorithm, Bounds, Entries};

/// How many levels a sweep follows before it takes the run for one that goes round for ever.
const MOST_LEVELS: usize = 1000;

/// Where levels began to be let go.
pub(crate) struct Sweep {
    /// The first level that was kept then.
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

    /// Where the way to the state at `place` went through.
    pub(crate) fn origin(&self, place: Place, parent: Place) -> Origin {
        Origin { depth: self.depth, place: Sweep::way(Some(self), place, parent) }
    }
}

impl<A: Algorithm> Search<A> {
    /// Lets go of what is not needed, if memory is short and that was not done yet; says whether the search can go on.
    pub(crate) fn make_room(&mut self) -> bool {
        let bounds = &self.table.bounds;
        let ends = matches!(bounds.entries, Entries::Each(_)) && self.retreats == 0;
        let is_memory_short = self.progress.states <= bounds.most_states;
        if self.sweep.is_some() || !ends || !is_memory_short {
            return false;
        }
        self.sweep = Some(Sweep { depth: self.progress.depth, ends: self.level_ends.clone() });
        self.progress.swept = Some(self.progress.depth);
        self.forget_before_level();
        self.measure();
        self.progress.memory <= self.table.bounds.most_memory
    }

    pub(crate) fn forget_before_level(&mut self) {
        let shards = self.shards.par_iter_mut().zip(&self.level_starts);
        shards.for_each(|(shard, &start)| shard.forget_before(start));
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
