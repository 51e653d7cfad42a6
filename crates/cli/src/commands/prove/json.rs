//! `meshlock prove --json`: what docs/prove.md describes.

use meshlock_proof::counterexample::Breaking;
use meshlock_proof::possible::Possible;
use meshlock_proof::solver::{Solver, SolverReply};
use serde_json::{Value, json};

use super::TimedProof;

/// A counterexample to induction.
pub(super) fn counterexample(breaking: &Breaking) -> Value {
    json!({ "before": breaking.before(), "step": breaking.step(), "change": breaking.change() })
}

/// The name of what must be possible.
fn kind(what: Possible) -> &'static str {
    match what {
        Possible::Start => "start",
        Possible::Step { .. } => "action",
        Possible::Premise { .. } => "premise",
    }
}

/// What each solver says to a question.
pub(super) fn answers(replies: &[SolverReply]) -> Vec<Value> {
    let described = Solver::ALL.iter().zip(replies).map(|(solver, SolverReply { answer, steps })| {
        let answer = format!("{answer:?}").to_lowercase();
        json!({ "solver": solver.program(), "answer": answer, "steps": steps, "limit": solver.limit() })
    });
    described.collect()
}

/// Everything about one model.
pub(super) fn describe(TimedProof { examined, took, unproved }: &TimedProof) -> Value {
    let model = &examined.model;
    let questions = examined.judged.iter().map(|judged| {
        let of_it = unproved.iter().find(|unproved| unproved.query == judged.query);
        json!({
            "action": judged.query.action_name(model),
            "clause": judged.query.clause_name(model),
            "judgement": format!("{:?}", judged.judgement()).to_lowercase(),
            "answers": answers(&judged.replies),
            "counterexample": of_it.and_then(|unproved| unproved.found.as_ref()).map(counterexample),
        })
    });
    let runs = examined.ties.iter().map(|(run, tie)| {
        let compared = tie.as_ref().ok();
        json!({
            "spec": examined.covered.spec(run),
            "sites": run.sites,
            "permits": run.permits,
            "entries": run.entries,
            "inside": run.inside,
            "returns": run.returns,
            "states": compared.map(|tie| tie.states),
            "steps": compared.map(|tie| tie.steps),
            "whole": compared.map(|tie| tie.is_whole),
            "differs": tie.as_ref().err().map(ToString::to_string),
        })
    });
    json!({
        "algorithm": examined.covered.name,
        "scope": examined.covered.scope,
        "holds": examined.holds(),
        "seconds": took.as_secs_f64(),
        "questions": questions.collect::<Vec<_>>(),
        "possible": examined.possible.iter().map(|found| {
            json!({ "name": found.what.name(model), "kind": kind(found.what), "state": found.state })
        }).collect::<Vec<_>>(),
        "about_nothing": examined.covered.about_nothing,
        "code": runs.collect::<Vec<_>>(),
    })
}
