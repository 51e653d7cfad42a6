//! Deliberate bugs and errors of printed texts that break no proof and no comparison, each with the reason.
//!
//! Bugs of an algorithm with a model are recorded there ([`Covered::beyond`](crate::models::Covered)). Here are the others, and the errata.

use std::fmt::Write as _;

use meshlock_check::errata::{self, Erratum, Evidence, Run, TextFault};
use meshlock_protocol::Spec;
use meshlock_protocol::mutant::Mutant;

use crate::models;

/// Why no proof notices a deliberate bug of an algorithm in [`models::WITHOUT`].
const NO_MODEL: &str = "the algorithm has no model";

/// Deliberate bugs that belong to no model: the bug, what it is a bug of, and the reason.
pub const MUTANTS: &[(Mutant, &str, &str)] = &[
    (
        Mutant::RicartAgrawalaUnnamedNumber,
        "`ricart-agrawala`",
        "it is in the normal form of endless runs, and changes nothing that sites do",
    ),
    (Mutant::NeilsenMizunoForgottenFollow, "`neilsen-mizuno`", NO_MODEL),
    (Mutant::NeilsenMizunoPrivilegeKept, "`neilsen-mizuno`", NO_MODEL),
    (Mutant::CaoSinghalTransferKept, "`cao-singhal`", NO_MODEL),
    (Mutant::CaoSinghalUntoldForward, "`cao-singhal`", NO_MODEL),
    (Mutant::FenceClockDeaf, "the host", "it is in the host, which is no part of an algorithm"),
];

/// Errata of algorithms with a model that no wrong model shows, each with the reason.
pub const ERRATA: &[(&str, &str)] = &[
    ("lodha-combined-exit", "the model leaves out `combined-exit`, and the text does not say what it needs"),
    ("singhal-heuristic-twice", "how often others enter while a site waits is no part of what is proved"),
    (
        "singhal-second-step-1",
        "it is about a case of the detailed update rules; the model has the condensed rule",
    ),
];

/// The errata of algorithms with a model, each with the run in which the printed text fails.
pub fn explored() -> impl Iterator<Item = (&'static Erratum, &'static Run)> {
    let is_error = |erratum: &&Erratum| erratum.kind != TextFault::Question;
    errata::all().filter(is_error).filter_map(|erratum| match &erratum.evidence {
        Evidence::Exploration { printed, repaired, .. } => {
            // Some of Singhal's are shown by a twin, which is no registered algorithm.
            (is_modelled(repaired) || erratum.id.starts_with("singhal-")).then_some((erratum, printed))
        }
        Evidence::Assumption { .. } | Evidence::Suspicion { .. } | Evidence::Calculation(_) => None,
    })
}

/// Whether the algorithm that is repaired has a model.
fn is_modelled(repaired: &[Run]) -> bool {
    let specs = repaired.iter().filter_map(|run| run.spec.parse::<Spec>().ok());
    specs.into_iter().any(|spec| models::find(spec.info.name).is_some())
}

/// How the part of the document about them begins.
pub(crate) const HEADING: &str = "\n# What no proof notices\n";

const HEAD: &str = "
Every other deliberate bug of an algorithm, and every other error of a printed text, is noticed where the sections above say.

| bug or error | of | why nothing breaks |
|---|---|---|
";

/// The part of the document about them.
pub(crate) fn markdown() -> String {
    let mut text = HEADING.to_owned() + HEAD;
    let mut row = |what: &str, of: &str, why: &str| {
        writeln!(text, "| {what} | {of} | {why} |").expect("a string takes all that is written to it");
    };
    for covered in models::all() {
        let of = covered.names().map(|name| format!("`{name}`")).collect::<Vec<_>>().join(", ");
        for (mutant, why) in covered.beyond {
            row(&format!("`{mutant:?}`"), &of, why);
        }
    }
    for (mutant, of, why) in MUTANTS {
        row(&format!("`{mutant:?}`"), of, why);
    }
    let linked = |id: &str| format!("[`{id}`](ERRATA.md#{id})");
    for (id, why) in ERRATA {
        row(&linked(id), "the printed text", why);
    }
    let with_failures = explored().filter(|(_, printed)| printed.crashes > 0);
    let with_failures: Vec<String> = with_failures.map(|(erratum, _)| linked(erratum.id)).collect();
    row(&with_failures.join(", "), "the printed text", "it takes a failed site, and no model has failures");
    text
}
