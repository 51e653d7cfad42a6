//! The assumptions about the network that algorithms really need.

use meshlock_check::assumptions::{Assumption, Weakening, weaken};
use meshlock_check::walk::Walks;
use meshlock_check::{Bounds, Property};
use meshlock_protocol::Spec;
use meshlock_protocol::registry::info::Channels;

fn weakened(spec: &str) -> Vec<Weakening> {
    let spec: Spec = spec.parse().expect("a registered name");
    let limits = Bounds { max_states: 30_000, ..Bounds::new(1, 1) };
    weaken(&spec, &limits, Walks { count: 100, seed: 1 }, |_, _| {}).expect("a few sites")
}

/// Returns the assumptions without which a small run violates a property, each with the property and the number of steps.
fn needed(weakenings: &[Weakening]) -> Vec<(Assumption, Property, usize)> {
    let broken = weakenings.iter().filter_map(|weakening| Some((weakening.assumption, weakening.need()?)));
    broken
        .map(|(assumption, need)| (assumption, need.verdict.property().expect("it breaks"), need.path.len()))
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

/// The contradiction that was: with a fixed choice the small runs hold without the order, though the file of the algorithm says that it needs
/// FIFO with two tokens or more.
#[test]
fn bulgannawar_vaidya_needs_fifo_as_its_choices_show() {
    let weakenings = weakened("bulgannawar-vaidya:inform=0");
    let order = weakenings.iter().find(|weakening| weakening.assumption == Assumption::Order);
    let need = order.and_then(Weakening::need).expect("FIFO is needed");
    assert_eq!(need.spec.to_string(), "bulgannawar-vaidya:inform=0,choice=random,informed=any");
    assert!(!need.is_walked && need.bounds.cluster.sites == 3 && need.bounds.cluster.permits == 2);
    // The algorithm as asked for holds in all runs that were explored.
    let asked_for = order.into_iter().flat_map(|order| &order.trials);
    let mut asked_for = asked_for.filter(|trial| trial.spec.to_string() == "bulgannawar-vaidya:inform=0");
    assert!(asked_for.all(|trial| trial.report.verdict.property().is_none()));
}

/// What the machine finds and what the registry says of every algorithm agree: what is needed is assumed; all lose their way if a message
/// is lost; and those that are said to need FIFO are shown to need it.
#[test]
fn what_is_shown_never_contradicts_the_registry() {
    for info in meshlock_protocol::registry::ALL {
        let weakenings = weakened(info.name);
        assert_eq!(weakenings.len(), Assumption::ALL.len(), "{}", info.name);
        for weakening in &weakenings {
            assert!(!weakening.contradicts_registry(), "{}: {:?}", info.name, needed(&weakenings));
        }
        let needs = needed(&weakenings);
        assert!(needs.iter().any(|need| need.0 == Assumption::NoLosses), "{}: {needs:?}", info.name);
        let needs_order = needs.iter().any(|need| need.0 == Assumption::Order);
        assert_eq!(needs_order, info.channels == Channels::Fifo, "{}: {needs:?}", info.name);
    }
}

#[test]
fn a_need_that_the_registry_does_not_state_is_a_contradiction() {
    let weakenings = weakened("lamport");
    let order = weakenings.into_iter().find(|weakening| weakening.assumption == Assumption::Order);
    let order = order.expect("it is tried");
    assert!(order.is_made && !order.contradicts_registry());
    assert!(Weakening { is_made: false, ..order }.contradicts_registry());
}
