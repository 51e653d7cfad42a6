//! Random runs of any algorithm, for the tests that must hold for all of them.

use meshlock_protocol::registry::AnySite;
use meshlock_protocol::registry::info::Permits;
use meshlock_protocol::world::{Action, Delivery, World};
use meshlock_protocol::{Chooser, Cluster, Holders, SiteId, Spec};
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
        let seed = self.draws.iter().fold(0, |seed: u64, &draw| seed.rotate_left(5) ^ u64::from(draw));
        world.choosing(Chooser::seeded(seed))
    }
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
        .collect();
    all[usize::from(draw) % all.len()]
}
