//! No step allocates in the steady state, and a quiet site takes no more memory than the registry states.
//!
//! Counts are exact and the same on every machine: nothing here depends on time.

use allocation_counter::measure;
use meshlock_protocol::registry::info::{Kind, Permits, Tokens};
use meshlock_protocol::registry::{ALL, Visitor};
use meshlock_protocol::world::Saturated;
use meshlock_protocol::{Algorithm, Cluster, Spec};

/// Returns the number of allocations of all steps after the warm-up.
struct Steady(Cluster);

impl Visitor for Steady {
    type Output = u64;

    fn visit<A: Algorithm>(self, spec: &Spec) -> u64 {
        let mut run = Saturated::<A>::new(self.0, &spec.values).expect("the tested options fit any cluster");
        run.run(5);
        let allocated = measure(|| run.run(5)).count_total;
        assert_eq!(run.entered(), 10 * self.0.sites as u64, "{spec}: every site enters in every round");
        allocated
    }
}

#[test]
fn no_step_allocates_at_steady_state() {
    let mut wasteful = Vec::new();
    for spec in ALL.iter().flat_map(|info| info.specs()) {
        let spec: Spec = spec.parse().unwrap();
        for sites in [2, 10, 64] {
            let permits = if spec.info.permits == Permits::One { 1 } else { 2 };
            let allocated = spec.visit(Steady(Cluster::of(sites).with_permits(permits)));
            if allocated > 0 {
                wasteful.push(format!("{spec} allocates {allocated} times at N={sites}"));
            }
        }
    }
    assert!(wasteful.is_empty(), "{}", wasteful.join("\n"));
}

/// Returns the bytes of the largest quiet site after a run: itself and what it owns, without data that all sites share.
struct Quiet(Cluster);

impl Visitor for Quiet {
    type Output = usize;

    fn visit<A: Algorithm>(self, spec: &Spec) -> usize {
        let mut run = Saturated::<A>::new(self.0, &spec.values).expect("the tested options fit any cluster");
        run.run(2);
        let bytes = |site: A| {
            let freed = measure(|| drop(site));
            size_of::<A>() + usize::try_from(-freed.bytes_current).expect("a drop only frees")
        };
        let sites = run.into_sites();
        // It lives to the end, so that the shared data is not freed with one of the sites.
        let sharer = sites.first().cloned();
        let most = sites.into_iter().map(bytes).max();
        drop(sharer);
        most.expect("at least one site")
    }
}

#[test]
fn a_quiet_site_takes_no_more_memory_than_stated_and_at_least_half_of_it() {
    let mut wrong = Vec::new();
    for info in ALL {
        for sites in [1, 10, 64, 100] {
            let taken = Spec::plain(info).visit(Quiet(Cluster::of(sites)));
            let stated = info.memory.at(sites);
            if taken > stated || taken * 2 < stated {
                wrong.push(format!("{}, N={sites}: takes {taken} bytes, stated are {stated}", info.name));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn token_algorithms_say_how_many_tokens_there_are() {
    for info in ALL {
        let token = info.kind == Kind::Token;
        assert_eq!(token, info.tokens != Tokens::None, "{}", info.name);
    }
}
