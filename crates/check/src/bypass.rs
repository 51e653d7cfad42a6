//! The bypass bound: how often others can enter while a site waits, the most over all schedules.
//!
//! The wait of a site begins with the call of its request and ends when it enters or fails. Two numbers are the least upper bounds over
//! all waits of all sites in all schedules:
//!
//! - *from the call on*: the entries of others during the whole wait. A message may take as long as it likes, so that others enter as
//!   often as they like before anyone hears of the request, whatever the algorithm; in a bounded run that ends with their entries.
//! - *once heard*: only those entries that come after a moment of the wait at which no message of the site is in flight. Where the
//!   receivers decide who is next, this is the promise that an algorithm can keep.
//!
//! Where processes share, an entry in a mode that the waiting one admits is not in its way, and does not count: a reader that waits for a
//! message is not passed by other readers. A process that is inside and waits to be exclusive waits from its call on, too, and every
//! entry counts for it; that it becomes exclusive is no entry.
//!
//! Both are longest paths in the graph of all states. If an entry of another site lies on a cycle on which the site waits, there is no
//! bound. Nothing is assumed of the schedules, not even that they are fair.

use std::collections::{BTreeMap, VecDeque};
use std::fmt;

use meshlock_protocol::SiteId;
use meshlock_protocol::registry::info::Since;

use crate::components::for_each_component;
use crate::graph::{Graph, MAX_SITES};
use crate::moves::Taken;
use crate::property::Verdict;
use crate::search::{Found, Search};

/// The most states for which the graph is built only to find the bypass bound: it takes about as long as the search.
pub(crate) const MAX_STATES: usize = 4_000_000;

/// How often others can enter while a site waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum BypassBound {
    /// So often, and in some schedule that often.
    AtMost(u32),
    /// In some schedule for ever.
    Unbounded,
}

impl fmt::Display for BypassBound {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            BypassBound::AtMost(entries) => entries.fmt(f),
            BypassBound::Unbounded => f.write_str("unbounded"),
        }
    }
}

/// The bypass bounds of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bypass {
    /// From the call of the request on.
    pub from_call: BypassBound,
    /// From a moment on at which no message of the site is in flight.
    pub once_heard: BypassBound,
}

/// A state, and how many others have entered on the way to it.
type Counted = (u32, u32);

/// A value that stands for [`BypassBound::Unbounded`].
const UNBOUNDED: u32 = u32::MAX;

/// The states with the most entries to come for a site that waits there.
#[derive(Clone, Copy, Debug)]
struct Worst {
    site: usize,
    state: u32,
    entries: u32,
}

/// The bypass bounds of a graph, each with a wait that reaches it.
pub(crate) struct Bypasses {
    from_call: Option<Worst>,
    once_heard: Option<Worst>,
}

impl Bypasses {
    /// The bounds of a search, whose graph is this. `None` with more sites than a graph tells apart.
    pub(crate) fn of(search: &Search, graph: &Graph) -> Option<Self> {
        let sites = search.table.bounds.cluster.sites;
        if sites > MAX_SITES {
            return None;
        }
        let to_come = match &graph.sorted {
            Some(sorted) => entries_to_come_in_order(graph, sorted, sites),
            None => entries_to_come(graph, sites),
        };
        let mut bypasses = Bypasses { from_call: None, once_heard: None };
        for site in 0..sites {
            for state in graph.every().filter(|&state| graph.waiting(state).all >> site & 1 == 1) {
                let worst = Worst { site, state, entries: to_come[state as usize * sites + site] };
                raise(&mut bypasses.from_call, worst);
                if graph.waiting(state).heard >> site & 1 == 1 {
                    raise(&mut bypasses.once_heard, worst);
                }
            }
        }
        Some(bypasses)
    }

    /// The bounds for the report.
    pub(crate) fn bounds(&self) -> Bypass {
        Bypass { from_call: bound(self.from_call), once_heard: bound(self.once_heard) }
    }

    /// Compares what was found with what is claimed, which is claimed of runs without faults. Returns a shortest wait that is too long.
    pub(crate) fn judge(&self, search: &Search, graph: &Graph) -> Option<Found> {
        if search.table.bounds.has_faults() {
            return None;
        }
        let sites = search.table.sites();
        let claim = sites.bypass_claim(sites.first()[0])?;
        let allowed = claim.allowed(search.table.bounds.cluster);
        let worst = match claim.since {
            Since::Call => self.from_call,
            Since::Heard => self.once_heard,
        };
        let worst = worst.filter(|worst| f64::from(worst.entries) > allowed)?;
        let mut path = search.path_to(graph.places[worst.state as usize]);
        let too_many = (0..worst.entries).find(|&entries| f64::from(entries) > allowed);
        let entries = too_many.unwrap_or(worst.entries);
        path.extend(search.wait(graph, worst, entries));
        let verdict =
            Verdict::Bypassed { site: SiteId::new(worst.site), entries, allowed, since: claim.since };
        Some(Found::new(verdict, path))
    }
}

fn raise(worst: &mut Option<Worst>, other: Worst) {
    if worst.is_none_or(|known| other.entries > known.entries) {
        *worst = Some(other);
    }
}

fn bound(worst: Option<Worst>) -> BypassBound {
    match worst.map_or(0, |worst| worst.entries) {
        UNBOUNDED => BypassBound::Unbounded,
        entries => BypassBound::AtMost(entries),
    }
}

/// For each state and each site that waits there: the most entries of others that follow before it enters. The states are in an order
/// in which each comes before those that its steps lead to.
fn entries_to_come_in_order(graph: &Graph, sorted: &[u32], sites: usize) -> Vec<u32> {
    let mut to_come = vec![0_u32; graph.states() * sites];
    for &state in sorted.iter().rev() {
        let waiting = graph.waiting(state).all;
        if waiting == 0 {
            continue;
        }
        let mut most = [0; MAX_SITES];
        for edge in graph.edges(state) {
            let target = graph.target(edge);
            let after = &to_come[target as usize * sites..][..sites];
            let wait_on = graph.waiting(target).all;
            for site in (0..sites).filter(|site| waiting >> site & 1 == 1) {
                let entries = u32::from(graph.passes(state, edge, site));
                let then = if wait_on >> site & 1 == 1 { after[site] } else { 0 };
                most[site] = most[site].max(entries + then);
            }
        }
        to_come[state as usize * sites..][..sites].copy_from_slice(&most[..sites]);
    }
    to_come
}

/// The same for a graph with cycles.
fn entries_to_come(graph: &Graph, sites: usize) -> Vec<u32> {
    let mut to_come = vec![0_u32; graph.states() * sites];
    let mut members = vec![false; graph.states()];
    for site in 0..sites {
        let waits = |state: u32| graph.waiting(state).all >> site & 1 == 1;
        for_each_component(graph, &waits, &mut |component| {
            for &state in component {
                members[state as usize] = true;
            }
            let mut most = 0;
            let steps = component.iter().flat_map(|&state| graph.edges(state).map(move |edge| (state, edge)));
            for (state, edge) in steps {
                let target = graph.target(edge);
                let entries = u32::from(graph.passes(state, edge, site));
                let after = match (members[target as usize], entries) {
                    (true, 0) => continue,
                    (true, _) => UNBOUNDED,
                    (false, _) if waits(target) => to_come[target as usize * sites + site],
                    (false, _) => 0,
                };
                most = most.max(after.saturating_add(entries));
            }
            for &state in component {
                to_come[state as usize * sites + site] = most;
                members[state as usize] = false;
            }
        });
    }
    to_come
}

impl Search {
    /// A shortest way from a state in which a site waits through this many entries of others.
    fn wait(&self, graph: &Graph, from: Worst, entries: u32) -> Vec<Taken> {
        let start = (from.state, 0);
        let mut came: BTreeMap<Counted, (Counted, Taken)> = BTreeMap::new();
        let mut queue = VecDeque::from([start]);
        while let Some((state, before)) = queue.pop_front() {
            let place = graph.places[state as usize];
            let now = self.state_at(place);
            for (step, body) in self.steps_from(place) {
                let Some(target) = graph.number_of(self, &body) else { continue };
                let entering = self.entering(&now, step);
                let passes =
                    entering.is_some_and(|entering| graph.is_passed(state, target, entering, from.site));
                let after = (target, before + u32::from(passes));
                let waits = graph.waiting(target).all >> from.site & 1 == 1;
                if !waits || after == start || came.contains_key(&after) {
                    continue;
                }
                came.insert(after, ((state, before), step));
                if after.1 == entries {
                    return way(&came, start, after);
                }
                queue.push_back(after);
            }
        }
        unreachable!("the longest way from this state has as many entries")
    }
}

/// The steps from `start` to `end`.
fn way(came: &BTreeMap<Counted, (Counted, Taken)>, start: Counted, end: Counted) -> Vec<Taken> {
    let (mut steps, mut at) = (Vec::new(), end);
    while at != start {
        let (before, step) = came[&at];
        steps.push(step);
        at = before;
    }
    steps.reverse();
    steps
}
