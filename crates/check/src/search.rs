//! The search: breadth first, level by level, on all cores, and the same way every time.
//!
//! A level is expanded in rounds of two parts; in each part every shard has one task. In the first part a task takes
//! states of its shard and works out their successors; the table is only read. Each successor goes into the bucket of
//! the shard that its hash names. In the second part a task empties the buckets of its shard in order. A state that
//! needs a step which the table does not know yet is set aside, and between the parts one thread runs the sites' code
//! for it. So no lock is needed, and neither the counts nor the path that is found depend on the number of threads.
//! [`sweep`](crate::sweep) describes what happens when memory runs out.

use meshlock_protocol::{Phase, SiteId};
use rayon::prelude::*;

use crate::Bounds;
use crate::apply::{Applied, Unknown};
use crate::bucket::{Staged, empty};
use crate::moves::{Move, Taken};
use crate::property::{Property, Verdict};
use crate::sites::Sites;
use crate::state::{GlobalState, Layout};
use crate::store::{SHARDS, Shard, StatePlace, hash, shard_of};
use crate::sweep::{Sweep, SweepOrigin};
use crate::table::Table;

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
}

/// A violation, and where it was found.
#[derive(Clone, Debug)]
struct Finding {
    at: StatePlace,
    /// The parent that is recorded in the successors of `at`.
    way: StatePlace,
    /// The step from `at` that is wrong; without one the state itself is.
    step: Option<Taken>,
    verdict: Verdict,
}

/// The working memory of one task of the first part.
struct Worker {
    shard: usize,
    state: GlobalState,
    next: GlobalState,
    moves: Vec<Move>,
    body: Vec<u8>,
    buckets: Vec<Vec<u8>>,
    /// The buckets of the successors of the present state, each with its length before, so that they can be taken back.
    staged: Vec<(usize, usize)>,
    findings: Vec<Finding>,
    /// The states that need a step which the table does not know, by offset.
    aside: Vec<u64>,
    edges: usize,
    /// The number of states without a successor in this round.
    ends: usize,
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
        let table = Table::new(bounds, sites);
        let first = table.first_state(Layout::of(table.info, bounds));
        Search::from(table, &first)
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
            back_edges: 0,
            first_end: None,
            last_end: None,
        };
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
        work.for_each(|((worker, cursor), &end)| {
            worker.clear();
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
        let back_edges = self.shards.par_iter_mut().enumerate().map(|(at, shard)| {
            workers.iter().map(|worker| empty(&worker.buckets[at], shard, level_ends[at])).sum::<usize>()
        });
        self.back_edges += back_edges.sum::<usize>();
        self.progress.edges += self.workers.iter().map(|worker| worker.edges).sum::<usize>();
    }

    pub(crate) fn measure(&mut self) {
        let store: usize = self.shards.iter().map(Shard::bytes).sum();
        let buckets = self.workers.iter().flat_map(|worker| &worker.buckets).map(Vec::capacity);
        self.progress.states = self.shards.iter().map(Shard::states).sum();
        self.progress.local_states = self.table.local_states();
        self.progress.memory = store + buckets.sum::<usize>() + self.table.bytes();
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
        let mut path = self.path_to(finding.at);
        path.extend(finding.step);
        Found::new(finding.verdict, path)
    }

    /// The path by which `place` was first reached, found by trying which step leads from each state to the next.
    pub(crate) fn path_to(&self, place: StatePlace) -> Vec<Taken> {
        let mut path = Vec::new();
        let mut child = place;
        loop {
            let (parent, body, _) = self.shards[child.shard()].record(child.offset());
            if parent == StatePlace::NOWHERE {
                path.reverse();
                return path;
            }
            path.push(self.step_between(parent, body));
            child = parent;
        }
    }

    fn step_between(&self, parent: StatePlace, after: &[u8]) -> Taken {
        let steps = self.steps_from(parent);
        let step = steps.into_iter().find(|(_, body)| body == after);
        step.expect("a state follows the one it was reached from").0
    }
}

impl Worker {
    fn new(shard: usize) -> Self {
        Worker {
            shard,
            state: GlobalState::default(),
            next: GlobalState::default(),
            moves: Vec::new(),
            body: Vec::new(),
            buckets: vec![Vec::new(); SHARDS],
            staged: Vec::new(),
            findings: Vec::new(),
            aside: Vec::new(),
            edges: 0,
            ends: 0,
        }
    }

    fn clear(&mut self) {
        self.buckets.iter_mut().for_each(Vec::clear);
        self.edges = 0;
    }

    /// Runs the sites' code for everything that can happen in this state.
    fn learn(&mut self, table: &mut Table, layout: Layout, body: &[u8]) {
        layout.decode(body, &mut self.state);
        table.moves_in_window(layout, &self.state, &mut self.moves);
        for &step in &self.moves {
            table.learn(layout, &self.state, step);
            if table.is_relative {
                table.learn_normal_forms(layout, &self.state, step);
            }
        }
    }

    /// Puts the successors of the state at `at` into the buckets, as reached from `way`, and notes what is wrong with
    /// it. If a step is unknown it does nothing at all.
    fn expand(
        &mut self,
        table: &Table,
        layout: Layout,
        at: StatePlace,
        way: StatePlace,
        body: &[u8],
    ) -> Result<(), Unknown> {
        layout.decode(body, &mut self.state);
        let continues = table.moves_in_window(layout, &self.state, &mut self.moves);
        if !table.knows(layout, &self.state, &self.moves) {
            return Err(Unknown);
        }
        let findings = self.findings.len();
        self.staged.clear();
        let (mut edges, mut index, mut branch) = (0, 0, 0);
        while index < self.moves.len() {
            let taken = Taken { step: self.moves[index], branch };
            let branches = match table.apply_relative(layout, &self.state, taken, &mut self.next) {
                Ok(Applied { wrong: None, branches }) => {
                    if table.is_within(&self.next.locals) {
                        edges += 1;
                        self.stage(layout, way);
                    }
                    branches
                }
                Ok(Applied { wrong: Some(wrong), branches }) => {
                    edges += 1;
                    let verdict = Verdict::Violated(wrong);
                    self.findings.push(Finding { at, way, step: Some(taken), verdict });
                    branches
                }
                Err(Unknown) => {
                    self.findings.truncate(findings);
                    self.take_back();
                    return Err(Unknown);
                }
            };
            branch += 1;
            if branch >= branches {
                (index, branch) = (index + 1, 0);
            }
        }
        self.edges += edges;
        let wrong = table.examine(layout, &self.state).map(Verdict::Violated);
        let wrong = wrong.or_else(|| if continues { None } else { judge_end(table, &self.state) });
        self.findings.extend(wrong.map(|verdict| Finding { at, way, step: None, verdict }));
        self.ends += usize::from(self.moves.is_empty());
        Ok(())
    }

    fn stage(&mut self, layout: Layout, parent: StatePlace) {
        self.body.clear();
        layout.encode(&self.next, &mut self.body);
        let hash = hash(&self.body);
        let bucket = shard_of(hash);
        let into = &mut self.buckets[bucket];
        self.staged.push((bucket, into.len()));
        Staged { hash, parent, body: &self.body }.write(into);
    }

    fn take_back(&mut self) {
        for &(bucket, length) in self.staged.iter().rev() {
            self.buckets[bucket].truncate(length);
        }
    }
}

/// The finding of a level to report: a state that is wrong goes before a step that is wrong, then the first one.
fn first_of(found: Option<Finding>, more: impl Iterator<Item = Finding>) -> Option<Finding> {
    found.into_iter().chain(more).min_by_key(|finding| (finding.step.is_some(), finding.at))
}

/// Judges a state in which nothing happens by itself.
pub(crate) fn judge_end(table: &Table, state: &GlobalState) -> Option<Verdict> {
    let down = &table.faults(state.faults).down;
    let waits = |site: SiteId| table.facts(state.locals[site.index()]).phase == Phase::Waiting;
    let sites = || SiteId::all(state.locals.len());
    let can_be_served = |site: SiteId| {
        let site = table.facts(state.locals[site.index()]).site;
        table.bounds.survivors || table.sites().survives(site, down)
    };
    let waiting: Vec<SiteId> = sites().filter(|&site| waits(site) && can_be_served(site)).collect();
    let properties = table.bounds.properties;
    if !waiting.is_empty() && properties.contains(Property::Deadlock) {
        return Some(Verdict::Deadlock(waiting));
    }
    let some_wait = sites().any(waits);
    let is_quiet = |site: SiteId| {
        let facts = table.facts(state.locals[site.index()]);
        !facts.up || facts.is_quiet
    };
    let quiet = state.packets.is_empty() && sites().all(is_quiet);
    (!some_wait && !quiet && properties.contains(Property::Quiet)).then_some(Verdict::NotQuiet)
}
