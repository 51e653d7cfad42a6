//! Exhaustive exploration of small runs: every interleaving, breadth first.
//!
//! The explorer drives the very [`Site`](meshlock_protocol::Site) code that ships: from each state it tries every message that
//! can arrive, every process that can request or leave, every failure that is allowed. A violation ends the search with a shortest
//! path to it, which the [`World`](meshlock_protocol::world::World) replays and judges a second time. If nothing is violated, the
//! graph is searched for cycles that are fair to every message and yet leave a site waiting.
//!
//! [`errata`] lists the errors that it finds in the published texts.
//!
//! `sites` is the boundary to the sites' code: only what is behind it is compiled for each algorithm. `table` turns that code
//! into lookups, `state` packs a global state into a few bytes, `store` keeps all states exactly, `search` works them off on all
//! cores, `sweep` continues when memory runs out. `reduce` and `symmetry` are searches that keep fewer states,
//! if they are asked for.

#![allow(
    missing_docs,
    reason = "an internal crate: `xtask tidy` asks for documents of types and functions, not of fields"
)]

mod apply;
pub mod assumptions;
pub mod bisimulation;
mod bounds;
mod bucket;
mod bypass;
mod command;
mod components;
pub mod errata;
mod faults;
mod graph;
mod interner;
mod liveness;
mod local;
pub mod matrix;
mod moves;
mod network;
mod outcome;
mod path;
mod property;
mod reduce;
mod relative;
mod rising;
mod search;
mod sharing;
mod sites;
mod state;
mod steps;
mod store;
mod story;
mod sweep;
mod symmetry;
mod table;
pub mod theorem;
pub mod visit;
pub mod walk;
mod worker;

pub use bounds::{Bounds, Entries};
pub use bypass::{Bypass, BypassBound};
pub use command::command;
pub use network::NetworkModel;
pub use path::{Step, StepEvent};
pub use property::{Properties, Property, Verdict};
pub use search::Progress;
pub use story::{Happened, Story, replay, story_spec};
pub use symmetry::{Asymmetry, SiteSymmetry, site_symmetry};

use meshlock_protocol::registry::Visitor;
use meshlock_protocol::registry::values::Values;
use meshlock_protocol::{Algorithm, PlanError, Spec};

use search::Search;
use sites::{Sites, Typed};

/// The result of an exploration.
#[derive(Clone, Debug)]
pub struct Report {
    pub verdict: Verdict,
    /// The number of different states. In a sweep a state that is reached after different numbers of steps may count several
    /// times.
    pub states: usize,
    /// The number of steps to the farthest state.
    pub depth: usize,
    /// The number of steps between states.
    pub edges: usize,
    pub local_states: usize,
    /// The memory that the states took at the end, in bytes.
    pub memory: usize,
    /// The level at which the sweep began, if memory ran out.
    pub swept: Option<usize>,
    /// The fewest and the most messages of a complete run, all entries together. Known only if every run ends and all of them
    /// were explored.
    pub messages: Option<(usize, usize)>,
    /// How often others can enter while a site waits. Known only if the graph was built for it.
    pub bypass: Option<Bypass>,
    /// Whether the window of an endless run has left out a request. Known only if the graph was built.
    pub withheld: Option<bool>,
    /// In a reduced search: the number of states that it looked at without keeping them.
    pub passed: Option<usize>,
    /// In a search up to symmetry: which symmetries it has used.
    pub symmetry: Option<SiteSymmetry>,
    /// A path to what was found: a shortest one, unless the search is reduced.
    pub path: Vec<Step>,
    /// The position in the path where the cycle begins that can repeat for ever, if a site starves.
    pub round: Option<usize>,
}

/// Explores everything within `bounds` for an algorithm that need not be registered.
pub fn explore<A: Algorithm>(bounds: &Bounds, values: &Values) -> Result<Report, PlanError> {
    Ok(explore_sites(Typed::<A>::start(bounds, values)?, bounds, &mut |_| {}))
}

/// Explores everything within `bounds` for the algorithm that `spec` names.
pub fn explore_spec(spec: &Spec, bounds: &Bounds) -> Report {
    explore_spec_with(spec, bounds, |_| {}).expect("the caller's bounds are right")
}

/// Explores everything within `bounds` for the algorithm that `spec` names, and reports its progress after each round.
pub fn explore_spec_with(
    spec: &Spec,
    bounds: &Bounds,
    mut progress: impl FnMut(&Progress),
) -> Result<Report, PlanError> {
    Ok(explore_sites(sites_of(spec, bounds)?, bounds, &mut progress))
}

/// The sites of the algorithm that `spec` names.
fn sites_of(spec: &Spec, bounds: &Bounds) -> Result<Box<dyn Sites>, PlanError> {
    struct Start<'a>(&'a Bounds);

    impl Visitor for Start<'_> {
        type Output = Result<Box<dyn Sites>, PlanError>;

        fn visit<A: Algorithm>(self, spec: &Spec) -> Self::Output {
            Typed::<A>::start(self.0, &spec.values)
        }
    }

    errata::visit_type(spec, Start(bounds))
}

fn explore_sites(sites: Box<dyn Sites>, bounds: &Bounds, progress: &mut dyn FnMut(&Progress)) -> Report {
    if bounds.up_to_symmetry {
        return explore_alike(sites, bounds, symmetry::PROBED, progress);
    }
    let mut search = Search::new(bounds, sites);
    let mut found = search.run(progress);
    if found.verdict == Verdict::Holds && search.table.must_keep_entries() {
        let bounds = Bounds { keeps_entries: true, ..bounds.clone() };
        search = Search::new(&bounds, search.into_sites());
        found = search.run(progress);
    }
    if let Some(origin) = found.origin {
        (search, found) = search.retrace(origin);
    }
    outcome::of(&search, found)
}

/// Explores up to the symmetries of the run, if it has any by its first `probed` states.
fn explore_alike(
    sites: Box<dyn Sites>,
    bounds: &Bounds,
    probed: usize,
    progress: &mut dyn FnMut(&Progress),
) -> Report {
    let (sites, group, asymmetry) = symmetry::symmetry_of(sites, bounds, probed);
    let plain = Bounds { up_to_symmetry: false, ..bounds.clone() };
    if group.is_trivial() {
        let symmetry = Some(SiteSymmetry { permutations: 1, asymmetry });
        return Report { symmetry, ..explore_sites(sites, &plain, progress) };
    }
    let permutations = group.elements.len();
    let mut search = Search::up_to(bounds, sites, group);
    let mut found = search.run(progress);
    if let Some(refuted) = search.table.asymmetry() {
        let symmetry = Some(SiteSymmetry { permutations: 1, asymmetry: Some(refuted) });
        return Report { symmetry, ..explore_sites(search.into_sites(), &plain, progress) };
    }
    if let Some(origin) = found.origin {
        (search, found) = search.retrace(origin);
    }
    let symmetry = Some(SiteSymmetry { permutations, asymmetry });
    Report { symmetry, ..outcome::of(&search, found) }
}
