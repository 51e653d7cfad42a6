//! Runs in which a share of the requests is shared.

use meshlock_protocol::{Cluster, PlanError, Spec};
use meshlock_sim::settings::{Load, Rates};

use meshlock_sim::violation::Stopped;
use meshlock_sim::{Report, Settings, Time, draw::Distribution, measure};

fn settings(readers: f64) -> Settings {
    Settings {
        load: Load::Saturated,
        rates: Rates::Same(1.0),
        inside: Distribution::Constant(Time::units(1.0)),
        entries: 5_000,
        readers,
        ..Settings::new(Cluster::of(5))
    }
}

fn run(spec: &str, readers: f64) -> Report {
    let spec: Spec = spec.parse().expect("a registered name");
    measure(&spec, &settings(readers)).expect("a run without a violation")
}

#[test]
fn readers_enter_together_so_that_more_enter_in_the_same_time() {
    let throughput = |readers| run("ricart-agrawala:modes", readers).throughput.mean;
    let [writers, half, most, all] = [0.0, 0.5, 0.9, 1.0].map(throughput);
    assert!(writers < half && half < most && most < all, "{writers} {half} {most} {all}");
    // A writer alone: 1 unit inside and 1 for the reply. Of readers all five sites do that at once, with 2 for request and reply.
    assert!((writers - 0.5).abs() < 0.01, "{writers}");
    assert!((all - 5.0 / 3.0).abs() < 0.01, "{all}");
}

#[test]
fn readers_and_writers_are_counted_apart() {
    let report = run("ricart-agrawala:modes", 0.8);
    let by_mode = report.by_mode.unwrap();
    assert_eq!(by_mode.shared.entries + by_mode.exclusive.entries, report.entries);
    let share = by_mode.shared.entries as f64 / report.entries as f64;
    assert!((share - 0.8).abs() < 0.03, "{share}");
    assert!(by_mode.shared.wait.mean < by_mode.exclusive.wait.mean, "{by_mode:?}");
    // Each entry costs what an exclusive one costs.
    assert!((report.messages_per_entry.mean - 8.0).abs() < 0.05, "{}", report.messages_per_entry.mean);
}

#[test]
fn without_readers_the_option_changes_nothing_and_modes_are_not_reported() {
    let [plain, modes] = ["ricart-agrawala", "ricart-agrawala:modes"].map(|spec| run(spec, 0.0));
    assert_eq!(plain, modes);
    assert_eq!(plain.by_mode, None);
}

#[test]
fn an_algorithm_without_modes_refuses_readers() {
    let spec: Spec = "ricart-agrawala".parse().unwrap();
    let refused = measure(&spec, &settings(0.5));
    assert!(matches!(refused, Err(Stopped::Plan(PlanError::ExclusiveOnly { .. }))), "{refused:?}");
}
