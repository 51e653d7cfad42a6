//! Processes that share: every mix of modes, with changes of mode, over channels without order. Larger runs are in `docs/CHECKED.md`.

use meshlock_check::{Bounds, Bypass, BypassBound, Report, Verdict, explore_spec};
use meshlock_protocol::{Mode, PlanError, Spec};

fn explored(bounds: &Bounds) -> Report {
    let spec: Spec = "ricart-agrawala:modes".parse().expect("a registered name");
    let report = explore_spec(&spec, bounds);
    assert_eq!(report.verdict, Verdict::Holds, "{:?}", report.path);
    report
}

fn states(bounds: &Bounds) -> usize {
    explored(bounds).states
}

#[test]
fn readers_writers_and_upgrades_hold_in_every_schedule() {
    let run = |sites, entries| Bounds::new(sites, entries).unordered();
    let all = |sites, entries| run(sites, entries).with_modes(&Mode::ALL);
    assert_eq!(states(&run(2, 2)), 195, "as many as without the option");
    let shared = [
        all(2, 2),
        all(2, 1).with_changes(1),
        all(2, 1).with_changes(1).with_duplicates(1),
        run(3, 1).with_modes(&[Mode::Shared, Mode::Exclusive]),
    ];
    assert_eq!(shared.map(|bounds| states(&bounds)), [3538, 1284, 8044, 44_699]);
}

#[test]
fn a_writer_is_passed_by_each_other_site_at_most_once_after_it_was_heard() {
    let report = explored(&Bounds::new(2, 2).unordered().with_modes(&[Mode::Shared, Mode::Exclusive]));
    let bypass = Bypass { from_call: BypassBound::AtMost(2), once_heard: BypassBound::AtMost(1) };
    assert_eq!(report.bypass, Some(bypass));
    // Readers alone are in nobody's way.
    let readers = explored(&Bounds::new(3, 1).unordered().with_modes(&[Mode::Shared]));
    let bypass = Bypass { from_call: BypassBound::AtMost(0), once_heard: BypassBound::AtMost(0) };
    assert_eq!(readers.bypass, Some(bypass));
}

#[test]
fn an_algorithm_without_modes_is_not_explored_with_them() {
    let spec: Spec = "ricart-agrawala".parse().unwrap();
    let bounds = Bounds::new(2, 1).with_modes(&Mode::ALL);
    let error = meshlock_check::explore_spec_with(&spec, &bounds, |_| {}).unwrap_err();
    assert!(matches!(error, PlanError::ExclusiveOnly { mode: Mode::Shared, .. }), "{error}");
}

#[test]
fn a_run_with_modes_or_changes_is_not_reduced() {
    assert!(Bounds::new(2, 1).can_be_reduced());
    assert!(!Bounds::new(2, 1).with_modes(&[Mode::Shared]).can_be_reduced());
    assert!(!Bounds::new(2, 1).with_changes(1).can_be_reduced());
    let held = Bounds::new(2, 1).shared_by(&[(0, Mode::Shared)]).unwrap();
    assert!(!held.can_be_reduced());
}
