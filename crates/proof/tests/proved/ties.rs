//! The code compared with the models.

use meshlock_check::{Properties, Property, explore_spec};
use meshlock_proof::examine::Examined;
use meshlock_proof::models;
use meshlock_proof::tie::TieReport;
use meshlock_protocol::Spec;

use crate::document;

/// Compares all runs, makes sure that the code takes every action of the model in one of them, and holds the document to it.
///
/// Without a solver, so that it is quick: the proofs are asked for elsewhere.
pub(crate) fn code_agrees(name: &str) {
    let covered = models::find(name).expect("a model");
    let (mut taken, mut ties) = (vec![0; covered.model().actions.len()], Vec::new());
    for run in &covered.runs() {
        let report = covered.compare(run).unwrap_or_else(|why| panic!("{name}, {run:?}: {why}"));
        taken.iter_mut().zip(&report.taken).for_each(|(all, some)| *all += some);
        ties.push((*run, Ok(report)));
    }
    for (action, taken) in covered.model().actions.iter().zip(taken).filter(|_| !ties.is_empty()) {
        let is_untaken = covered.untaken.contains(&action.name.as_str());
        assert_eq!(
            taken == 0,
            is_untaken,
            "{name}: {taken} steps of the code are the action {}",
            action.name
        );
    }
    document::assert_says(&Examined::as_if_proved(covered, ties));
}

/// A visit that missed states would prove nothing.
#[test]
fn a_visit_sees_as_many_states_as_the_explorer() {
    for covered in models::ALL.iter().filter(|covered| !covered.small.is_empty()) {
        let run = &covered.small[1];
        let spec: Spec = covered.spec(run).parse().expect("a registered algorithm with its options");
        let bounds = run.bounds(&spec).expect("one site at most is inside");
        let bounds = bounds.checking(Properties::all().without(Property::Fences));
        let explored = explore_spec(&spec, &bounds);
        let TieReport { states, steps, .. } = covered.compare(run).expect("they agree");
        assert_eq!((states, steps), (explored.states, explored.edges), "{}", covered.name);
    }
}
