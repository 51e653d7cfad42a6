//! The steps of every state, kept as the search takes them, so that the graph need not work them out again.
//!
//! The search looks each step's target up in any case. What it finds is kept by the shard of the state that the step leaves, in the order
//! of the states there: eight bytes for the target and one for what happens. That is more than the states take, so it is kept only while
//! the graph is likely to be built, and is the first to go when memory is short; then the graph works the steps out again.

use crate::graph::WaitingSites;
use crate::store::{SHARDS, StatePlace};

/// What happens in a step, in one byte.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct StepLabel(u8);

/// The bit of a label that says that the step delivers a message.
const DELIVERS: u8 = 1 << 7;

impl StepLabel {
    /// A step by which this site enters, if one does.
    pub(crate) fn new(delivers: bool, entering: Option<usize>) -> Self {
        let entering = entering.map_or(0, |site| u8::try_from(site + 1).unwrap_or(DELIVERS - 1));
        StepLabel(entering.min(DELIVERS - 1) | if delivers { DELIVERS } else { 0 })
    }

    /// Whether the step delivers a message.
    pub(crate) fn delivers(self) -> bool {
        self.0 & DELIVERS != 0
    }

    /// The site that enters by the step.
    pub(crate) fn entering(self) -> Option<usize> {
        usize::from(self.0 & !DELIVERS).checked_sub(1)
    }
}

/// The states that one task expands in one round, with their steps. Where a step leads is not known yet, only to which shard.
#[derive(Default)]
pub(crate) struct Trail {
    states: Vec<Expansion>,
    steps: Vec<(u8, StepLabel)>,
}

/// A state that was expanded: where it is in its shard, and where its steps begin.
#[derive(Clone, Copy, Debug)]
struct Expansion {
    offset: u64,
    waiting: WaitingSites,
    from: usize,
}

impl Trail {
    pub(crate) fn clear(&mut self) {
        self.states.clear();
        self.steps.clear();
    }

    /// Adds a step of the present state, whose target goes to this shard.
    pub(crate) fn step(&mut self, shard: usize, label: StepLabel) {
        self.steps.push((u8::try_from(shard).expect("a few shards"), label));
    }

    /// The number of steps: where those of the next state begin.
    pub(crate) fn len(&self) -> usize {
        self.steps.len()
    }

    /// Ends the present state, whose steps begin here.
    pub(crate) fn end(&mut self, from: usize, offset: u64, waiting: WaitingSites) {
        self.states.push(Expansion { offset, waiting, from });
    }

    /// Drops the steps of the present state.
    pub(crate) fn take_back(&mut self, from: usize) {
        self.steps.truncate(from);
    }
}

/// The steps of the states of one shard, in the order of the states.
#[derive(Default)]
pub(crate) struct ShardSteps {
    pub(crate) waiting: Vec<WaitingSites>,
    /// Where the steps of each state end.
    ends: Vec<usize>,
    targets: Vec<StatePlace>,
    labels: Vec<StepLabel>,
}

impl ShardSteps {
    /// The steps of a state, by its position among those of the shard.
    pub(crate) fn of(&self, state: usize) -> impl Iterator<Item = (StatePlace, StepLabel)> + '_ {
        let from = state.checked_sub(1).map_or(0, |before| self.ends[before]);
        let steps = from..self.ends[state];
        self.targets[steps.clone()].iter().copied().zip(self.labels[steps].iter().copied())
    }

    fn bytes(&self) -> usize {
        self.waiting.capacity() * size_of::<WaitingSites>()
            + self.ends.capacity() * size_of::<usize>()
            + self.targets.capacity() * size_of::<StatePlace>()
            + self.labels.capacity()
    }

    /// Adds what a task has expanded. `landed` says for each shard where the states that the task sent there are, in turn.
    fn append(&mut self, trail: &Trail, landed: [&[u64]; SHARDS]) {
        let mut next = landed.map(|offsets| offsets.iter());
        let targets = trail.steps.iter().map(|&(shard, _)| {
            let shard = usize::from(shard);
            StatePlace::new(shard, *next[shard].next().expect("every step has landed"))
        });
        let targets: Vec<StatePlace> = targets.collect();
        let end = |at: usize| trail.states.get(at + 1).map_or(targets.len(), |next| next.from);
        // A state that was set aside was expanded after those behind it.
        let mut order: Vec<usize> = (0..trail.states.len()).collect();
        order.sort_by_key(|&at| trail.states[at].offset);
        for at in order {
            let Expansion { waiting, from, .. } = trail.states[at];
            self.waiting.push(waiting);
            self.targets.extend_from_slice(&targets[from..end(at)]);
            self.labels.extend(trail.steps[from..end(at)].iter().map(|&(_, label)| label));
            self.ends.push(self.targets.len());
        }
    }
}

/// The steps of all states that were expanded.
pub(crate) struct StepLog {
    shards: Vec<ShardSteps>,
    /// By shard and by the task that sent them: where the states of this round are.
    pub(crate) landed: Vec<Vec<Vec<u64>>>,
}

impl StepLog {
    pub(crate) fn new() -> Self {
        StepLog {
            shards: (0..SHARDS).map(|_| ShardSteps::default()).collect(),
            landed: vec![vec![Vec::new(); SHARDS]; SHARDS],
        }
    }

    /// The steps of the states of this shard.
    pub(crate) fn shard(&self, shard: usize) -> &ShardSteps {
        &self.shards[shard]
    }

    /// Adds a round: what each task has expanded, now that it is known where the steps lead.
    pub(crate) fn append<'a>(&mut self, trails: impl Iterator<Item = &'a Trail>) {
        for (task, (steps, trail)) in self.shards.iter_mut().zip(trails).enumerate() {
            steps.append(trail, std::array::from_fn(|shard| &self.landed[shard][task][..]));
        }
    }

    pub(crate) fn bytes(&self) -> usize {
        self.shards.iter().map(ShardSteps::bytes).sum()
    }
}
