//! The proofs, and wrong models that must not be proved.

use meshlock_proof::examine::{Examined, TieEffort, examine};
use meshlock_proof::inequality::{Inequality, JudgedInequality, lease};
use meshlock_proof::models::{self, Covered, WrongModel};
use meshlock_proof::query::Query;
use meshlock_proof::solver::SolverAnswer;
use meshlock_proof::{counterexample, document, fragment};

use crate::has_solvers;

/// Whose proofs take longest: `soak` asks these questions.
const LONG: &[&str] = &["raymond", "delegated", "raymond-k", "srimani-reddy", "bulgannawar-vaidya", "census"];

/// Asks everything about a model, and compares the code with it.
fn examined(covered: &'static Covered) -> Examined {
    let examined = examine(covered, TieEffort::Short, &mut |_| {}).expect("both solvers answer");
    let Examined { model, judged, .. } = &examined;
    for judged in judged {
        let (action, clause) = (judged.query.action_name(model), judged.query.clause_name(model));
        assert_eq!(judged.answers, [SolverAnswer::Impossible; 2], "{}: {action}, {clause}", covered.name);
    }
    assert!(examined.holds(), "{}", covered.name);
    examined
}

const RENEW: &str = "run: cargo run --release -- prove all --record docs/PROVED.md";

fn recorded() -> String {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/PROVED.md");
    std::fs::read_to_string(path).expect("the document")
}

/// Holds the document to what is found about the models whose proofs are short.
#[test]
fn the_document_says_what_is_proved_by_both_solvers_of_all_but_the_longest_models() {
    if !has_solvers() {
        return;
    }
    let document = recorded();
    for covered in models::all().filter(|covered| !LONG.contains(&covered.name)) {
        for part in document::parts(&examined(covered)) {
            assert!(document.contains(&part), "docs/PROVED.md is stale about {}; {RENEW}", covered.name);
        }
    }
    judged_inequalities();
}

/// Asks everything about every model, and holds the whole document to what is found.
#[test]
fn the_document_says_what_is_proved_and_everything_is_by_both_solvers() {
    if !has_solvers() {
        return;
    }
    let examined: Vec<Examined> = models::all().map(examined).collect();
    let found = document::markdown(&examined, &judged_inequalities());
    assert!(recorded() == found, "docs/PROVED.md is stale; {RENEW}");
}

#[test]
fn what_takes_long_is_a_model() {
    for name in LONG {
        assert!(models::find(name).is_some_and(|covered| covered.name == *name), "{name}");
    }
}

/// The inequalities, each proved by both solvers, and refuted with each wrong assumption.
fn judged_inequalities() -> Vec<JudgedInequality> {
    let judged = |inequality: &'static Inequality| inequality.judge().expect("both solvers answer");
    let judged: Vec<JudgedInequality> = lease::ALL.iter().map(judged).collect();
    for judged in &judged {
        assert!(judged.holds(), "{judged:?}");
    }
    judged
}

#[test]
fn every_proof_says_that_never_two_are_inside() {
    for covered in models::ALL {
        let model = covered.model();
        assert!(
            model.clauses.iter().any(|clause| clause.is_safety && clause.name == "exclusion"),
            "{}",
            covered.name
        );
    }
}

/// The models that leave the decidable fragment.
const UNDECIDABLE: &[&str] = &["lamport", "maekawa", "sanders", "raymond", "raymond-k"];

#[test]
fn all_others_stay_in_the_decidable_fragment() {
    for covered in models::all() {
        let (name, obstacles) = (covered.name, fragment::obstacles(&covered.model()));
        assert_eq!(obstacles.is_empty(), !UNDECIDABLE.contains(&name), "{name}: {obstacles:?}");
    }
}

/// The question at which the proof of a wrong model fails.
fn failing(covered: &Covered, wrong: &WrongModel) {
    let model = covered.wrong_model(wrong);
    let (action, clause) = wrong.fails_at;
    let is_meant =
        |query: &&Query| (query.action_name(&model), query.clause_name(&model)) == (action, clause);
    let queries = Query::all(&model);
    let query =
        *queries.iter().find(is_meant).unwrap_or_else(|| panic!("no question about {action}, {clause}"));
    let found = counterexample::find(&model, query).expect("z3 answers");
    let found = found.unwrap_or_else(|| panic!("{}: {}: no small counterexample", covered.name, wrong.about));
    // A theorem fails in a state, without a step.
    let step = found.step.unwrap_or_else(|| query.action_name(&model).to_owned());
    assert!(step.starts_with(action), "{}: {}: {step}", covered.name, wrong.about);
}

#[test]
fn a_wrong_model_fails_at_a_named_action_and_clause_with_a_small_counterexample() {
    if !has_solvers() {
        return;
    }
    for covered in models::all() {
        assert!(!covered.wrong.is_empty(), "{} has no wrong model", covered.name);
        covered.wrong.iter().for_each(|wrong| failing(covered, wrong));
    }
}

#[test]
fn what_is_proved_as_printed_names_a_known_erratum() {
    for wrong in models::all().flat_map(|covered| covered.wrong) {
        if let Some(erratum) = wrong.erratum {
            assert!(meshlock_check::errata::find(erratum).is_some(), "{erratum}");
        }
    }
}
