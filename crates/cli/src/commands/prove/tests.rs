//! What is printed about a model that is not proved. The models that ship are, so that no run of the program shows it.

use meshlock_proof::prove;

use super::*;

#[test]
fn a_clause_that_is_not_inductive_is_shown_with_a_state_and_the_step_that_breaks_it() {
    if !(meshlock_testing::needs_program("z3") && meshlock_testing::needs_program("cvc5")) {
        return;
    }
    let covered = models::find("census").expect("a model");
    let model = covered.wrong_model(&covered.wrong[0]);
    let queries = Query::all(&model);
    let judged = prove::judge(&model, &queries, &Solver::ALL, &mut |_, _| {}).expect("both solvers answer");
    let examined = Examined { covered, model, judged, possible: Vec::new(), ties: Vec::new() };
    assert_eq!(outcome([&examined].into_iter()), CommandOutcome::Refuted);
    let mut out = Vec::new();
    let unproved = unproved(&examined).expect("z3 answers");
    show(&TimedProof { examined, took: Duration::ZERO, unproved }, &mut out).expect("a vector takes it");
    let text = String::from_utf8(out).expect("output is UTF-8");
    let (_, shown) = text.split_once("not proved: open, all_have_stopped\n").expect("the clause that fails");
    let mut lines = shown.lines();
    let (state, step) = (lines.next().expect("a state"), lines.next().expect("a step"));
    assert!(state.starts_with("  in this state: ") && state.contains("member(site0, view"), "{text}");
    assert!(step.starts_with("  open(site") && step.contains(" breaks it: + runs(site"), "{text}");
    let row = text.lines().find(|line| line.contains("all_have_stopped")).expect("a row of the table");
    assert!(row.contains('✗'), "{text}");
    assert!(text.contains("census: NOT proved: 27 questions"), "{text}");
}
