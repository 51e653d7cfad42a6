//! Random runs of any algorithm, for the tests that must hold for all of them.

use meshlock_protocol::registry::ALL;
use meshlock_protocol::registry::AnySite;
use meshlock_protocol::registry::info::Permits;
use meshlock_protocol::world::{Action, Delivery, World};
use meshlock_protocol::{Chooser, Cluster, Demand, Holders, Mode, SiteId, Spec};
use proptest::prelude::*;
use proptest::test_runner::{Config, RngAlgorithm, TestRng, TestRunner};

/// One random run: its size, the sites inside at the start, and the random number of each step.
#[derive(Clone, Debug)]
pub(crate) struct Run {
    pub(crate) cluster: Cluster,
    pub(crate) holders: Vec<usize>,
    pub(crate) draws: Vec<u16>,
}

impl Run {
    /// The world at the start of the run; what the papers leave open is drawn by the run's own numbers.
    pub(crate) fn world(&self, spec: &Spec) -> World<AnySite> {
        let sites = self.holders.iter().map(|&site| SiteId::new(site));
        let holders = Holders::new(self.cluster, sites).expect("the strategy draws valid holders");
        let world =
            World::new(self.cluster, &spec.values, &holders).expect("the tested options fit any cluster");
        world.choosing(Chooser::seeded(self.seed()))
    }

    fn seed(&self) -> u64 {
        self.draws.iter().fold(0, |seed, &draw| seed.rotate_left(5) ^ u64::from(draw))
    }

    /// The world at the start of the same run with one permit, in which processes ask for everything that the algorithm knows. If
    /// anyone is inside at the start, some share, and the first of them may be upgradeable.
    pub(crate) fn sharing_world(&self, spec: &Spec) -> World<AnySite> {
        let (cluster, seed) = (Cluster::of(self.cluster.sites), self.seed());
        let inside = |site: &SiteId| !self.holders.is_empty() && seed >> site.index() & 1 == 1;
        let first = if seed >> 60 & 1 == 1 { Mode::Upgradeable } else { Mode::Shared };
        let modes = std::iter::once(first).chain(std::iter::repeat(Mode::Shared));
        let holders = Holders::sharing(cluster, SiteId::all(cluster.sites).filter(inside).zip(modes));
        let holders = holders.expect("readers and one upgradeable share");
        let known: Vec<Demand> = demands().filter(|demand| spec.values.know(*demand)).collect();
        let world = World::new(cluster, &spec.values, &holders).expect("the tested options fit any cluster");
        let world = world.demanding(&spec.values, &known).expect("the algorithm knows them");
        world.choosing(Chooser::seeded(seed))
    }
}

/// Demands in every mode, plain and more urgent.
pub(crate) fn demands() -> impl Iterator<Item = Demand> {
    [0, 2].into_iter().flat_map(|priority| Mode::ALL.map(|mode| Demand::of(mode).with_priority(priority)))
}

/// The specs, of all that tests run, of algorithms that let processes share.
pub(crate) fn specs_with_modes() -> impl Iterator<Item = &'static str> {
    let knows = |spec: &&str| {
        let spec: Spec = spec.parse().expect("a spec of the registry");
        spec.values.know(Demand::of(Mode::Shared))
    };
    ALL.iter().flat_map(|info| info.specs()).filter(knows)
}

fn runs(permits: Permits) -> impl Strategy<Value = Run> {
    let max_permits = if permits == Permits::One { 1 } else { 3_usize };
    let size = (1_usize..=7, 1..=max_permits);
    size.prop_flat_map(|(sites, permits)| {
        let holders = proptest::sample::subsequence((0..sites).collect::<Vec<_>>(), 0..=permits.min(sites));
        (Just(Cluster { sites, permits }), holders, proptest::collection::vec(any::<u16>(), 0..400))
    })
    .prop_map(|(cluster, holders, draws)| Run { cluster, holders, draws })
}

/// Runs `test` on random runs of the algorithm that `spec` names, the same ones every time (`PROPTEST_CASES=5000` tries more than the
/// usual 256). A failure is shrunk and printed with the spec.
pub(crate) fn for_random_runs(spec: &str, test: impl Fn(&Spec, &Run)) {
    for_so_many_random_runs(Config::default().cases, spec, test);
}

/// The same with another number of runs, for rare errors.
pub(crate) fn for_so_many_random_runs(cases: u32, spec: &str, test: impl Fn(&Spec, &Run)) {
    let spec: Spec = spec.parse().expect("a registered name");
    let config = Config { cases, failure_persistence: None, ..Config::default() };
    let draws = TestRng::deterministic_rng(RngAlgorithm::ChaCha);
    let tested = TestRunner::new_with_rng(config, draws).run(&runs(spec.info.permits), |run| {
        test(&spec, &run);
        Ok(())
    });
    if let Err(failure) = tested {
        panic!("{spec}: {failure}");
    }
}

/// Returns the possible action that `draw` selects. There is always one while a site may request or leave.
pub(crate) fn pick(world: &World<AnySite>, delivery: Delivery, draw: u16) -> Action {
    let all: Vec<Action> = world
        .deliveries(delivery)
        .chain(world.releases())
        .chain(world.returns())
        .chain(world.requests())
        .chain(world.changes())
        .collect();
    all[usize::from(draw) % all.len()]
}
