//! Strongly connected components of a part of the graph: Tarjan's algorithm, without recursion.

use std::collections::BTreeSet;

use crate::graph::Graph;

/// The components of the states in `among` that have a step within themselves.
pub(crate) fn cyclic_components(graph: &Graph, among: &dyn Fn(u32) -> bool) -> Vec<BTreeSet<u32>> {
    let mut components = Vec::new();
    for_each_component(graph, among, &mut |members| {
        let turns = |&state: &u32| graph.successors(state).any(|target| target == state);
        if members.len() > 1 || members.iter().all(turns) {
            components.push(members.iter().copied().collect());
        }
    });
    components
}

/// Calls `each` with every component of the states in `among`. A component comes after all others that it leads to.
pub(crate) fn for_each_component(graph: &Graph, among: &dyn Fn(u32) -> bool, each: &mut dyn FnMut(&[u32])) {
    let mut tarjan = Tarjan {
        graph,
        among,
        each,
        index: vec![0; graph.states()],
        low: vec![0; graph.states()],
        next: 1,
        stack: Vec::new(),
    };
    for root in graph.every().filter(|&state| among(state)) {
        if tarjan.index[root as usize] == 0 {
            tarjan.visit(root);
        }
    }
}

/// The low number of a state whose component is known.
const KNOWN: u32 = u32::MAX;

struct Tarjan<'a> {
    graph: &'a Graph,
    among: &'a dyn Fn(u32) -> bool,
    each: &'a mut dyn FnMut(&[u32]),
    /// The order in which states were met, from 1; 0 for those that were not.
    index: Vec<u32>,
    /// The earliest state on the stack that a state leads to, or [`KNOWN`].
    low: Vec<u32>,
    next: u32,
    stack: Vec<u32>,
}

impl Tarjan<'_> {
    fn visit(&mut self, root: u32) {
        let graph = self.graph;
        self.enter(root);
        let mut calls = vec![(root, graph.edges(root))];
        while let Some((state, edges)) = calls.last_mut() {
            let state = *state;
            let Some(edge) = edges.next() else {
                calls.pop();
                let low = self.low[state as usize];
                self.leave(state);
                if let Some(&(caller, _)) = calls.last() {
                    self.low[caller as usize] = self.low[caller as usize].min(low);
                }
                continue;
            };
            let target = graph.target(edge);
            if !(self.among)(target) {
                continue;
            }
            if self.index[target as usize] == 0 {
                self.enter(target);
                calls.push((target, graph.edges(target)));
            } else if self.low[target as usize] != KNOWN {
                self.low[state as usize] = self.low[state as usize].min(self.index[target as usize]);
            }
        }
    }

    fn enter(&mut self, state: u32) {
        self.index[state as usize] = self.next;
        self.low[state as usize] = self.next;
        self.next += 1;
        self.stack.push(state);
    }

    /// Everything that `state` leads to is known. If it leads to no earlier state, its component is complete.
    fn leave(&mut self, state: u32) {
        if self.low[state as usize] != self.index[state as usize] {
            return;
        }
        let at = self.stack.iter().rposition(|&other| other == state).expect("it is still on the stack");
        for &member in &self.stack[at..] {
            self.low[member as usize] = KNOWN;
        }
        (self.each)(&self.stack[at..]);
        self.stack.truncate(at);
    }
}
