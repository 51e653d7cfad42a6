//! The whole state graph with numbered states, built from the store when levels alone do not answer a question.
//!
//! Without a step back to the same or an earlier level the graph has no cycle, and every path to a state is equally
//! long: then only the bypass bound needs the graph. Otherwise each state gets a number, its steps are worked out again, and their
//! targets are kept.

use meshlock_protocol::Phase;
use rayon::prelude::*;

use crate::moves::{Move, Taken};
use crate::search::Search;
use crate::state::GlobalState;
use crate::store::{Shard, StatePlace, hash, shard_of};

/// All states and the targets of their steps.
pub(crate) struct Graph {
    /// The place of each state in the store.
    pub(crate) places: Vec<StatePlace>,
    /// By shard and slot: the number of the state there.
    numbers: Vec<Vec<u32>>,
    /// Where the steps of each state begin in `targets`.
    starts: Vec<usize>,
    /// The target of each step; the top bit says that the step delivers a message.
    targets: Vec<u32>,
    /// For each step, the site that enters by it, counted from 1, or 0.
    entries: Vec<u8>,
    /// For each state, who waits.
    waiting: Vec<WaitingSites>,
}

/// The sites that wait in a state, one bit each.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct WaitingSites {
    pub(crate) all: u32,
    /// Those of them of which no message is in flight.
    pub(crate) heard: u32,
}

/// What the graph keeps of one state.
struct Expanded {
    waiting: WaitingSites,
    /// The target of each step, and who enters by it.
    steps: Vec<(u32, u8)>,
}

/// The most sites of which a graph can say which of them wait.
pub(crate) const MAX_SITES: usize = 32;

/// Number of states that are expanded in parallel.
const BLOCK: usize = 1 << 14;

/// The bit of a target that says that the step delivers a message.
const DELIVERS: u32 = 1 << 31;

impl Graph {
    /// The memory that the graph of `search` would take beside the store, in bytes.
    pub(crate) fn bytes(search: &Search) -> usize {
        let slots: usize = search.shards.iter().map(Shard::slots).sum();
        search.progress.states * 32 + search.progress.edges * 5 + slots * 4
    }

    pub(crate) fn of(search: &Search) -> Self {
        let (places, numbers) = number(search);
        let (targets, entries, waiting) = (Vec::new(), Vec::new(), Vec::with_capacity(places.len()));
        let mut graph = Graph { places, numbers, starts: vec![0], targets, entries, waiting };
        for block in graph.places.chunks(BLOCK).map(<[StatePlace]>::to_vec).collect::<Vec<_>>() {
            let expanded: Vec<Expanded> =
                block.par_iter().with_min_len(256).map(|&place| graph.expand(search, place)).collect();
            for Expanded { waiting, steps } in expanded {
                graph.waiting.push(waiting);
                graph.targets.extend(steps.iter().map(|&(target, _)| target));
                graph.entries.extend(steps.iter().map(|&(_, entry)| entry));
                graph.starts.push(graph.targets.len());
            }
        }
        graph
    }

    fn expand(&self, search: &Search, place: StatePlace) -> Expanded {
        let state = search.state_at(place);
        let target = |(taken, body): (Taken, Vec<u8>)| {
            let number = self.number_of(search, &body)?;
            let delivers = if matches!(taken.step, Move::Deliver(_)) { DELIVERS } else { 0 };
            Some((number | delivers, search.entry(&state, taken)))
        };
        let steps = search.steps_from(place).into_iter().filter_map(target).collect();
        Expanded { waiting: search.waiting(&state), steps }
    }

    /// The number of the state that is encoded as `body`.
    pub(crate) fn number_of(&self, search: &Search, body: &[u8]) -> Option<u32> {
        let hash = hash(body);
        let shard = shard_of(hash);
        let slot = search.shards[shard].find(hash, body).ok()?;
        Some(self.numbers[shard][slot])
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
        self.targets[edge] & !DELIVERS
    }

    /// The site that enters by a step.
    pub(crate) fn entry(&self, edge: usize) -> Option<usize> {
        usize::from(self.entries[edge]).checked_sub(1)
    }

    /// The targets of the steps of `state`.
    pub(crate) fn successors(&self, state: u32) -> impl Iterator<Item = u32> + '_ {
        self.steps(state).map(|(target, _)| target)
    }

    /// The targets of the steps of `state`, and whether each step delivers a message.
    pub(crate) fn steps(&self, state: u32) -> impl Iterator<Item = (u32, bool)> + '_ {
        self.targets[self.edges(state)].iter().map(|&target| (target & !DELIVERS, target & DELIVERS != 0))
    }

    /// The fewest and the most messages that a run from the first state to one without a step delivers. `None` if there
    /// is a cycle.
    pub(crate) fn costs(&self, first: u32) -> Option<(usize, usize)> {
        let mut predecessors = vec![0_u32; self.states()];
        for target in self.every().flat_map(|state| self.successors(state)) {
            predecessors[target as usize] += 1;
        }
        let mut costs: Vec<Option<(u32, u32)>> = vec![None; self.states()];
        costs[first as usize] = Some((0, 0));
        let mut free: Vec<u32> = self.every().filter(|&state| predecessors[state as usize] == 0).collect();
        let (mut done, mut ends) = (0, None);
        while let Some(state) = free.pop() {
            done += 1;
            let (least, most) = costs[state as usize].expect("every state is reached from the first one");
            if self.successors(state).next().is_none() {
                ends = Some(widen(ends, (least, most)));
            }
            for (target, delivers) in self.steps(state) {
                let added = u32::from(delivers);
                costs[target as usize] = Some(widen(costs[target as usize], (least + added, most + added)));
                predecessors[target as usize] -= 1;
                if predecessors[target as usize] == 0 {
                    free.push(target);
                }
            }
        }
        let (least, most) = ends?;
        (done == self.states()).then_some((least as usize, most as usize))
    }
}

fn widen(known: Option<(u32, u32)>, (least, most): (u32, u32)) -> (u32, u32) {
    known.map_or((least, most), |(low, high)| (low.min(least), high.max(most)))
}

/// Numbers the states in the order of their places.
fn number(search: &Search) -> (Vec<StatePlace>, Vec<Vec<u32>>) {
    let mut places = Vec::with_capacity(search.progress.states);
    let mut numbers: Vec<Vec<u32>> = search.shards.iter().map(|shard| vec![0; shard.slots()]).collect();
    for (at, shard) in search.shards.iter().enumerate() {
        let mut offset = Shard::FIRST;
        for _ in 0..shard.states() {
            offset = shard.settle(offset);
            let (_, body, next) = shard.record(offset);
            let slot = shard.find(hash(body), body).expect("a state of this shard");
            numbers[at][slot] = u32::try_from(places.len()).expect("fewer than 2^31 states");
            places.push(StatePlace::new(at, offset));
            offset = next;
        }
    }
    assert!(places.len() < DELIVERS as usize, "fewer than 2^31 states");
    (places, numbers)
}

impl Search {
    /// Decodes the state at `place`.
    pub(crate) fn state_at(&self, place: StatePlace) -> GlobalState {
        let mut state = GlobalState::default();
        self.layout.decode(self.shards[place.shard()].record(place.offset()).1, &mut state);
        state
    }

    fn waiting(&self, state: &GlobalState) -> WaitingSites {
        let mut waiting = WaitingSites::default();
        for (at, &local) in state.locals.iter().enumerate().take(MAX_SITES) {
            waiting.all |= u32::from(self.table.facts(local).phase == Phase::Waiting) << at;
        }
        let senders = state.packets.iter().map(|&code| self.table.label(self.layout.split(code).0).from);
        let unheard =
            senders.filter(|from| from.index() < MAX_SITES).fold(0, |bits, from| bits | 1 << from.index());
        waiting.heard = waiting.all & !unheard;
        waiting
    }

    /// The site that enters by `step`, counted from 1, or 0.
    pub(crate) fn entry(&self, state: &GlobalState, Taken { step, branch }: Taken) -> u8 {
        let Some((site, input)) = self.table.input(self.layout, state, step) else { return 0 };
        let taken = self.table.step(state.locals[site.index()], input, branch);
        let enters = taken.and_then(|taken| taken.outcome).is_some_and(|outcome| outcome.entry.is_some());
        if enters { u8::try_from(site.index() + 1).unwrap_or(u8::MAX) } else { 0 }
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
