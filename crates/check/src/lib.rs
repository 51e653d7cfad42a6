//! Every interleaving of a small run, explored breadth first.
//!
//! The explorer drives the very [`Site`](meshlock_protocol::Site) code that ships, through the
//! [`World`]: from each state it tries every message that can arrive, every process that can ask or leave. A
//! violation ends the search with a shortest path to it. If nothing is violated, the state graph of a run with a bounded
//! number of entries must be free of cycles and end only in states where all were served: then no schedule deadlocks and
//! none goes on for ever.

use std::collections::hash_map::Entry;
use std::hash::BuildHasher;

use foldhash::quality::FixedState;
use meshlock_protocol::registry::Visitor;
use meshlock_protocol::registry::values::Values;
use meshlock_protocol::world::{Action, Delivery, Violation, World};
use meshlock_protocol::{Algorithm, Cluster, Holders, PlanError, SiteId, Spec};
use rustc_hash::FxHashMap;

/// What to explore.
#[derive(Clone, Debug)]
pub struct Bounds {
    /// How many sites and permits.
    pub cluster: Cluster,
    /// Who is inside at the start.
    pub holders: Holders,
    /// How often each site asks.
    pub entries: u8,
    /// What the network may do.
    pub delivery: Delivery,
    /// How many sites may fail, at any moment.
    pub crashes: u8,
    /// Whether failed sites come back.
    pub recoveries: bool,
    /// Whether a site may leave and ask again in one step.
    pub returns: bool,
    /// Where to stop, finished or not.
    pub most_states: usize,
}

impl Bounds {
    /// `sites` that ask `entries` times each over FIFO channels, one permit, nothing fails.
    pub fn new(sites: usize, entries: u8) -> Self {
        Bounds {
            cluster: Cluster::of(sites),
            holders: Holders::none(),
            entries,
            delivery: Delivery::Fifo,
            crashes: 0,
            recoveries: false,
            returns: false,
            most_states: 50_000_000,
        }
    }
}

/// The same, but for one thing.
impl Bounds {
    /// Over channels that keep no order.
    #[must_use]
    pub fn unordered(self) -> Self {
        Bounds { delivery: Delivery::Unordered, ..self }
    }

    /// With K permits.
    #[must_use]
    pub fn with_permits(self, permits: usize) -> Self {
        Bounds { cluster: self.cluster.with_permits(permits), ..self }
    }

    /// With these sites inside at the start.
    pub fn held_by(self, sites: &[usize]) -> Result<Self, PlanError> {
        let holders = Holders::new(self.cluster, sites.iter().map(|&site| SiteId::new(site)))?;
        Ok(Bounds { holders, ..self })
    }

    /// With so many failures, at any moment.
    #[must_use]
    pub fn with_crashes(self, crashes: u8) -> Self {
        Bounds { crashes, ..self }
    }

    /// With failed sites that come back.
    #[must_use]
    pub fn with_recoveries(self) -> Self {
        Bounds { recoveries: true, ..self }
    }

    /// With sites that leave and ask again in one step.
    #[must_use]
    pub fn with_returns(self) -> Self {
        Bounds { returns: true, ..self }
    }
}

/// What was found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// All states were visited and nothing is wrong.
    Holds,
    /// The last step of the path leads here.
    Violated(Violation),
    /// After the path nothing can happen any more, and these sites wait.
    Deadlock(Vec<SiteId>),
    /// All was served, but a site still owes something after the path.
    NotQuiet,
    /// The schedules have a cycle: something can go on for ever without anyone entering.
    Livelock,
    /// There were more states than allowed.
    Unfinished,
}

/// One step of a run as the explorer sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// Something that the world offers.
    Act(Action),
    /// A site fails.
    Fail(SiteId),
    /// A failed site comes back.
    Recover(SiteId),
}

/// The outcome of an exploration.
#[derive(Clone, Debug)]
pub struct Report {
    /// What was found.
    pub verdict: Verdict,
    /// How many different states were reached.
    pub states: usize,
    /// How long the longest of the shortest paths is.
    pub depth: usize,
    /// The shortest path to what was found.
    pub path: Vec<Step>,
}

/// A state that still has to be expanded.
#[derive(Clone)]
struct Node<A: Algorithm> {
    world: World<A>,
    asked: Vec<u8>,
    crashes: u8,
    index: u32,
}

/// Explores everything within `bounds`.
pub fn explore<A: Algorithm>(bounds: &Bounds, values: &Values) -> Report {
    let world =
        World::<A>::new(bounds.cluster, values, &bounds.holders).expect("the caller's bounds are right");
    Explorer { bounds, seen: FxHashMap::default(), parents: Vec::new(), edges: Vec::new() }
        .run(world.tolerant())
}

/// Explores everything within `bounds` for the algorithm that `spec` names.
pub fn explore_spec(spec: &Spec, bounds: &Bounds) -> Report {
    struct Explore<'a>(&'a Bounds);

    impl Visitor for Explore<'_> {
        type Output = Report;

        fn visit<A: Algorithm>(self, spec: &Spec) -> Report {
            explore::<A>(self.0, &spec.values)
        }
    }

    spec.visit(Explore(bounds))
}

/// The path of a report as a story, for the algorithm that `spec` names.
pub fn story_spec(spec: &Spec, bounds: &Bounds, path: &[Step]) -> Vec<String> {
    struct Tell<'a>(&'a Bounds, &'a [Step]);

    impl Visitor for Tell<'_> {
        type Output = Vec<String>;

        fn visit<A: Algorithm>(self, spec: &Spec) -> Vec<String> {
            story::<A>(self.0, &spec.values, self.1)
        }
    }

    spec.visit(Tell(bounds, path))
}

struct Explorer<'a> {
    bounds: &'a Bounds,
    seen: FxHashMap<u128, u32>,
    /// For each state, by index: the state it was first reached from, and how.
    parents: Vec<(u32, Option<Step>)>,
    edges: Vec<(u32, u32)>,
}

impl Explorer<'_> {
    fn run<A: Algorithm>(mut self, world: World<A>) -> Report {
        let first = Node { world, asked: vec![0; self.bounds.cluster.sites], crashes: 0, index: 0 };
        self.seen.insert(fingerprint(&first, self.bounds.delivery), 0);
        self.parents.push((0, None));
        let (mut frontier, mut depth) = (vec![first], 0);
        while !frontier.is_empty() {
            let mut next = Vec::new();
            for node in frontier {
                if let Some((verdict, at)) = self.expand(&node, &mut next) {
                    return self.report(verdict, depth, at);
                }
            }
            if self.parents.len() > self.bounds.most_states {
                return self.report(Verdict::Unfinished, depth, 0);
            }
            depth += usize::from(!next.is_empty());
            frontier = next;
        }
        match self.on_a_cycle() {
            Some(at) => self.report(Verdict::Livelock, depth, at),
            None => self.report(Verdict::Holds, depth, 0),
        }
    }

    /// Adds what can follow `node`, or says what is wrong there.
    fn expand<A: Algorithm>(&mut self, node: &Node<A>, next: &mut Vec<Node<A>>) -> Option<(Verdict, u32)> {
        let (steps, must_go_on) = self.steps(node);
        if !must_go_on && let Some(verdict) = judge_end(&node.world) {
            return Some((verdict, node.index));
        }
        for step in steps {
            let mut after = node.clone();
            take(&mut after, step);
            let fingerprint = fingerprint(&after, self.bounds.delivery);
            let fresh = u32::try_from(self.parents.len()).expect("fewer than 2^32 states");
            match self.seen.entry(fingerprint) {
                Entry::Occupied(known) => self.edges.push((node.index, *known.get())),
                Entry::Vacant(place) => {
                    place.insert(fresh);
                    self.parents.push((node.index, Some(step)));
                    self.edges.push((node.index, fresh));
                    after.index = fresh;
                    if let Some(violation) = after.world.violation() {
                        return Some((Verdict::Violated(violation.clone()), fresh));
                    }
                    next.push(after);
                }
            }
        }
        None
    }

    /// What can happen after `node`, and whether any of it happens by itself.
    fn steps<A: Algorithm>(&self, node: &Node<A>) -> (Vec<Step>, bool) {
        let world = &node.world;
        let may_ask = |action: &Action| matches!(action, Action::Request(s) | Action::Return(s) if node.asked[s.index()] < self.bounds.entries);
        let mut steps: Vec<Step> =
            world.deliveries(self.bounds.delivery).chain(world.releases()).map(Step::Act).collect();
        // Where survivors do not go on by themselves, a failed site that may come back does come back.
        let awaited = self.bounds.recoveries && !A::INFO.failures.crash && !world.down().is_empty();
        let must_go_on = !steps.is_empty() || awaited;
        steps.extend(world.requests().filter(may_ask).map(Step::Act));
        if self.bounds.returns {
            steps.extend(world.returns().filter(may_ask).map(Step::Act));
        }
        let sites = || SiteId::all(self.bounds.cluster.sites);
        if node.crashes < self.bounds.crashes {
            steps.extend(sites().filter(|&site| world.is_up(site)).map(Step::Fail));
        }
        if self.bounds.recoveries {
            steps.extend(sites().filter(|&site| world.can_recover(site)).map(Step::Recover));
        }
        (steps, must_go_on)
    }

    /// A state on a cycle of the graph, if there is one: whatever is left when states without a way in are taken away
    /// again and again.
    fn on_a_cycle(&self) -> Option<u32> {
        let states = self.parents.len();
        let mut ways_in = vec![0_u32; states];
        let mut starts = vec![0_u32; states + 1];
        for &(from, to) in &self.edges {
            ways_in[to as usize] += 1;
            starts[from as usize + 1] += 1;
        }
        for at in 0..states {
            starts[at + 1] += starts[at];
        }
        let (mut fill, mut targets) = (starts.clone(), vec![0_u32; self.edges.len()]);
        for &(from, to) in &self.edges {
            targets[fill[from as usize] as usize] = to;
            fill[from as usize] += 1;
        }
        let mut free: Vec<usize> = (0..states).filter(|&state| ways_in[state] == 0).collect();
        while let Some(state) = free.pop() {
            for &to in &targets[starts[state] as usize..starts[state + 1] as usize] {
                ways_in[to as usize] -= 1;
                if ways_in[to as usize] == 0 {
                    free.push(to as usize);
                }
            }
        }
        let left = ways_in.iter().position(|&count| count > 0);
        left.map(|state| u32::try_from(state).expect("fewer than 2^32 states"))
    }

    fn report(self, verdict: Verdict, depth: usize, mut at: u32) -> Report {
        let mut path = Vec::new();
        while let (parent, Some(step)) = self.parents[at as usize] {
            path.push(step);
            at = parent;
        }
        path.reverse();
        Report { verdict, states: self.parents.len(), depth, path }
    }
}

/// What is wrong with a state in which nothing happens by itself.
fn judge_end<A: Algorithm>(world: &World<A>) -> Option<Verdict> {
    let stuck = |site: &SiteId| world.is_waiting(*site) && world.site(*site).survives(world.down());
    let waiting: Vec<SiteId> = SiteId::all(world.cluster().sites).filter(stuck).collect();
    if !waiting.is_empty() {
        return Some(Verdict::Deadlock(waiting));
    }
    let hopeless = SiteId::all(world.cluster().sites).any(|site| world.is_waiting(site));
    (!hopeless && !world.is_quiet()).then_some(Verdict::NotQuiet)
}

fn take<A: Algorithm>(node: &mut Node<A>, step: Step) {
    match step {
        Step::Act(action) => {
            if let Action::Request(site) | Action::Return(site) = action {
                node.asked[site.index()] += 1;
            }
            let _ = node.world.apply(action);
        }
        Step::Fail(site) => {
            node.crashes += 1;
            node.world.fail(site);
        }
        Step::Recover(site) => {
            let _ = node.world.recover(site);
        }
    }
}

/// 128 bits of the state: a collision among a billion states has a probability below 10⁻²⁰.
fn fingerprint<A: Algorithm>(node: &Node<A>, delivery: Delivery) -> u128 {
    let half = |seed: u64| {
        let hasher = FixedState::with_seed(seed);
        let world = node.world.hash_future(delivery, &hasher);
        u128::from(hasher.hash_one((world, &node.asked, node.crashes)))
    };
    half(1) << 64 | half(2)
}

/// The path as a story: what happened and what came of it, a line a step.
pub fn story<A: Algorithm>(bounds: &Bounds, values: &Values, path: &[Step]) -> Vec<String> {
    let world =
        World::<A>::new(bounds.cluster, values, &bounds.holders).expect("the path was found with these");
    let mut world = world.tolerant();
    path.iter().map(|&step| tell(&mut world, step)).collect()
}

fn tell<A: Algorithm>(world: &mut World<A>, step: Step) -> String {
    let what = match step {
        Step::Act(Action::Deliver { from, to, nth }) => {
            let message = world.in_flight().filter(|&(a, b, _)| (a, b) == (from, to)).nth(nth);
            format!("{from} → {to} {:?}", message.map(|(_, _, message)| message))
        }
        Step::Act(action) => format!("{action:?}"),
        Step::Fail(_) | Step::Recover(_) => format!("{step:?}"),
    };
    let effects = match step {
        Step::Act(action) => world.apply(action),
        Step::Fail(site) => {
            world.fail(site);
            Vec::new()
        }
        Step::Recover(site) => world.recover(site),
    };
    format!("{what}  ⇒  {effects:?}")
}
