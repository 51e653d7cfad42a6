//! What a finished search says: starvation, the cost in messages, the path in words.

use meshlock_protocol::Cluster;
use meshlock_protocol::registry::info::Scale;
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
        // A sweep ends only where every run does, and it has let go of what the graph is made of.
        let is_whole = search.sweep.is_none();
        if is_whole && (may_cycle || (messages.is_none() && search.has_costs())) {
            match search.graph() {
                Some(graph) => {
                    if search.has_costs() {
                        messages = messages.or_else(|| graph.costs(search.first_number(&graph)));
                    }
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
    if found.verdict == Verdict::Holds
        && let Some(verdict) = search.judge_costs(messages)
    {
        found.verdict = verdict;
    }
    let path = search.retell(values, &found.path);
    let Progress { states, depth, edges, local_states, memory, swept } = search.progress;
    Report {
        verdict: found.verdict,
        states,
        depth,
        edges,
        local_states,
        memory,
        swept,
        messages,
        path,
        round,
    }
}

impl From<Lasso> for Found {
    fn from(lasso: Lasso) -> Self {
        let path = lasso.path.into_iter().chain(lasso.round).collect();
        Found::new(Verdict::Starvation(vec![lasso.site]), path)
    }
}

impl<A: Algorithm> Search<A> {
    /// Whether a complete run has a cost: every run ends, and nothing that fails sends messages of its own.
    fn has_costs(&self) -> bool {
        let bounds = &self.table.bounds;
        matches!(bounds.entries, Entries::Each(_)) && !bounds.has_faults()
    }

    /// The least and the most messages of a complete run, if the levels tell them: when all paths to a state are equally long, the
    /// length of a run is its requests and releases, which are the same in all, and its messages. The longer of two paths to a state
    /// that is known is not followed, in a sweep neither, so that the levels tell nothing if there were such.
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

    /// Whether the cheapest or the dearest run is outside of what the paper says.
    fn judge_costs(&self, messages: Option<(usize, usize)>) -> Option<Verdict> {
        let bounds = &self.table.bounds;
        let Entries::Each(entries) = bounds.entries else { return None };
        // Who is inside at the start has paid before the run, and may still save others a message.
        if !bounds.properties.contains(Property::Messages) || bounds.holders.iter().next().is_some() {
            return None;
        }
        let (found, span) = (messages?, self.table.first_seat(0).cost_span()?);
        let Cluster { sites, permits } = bounds.cluster;
        let quorums = (0..sites).map(|site| self.table.first_seat(site).quorum().unwrap_or(sites));
        let (smallest, largest) = quorums.fold((sites, 1), |(low, high), k| (low.min(k), high.max(k)));
        let runs = (sites * usize::from(entries)) as f64;
        let low = runs * (span.least.messages)(Scale { sites, permits, quorum: smallest });
        let high = runs * (span.most.messages)(Scale { sites, permits, quorum: largest });
        let allowed = low <= found.0 as f64 && found.1 as f64 <= high;
        (!allowed).then_some(Verdict::Costs { found, allowed: (low, high) })
    }

    /// The whole graph, if there is memory for it.
    fn graph(&self) -> Option<Graph> {
        let needed = self.progress.memory + Graph::bytes(self);
        (needed <= self.table.bounds.most_memory).then(|| Graph::of(self))
    }

    fn first_number(&self, graph: &Graph) -> u32 {
        let mut body = Vec::new();
        self.layout.encode(&self.table.first_state(self.layout), &mut body);
        graph.number_of(self, &body).expect("the first state is in the store")
    }
}
