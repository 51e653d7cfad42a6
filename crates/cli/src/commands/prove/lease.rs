//! `meshlock prove lease`: the inequalities of leases, as real arithmetic.

use std::io::Write;

use meshlock_proof::inequality::{JudgedInequality, lease};
use meshlock_proof::solver::SolverError;
use serde_json::{Value, json};

/// The name of these inequalities on the command line.
pub(super) const NAME: &str = "lease";

/// Asks both solvers about every inequality.
pub(super) fn judge() -> Result<Vec<JudgedInequality>, SolverError> {
    lease::ALL.iter().map(|inequality| inequality.judge()).collect()
}

/// Prints each claim with its assumptions, and why what is wrong is wrong.
pub(super) fn show(judged: &[JudgedInequality], out: &mut dyn Write) -> anyhow::Result<()> {
    for judged in judged {
        let inequality = judged.inequality;
        writeln!(out, "{NAME}: {}\n{}", inequality.name, inequality.why)?;
        for assumption in inequality.assumptions {
            writeln!(out, "  {}: {}  {}", assumption.name, assumption.why, assumption.holds)?;
        }
        let verdict = if judged.holds() { "proved by both solvers" } else { "NOT proved" };
        writeln!(out, "  claim, {verdict}: {}", inequality.claim)?;
        for (wrong, counterexample) in inequality.wrong.iter().zip(&judged.counterexamples) {
            let numbers = counterexample.as_deref().unwrap_or("none is found, though one is expected");
            writeln!(out, "  if {}, it does not follow: {numbers}", wrong.about)?;
        }
        writeln!(out)?;
    }
    let proved = judged.iter().filter(|judged| judged.holds()).count();
    writeln!(out, "{NAME}: {proved} of {} inequalities proved, for all constants and times\n", judged.len())?;
    Ok(())
}

/// The same as JSON.
pub(super) fn describe(judged: &JudgedInequality) -> Value {
    let inequality = judged.inequality;
    json!({
        "inequality": inequality.name,
        "why": inequality.why,
        "claim": inequality.claim,
        "assumptions": inequality.assumptions.iter().map(|assumption| json!({
            "name": assumption.name,
            "why": assumption.why,
            "formula": assumption.holds,
            "computed": assumption.is_computed,
        })).collect::<Vec<_>>(),
        "holds": judged.holds(),
        "answers": super::json::answers(&judged.replies),
        "wrong": inequality.wrong.iter().zip(&judged.counterexamples).map(|(wrong, counterexample)| {
            json!({ "about": wrong.about, "instead_of": wrong.instead_of, "counterexample": counterexample })
        }).collect::<Vec<_>>(),
    })
}
