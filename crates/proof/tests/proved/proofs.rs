//! The proofs, and wrong models that must not be proved.

use meshlock_proof::examine::{Examined, TieEffort, examine};
use meshlock_proof::inequality::{Inequality, JudgedInequality, lease};
use meshlock_proof::model::ClauseKind;
use meshlock_proof::models::{self, Covered, WrongModel};
use meshlock_proof::possible::Possible;
use meshlock_proof::query::Query;
use meshlock_proof::solver::{Solver, SolverAnswer};
use meshlock_proof::{counterexample, fragment, text};

use crate::{document, has_solvers};

/// Every question is answered within this part of the steps that its solver may take.
const BUDGET: u64 = 4;

/// Asks everything about a model, and compares the code with it in these runs.
fn examined(covered: &'static Covered, effort: TieEffort) -> Examined {
    let examined = examine(covered, effort, &mut |_| {}).expect("both solvers answer");
    let Examined { model, judged, .. } = &examined;
    for judged in judged {
        let (action, clause) = (judged.query.action_name(model), judged.query.clause_name(model));
        for (solver, reply) in Solver::ALL.into_iter().zip(&judged.replies) {
            let what = format!("{}: {action}, {clause}: {}", covered.name, solver.program());
            assert_eq!(reply.answer, SolverAnswer::Impossible, "{what}");
            let steps = reply.steps.unwrap_or_else(|| panic!("{what} does not tell its steps"));
            // A change that makes a proof harder is to be noticed long before a question becomes open.
            assert!(steps <= solver.limit() / BUDGET, "{what} takes {steps} steps of {}", solver.limit());
        }
    }
    let empty: Vec<&str> = examined.empty().map(|what| what.name(model)).collect();
    assert!(empty.is_empty(), "{}: a proof about nothing: {empty:?}", covered.name);
    assert!(examined.holds(), "{}", covered.name);
    examined
}

/// Both solvers prove everything about this model.
///
/// The code is compared by a test of its own, which holds the document to what is found if everything is proved (`ties.rs`).
pub(crate) fn both_solvers_prove(name: &str) {
    if has_solvers() {
        let examined = examined(models::find(name).expect("a model"), TieEffort::None);
        assert_cheap(&examined);
    }
}

/// Everything that is proved in each run of the tests takes together no more steps than any one question is to take, so that it stays a
/// matter of seconds.
fn assert_cheap(examined: &Examined) {
    for solver in Solver::ALL {
        let (name, program, total) = (examined.covered.name, solver.program(), examined.steps(solver));
        let most = solver.limit() / BUDGET;
        assert!(
            total <= most,
            "{name} takes {program} {total} steps, more than {most}: leave its proof to soak"
        );
    }
}

#[test]
#[should_panic(expected = "central takes z3 10000001 steps, more than 10000000: leave its proof to soak")]
fn a_proof_that_takes_long_is_noticed() {
    let mut examined = Examined::as_if_proved(models::find("central").expect("a model"), Vec::new());
    let half = Solver::Z3.limit() / BUDGET / 2;
    examined.judged[0].replies[0].steps = Some(half);
    examined.judged[1].replies[0].steps = Some(half);
    examined.judged[1].replies[1].steps = Some(100_000);
    assert_cheap(&examined);
    examined.judged[2].replies[0].steps = Some(1);
    assert_cheap(&examined);
}

/// Every wrong model fails where it is recorded, with a small counterexample.
pub(crate) fn wrong_models_fail(name: &str) {
    if has_solvers() {
        let covered = models::find(name).expect("a model");
        assert!(!covered.wrong.is_empty(), "{name} has no wrong model");
        covered.wrong.iter().for_each(|wrong| failing(covered, wrong));
    }
}

/// Asks everything about every model, and holds the whole document to what is found.
#[test]
fn the_document_says_what_is_proved_and_everything_is_by_both_solvers() {
    if !has_solvers() {
        return;
    }
    let examined: Vec<Examined> = models::all().map(|covered| examined(covered, TieEffort::Short)).collect();
    examined.iter().for_each(document::assert_says);
    let found = meshlock_proof::document::markdown(&examined, &judged_inequalities());
    assert!(document::text() == found, "docs/PROVED.md is stale; {}", document::RENEW);
}

#[test]
fn the_inequalities_are_proved_and_are_refuted_with_each_wrong_assumption() {
    if has_solvers() {
        judged_inequalities();
    }
}

/// The inequalities, each proved by both solvers, and refuted with each wrong assumption.
fn judged_inequalities() -> Vec<JudgedInequality> {
    let judged = |inequality: &'static Inequality| inequality.judge().expect("both solvers answer");
    let judged: Vec<JudgedInequality> = lease::ALL.iter().map(judged).collect();
    for judged in &judged {
        assert!(judged.holds(), "{judged:?}");
        for (solver, reply) in Solver::ALL.into_iter().zip(&judged.replies) {
            let steps = reply.steps.expect("both solvers tell their steps");
            assert!(steps <= solver.limit() / BUDGET, "{}: {steps}", judged.inequality.name);
        }
    }
    judged
}

/// A guard that contradicts a clause, a clause that contradicts another, and a theorem about what never is.
#[test]
fn a_proof_about_nothing_is_noticed() {
    if !has_solvers() {
        return;
    }
    let sound = r#"
        sort site;
        var i, j: site;
        relation waiting(site), inside(site);
        init nobody "w": !waiting(i) & !inside(i);
        action ask(i) "r" { when !waiting(i) & !inside(i); waiting(i) := true; }
        invariant one_phase "w": !(waiting(i) & inside(i));
        safety exclusion "w": inside(i) & inside(j) -> i = j;
        theorem about_waiting "w": waiting(i) -> !inside(i);
    "#;
    let empty = |from: &str, to: &str| -> Vec<String> {
        let model = text::parse(&sound.replace(from, to)).expect("a model");
        let found = Possible::all(&model).into_iter().map(|what| what.find(&model).expect("z3 answers"));
        let empty = found.filter(|found| found.state.is_none());
        empty.map(|found| found.what.name(&model).to_owned()).collect()
    };
    assert_eq!(empty("", ""), Vec::<String>::new());
    assert_eq!(empty("when !waiting(i) & !inside(i)", "when waiting(i) & inside(i)"), ["ask"]);
    assert_eq!(empty("!(waiting(i) & inside(i));", "!waiting(i);"), ["about_waiting"]);
    let all = ["(start)", "ask", "exclusion", "about_waiting"];
    assert_eq!(empty("!(waiting(i) & inside(i));", "exists i. inside(i) & !inside(i);"), all);
}

#[test]
fn every_proof_says_that_never_two_are_inside() {
    for covered in models::ALL {
        let model = covered.model();
        assert!(
            model
                .clauses
                .iter()
                .any(|clause| clause.kind == ClauseKind::Safety && clause.name == "exclusion"),
            "{}",
            covered.name
        );
    }
}

/// The models that leave the decidable fragment.
const UNDECIDABLE: &[&str] = &[
    "lamport",
    "lodha-kshemkalyani",
    "maekawa",
    "sanders",
    "raymond",
    "raymond-k",
    "naimi-trehel",
    "srimani-reddy",
    "bulgannawar-vaidya",
    "makki",
];

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
    let step = found.step().unwrap_or_else(|| query.action_name(&model).to_owned());
    assert!(step.starts_with(action), "{}: {}: {step}", covered.name, wrong.about);
}

#[test]
fn what_is_proved_as_printed_names_a_known_erratum() {
    for wrong in models::all().flat_map(|covered| covered.wrong) {
        if let Some(erratum) = wrong.erratum {
            assert!(meshlock_check::errata::find(erratum).is_some(), "{erratum}");
        }
    }
}
