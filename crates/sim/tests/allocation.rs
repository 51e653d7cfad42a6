//! In the steady state of a run no event allocates, and many sites fit the memory. Counts are exact and the same on every machine.

use meshlock_protocol::{Cluster, Spec};
use meshlock_sim::draw::Distribution;
use meshlock_sim::network::Delay;
use meshlock_sim::settings::{Load, Rates};
use meshlock_sim::{Settings, Time, measure};

/// Returns the numbers of events and allocations of a run.
fn allocations(spec: &Spec, settings: &Settings) -> (u64, u64) {
    let mut events = 0;
    let counted = allocation_counter::measure(|| {
        events = measure(spec, settings).expect("the algorithm is correct").events;
    });
    (events, counted.count_total)
}

/// Allowed difference between two runs of different lengths: the queue of the longer one may have doubled once more.
const SLACK: u64 = 8;

fn longer_runs_allocate_no_more(spec: &str, settings: &Settings) {
    let parsed: Spec = spec.parse().expect("a registered name");
    let run = |entries| allocations(&parsed, &Settings { entries, ..settings.clone() });
    let (events, allocations) = run(20_000);
    let (more_events, more_allocations) = run(80_000);
    assert!(more_events > 3 * events, "{spec}: {events} events, then {more_events}");
    assert!(
        more_allocations <= allocations + SLACK,
        "{spec}, {:?}: {allocations} allocations for {events} events, {more_allocations} for {more_events}",
        settings.load
    );
}

#[test]
fn no_event_allocates_in_the_steady_state() {
    for spec in ["suzuki-kasami", "ricart-agrawala"] {
        for load in [Load::Saturated, Load::Open, Load::Closed] {
            let settings = Settings { load, ..Settings::new(Cluster::of(10)) };
            longer_runs_allocate_no_more(spec, &settings);
        }
    }
}

#[test]
fn neither_costs_nor_random_delays_make_an_event_allocate() {
    let settings = Settings {
        delay: Delay::Same(Distribution::Exponential { mean: 1.0 }),
        send_cost: Time::units(0.01),
        receive_cost: Time::units(0.02),
        ..Settings::new(Cluster::of(10))
    };
    longer_runs_allocate_no_more("suzuki-kasami", &settings);
    longer_runs_allocate_no_more("ricart-agrawala", &settings);
}

#[test]
fn ten_thousand_sites_that_know_each_other_fit_200_megabytes() {
    for spec in ["suzuki-kasami", "maekawa"] {
        let parsed: Spec = spec.parse().expect("a registered name");
        let settings =
            Settings { entries: 20, rates: Rates::Same(1e-5), ..Settings::new(Cluster::of(10_000)) };
        let used = allocation_counter::measure(|| {
            measure(&parsed, &settings).expect("the algorithm is correct");
        });
        assert!(used.bytes_max < 200_000_000, "{spec} takes {} bytes", used.bytes_max);
    }
}
