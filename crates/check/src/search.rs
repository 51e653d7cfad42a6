//! The search: breadth first, level by level, on all cores, and the same way every time.
//!
//! A level is expanded in rounds of two parts; in each part every shard has one task. In the first part a task takes
//! states of its shard and works out their successors; the table is only read. Each successor goes into the bucket of
//! the shard that its hash names. In the second part a task empties the buckets of its shard in order. A state that
//! needs a step which the table does not know yet is set aside, and between the parts one thread runs the sites' code
//! for it. So no lock is needed, and neither the counts nor the path that is found depend on the number of threads.
//! [`sweep`](crate::sweep) describes what happens when memory runs out.

use rayon::prelude::*;

use crate::Bounds;
use crate::bucket::empty;
use crate::moves::Taken;
use crate::property::Verdict;
use crate::sites::Sites;
use crate::state::{GlobalState, Layout};
use crate::steps::StepLog;
use crate::store::{SHARDS, Shard, StatePlace, hash, shard_of};
use crate::sweep::{Sweep, SweepOrigin};
use crate::symmetry::{Group, Symmetry};
use crate::table::Table;
use crate::worker::{Finding, Worker};

/// Number of states of each shard that one round expands.
const ROUND: usize = 512;

/// The progress of an exploration.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Progress {
    /// The number of different states so far.
    pub states: usize,
    /// The number of steps tried so far: edges of the graph.
    pub(crate) edges: usize,
    /// The level that is being expanded.
    pub depth: usize,
    /// Memory in use, in bytes.
    pub memory: usize,
    pub(crate) local_states: usize,
    /// The level at which the sweep began, if memory ran out.
    pub swept: Option<usize>,
    /// In a reduced search: the number of states that it looked at without keeping them.
    pub(crate) passed: usize,
}

/// A whole exploration.
pub(crate) struct Search {
    pub(crate) table: Table,
    pub(crate) layout: Layout,
    pub(crate) shards: Vec<Shard>,
    workers: Vec<Worker>,
    /// By shard: where each level up to the present one begins, how far it is expanded, where it ends.
    pub(crate) level_starts: Vec<Vec<u64>>,
    pub(crate) cursors: Vec<u64>,
    pub(crate) level_ends: Vec<u64>,
    /// The sweep, if memory ran out.
    pub(crate) sweep: Option<Sweep>,
    pub(crate) progress: Progress,
    /// All steps, as long as they are kept.
    pub(crate) steps: Option<StepLog>,
    /// The number of steps to a state of the same or an earlier level: without any there is no cycle.
    pub(crate) back_edges: usize,
    /// The first and the last level with a state that has no successor.
    pub(crate) first_end: Option<usize>,
    pub(crate) last_end: Option<usize>,
}

/// How a search ended.
pub(crate) struct Found {
    pub(crate) verdict: Verdict,
    pub(crate) path: Vec<Taken>,
    /// A state that the path goes through, if nothing else is known of the path.
    pub(crate) origin: Option<SweepOrigin>,
}

impl Found {
    pub(crate) fn new(verdict: Verdict, path: Vec<Taken>) -> Self {
        Found { verdict, path, origin: None }
    }
}

impl Search {
    /// A search of everything within `bounds`.
    pub(crate) fn new(bounds: &Bounds, sites: Box<dyn Sites>) -> Self {
        assert!(
            !bounds.reduces || bounds.can_be_reduced(),
            "steps that depend on each other are not reduced"
        );
        let table = Table::new(bounds, sites);
        let first = table.first_state(Layout::of(table.info, bounds));
        Search::from(table, &first)
    }

    /// A search of everything within `bounds`, of which states are left out that differ from others only by a symmetry.
    pub(crate) fn up_to(bounds: &Bounds, sites: Box<dyn Sites>, group: Group) -> Self {
        assert!(bounds.can_be_explored_alike(), "failures are not the same for all sites");
        let mut search = Search::new(bounds, sites);
        search.table.symmetry = Some(Symmetry::new(&search.table, group));
        search
    }

    /// A search of everything that can follow `first`.
    pub(crate) fn from(table: Table, first: &GlobalState) -> Self {
        let layout = Layout::of(table.info, &table.bounds);
        let mut search = Search {
            table,
            layout,
            shards: (0..SHARDS).map(|_| Shard::new()).collect(),
            workers: (0..SHARDS).map(Worker::new).collect(),
            level_starts: Vec::new(),
            cursors: vec![Shard::FIRST; SHARDS],
            level_ends: vec![Shard::FIRST; SHARDS],
            sweep: None,
            progress: Progress::default(),
            steps: None,
            back_edges: 0,
            first_end: None,
            last_end: None,
        };
        search.steps = search.may_need_graph().then(StepLog::new);
        let mut body = Vec::new();
        layout.encode(first, &mut body);
        let hash = hash(&body);
        search.shards[shard_of(hash)].insert(hash, StatePlace::NOWHERE, &body);
        search
    }

    /// Drops everything but the sites.
    pub(crate) fn into_sites(self) -> Box<dyn Sites> {
        self.table.into_sites()
    }

    /// Works off level after level until all states are seen, something is wrong or a limit is reached.
    pub(crate) fn run(&mut self, report: &mut dyn FnMut(&Progress)) -> Found {
        if let Some(wrong) = self.wrong_at_start() {
            return Found::new(wrong, Vec::new());
        }
        loop {
            if let Some(found) = self.level(report) {
                return found;
            }
        }
    }

    /// Works off one level. Returns how the search ended, if it did.
    pub(crate) fn level(&mut self, report: &mut dyn FnMut(&Progress)) -> Option<Found> {
        let level_ends = self.shards.iter().map(Shard::end).collect();
        self.level_starts.push(std::mem::replace(&mut self.level_ends, level_ends));
        let (mut finding, mut ends) = (None, 0);
        while self.cursors.iter().zip(&self.level_ends).any(|(cursor, end)| cursor < end) {
            self.round();
            ends += self.workers.iter_mut().map(|worker| std::mem::take(&mut worker.ends)).sum::<usize>();
            finding = first_of(finding, self.workers.iter_mut().flat_map(|worker| worker.findings.drain(..)));
            if self.sweep.is_some() {
                self.forget_worked_off();
            }
            self.measure();
            if !self.may_need_graph() || !self.has_room_for_steps() {
                self.steps = None;
            }
            report(&self.progress);
            if finding.is_none() && self.is_over_limit() && !self.make_room() {
                return Some(Found::new(Verdict::Unfinished, Vec::new()));
            }
        }
        if ends > 0 {
            self.first_end.get_or_insert(self.progress.depth);
            self.last_end = Some(self.progress.depth);
        }
        if let Some(finding) = finding {
            return Some(self.found(finding));
        }
        if self.sweep.is_some() && !self.can_end() {
            return Some(Found::new(Verdict::Unfinished, Vec::new()));
        }
        if self.shards.iter().zip(&self.level_ends).all(|(shard, &end)| shard.end() == end) {
            return Some(Found::new(Verdict::Holds, Vec::new()));
        }
        self.progress.depth += 1;
        self.seems_endless().then(|| Found::new(Verdict::Unfinished, Vec::new()))
    }

    fn wrong_at_start(&self) -> Option<Verdict> {
        self.table.wrong_at_start().map(Verdict::Violated)
    }

    fn round(&mut self) {
        let (table, layout, shards, sweep) = (&self.table, self.layout, &self.shards, self.sweep.as_ref());
        let work = self.workers.par_iter_mut().zip(&mut self.cursors).zip(&self.level_ends);
        let keeps_steps = self.steps.is_some();
        work.for_each(|((worker, cursor), &end)| {
            worker.clear();
            worker.keeps_steps = keeps_steps;
            let shard = &shards[worker.shard];
            for _ in 0..ROUND {
                if *cursor == end {
                    break;
                }
                let at = shard.settle(*cursor);
                let (parent, body, next) = shard.record(at);
                let place = StatePlace::new(worker.shard, at);
                if worker.expand(table, layout, place, Sweep::way(sweep, place, parent), body).is_err() {
                    worker.aside.push(at);
                }
                *cursor = next;
            }
        });
        for worker in &mut self.workers {
            for offset in std::mem::take(&mut worker.aside) {
                let (parent, body, _) = self.shards[worker.shard].record(offset);
                let place = StatePlace::new(worker.shard, offset);
                worker.learn(&mut self.table, layout, body);
                let known = worker.expand(&self.table, layout, place, Sweep::way(sweep, place, parent), body);
                known.expect("all that was unknown was learnt");
            }
        }
        let (workers, level_ends) = (&self.workers, &self.level_ends);
        let fill = |at: usize, shard: &mut Shard, mut landed: Option<&mut Vec<Vec<u64>>>| {
            let tasks = workers.iter().enumerate().map(|(task, worker)| {
                let landed = landed.as_mut().map(|landed| &mut landed[task]);
                empty(&worker.buckets[at], shard, level_ends[at], landed)
            });
            tasks.sum::<usize>()
        };
        let shards = self.shards.par_iter_mut().enumerate();
        self.back_edges += match &mut self.steps {
            None => shards.map(|(at, shard)| fill(at, shard, None)).sum::<usize>(),
            Some(log) => {
                let landed = shards.zip(&mut log.landed);
                let back = landed.map(|((at, shard), landed)| fill(at, shard, Some(landed))).sum();
                log.append(workers.iter().map(|worker| &worker.trail));
                back
            }
        };
        self.progress.edges += self.workers.iter().map(|worker| worker.edges).sum::<usize>();
        self.progress.passed += self.workers.iter().map(|worker| worker.passed).sum::<usize>();
    }

    pub(crate) fn measure(&mut self) {
        let store: usize = self.shards.iter().map(Shard::bytes).sum();
        let buckets = self.workers.iter().flat_map(|worker| &worker.buckets).map(Vec::capacity);
        self.progress.states = self.shards.iter().map(Shard::states).sum();
        self.progress.local_states = self.table.local_states();
        self.progress.memory = store + buckets.sum::<usize>() + self.table.bytes();
    }

    fn has_room_for_steps(&self) -> bool {
        let steps = self.steps.as_ref().map_or(0, StepLog::bytes);
        self.progress.memory + steps <= self.table.bounds.max_memory
    }

    fn is_over_limit(&self) -> bool {
        let bounds = &self.table.bounds;
        self.progress.states > bounds.max_states || self.progress.memory > bounds.max_memory
    }

    /// The shortest path to what was found.
    fn found(&mut self, finding: Finding) -> Found {
        if let Some(sweep) = &self.sweep {
            let origin = sweep.origin(finding.way);
            return Found { origin: Some(origin), ..Found::new(finding.verdict, Vec::new()) };
        }
        let (mut path, finding) = if self.table.symmetry.is_some() {
            let (path, last) = self.run_along(&self.places_to(finding.at));
            (path, self.judge_again(&last, finding.at))
        } else {
            (self.path_to(finding.at), finding)
        };
        path.extend(finding.steps);
        Found::new(finding.verdict, path)
    }

    /// The path by which `place` was first reached, found by trying which step leads from each state to the next.
    pub(crate) fn path_to(&self, place: StatePlace) -> Vec<Taken> {
        let places = self.places_to(place);
        let body = |place: StatePlace| self.shards[place.shard()].record(place.offset()).1;
        places.windows(2).flat_map(|two| self.steps_between(two[0], body(two[1]))).collect()
    }

    /// The states by which `place` was first reached, from the first one to itself.
    pub(crate) fn places_to(&self, place: StatePlace) -> Vec<StatePlace> {
        let mut places = vec![place];
        loop {
            let last = places[places.len() - 1];
            let parent = self.shards[last.shard()].record(last.offset()).0;
            if parent == StatePlace::NOWHERE {
                places.reverse();
                return places;
            }
            places.push(parent);
        }
    }

    /// One step, or in a reduced search a burst.
    fn steps_between(&self, parent: StatePlace, after: &[u8]) -> Vec<Taken> {
        let steps = if self.table.bounds.reduces {
            self.burst_between(parent, after)
        } else {
            let step = self.steps_from(parent).into_iter().find(|(_, body)| body == after);
            step.map(|(taken, _)| vec![taken])
        };
        steps.expect("a state follows the one it was reached from")
    }
}

/// The finding of a level to report: a state that is wrong goes before a step that is wrong, then the first one.
fn first_of(found: Option<Finding>, more: impl Iterator<Item = Finding>) -> Option<Finding> {
    found.into_iter().chain(more).min_by_key(|finding| (finding.steps.len(), finding.at))
}
