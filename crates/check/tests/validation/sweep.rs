//! A search that lets go of levels because memory has ended finds what one with enough memory finds.

use meshlock_check::{Bounds, Property, Report, Verdict, explore_spec};
use meshlock_protocol::Spec;

/// The run with all the memory it wants, and with nine tenths of that.
fn whole_and_swept(spec: &str, bounds: &Bounds) -> [Report; 2] {
    let spec: Spec = spec.parse().expect("a registered name");
    let whole = explore_spec(&spec, bounds);
    assert_eq!(whole.swept, None);
    let swept = explore_spec(&spec, &Bounds { most_memory: whole.memory / 10 * 9, ..bounds.clone() });
    assert!(swept.swept.is_some(), "{spec}: {:?} within {} bytes", swept.verdict, swept.memory);
    [whole, swept]
}

#[test]
fn a_sweep_counts_what_a_whole_search_counts() {
    let told = |report: &Report| {
        let Report { verdict, states, depth, edges, local_states, messages, .. } = report;
        format!("{verdict:?} {states} {depth} {edges} {local_states} {messages:?}")
    };
    for (spec, bounds) in [
        ("lamport", Bounds::new(3, 1)),
        ("lamport:omit-replies", Bounds::new(3, 1)),
        ("ricart-agrawala", Bounds::new(3, 2).unordered()),
        ("raymond-k", Bounds::new(3, 2).unordered()),
        ("suzuki-kasami", Bounds::new(3, 2).unordered()),
    ] {
        let [whole, swept] = whole_and_swept(spec, &bounds);
        assert_eq!(whole.verdict, Verdict::Holds);
        assert_eq!(told(&swept), told(&whole), "{spec}");
    }
}

/// The way there is searched again, and is a shortest one.
#[test]
fn a_sweep_finds_a_shortest_way_to_what_is_wrong() {
    let [whole, swept] = whole_and_swept("carvalho-roucairol:text=printed", &Bounds::new(3, 3).unordered());
    assert_eq!(whole.verdict.property(), Some(Property::Deadlock));
    assert_eq!((swept.verdict.property(), swept.path.len()), (Some(Property::Deadlock), whole.path.len()));
}

/// To leave and ask again is one step or two, with the same end.
#[test]
fn a_state_that_is_reached_after_different_numbers_of_steps_counts_once_for_each() {
    let [whole, swept] = whole_and_swept("ricart-agrawala", &Bounds::new(3, 2).unordered().with_returns());
    assert_eq!((&whole.verdict, &swept.verdict), (&Verdict::Holds, &Verdict::Holds));
    assert!(swept.states > whole.states && swept.states < 2 * whole.states, "{}", swept.states);
}

/// The longer way to a state that was met before the sweep is not followed, so that it is not known what the dearest run costs.
#[test]
fn a_sweep_after_steps_between_states_of_one_level_tells_no_costs() {
    let [whole, swept] = whole_and_swept("lodha-kshemkalyani", &Bounds::new(3, 2));
    assert_eq!((&whole.verdict, &swept.verdict), (&Verdict::Holds, &Verdict::Holds));
    assert!(swept.states > whole.states, "{}", swept.states);
    assert_eq!((whole.messages, swept.messages), (Some((16, 24)), None));
}

/// Its sites come back to states that they were in, so that a sweep might never end.
#[test]
fn a_run_that_may_go_round_is_left_unfinished() {
    let spec: Spec = "sanders".parse().expect("a registered name");
    let bounds = Bounds::new(3, 1).unordered().with_crashes(1);
    let whole = explore_spec(&spec, &bounds);
    assert_eq!(whole.verdict, Verdict::Holds);
    let limited = explore_spec(&spec, &Bounds { most_memory: whole.memory / 10 * 9, ..bounds });
    assert_eq!((limited.verdict, limited.swept), (Verdict::Unfinished, None));
}
