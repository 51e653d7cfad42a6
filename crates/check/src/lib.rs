//! Every interleaving of a small run, explored breadth first.
//!
//! The explorer drives the very [`Site`](meshlock_protocol::Site) code that ships: from each state it tries every message that
//! can arrive, every process that can ask or leave, every failure that is allowed. A violation ends the search with a shortest path to
//! it, which the [`World`](meshlock_protocol::world::World) replays and judges a second time. If nothing is violated, the
//! graph is searched for cycles that are fair to every message and yet leave a site waiting.
//!
//! [`errata`] is what it finds in the published texts.
//!
//! `table` turns the sites' code into lookups, `state` packs a global state into a few bytes, `store` keeps all of them
//! exactly, `search` works them off on all cores, `sweep` goes on when memory ends.

pub mod assumptions;
mod bounds;
mod bucket;
mod command;
pub mod errata;
mod graph;
mod liveness;
pub mod matrix;
mod moves;
mod network;
mod outcome;
mod property;
mod search;
mod seat;
mod state;
mod store;
mod story;
mod sweep;
mod table;
pub mod theorem;
mod weather;

pub use bounds::{Bounds, Entries};
pub use command::command;
pub use network::Network;
pub use property::{Properties, Property, Verdict};
pub use search::Progress;
pub use story::{Happened, Step, Story, replay, story};

use meshlock_protocol::registry::Visitor;
use meshlock_protocol::registry::values::Values;
use meshlock_protocol::{Algorithm, PlanError, Spec};

use search::Search;

/// The outcome of an exploration.
#[derive(Clone, Debug)]
pub struct Report {
    /// What was found.
    pub verdict: Verdict,
    /// How many different states were reached; in a sweep those that are reached after different numbers of steps count once for
    /// each.
    pub states: usize,
    /// How long the longest of the shortest paths is.
    pub depth: usize,
    /// How many steps lead from one state to another.
    pub edges: usize,
    /// How many different states single sites were in.
    pub local_states: usize,
    /// How much memory the states took at the end, in bytes.
    pub memory: usize,
    /// From which level on those before it were let go, if memory had ended.
    pub swept: Option<usize>,
    /// The least and the most messages that any complete run costs, all entries together; where every run ends and the run
    /// was explored to its end.
    pub messages: Option<(usize, usize)>,
    /// The shortest path to what was found.
    pub path: Vec<Step>,
    /// Where in the path the round begins that can be gone for ever, if a site starves.
    pub round: Option<usize>,
}

/// Explores everything within `bounds`.
pub fn explore<A: Algorithm>(bounds: &Bounds, values: &Values) -> Result<Report, PlanError> {
    explore_with::<A>(bounds, values, |_| {})
}

/// Explores everything within `bounds`, and says how far it has come after each round.
pub fn explore_with<A: Algorithm>(
    bounds: &Bounds,
    values: &Values,
    mut progress: impl FnMut(&Progress),
) -> Result<Report, PlanError> {
    let mut search = Search::<A>::new(bounds, values)?;
    // One type for all callers: the search is compiled once an algorithm, not once a caller.
    let progress: &mut dyn FnMut(&Progress) = &mut progress;
    let mut found = search.run(progress);
    if let Some(origin) = found.origin {
        (search, found) = search.retrace(origin, values)?;
    }
    Ok(outcome::of(&search, values, found))
}

/// Explores everything within `bounds` for the algorithm that `spec` names.
pub fn explore_spec(spec: &Spec, bounds: &Bounds) -> Report {
    explore_spec_with(spec, bounds, |_| {}).expect("the caller's bounds are right")
}

/// The same, and says how far it has come after each round.
pub fn explore_spec_with(
    spec: &Spec,
    bounds: &Bounds,
    mut progress: impl FnMut(&Progress),
) -> Result<Report, PlanError> {
    explore_any(spec, bounds, &mut progress)
}

/// Not generic, so that the explorer is compiled once for each algorithm, here.
fn explore_any(
    spec: &Spec,
    bounds: &Bounds,
    progress: &mut dyn FnMut(&Progress),
) -> Result<Report, PlanError> {
    struct Explore<'a>(&'a Bounds, &'a mut dyn FnMut(&Progress));

    impl Visitor for Explore<'_> {
        type Output = Result<Report, PlanError>;

        fn visit<A: Algorithm>(self, spec: &Spec) -> Self::Output {
            explore_with::<A>(self.0, &spec.values, self.1)
        }
    }

    spec.visit(Explore(bounds, progress))
}

/// The path of a report as a story, for the algorithm that `spec` names.
pub fn story_spec(spec: &Spec, bounds: &Bounds, path: &[Step]) -> Story {
    struct Tell<'a>(&'a Bounds, &'a [Step]);

    impl Visitor for Tell<'_> {
        type Output = Story;

        fn visit<A: Algorithm>(self, spec: &Spec) -> Story {
            story::<A>(self.0, &spec.values, self.1)
        }
    }

    spec.visit(Tell(bounds, path))
}
