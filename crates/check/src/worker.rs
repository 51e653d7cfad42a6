//! The first part of a round for one shard: the successors of its states, and what is wrong with them.

use meshlock_protocol::SiteId;
use smallvec::{SmallVec, smallvec};

use crate::apply::{Applied, Unknown};
use crate::bucket::Staged;
use crate::moves::{Move, Taken};
use crate::property::{Property, Verdict};
use crate::reduce::{Ahead, Lookahead};
use crate::state::{GlobalState, Layout};
use crate::steps::{StepLabel, Trail};
use crate::store::{SHARDS, StatePlace, hash, shard_of};
use crate::symmetry::Lookalikes;
use crate::table::Table;

/// A violation, and where it was found.
#[derive(Clone, Debug)]
pub(crate) struct Finding {
    pub(crate) at: StatePlace,
    /// The parent that is recorded in the successors of `at`.
    pub(crate) way: StatePlace,
    /// The steps from `at` of which the last one is wrong, or leads to a state that is; without any, the state at `at` itself is.
    pub(crate) steps: SmallVec<[Taken; 2]>,
    pub(crate) verdict: Verdict,
}

/// The working memory of one task of the first part.
pub(crate) struct Worker {
    pub(crate) shard: usize,
    state: GlobalState,
    next: GlobalState,
    moves: Vec<Move>,
    body: Vec<u8>,
    pub(crate) buckets: Vec<Vec<u8>>,
    /// The buckets of the successors of the present state, each with its length before, so that they can be taken back.
    staged: Vec<(usize, usize)>,
    /// The steps of this round, if they are kept.
    pub(crate) trail: Trail,
    pub(crate) keeps_steps: bool,
    pub(crate) findings: Vec<Finding>,
    /// The states that need a step which the table does not know, by offset.
    pub(crate) aside: Vec<u64>,
    pub(crate) edges: usize,
    lookahead: Lookahead,
    lookalikes: Lookalikes,
    /// In a reduced search, the number of states of this round that were looked at without being kept.
    pub(crate) passed: usize,
    /// The number of states without a successor in this round.
    pub(crate) ends: usize,
}

impl Worker {
    pub(crate) fn new(shard: usize) -> Self {
        Worker {
            shard,
            state: GlobalState::default(),
            next: GlobalState::default(),
            moves: Vec::new(),
            body: Vec::new(),
            buckets: vec![Vec::new(); SHARDS],
            staged: Vec::new(),
            trail: Trail::default(),
            keeps_steps: false,
            findings: Vec::new(),
            aside: Vec::new(),
            edges: 0,
            lookahead: Lookahead::default(),
            lookalikes: Lookalikes::default(),
            passed: 0,
            ends: 0,
        }
    }

    /// One that works out by itself what it needs, as far as the table knows the steps.
    pub(crate) fn that_looks_itself() -> Self {
        Worker { lookahead: Lookahead::that_looks_itself(), ..Worker::new(0) }
    }

    pub(crate) fn clear(&mut self) {
        self.buckets.iter_mut().for_each(Vec::clear);
        self.trail.clear();
        (self.edges, self.passed) = (0, 0);
    }

    /// Runs the sites' code for everything that can happen in this state.
    pub(crate) fn learn(&mut self, table: &mut Table, layout: Layout, body: &[u8]) {
        layout.decode(body, &mut self.state);
        if table.bounds.reduces {
            self.lookahead.learn(table, layout, &self.state);
            return;
        }
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
    pub(crate) fn expand(
        &mut self,
        table: &Table,
        layout: Layout,
        at: StatePlace,
        way: StatePlace,
        body: &[u8],
    ) -> Result<(), Unknown> {
        layout.decode(body, &mut self.state);
        if table.bounds.reduces {
            return self.expand_by_bursts(table, layout, at, way);
        }
        let continues = table.moves_in_window(layout, &self.state, &mut self.moves);
        if !table.knows(layout, &self.state, &self.moves) {
            return Err(Unknown);
        }
        let findings = self.findings.len();
        self.staged.clear();
        let trail = self.trail.len();
        let (mut edges, mut index, mut branch) = (0, 0, 0);
        while index < self.moves.len() {
            let taken = Taken { step: self.moves[index], branch };
            let branches = match table.apply_relative(layout, &self.state, taken, &mut self.next) {
                Ok(Applied { wrong: None, entering, branches }) => {
                    if table.is_within(&self.next.locals) {
                        edges += 1;
                        let bucket = self.stage(table, layout, way);
                        if self.keeps_steps {
                            let delivers = matches!(taken.step, Move::Deliver(_));
                            let label = StepLabel::new(delivers, entering.map(SiteId::index));
                            self.trail.step(bucket, label);
                        }
                    }
                    branches
                }
                Ok(Applied { wrong: Some(wrong), branches, .. }) => {
                    edges += 1;
                    let verdict = Verdict::Violated(wrong);
                    self.findings.push(Finding { at, way, steps: smallvec![taken], verdict });
                    branches
                }
                Err(Unknown) => {
                    self.findings.truncate(findings);
                    self.take_back();
                    self.trail.take_back(trail);
                    return Err(Unknown);
                }
            };
            branch += 1;
            if branch >= branches {
                (index, branch) = (index + 1, 0);
            }
        }
        if self.keeps_steps {
            self.trail.end(trail, at.offset(), table.waiting(layout, &self.state));
        }
        self.edges += edges;
        let wrong = table.examine(layout, &self.state).map(Verdict::Violated);
        let wrong = wrong.or_else(|| if continues { None } else { judge_end(table, &self.state) });
        self.findings.extend(wrong.map(|verdict| Finding { at, way, steps: SmallVec::new(), verdict }));
        self.ends += usize::from(self.moves.is_empty());
        Ok(())
    }

    /// The same in a reduced search.
    fn expand_by_bursts(
        &mut self,
        table: &Table,
        layout: Layout,
        at: StatePlace,
        way: StatePlace,
    ) -> Result<(), Unknown> {
        let (mut lookahead, state) = (std::mem::take(&mut self.lookahead), std::mem::take(&mut self.state));
        let (findings, mut edges) = (self.findings.len(), 0);
        self.staged.clear();
        lookahead.run(table, layout, &state, &mut |steps, seen| {
            let steps = || steps.taken().into();
            match seen {
                Ahead::Burst { applied: Applied { wrong: None, .. }, next } => {
                    if table.is_within(&next.locals) {
                        edges += 1;
                        self.next.copy(next);
                        self.stage(table, layout, way);
                    }
                }
                Ahead::Burst { applied: Applied { wrong: Some(wrong), .. }, .. } => {
                    edges += 1;
                    let verdict = Verdict::Violated(wrong);
                    self.findings.push(Finding { at, way, steps: steps(), verdict });
                }
                Ahead::End(end) => {
                    let wrong = judge_end(table, end);
                    let finding = |verdict| Finding { at, way, steps: steps(), verdict };
                    self.findings.extend(wrong.map(finding));
                }
            }
        });
        let is_known = !lookahead.is_unknown;
        if is_known {
            self.edges += edges;
            self.passed += lookahead.passed;
            let wrong = table.examine(layout, &state).map(Verdict::Violated);
            self.findings.extend(wrong.map(|verdict| Finding { at, way, steps: SmallVec::new(), verdict }));
        } else {
            self.findings.truncate(findings);
            self.take_back();
        }
        (self.lookahead, self.state) = (lookahead, state);
        if is_known { Ok(()) } else { Err(Unknown) }
    }

    /// Puts the next state, or the one that stands for it, into its bucket, and returns which one that is.
    fn stage(&mut self, table: &Table, layout: Layout, parent: StatePlace) -> usize {
        table.exchange_sites(layout, &mut self.next, &mut self.lookalikes);
        self.body.clear();
        layout.encode(&self.next, &mut self.body);
        let hash = hash(&self.body);
        let bucket = shard_of(hash);
        let into = &mut self.buckets[bucket];
        self.staged.push((bucket, into.len()));
        Staged { hash, parent, body: &self.body }.write(into);
        bucket
    }

    fn take_back(&mut self) {
        for &(bucket, length) in self.staged.iter().rev() {
            self.buckets[bucket].truncate(length);
        }
    }
}

/// Judges a state in which nothing happens by itself.
pub(crate) fn judge_end(table: &Table, state: &GlobalState) -> Option<Verdict> {
    let down = &table.faults(state.faults).down;
    let waits = |site: SiteId| table.facts(state.locals[site.index()]).waits();
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
