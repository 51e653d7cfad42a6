//! The part of docs/PROVED.md about inequalities.

use std::fmt::Write as _;

use super::JudgedInequality;

const HEAD: &str = "
# What is proved of a node's times

The inequality of leases is no matter of finitely many sites, but of real numbers: times on clocks that drift apart, with the constants of the
configuration as variables. Each claim below is one question to both solvers: *can the assumptions hold and the claim not?* The formulas are in
[crates/proof/src/inequality/lease.rs](../crates/proof/src/inequality/lease.rs), the arguments in words in the header of
[crates/cluster/src/lease/mod.rs](../crates/cluster/src/lease/mod.rs). `meshlock prove lease` asks again.

What the code computes is marked, and held to these formulas by tests in
[crates/cluster/src/lease/tests/inequalities.rs](../crates/cluster/src/lease/tests/inequalities.rs), which put the code's own numbers into them for
drawn configurations and times. That both clocks keep the bound on their drift, and that events come in the order given, is assumed.
";

/// All inequalities.
pub fn markdown(judged: &[JudgedInequality]) -> String {
    let mut text = HEAD.to_owned();
    for judged in judged {
        section(judged, &mut text);
    }
    text
}

fn section(judged: &JudgedInequality, text: &mut String) {
    let mut line = |what: String| writeln!(text, "{what}").expect("a string takes all that is written to it");
    let inequality = judged.inequality;
    let verdict = if judged.holds() { "proved by z3 and cvc5" } else { "NOT proved" };
    line(format!(
        "\n## lease: {}\n\n{}\n\nClaim, {verdict}: `{}`\n",
        inequality.name, inequality.why, inequality.claim
    ));
    line("| assumption | | formula | |\n|---|---|---|---|".to_owned());
    for assumption in inequality.assumptions {
        let by = if assumption.is_computed { "the code computes it" } else { "" };
        line(format!("| `{}` | {} | `{}` | {by} |", assumption.name, assumption.why, assumption.holds));
    }
    line("\nThe assumptions do not contradict each other: both solvers find numbers for them.\n".to_owned());
    line("| bug | of | noticed at |\n|---|---|---|".to_owned());
    for (mutant, broken) in inequality.mutants {
        line(format!("| `{mutant}` | the code | `{broken}` |"));
    }
    for wrong in inequality.wrong {
        line(format!("| {} | `{}` | the claim does not follow |", wrong.about, wrong.instead_of));
    }
}
