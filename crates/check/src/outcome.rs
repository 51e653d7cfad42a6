//! The report of a finished search: starvation, costs in messages, the path that was found.

use meshlock_protocol::Cluster;
use meshlock_protocol::registry::info::Scale;

use crate::bypass::{Bypasses, MAX_STATES};
use crate::graph::Graph;
use crate::liveness::{Lasso, starved};
use crate::property::{Property, Verdict};
use crate::search::{Found, Progress, Search};
use crate::steps::StepLog;
use crate::sweep::no_site_returns_to_a_state;
use crate::{Entries, Report};

/// Completes what the search has found.
pub(crate) fn of(search: &Search, mut found: Found) -> Report {
    let (mut messages, mut bypass, mut withheld, mut round) = (None, None, None, None);
    if found.verdict == Verdict::Holds {
        messages = search.costs_by_level();
        let properties = search.table.bounds.properties;
        let may_cycle = search.back_edges > 0
            && properties.contains(Property::Starvation)
            && !no_site_returns_to_a_state(&search.table);
        let needs_costs = messages.is_none() && search.has_costs();
        let needs_bypass = properties.contains(Property::Bypass) && search.progress.states <= MAX_STATES;
        // A sweep ends only where every run does, and it has discarded the states that the graph is made of.
        let is_whole = search.sweep.is_none();
        let graph =
            if is_whole && (may_cycle || needs_costs || needs_bypass) { search.graph() } else { None };
        match graph {
            Some(graph) => {
                withheld = search.withholds(&graph);
                if needs_costs {
                    messages = graph.costs(search.first_number(&graph));
                }
                if let Some(lasso) = starved(search, &graph).filter(|_| may_cycle) {
                    round = Some(lasso.path.len());
                    found = lasso.into();
                }
                if let Some(bypasses) = needs_bypass.then(|| Bypasses::of(search, &graph)).flatten() {
                    bypass = Some(bypasses.bounds());
                    if found.verdict == Verdict::Holds {
                        found = bypasses.judge(search, &graph).unwrap_or(found);
                    }
                }
            }
            None if is_whole && may_cycle => found.verdict = Verdict::Unfinished,
            None => {}
        }
    }
    if found.verdict == Verdict::Holds
        && let Some(verdict) = search.judge_costs(messages)
    {
        found.verdict = verdict;
    }
    let path = search.translate(&found.path);
    let Progress { states, depth, edges, local_states, memory, swept, passed } = search.progress;
    Report {
        verdict: found.verdict,
        states,
        depth,
        edges,
        local_states,
        memory,
        swept,
        messages,
        bypass,
        withheld,
        passed: search.table.bounds.reduces.then_some(passed),
        symmetry: None,
        path,
        round,
    }
}

impl From<Lasso> for Found {
    fn from(lasso: Lasso) -> Self {
        let path = lasso.path.into_iter().chain(lasso.cycle).collect();
        Found::new(Verdict::Starvation(vec![lasso.site]), path)
    }
}

impl Search {
    /// Whether a complete run has a cost: every run ends, and nothing that fails sends messages of its own.
    fn has_costs(&self) -> bool {
        let bounds = &self.table.bounds;
        matches!(bounds.entries, Entries::Each(_))
            && !bounds.has_faults()
            && !bounds.reduces
            && !bounds.up_to_symmetry
    }

    /// The fewest and the most messages of a complete run, if the levels tell them: when all paths to a state are equally long, the
    /// length of a run is the number of its requests and releases, the same in all runs, plus the number of its messages. Of two
    /// paths to a state the longer one is not followed, not even in a sweep, so that the levels tell nothing if there is such a
    /// state.
    fn costs_by_level(&self) -> Option<(usize, usize)> {
        let bounds = &self.table.bounds;
        let Entries::Each(entries) = bounds.entries else { return None };
        if !self.has_costs()
            || bounds.returns
            || bounds.changes > 0
            || self.back_edges > 0
            || self.table.uses_timers()
        {
            return None;
        }
        let asked = bounds.cluster.sites * usize::from(entries);
        let process_steps = 2 * asked + bounds.holders.iter().count();
        Some((self.first_end? - process_steps, self.last_end? - process_steps))
    }

    /// Checks the cheapest and the most expensive run against what the paper says.
    fn judge_costs(&self, messages: Option<(usize, usize)>) -> Option<Verdict> {
        let bounds = &self.table.bounds;
        let Entries::Each(entries) = bounds.entries else { return None };
        // A site that is inside at the start has paid before the run, and may still save others a message. What is stated is for entries,
        // not for changes of mode.
        if bounds.changes > 0
            || !bounds.properties.contains(Property::Messages)
            || bounds.holders.iter().next().is_some()
        {
            return None;
        }
        let (sites_code, first) = (self.table.sites(), self.table.sites().first());
        let (found, span) = (messages?, sites_code.cost_span(first[0])?);
        let Cluster { sites, permits } = bounds.cluster;
        let quorums = first.iter().map(|&site| sites_code.quorum(site).unwrap_or(sites));
        let (smallest, largest) = quorums.fold((sites, 1), |(low, high), k| (low.min(k), high.max(k)));
        let runs = (sites * usize::from(entries)) as f64;
        let low = runs * (span.least.messages)(Scale { sites, permits, quorum: smallest });
        let high = runs * (span.most.messages)(Scale { sites, permits, quorum: largest });
        let allowed = low <= found.0 as f64 && found.1 as f64 <= high;
        (!allowed).then_some(Verdict::Costs { found, allowed: (low, high) })
    }

    /// Whether the graph is likely to be built: for the bypass bound, or because of steps to the same or an earlier level.
    pub(crate) fn may_need_graph(&self) -> bool {
        let properties = self.table.bounds.properties;
        let needs = |property| properties.contains(property);
        let few = self.progress.states <= MAX_STATES;
        let may_cycle = self.back_edges > 0 && (needs(Property::Starvation) || needs(Property::Messages));
        self.sweep.is_none() && (few && needs(Property::Bypass) || may_cycle)
    }

    /// The whole graph, if there is memory for it.
    fn graph(&self) -> Option<Graph> {
        let steps = self.steps.as_ref().map_or(0, StepLog::bytes);
        let needed = self.progress.memory + steps + Graph::bytes(self);
        (needed <= self.table.bounds.max_memory).then(|| Graph::of(self, self.steps.as_ref()))
    }

    /// In an endless run: whether its window has left out a request.
    fn withholds(&self, graph: &Graph) -> Option<bool> {
        let mut moves = Vec::new();
        let mut withholds = |place| {
            let state = self.state_at(place);
            self.table.moves(self.layout, &state, &mut moves);
            moves.iter().any(|&step| self.table.is_withheld(self.layout, &state, step))
        };
        self.table.bounds.is_endless().then(|| graph.places.iter().any(|&place| withholds(place)))
    }

    fn first_number(&self, graph: &Graph) -> u32 {
        let mut body = Vec::new();
        self.layout.encode(&self.table.first_state(self.layout), &mut body);
        graph.number_of(self, &body).expect("the first state is in the store")
    }
}
