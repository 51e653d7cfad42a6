//! Starvation: a search for cycles in which a site waits for ever.
//!
//! A site starves if some schedule goes on for ever, delays no message, timer or process for ever, and never lets the site in.
//! Such a schedule ends up within a strongly connected component of the graph in which the site always waits. The schedule is
//! (weakly) fair if each thing that must happen by itself does happen once it can happen and stays possible: so for each such
//! thing the component must have a state where it cannot happen or a step by which it does. If a component is not fair, neither
//! is any part of it; so it is enough to look at the largest components.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use meshlock_protocol::SiteId;
use meshlock_protocol::world::Delivery;

use crate::components::cyclic_components;
use crate::graph::Graph;
use crate::moves::{Move, Taken};
use crate::search::Search;
use crate::state::GlobalState;
use crate::table::Input;

/// A schedule that repeats for ever while a site waits.
pub(crate) struct Lasso {
    /// The site that waits.
    pub(crate) site: SiteId,
    /// The path to the cycle.
    pub(crate) path: Vec<Taken>,
    pub(crate) cycle: Vec<Taken>,
}

/// Something that must happen once it is possible and stays possible.
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

/// Finds a fair schedule that starves a site.
pub(crate) fn starved(search: &Search, graph: &Graph) -> Option<Lasso> {
    if graph.sorted.is_some() {
        return None; // Every schedule ends.
    }
    SiteId::all(search.table.bounds.cluster.sites).find_map(|site| {
        let waits: Vec<bool> = graph.places.iter().map(|&place| search.waits(place, site)).collect();
        let components = cyclic_components(graph, &|state| waits[state as usize]);
        let fair = components.into_iter().filter(|component| search.is_fair(graph, component));
        let place = |&state: &u32| graph.places[state as usize];
        let first = |component: &BTreeSet<u32>| component.iter().map(place).min();
        let component = fair.min_by_key(first)?;
        Some(search.lasso(graph, site, &component))
    })
}

impl Search {
    /// Whether `site` waits at `place` and can still be served.
    fn waits(&self, place: crate::store::StatePlace, site: SiteId) -> bool {
        let state = self.state_at(place);
        let facts = self.table.facts(state.locals[site.index()]);
        let down = &self.table.faults(state.faults).down;
        facts.waits() && (self.table.bounds.survivors || self.table.sites().survives(facts.site, down))
    }

    /// Whether each duty that is open in all states of the component is done by one of its steps.
    fn is_fair(&self, graph: &Graph, component: &BTreeSet<u32>) -> bool {
        let mut undone: Option<BTreeSet<Duty>> = None;
        let mut done = BTreeSet::new();
        for &number in component {
            let place = graph.places[number as usize];
            let state = self.state_at(place);
            let mut open = BTreeSet::new();
            for (taken, body) in self.steps_from(place) {
                let Some(duty) = self.duty(&state, taken.step) else { continue };
                open.insert(duty);
                let target = graph.number_of(self, &body);
                if target.is_some_and(|target| component.contains(&target)) {
                    done.insert(duty);
                }
            }
            undone = Some(undone.map_or_else(|| open.clone(), |before| &before & &open));
        }
        undone.is_none_or(|undone| undone.is_subset(&done))
    }

    fn duty(&self, state: &GlobalState, step: Move) -> Option<Duty> {
        match step {
            Move::Deliver(at) => {
                let packet = self.layout.split(state.packets[at]).0;
                Some(Duty::Arrival(match self.table.bounds.delivery {
                    Delivery::Fifo => self.table.label(packet).channel,
                    Delivery::Unordered => packet,
                }))
            }
            Move::Process(site, Input::Release) => {
                let must = self.table.facts(state.locals[site.index()]).must_leave();
                must.then_some(Duty::Release(site))
            }
            Move::Process(site, Input::Wake) => Some(Duty::Wake(site)),
            Move::Tell { to, about } => Some(Duty::News { to, about }),
            // Where survivors cannot continue by themselves, a failed site does recover.
            Move::Recover(site) if !self.table.info.failures.crash => Some(Duty::Recovery(site)),
            Move::Process(..) | Move::Duplicate(_) | Move::Lose(_) | Move::Fail(_) | Move::Recover(_) => None,
        }
    }

    fn lasso(&self, graph: &Graph, site: SiteId, component: &BTreeSet<u32>) -> Lasso {
        let nearest = component.iter().map(|&state| (self.path_to(graph.places[state as usize]), state));
        let (path, start) = nearest.min_by_key(|(path, _)| path.len()).expect("a component has states");
        Lasso { site, path, cycle: self.cycle(graph, component, start) }
    }

    /// A shortest cycle through `start` within `component`.
    fn cycle(&self, graph: &Graph, component: &BTreeSet<u32>, start: u32) -> Vec<Taken> {
        let mut came: BTreeMap<u32, (u32, Taken)> = BTreeMap::new();
        let mut queue = VecDeque::from([start]);
        while let Some(state) = queue.pop_front() {
            for (step, body) in self.steps_from(graph.places[state as usize]) {
                let target = graph.number_of(self, &body).filter(|target| component.contains(target));
                let Some(target) = target.filter(|target| !came.contains_key(target)) else { continue };
                came.insert(target, (state, step));
                queue.push_back(target);
            }
        }
        let (mut cycle, mut at) = (Vec::new(), start);
        loop {
            let &(before, step) =
                came.get(&at).expect("a strongly connected component leads back to its start");
            cycle.push(step);
            at = before;
            if at == start {
                cycle.reverse();
                return cycle;
            }
        }
    }
}
