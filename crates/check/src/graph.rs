//! The whole state graph with numbered states, built from the store when levels alone do not answer a question.
//!
//! Without a step back to the same or an earlier level the graph has no cycle, and every path to a state is equally
//! long: then only the bypass bound needs the graph. States have numbers in the order of their levels, so that most steps lead a little
//! further, and what walks through the graph walks through memory.

use meshlock_protocol::Mode;
use rayon::prelude::*;

use crate::moves::{Move, Taken};
use crate::search::Search;
use crate::state::GlobalState;
use crate::steps::{StepLabel, StepLog};
use crate::store::{SHARDS, Shard, StatePlace, hash, shard_of};

/// All states and the targets of their steps.
pub(crate) struct Graph {
    /// The place of each state in the store.
    pub(crate) places: Vec<StatePlace>,
    numbers: StateNumbers,
    /// Where the steps of each state begin in `targets`.
    starts: Vec<usize>,
    /// The target of each step, and what happens in it.
    targets: Vec<u32>,
    labels: Vec<StepLabel>,
    /// For each state, who waits.
    waiting: Vec<WaitingSites>,
    /// All states, each before those that its steps lead to, if there is no cycle.
    pub(crate) sorted: Option<Vec<u32>>,
}

/// The sites that wait in a state, one bit each.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct WaitingSites {
    pub(crate) all: u32,
    /// Those of them of which no message is in flight.
    pub(crate) heard: u32,
    /// The mode that each site waits for or has, two bits each: none are set if it is exclusive.
    modes: u64,
}

/// What the graph keeps of one state: who waits, and the target of each step with what happens in it.
struct Expanded {
    waiting: WaitingSites,
    steps: Vec<(u32, StepLabel)>,
}

/// The most sites of which a graph can say which of them wait.
pub(crate) const MAX_SITES: usize = 32;

/// Number of states that are expanded in parallel.
const BLOCK: usize = 1 << 14;

/// The numbers of the states by their places: no record of the store is shorter than the bytes for which there is one number.
struct StateNumbers(Vec<Vec<u32>>);

impl StateNumbers {
    fn at(&self, place: StatePlace) -> u32 {
        self.0[place.shard()][StateNumbers::slot(place.offset())]
    }

    fn slot(offset: u64) -> usize {
        usize::try_from(offset).expect("a 64-bit machine") / Shard::SHORTEST
    }
}

impl Graph {
    /// The memory that the graph of `search` would take beside the store, in bytes.
    pub(crate) fn bytes(search: &Search) -> usize {
        let records: usize = search.shards.iter().map(|shard| StateNumbers::slot(shard.end())).sum();
        search.progress.states * 40 + search.progress.edges * 5 + records * 4
    }

    pub(crate) fn of(search: &Search, log: Option<&StepLog>) -> Self {
        let (places, numbers) = number(search);
        let (states, edges) = (places.len(), search.progress.edges);
        let mut graph = Graph {
            places,
            numbers,
            starts: Vec::with_capacity(states + 1),
            targets: Vec::with_capacity(edges),
            labels: Vec::with_capacity(edges),
            waiting: Vec::with_capacity(states),
            sorted: None,
        };
        graph.starts.push(0);
        match log {
            Some(log) => graph.read(log),
            None => graph.expand_all(search),
        }
        let is_by_level = search.back_edges == 0;
        graph.sorted = if is_by_level { Some(graph.every().collect()) } else { graph.sort() };
        graph
    }

    /// Takes the steps that the search has kept.
    fn read(&mut self, log: &StepLog) {
        let mut next = [0; SHARDS];
        for at in 0..self.places.len() {
            let shard = self.places[at].shard();
            let steps = log.shard(shard);
            self.waiting.push(steps.waiting[next[shard]]);
            for (target, label) in steps.of(next[shard]) {
                self.targets.push(self.numbers.at(target));
                self.labels.push(label);
            }
            self.starts.push(self.targets.len());
            next[shard] += 1;
        }
    }

    /// Works all steps out again.
    fn expand_all(&mut self, search: &Search) {
        for at in (0..self.places.len()).step_by(BLOCK) {
            let block = &self.places[at..self.places.len().min(at + BLOCK)];
            let expanded: Vec<Expanded> =
                block.par_iter().with_min_len(256).map(|&place| self.expand(search, place)).collect();
            for Expanded { waiting, steps } in expanded {
                self.waiting.push(waiting);
                self.targets.extend(steps.iter().map(|&(target, _)| target));
                self.labels.extend(steps.iter().map(|&(_, label)| label));
                self.starts.push(self.targets.len());
            }
        }
    }

    fn expand(&self, search: &Search, place: StatePlace) -> Expanded {
        let state = search.state_at(place);
        let target = |(taken, body): (Taken, Vec<u8>)| {
            let delivers = matches!(taken.step, Move::Deliver(_));
            let label = StepLabel::new(delivers, search.entering(&state, taken));
            Some((self.number_of(search, &body)?, label))
        };
        let steps = search.steps_from(place).into_iter().filter_map(target).collect();
        Expanded { waiting: WaitingSites::of(search, &state), steps }
    }

    /// The number of the state that is encoded as `body`.
    pub(crate) fn number_of(&self, search: &Search, body: &[u8]) -> Option<u32> {
        let hash = hash(body);
        let shard = shard_of(hash);
        let offset = search.shards[shard].offset_of(hash, body)?;
        Some(self.numbers.at(StatePlace::new(shard, offset)))
    }

    pub(crate) fn states(&self) -> usize {
        self.places.len()
    }

    /// The numbers of all states.
    pub(crate) fn every(&self) -> impl Iterator<Item = u32> + use<> {
        0..u32::try_from(self.states()).expect("a graph's states have numbers")
    }

    /// Who waits in `state`.
    pub(crate) fn waiting(&self, state: u32) -> WaitingSites {
        self.waiting[state as usize]
    }

    /// The numbers of the steps of `state`.
    pub(crate) fn edges(&self, state: u32) -> std::ops::Range<usize> {
        self.starts[state as usize]..self.starts[state as usize + 1]
    }

    /// The target of a step.
    pub(crate) fn target(&self, edge: usize) -> u32 {
        self.targets[edge]
    }

    /// The site that enters by a step.
    pub(crate) fn entering(&self, edge: usize) -> Option<usize> {
        self.labels[edge].entering()
    }

    /// Whether another site than `site`, which waits in `state`, enters by a step in a mode that the wait excludes.
    pub(crate) fn passes(&self, state: u32, edge: usize, site: usize) -> bool {
        let is_passed = |entering| self.is_passed(state, self.target(edge), entering, site);
        self.entering(edge).is_some_and(is_passed)
    }

    /// The same of the step from `state` to `target` by which `entering` enters.
    pub(crate) fn is_passed(&self, state: u32, target: u32, entering: usize, site: usize) -> bool {
        entering != site && !self.waiting(state).mode(site).admits(self.waiting(target).mode(entering))
    }

    /// The targets of the steps of `state`.
    pub(crate) fn successors(&self, state: u32) -> impl Iterator<Item = u32> + '_ {
        self.targets[self.edges(state)].iter().copied()
    }

    /// The states in an order in which each comes before those that its steps lead to, if there is no cycle.
    fn sort(&self) -> Option<Vec<u32>> {
        let mut predecessors = vec![0_u32; self.states()];
        for &target in &self.targets {
            predecessors[target as usize] += 1;
        }
        let mut sorted = Vec::with_capacity(self.states());
        sorted.extend(self.every().filter(|&state| predecessors[state as usize] == 0));
        let mut done = 0;
        while let Some(&state) = sorted.get(done) {
            done += 1;
            for target in self.successors(state) {
                predecessors[target as usize] -= 1;
                if predecessors[target as usize] == 0 {
                    sorted.push(target);
                }
            }
        }
        (done == self.states()).then_some(sorted)
    }

    /// The fewest and the most messages that a run from the first state to one without a step delivers. `None` if there
    /// is a cycle.
    pub(crate) fn costs(&self, first: u32) -> Option<(usize, usize)> {
        let mut costs: Vec<Option<(u32, u32)>> = vec![None; self.states()];
        costs[first as usize] = Some((0, 0));
        let mut ends = None;
        for &state in self.sorted.as_ref()? {
            let (least, most) = costs[state as usize].expect("every state is reached from the first one");
            let edges = self.edges(state);
            if edges.is_empty() {
                ends = Some(widen(ends, (least, most)));
            }
            for edge in edges {
                let (target, added) = (self.target(edge) as usize, u32::from(self.labels[edge].delivers()));
                costs[target] = Some(widen(costs[target], (least + added, most + added)));
            }
        }
        let (least, most) = ends?;
        Some((least as usize, most as usize))
    }
}

fn widen(known: Option<(u32, u32)>, (least, most): (u32, u32)) -> (u32, u32) {
    known.map_or((least, most), |(low, high)| (low.min(least), high.max(most)))
}

/// StateNumbers the states level by level, and in each in the order of their places.
fn number(search: &Search) -> (Vec<StatePlace>, StateNumbers) {
    let mut places = Vec::with_capacity(search.progress.states);
    let mut numbers: Vec<Vec<u32>> =
        search.shards.iter().map(|shard| vec![0; StateNumbers::slot(shard.end()) + 1]).collect();
    for level in 0..search.level_starts.len() {
        let ends = search.level_starts.get(level + 1).unwrap_or(&search.level_ends);
        for (at, shard) in search.shards.iter().enumerate() {
            let mut offset = search.level_starts[level][at];
            while offset < ends[at] {
                let start = shard.settle(offset);
                numbers[at][StateNumbers::slot(start)] =
                    u32::try_from(places.len()).expect("fewer than 2^32 states");
                places.push(StatePlace::new(at, start));
                offset = shard.record(start).2;
            }
        }
    }
    assert_eq!(places.len(), search.progress.states, "every state is on one level");
    (places, StateNumbers(numbers))
}

impl WaitingSites {
    /// Notes the mode that a site waits for or has.
    fn note_mode(&mut self, site: usize, mode: Mode) {
        let bits = match mode {
            Mode::Exclusive => return,
            Mode::Upgradeable => 1,
            Mode::Shared => 2,
        };
        self.modes |= bits << (2 * site);
    }

    fn mode(self, site: usize) -> Mode {
        match self.modes >> (2 * site) & 3 {
            0 => Mode::Exclusive,
            1 => Mode::Upgradeable,
            _ => Mode::Shared,
        }
    }

    pub(crate) fn of(search: &Search, state: &GlobalState) -> Self {
        search.table.waiting(search.layout, state)
    }
}

impl crate::table::Table {
    /// Who waits in `state`.
    pub(crate) fn waiting(&self, layout: crate::state::Layout, state: &GlobalState) -> WaitingSites {
        let mut waiting = WaitingSites::default();
        for (at, &local) in state.locals.iter().enumerate().take(MAX_SITES) {
            let facts = self.facts(local);
            waiting.all |= u32::from(facts.waits()) << at;
            waiting.note_mode(at, facts.wanted());
        }
        let senders = state.packets.iter().map(|&code| self.label(layout.split(code).0).from);
        let unheard =
            senders.filter(|from| from.index() < MAX_SITES).fold(0, |bits, from| bits | 1 << from.index());
        waiting.heard = waiting.all & !unheard;
        waiting
    }
}

impl Search {
    /// Decodes the state at `place`.
    pub(crate) fn state_at(&self, place: StatePlace) -> GlobalState {
        let mut state = GlobalState::default();
        self.layout.decode(self.shards[place.shard()].record(place.offset()).1, &mut state);
        state
    }

    /// The site that enters by `step`.
    pub(crate) fn entering(&self, state: &GlobalState, Taken { step, branch }: Taken) -> Option<usize> {
        let (site, input) = self.table.input(self.layout, state, step)?;
        let taken = self.table.step(state.locals[site.index()], input, branch)?;
        taken.outcome?.entry.map(|_| site.index())
    }

    /// The steps of a state that was expanded, each with the encoding of its target.
    pub(crate) fn steps_from(&self, place: StatePlace) -> Vec<(Taken, Vec<u8>)> {
        let (state, mut next, mut moves) = (self.state_at(place), GlobalState::default(), Vec::new());
        self.table.moves_in_window(self.layout, &state, &mut moves);
        let mut steps = Vec::with_capacity(moves.len());
        for step in moves {
            let known = self.table.apply_all(self.layout, &state, step, &mut next, |taken, wrong, next| {
                assert!(wrong.is_none(), "this state was expanded before, without a violation");
                let mut body = Vec::new();
                self.layout.encode(next, &mut body);
                steps.push((taken, body));
            });
            known.expect("this state was expanded before");
        }
        steps
    }
}
