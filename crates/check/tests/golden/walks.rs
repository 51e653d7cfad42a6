//! Random walks: they meet what the search finds, replay in the world, are the same for the same seed, and meet nothing where nothing is.

use meshlock_check::walk::{Walked, Walks, walk};
use meshlock_check::{Bounds, Verdict, story_spec};
use meshlock_protocol::Spec;

fn walked(spec: &Spec, bounds: &Bounds, count: u32) -> Walked {
    walk(spec, bounds, Walks { count, seed: 3 }).expect("a few sites")
}

#[test]
fn a_walk_meets_a_violation_that_needs_choices_and_replays_with_them() {
    let spec: Spec = "bulgannawar-vaidya:inform=0,choice=random".parse().expect("a registered name");
    let bounds = Bounds::new(4, 2).with_permits(2).unordered();
    let met = walked(&spec, &bounds, 500);
    let Some((Verdict::Violated(_), path)) = &met.found else { panic!("{met:?}") };
    assert!(path.iter().any(|step| !step.answers.is_empty()));
    assert!(story_spec(&spec, &bounds, path).violation.is_some());
    let again = walked(&spec, &bounds, 500);
    assert_eq!((again.found, again.walks, again.steps), (met.found, met.walks, met.steps));
}

#[test]
fn a_walk_meets_a_deadlock() {
    let spec: Spec = "suzuki-kasami:text=printed".parse().expect("a registered name");
    let met = walked(&spec, &Bounds::new(2, 1), 50);
    // The shortest of them is as short as the search's.
    let found = met.found.map(|(verdict, path)| (matches!(verdict, Verdict::Deadlock(_)), path.len()));
    assert_eq!(found, Some((true, 6)));
}

#[test]
fn where_nothing_is_wrong_a_walk_meets_nothing_and_ends_by_itself() {
    let spec: Spec = "naimi-trehel".parse().expect("a registered name");
    let met = walked(&spec, &Bounds::new(5, 2), 20);
    assert!(met.found.is_none() && met.walks == 20 && met.steps > 20 * 40, "{met:?}");
}
