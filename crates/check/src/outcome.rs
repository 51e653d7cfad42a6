//! What a finished search says: starvation, the cost in messages, the path in words.

use meshlock_protocol::registry::values::Values;

use crate::graph::Graph;
use crate::liveness::{Lasso, starved};
use crate::property::{Property, Verdict};
use crate::search::{Found, Progress, Search};
use crate::{Algorithm, Entries, Report};

pub(crate) fn of<A: Algorithm>(search: &Search<A>, values: &Values, mut found: Found) -> Report {
    let (mut messages, mut round) = (None, None);
    if found.verdict == Verdict::Holds {
        messages = search.costs_by_level();
        let may_cycle = search.retreats > 0 && search.table.bounds.properties.contains(Property::Starvation);
        if may_cycle || (messages.is_none() && search.has_costs()) {
            match search.graph() {
                Some(graph) => {
                    messages = messages.or_else(|| graph.costs(search.first_number(&graph)));
                    if let Some(lasso) = starved(search, &graph).filter(|_| may_cycle) {
                        round = Some(lasso.path.len());
                        found = lasso.into();
                    }
                }
                None if may_cycle => found.verdict = Verdict::Unfinished,
                None => {}
            }
        }
    }
    let path = search.retell(values, &found.path);
    let Progress { states, depth, edges, local_states, memory } = search.progress;
    Report { verdict: found.verdict, states, depth, edges, local_states, memory, messages, path, round }
}

impl From<Lasso> for Found {
    fn from(lasso: Lasso) -> Self {
        let path = lasso.path.into_iter().chain(lasso.round).collect();
        Found { verdict: Verdict::Starvation(vec![lasso.site]), path }
    }
}

impl<A: Algorithm> Search<A> {
    /// Whether a complete run has a cost: every run ends, and nothing that fails sends messages of its own.
    fn has_costs(&self) -> bool {
        let bounds = &self.table.bounds;
        matches!(bounds.entries, Entries::Each(_)) && !bounds.has_faults()
    }

    /// The least and the most messages of a complete run, if the levels tell them: when all paths to a state are equally long, the
    /// length of a run is its requests and releases, which are the same in all, and its messages.
    fn costs_by_level(&self) -> Option<(usize, usize)> {
        let bounds = &self.table.bounds;
        let Entries::Each(entries) = bounds.entries else { return None };
        if !self.has_costs() || bounds.returns || self.retreats > 0 || self.table.uses_timers() {
            return None;
        }
        let asked = bounds.cluster.sites * usize::from(entries);
        let process_steps = 2 * asked + bounds.holders.iter().count();
        Some((self.first_end? - process_steps, self.last_end? - process_steps))
    }

    /// The whole graph, if there is memory for it.
    fn graph(&self) -> Option<Graph> {
        let needed = self.progress.memory + Graph::bytes(self);
        (needed <= self.table.bounds.most_memory).then(|| Graph::of(self))
    }

    fn first_number(&self, graph: &Graph) -> u32 {
        let mut body = Vec::new();
        self.layout.encode(&self.first_state(), &mut body);
        graph.number_of(self, &body).expect("the first state is in the store")
    }
}
