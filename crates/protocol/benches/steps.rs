//! The cost of one step: `cargo bench -p meshlock-protocol`.
//!
//! Each row is one round of a saturated run, in which every site enters once; the item rate is that of `receive`
//! calls, and the allocation columns must stay empty for N up to 64.

use divan::counter::ItemsCount;
use divan::{AllocProfiler, Bencher};
use meshlock_protocol::registry::info::Permits;
use meshlock_protocol::registry::{ALL, Visitor};
use meshlock_protocol::world::Saturated;
use meshlock_protocol::{Algorithm, Cluster, Spec};

#[global_allocator]
static ALLOCATOR: AllocProfiler = AllocProfiler::system();

fn main() {
    divan::main();
}

/// Every algorithm with its defaults.
fn names() -> impl Iterator<Item = &'static str> {
    ALL.iter().map(|info| info.name)
}

struct Round<'a, 'b> {
    sites: usize,
    bencher: Bencher<'a, 'b>,
}

impl Visitor for Round<'_, '_> {
    type Output = ();

    fn visit<A: Algorithm>(self, spec: &Spec) {
        let permits = if spec.info.permits == Permits::One { 1 } else { 2 };
        let cluster = Cluster::of(self.sites).with_permits(permits);
        let mut run = Saturated::<A>::new(cluster, &spec.values).expect("the defaults fit any cluster");
        run.run(5);
        let before = run.received();
        run.run(10);
        let each_round = (run.received() - before) / 10;
        self.bencher.counter(ItemsCount::new(each_round)).bench_local(|| run.run(1));
    }
}

#[divan::bench(args = names())]
fn ten_sites(bencher: Bencher, name: &str) {
    let spec: Spec = name.parse().expect("a registered name");
    spec.visit(Round { sites: 10, bencher });
}

#[divan::bench(args = names())]
fn sixty_four_sites(bencher: Bencher, name: &str) {
    let spec: Spec = name.parse().expect("a registered name");
    spec.visit(Round { sites: 64, bencher });
}
