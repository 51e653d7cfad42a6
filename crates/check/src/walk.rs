//! Random walks: runs that are drawn, where there are too many to explore them all.
//!
//! A walk takes the steps that the search would, drawn evenly by a seed, with every choice that a paper leaves open drawn as well, and
//! judges every state as the search does. What it finds is a violation; what it does not find shows nothing but that these walks
//! did not meet one.

use meshlock_protocol::world::Violation;
use meshlock_protocol::{Chooser, PlanError, Spec};

use crate::apply::Applied;
use crate::moves::{Move, Taken};
use crate::path::Step;
use crate::property::Verdict;
use crate::search::Search;
use crate::state::GlobalState;
use crate::worker::judge_end;
use crate::{Bounds, sites_of};

/// How many walks to make.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Walks {
    pub count: u32,
    /// The same seed gives the same walks.
    pub seed: u64,
}

/// A walk with more steps than this is given up: an algorithm with timers may never come to an end.
const MAX_STEPS: usize = 2000;

/// What walks have met.
#[derive(Clone, Debug)]
pub struct Walked {
    /// The first violation of the shortest of the walks that met one.
    pub found: Option<(Verdict, Vec<Step>)>,
    /// The number of walks that were made.
    pub walks: u32,
    /// The number of their steps, all together.
    pub steps: usize,
}

/// Makes random walks within `bounds`, and goes on after a violation, to find a shorter way to one.
pub fn walk(spec: &Spec, bounds: &Bounds, walks: Walks) -> Result<Walked, PlanError> {
    let mut walker = Walker {
        search: Search::new(bounds, sites_of(spec, bounds)?),
        draw: Chooser::seeded(walks.seed),
        path: Vec::new(),
        steps: 0,
    };
    let mut found: Option<(Verdict, Vec<Taken>)> = None;
    let mut made = 0;
    while made < walks.count && !walker.search.table.is_over(bounds.max_memory) {
        made += 1;
        let limit = found.as_ref().map_or(MAX_STEPS, |(_, path)| path.len().saturating_sub(1));
        if let Some(verdict) = walker.once(limit) {
            found = Some((verdict, walker.path.clone()));
        }
    }
    let found = found.map(|(verdict, path)| (verdict, walker.search.translate(&path)));
    Ok(Walked { found, walks: made, steps: walker.steps })
}

struct Walker {
    search: Search,
    draw: Chooser,
    /// The steps of the present walk.
    path: Vec<Taken>,
    /// The number of steps of all walks.
    steps: usize,
}

impl Walker {
    /// Makes a walk of at most this many steps. Returns the violation that it has met.
    fn once(&mut self, limit: usize) -> Option<Verdict> {
        let layout = self.search.layout;
        let (mut state, mut next) = (self.search.table.first_state(layout), GlobalState::default());
        let mut moves = Vec::new();
        self.path.clear();
        loop {
            let table = &mut self.search.table;
            let continues = table.moves(layout, &state, &mut moves);
            if let Some(wrong) = table.examine(layout, &state) {
                return Some(Verdict::Violated(wrong));
            }
            if !continues && let Some(verdict) = judge_end(table, &state) {
                return Some(verdict);
            }
            if moves.is_empty() || self.path.len() >= limit {
                return None;
            }
            let step = moves[below(&mut self.draw, moves.len())];
            table.learn(layout, &state, step);
            let wrong = self.take(step, &state, &mut next);
            if wrong.is_some() {
                return wrong.map(Verdict::Violated);
            }
            std::mem::swap(&mut state, &mut next);
        }
    }

    /// Makes `next` the state after `step`, with its choices drawn, and returns what is wrong with that step.
    fn take(&mut self, step: Move, state: &GlobalState, next: &mut GlobalState) -> Option<Violation> {
        let (table, layout) = (&self.search.table, self.search.layout);
        let mut apply = |branch| {
            let applied = table.apply(layout, state, Taken { step, branch }, next);
            applied.expect("all that was unknown was learnt")
        };
        let Applied { mut wrong, branches, .. } = apply(0);
        let branch = self.draw.answer(branches);
        if branch > 0 {
            wrong = apply(branch).wrong;
        }
        self.path.push(Taken { step, branch });
        self.steps += 1;
        wrong
    }
}

fn below(draw: &mut Chooser, bound: usize) -> usize {
    draw.answer(u32::try_from(bound).expect("a few moves")) as usize
}
