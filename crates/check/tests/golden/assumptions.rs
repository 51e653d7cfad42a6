//! The assumptions about the network that algorithms really need.

use meshlock_check::assumptions::{Assumption, Weakening, weaken};
use meshlock_check::{Bounds, Property};
use meshlock_protocol::Spec;

fn weakened(spec: &str) -> Vec<Weakening> {
    let spec: Spec = spec.parse().expect("a registered name");
    let limits = Bounds { max_states: 30_000, ..Bounds::new(1, 1) };
    weaken(&spec, &limits, |_, _| {}).expect("two and three sites")
}

/// Returns the assumptions without which a small run violates a property, each with the property and the number of steps.
fn needed(weakenings: &[Weakening]) -> Vec<(Assumption, Property, usize)> {
    let broken = weakenings.iter().filter_map(|weakening| Some((weakening.assumption, weakening.broken()?)));
    broken
        .map(|(assumption, trial)| {
            let property = trial.report.verdict.property().expect("it breaks");
            (assumption, property, trial.report.path.len())
        })
        .collect()
}

#[test]
fn lamport_needs_fifo_reliable_channels_and_no_failures() {
    let weakenings = weakened("lamport");
    assert_eq!(weakenings.len(), Assumption::ALL.len());
    let needs: Vec<Assumption> = needed(&weakenings).iter().map(|need| need.0).collect();
    assert!(needs.contains(&Assumption::Order) && needs.contains(&Assumption::NoLosses), "{needs:?}");
    assert!(needs.contains(&Assumption::NoFailures) && !needs.contains(&Assumption::None), "{needs:?}");
}

#[test]
fn suzuki_kasami_needs_reliable_channels_but_no_fifo() {
    let weakenings = weakened("suzuki-kasami");
    let needs = needed(&weakenings);
    assert!(!needs.iter().any(|need| need.0 == Assumption::Order), "{needs:?}");
    assert!(
        needs.iter().any(|need| need.0 == Assumption::NoLosses && need.1 == Property::Deadlock),
        "{needs:?}"
    );
}

#[test]
fn a_printed_text_that_fails_under_all_assumptions_is_not_weakened_further() {
    let weakenings = weakened("suzuki-kasami:text=printed");
    assert_eq!(needed(&weakenings), [(Assumption::None, Property::Deadlock, 6)]);
    assert_eq!(weakenings.len(), 1);
}

#[test]
fn every_algorithm_needs_messages_not_to_be_lost() {
    for info in meshlock_protocol::registry::ALL {
        let needs = needed(&weakened(info.name));
        assert!(needs.iter().any(|need| need.0 == Assumption::NoLosses), "{}: {needs:?}", info.name);
    }
}
