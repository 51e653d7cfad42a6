//! No starvation, by cycles.
//!
//! A site starves if some schedule goes on for ever, keeps no message, timer or process waiting for ever, and never lets the site
//! in. Such a schedule ends up within a strongly connected part of the graph in which the site always waits. It is fair (weakly) if
//! each thing that must happen by itself, once it can happen and stays so, does happen: so the part must, for each such thing,
//! have a state where it cannot happen or a step by which it does. If a part fails this, so does every part of it; so looking at
//! the largest parts is enough.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use meshlock_protocol::world::Delivery;
use meshlock_protocol::{Phase, SiteId};

use crate::Algorithm;
use crate::graph::Graph;
use crate::moves::Move;
use crate::search::Search;
use crate::state::State;
use crate::table::Input;

/// A schedule that goes round for ever past a site that waits.
pub(crate) struct Lasso {
    /// Who waits.
    pub(crate) site: SiteId,
    /// How to get there.
    pub(crate) path: Vec<Move>,
    /// One way round.
    pub(crate) round: Vec<Move>,
}

/// Something that must happen once it can and stays so.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Duty {
    /// The next message of this FIFO channel, or this very message, arrives.
    Arrival(u32),
    Release(SiteId),
    Wake(SiteId),
    News {
        to: SiteId,
        about: SiteId,
    },
    Recovery(SiteId),
}

/// A fair schedule that starves a site, if there is one.
pub(crate) fn starved<A: Algorithm>(search: &Search<A>, graph: &Graph) -> Option<Lasso> {
    SiteId::all(search.table.bounds.cluster.sites).find_map(|site| {
        let waits: Vec<bool> = graph.places.iter().map(|&place| search.waits(place, site)).collect();
        let parts = strong_parts(graph, &waits);
        let fair = parts.into_iter().filter(|part| search.is_fair(graph, part));
        let part = fair.min_by_key(|part| part.first().map(|&state| graph.places[state as usize]))?;
        Some(search.lasso(graph, site, &part))
    })
}

impl<A: Algorithm> Search<A> {
    /// Whether `site` waits at `place` and can still be served.
    fn waits(&self, place: crate::store::Place, site: SiteId) -> bool {
        let state = self.state_at(place);
        let seat = state.seats[site.index()];
        let down = &self.table.weather(state.weather).down;
        self.table.facts(seat).phase == Phase::Waiting
            && (self.table.bounds.survivors || self.table.seat(seat).site.survives(down))
    }

    fn is_fair(&self, graph: &Graph, part: &BTreeSet<u32>) -> bool {
        let mut undone: Option<BTreeSet<Duty>> = None;
        let mut done = BTreeSet::new();
        for &number in part {
            let place = graph.places[number as usize];
            let state = self.state_at(place);
            let mut open = BTreeSet::new();
            for (step, body) in self.steps_from(place) {
                let Some(duty) = self.duty(&state, step) else { continue };
                open.insert(duty);
                let target = graph.number_of(self, &body);
                if target.is_some_and(|target| part.contains(&target)) {
                    done.insert(duty);
                }
            }
            undone = Some(undone.map_or_else(|| open.clone(), |before| &before & &open));
        }
        undone.is_none_or(|undone| undone.is_subset(&done))
    }

    fn duty(&self, state: &State, step: Move) -> Option<Duty> {
        match step {
            Move::Deliver(at) => {
                let packet = self.layout.split(state.packets[at]).0;
                Some(Duty::Arrival(match self.table.bounds.delivery {
                    Delivery::Fifo => self.table.label(packet).channel,
                    Delivery::Unordered => packet,
                }))
            }
            Move::Process(site, Input::Release) => Some(Duty::Release(site)),
            Move::Process(site, Input::Wake) => Some(Duty::Wake(site)),
            Move::Tell { to, about } => Some(Duty::News { to, about }),
            // Where survivors do not go on by themselves, a failed site does come back.
            Move::Recover(site) if !self.table.info.failures.crash => Some(Duty::Recovery(site)),
            Move::Process(..) | Move::Duplicate(_) | Move::Lose(_) | Move::Fail(_) | Move::Recover(_) => None,
        }
    }

    fn lasso(&self, graph: &Graph, site: SiteId, part: &BTreeSet<u32>) -> Lasso {
        let nearest = part.iter().map(|&state| (self.path_to(graph.places[state as usize]), state));
        let (path, start) = nearest.min_by_key(|(path, _)| path.len()).expect("a part has states");
        Lasso { site, path, round: self.way_round(graph, part, start) }
    }

    /// A shortest way from `start` back to it within `part`.
    fn way_round(&self, graph: &Graph, part: &BTreeSet<u32>, start: u32) -> Vec<Move> {
        let mut came: BTreeMap<u32, (u32, Move)> = BTreeMap::new();
        let mut queue = VecDeque::from([start]);
        while let Some(state) = queue.pop_front() {
            for (step, body) in self.steps_from(graph.places[state as usize]) {
                let target = graph.number_of(self, &body).filter(|target| part.contains(target));
                let Some(target) = target.filter(|target| !came.contains_key(target)) else { continue };
                came.insert(target, (state, step));
                queue.push_back(target);
            }
        }
        let (mut round, mut at) = (Vec::new(), start);
        loop {
            let &(before, step) = came.get(&at).expect("a strongly connected part leads back to its start");
            round.push(step);
            at = before;
            if at == start {
                round.reverse();
                return round;
            }
        }
    }
}

/// The strongly connected parts of the states in `among` that have a step within themselves: Tarjan's algorithm, without
/// recursion.
fn strong_parts(graph: &Graph, among: &[bool]) -> Vec<BTreeSet<u32>> {
    let mut tarjan =
        Tarjan { index: vec![0; graph.states()], low: vec![0; graph.states()], next: 1, ..Tarjan::default() };
    let every = 0..u32::try_from(graph.states()).expect("a graph's states have numbers");
    for root in every.filter(|&state| among[state as usize]) {
        if tarjan.index[root as usize] == 0 {
            tarjan.visit(graph, among, root);
        }
    }
    tarjan.parts
}

#[derive(Default)]
struct Tarjan {
    /// In which order a state was met, from 1; 0 is not yet.
    index: Vec<u32>,
    /// The earliest state on the stack that it leads to; `u32::MAX` once its part is known.
    low: Vec<u32>,
    next: u32,
    stack: Vec<u32>,
    parts: Vec<BTreeSet<u32>>,
}

impl Tarjan {
    fn visit(&mut self, graph: &Graph, among: &[bool], root: u32) {
        let inside = |state: u32| {
            graph.successors(state).filter(|&target| among[target as usize]).collect::<Vec<_>>().into_iter()
        };
        self.enter(root);
        let mut calls = vec![(root, inside(root))];
        while let Some((state, successors)) = calls.last_mut() {
            let state = *state;
            match successors.next() {
                Some(target) if self.index[target as usize] == 0 => {
                    self.enter(target);
                    calls.push((target, inside(target)));
                }
                Some(target) => {
                    if self.low[target as usize] != u32::MAX {
                        self.low[state as usize] = self.low[state as usize].min(self.index[target as usize]);
                    }
                }
                None => {
                    calls.pop();
                    let low = self.low[state as usize];
                    self.leave(graph, state);
                    if let Some(&(caller, _)) = calls.last() {
                        self.low[caller as usize] = self.low[caller as usize].min(low);
                    }
                }
            }
        }
    }

    fn enter(&mut self, state: u32) {
        self.index[state as usize] = self.next;
        self.low[state as usize] = self.next;
        self.next += 1;
        self.stack.push(state);
    }

    /// All that `state` leads to is known: if it leads to none before it, its part is complete.
    fn leave(&mut self, graph: &Graph, state: u32) {
        if self.low[state as usize] != self.index[state as usize] {
            return;
        }
        let at = self.stack.iter().rposition(|&other| other == state).expect("it is still on the stack");
        let part: BTreeSet<u32> = self.stack.drain(at..).collect();
        for &member in &part {
            self.low[member as usize] = u32::MAX;
        }
        if part.len() > 1 || graph.successors(state).any(|target| target == state) {
            self.parts.push(part);
        }
    }
}
