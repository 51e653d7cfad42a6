//! `meshlock prove --wrong`: how wrong models fail.

use std::io::Write;

use meshlock_proof::counterexample::{self, Breaking};
use meshlock_proof::models::{Covered, WrongModel};
use meshlock_proof::query::Query;
use meshlock_proof::solver::SolverError;
use serde_json::{Value, json};

use super::{Arguments, counterexamples, json, show_breaking};
use crate::output::{self, CommandOutcome};

/// What breaks the clause at which the proof of a wrong model is said to fail.
pub(super) fn failure(covered: &Covered, wrong: &WrongModel) -> Result<Option<Breaking>, SolverError> {
    let model = covered.wrong_model(wrong);
    let is_meant = |query: &Query| (query.action_name(&model), query.clause_name(&model)) == wrong.fails_at;
    match Query::all(&model).into_iter().find(is_meant) {
        Some(query) => counterexample::find(&model, query),
        None => Ok(None),
    }
}

/// Shows each wrong model with the state and the step that break its clause. Refuted is a wrong model in which none is found.
pub(super) fn tell(
    chosen: &[&'static Covered],
    arguments: &Arguments,
    out: &mut dyn Write,
) -> anyhow::Result<CommandOutcome> {
    let (mut documents, mut drawn, mut outcome) = (Vec::new(), Vec::new(), CommandOutcome::Done);
    for &covered in chosen {
        for wrong in covered.wrong {
            let found = failure(covered, wrong)?;
            match &found {
                Some(breaking) => drawn.push(counterexamples::describe(covered.name, Some(wrong), breaking)),
                None => outcome = CommandOutcome::Refuted,
            }
            if arguments.json {
                documents.push(describe(covered, wrong, found.as_ref()));
                continue;
            }
            let (action, clause) = wrong.fails_at;
            let printed =
                wrong.erratum.map_or(String::new(), |id| format!(" (printed: `meshlock errata {id}`)"));
            writeln!(out, "{}: {}{printed}\n  fails at {action}, {clause}", covered.name, wrong.about)?;
            match found {
                Some(breaking) => show_breaking(&breaking, out)?,
                None => writeln!(out, "  NO small counterexample to induction")?,
            }
            writeln!(out)?;
        }
    }
    if let Some(path) = &arguments.counterexamples {
        counterexamples::write(path, &drawn)?;
    }
    if arguments.json {
        output::json(out, &documents)?;
    }
    Ok(outcome)
}

fn describe(covered: &Covered, wrong: &WrongModel, found: Option<&Breaking>) -> Value {
    let (action, clause) = wrong.fails_at;
    json!({
        "algorithm": covered.name,
        "wrong": wrong.about,
        "erratum": wrong.erratum,
        "action": action,
        "clause": clause,
        "counterexample": found.map(json::counterexample),
    })
}
