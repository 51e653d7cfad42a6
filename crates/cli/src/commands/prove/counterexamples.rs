//! `meshlock prove --counterexamples FILE`: what `meshlock lab FILE` draws. docs/prove.md describes the file.

use std::io::Write as _;
use std::path::Path;

use meshlock_proof::counterexample::{Breaking, BreakingStep};
use meshlock_proof::models::WrongModel;
use meshlock_proof::structure::{InFlight, StateFact};
use serde_json::{Value, json};

use crate::output;

/// One counterexample to induction, of a model or of a wrong one.
pub(super) fn describe(model: &str, wrong: Option<&WrongModel>, breaking: &Breaking) -> Value {
    let Breaking { sites, clause, why, fails_for, before, step } = breaking;
    json!({
        "model": model,
        "wrong": wrong.map(|wrong| wrong.about),
        "erratum": wrong.and_then(|wrong| wrong.erratum),
        "sites": sites,
        "clause": { "name": clause, "why": why, "fails_for": fails_for },
        "before": state(before),
        "step": step.as_ref().map(|BreakingStep { action, rule, parameters, .. }| {
            json!({ "action": action, "rule": rule, "parameters": parameters })
        }),
        "after": step.as_ref().map(|step| state(&step.after)),
    })
}

/// The messages on their way are listed for themselves.
fn state(facts: &[StateFact]) -> Value {
    let messages = facts.iter().filter_map(|fact| fact.message.as_ref());
    let messages = messages.map(|InFlight { kind, from, to, carries }| {
        json!({ "kind": kind, "from": from, "to": to, "carries": carries })
    });
    let others = facts.iter().filter(|fact| fact.message.is_none());
    let others = others
        .map(|StateFact { symbol, of, value, .. }| json!({ "symbol": symbol, "of": of, "value": value }));
    json!({ "messages": messages.collect::<Vec<_>>(), "facts": others.collect::<Vec<_>>() })
}

/// The whole file, as text.
pub(super) fn document(counterexamples: &[Value]) -> String {
    format!("{}\n", json!({ "counterexamples": counterexamples }))
}

/// Writes the file, and says what to do with it.
pub(super) fn write(path: &Path, counterexamples: &[Value]) -> anyhow::Result<()> {
    output::create("--counterexamples", path)?.write_all(document(counterexamples).as_bytes())?;
    let (found, path) = (output::counted(counterexamples.len() as u64, "counterexample"), path.display());
    eprintln!("meshlock: {found} in {path}; `meshlock lab {path}` draws them");
    Ok(())
}

#[cfg(test)]
mod tests {
    use meshlock_lab::import::{ImportError, import};
    use meshlock_proof::models;

    use super::*;
    use crate::commands::prove::wrong::failure;

    /// The counterexample of this wrong model, as the lab reads it from the file.
    fn read_by_the_lab(model: &str, about: &str) -> Value {
        let covered = models::find(model).unwrap();
        let wrong = covered.wrong.iter().find(|wrong| wrong.about == about).unwrap();
        let found = failure(covered, wrong).unwrap().unwrap();
        let read = import(&document(&[describe(model, Some(wrong), &found)])).unwrap();
        read["counterexamples"][0].clone()
    }

    #[test]
    fn the_lab_reads_a_counterexample_with_its_step_its_clause_and_the_ends_of_messages() {
        if !meshlock_testing::needs_program("z3") {
            return;
        }
        let read = read_by_the_lab("ricart-agrawala", "a waiting site replies at once to everyone");
        assert_eq!(read["step"]["action"], "reply");
        assert_eq!(read["clause"]["name"], "permitted_precedes");
        assert_eq!(read["clause"]["fails_for"].as_array().unwrap().len(), 2, "for two sites: {read}");
        let parameters = &read["step"]["parameters"];
        let (replying, asking) = (&parameters[0][1], &parameters[1][1]);
        let ends = |state: &str, kind: &str| -> Vec<(Value, Value)> {
            let messages = read[state]["messages"].as_array().unwrap().iter();
            let of_kind = messages.filter(|message| message["kind"] == kind);
            of_kind.map(|message| (message["from"].clone(), message["to"].clone())).collect()
        };
        let (request, reply) = ((asking.clone(), replying.clone()), (replying.clone(), asking.clone()));
        assert!(ends("before", "REQUEST").contains(&request), "{read}");
        assert!(!ends("after", "REQUEST").contains(&request), "{read}");
        assert!(
            !ends("before", "REPLY").contains(&reply) && ends("after", "REPLY").contains(&reply),
            "{read}"
        );
        // Where a message has one argument for a site, the model says which end that is.
        let central = models::find("central").unwrap();
        let read = read_by_the_lab("central", central.wrong[0].about);
        let facts = read["before"]["facts"].as_array().unwrap();
        let coordinator = facts.iter().find(|fact| fact["symbol"] == "coordinator").unwrap();
        for message in read["before"]["messages"].as_array().unwrap() {
            assert!([&message["from"], &message["to"]].contains(&&coordinator["value"]), "{read}");
        }
    }

    #[test]
    fn a_file_without_counterexamples_says_that_nothing_is_broken() {
        let refused = import(&document(&[])).unwrap_err();
        assert!(matches!(refused, ImportError::Counterexamples(_)), "{refused}");
        assert!(refused.to_string().contains("no counterexample in it"), "{refused}");
    }
}
