//! Errata: errors in the published texts, shown by machine.
//!
//! An [`Erratum`] says where a text is wrong and how to show it: the printed rules as a switchable variant of the algorithm, explored
//! for a shortest counterexample; the repaired rules, explored to the end; or a calculation from the paper's own figures.
//! [`Erratum::investigate`] does the work again each time, and [`Finding`] is its result: a claim that is not
//! confirmed is *refuted*, and listed as that.

mod calculation;
mod finding;
mod list;
mod markdown;
mod run;
mod twin;

pub use calculation::CalculatedValue;
pub use finding::{Counterexample, Explored, Finding, Judgement};
pub use markdown::markdown;
pub use run::Run;
pub(crate) use twin::visit_type;
pub use twin::{spec, visit};

use crate::Property;

/// One claim that a published text is wrong.
#[derive(Debug)]
pub struct Erratum {
    /// The name of the claim.
    pub id: &'static str,
    /// What is claimed of the text.
    pub kind: TextFault,
    /// The sentence that it is about.
    pub quote: &'static str,
    /// The reading of that sentence that was explored, and what another would change.
    pub reading: &'static str,
    /// Paper, section, figure, line.
    pub source: &'static str,
    /// The error in a few words.
    pub title: &'static str,
    /// What is printed, in our words.
    pub printed: &'static str,
    pub wrong: &'static str,
    pub repair: &'static str,
    pub evidence: Evidence,
}

/// What is claimed of a text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TextFault {
    /// It is wrong.
    Error,
    /// It can be read in two ways, or its parts contradict each other, and one of them works.
    Ambiguous,
    /// It leaves open what matters.
    Underspecified,
    /// It assumes what is not needed.
    Assumption,
    /// Nothing: the text is right, or a question about it was investigated.
    Question,
}

impl TextFault {
    /// Its name in documents.
    pub const fn name(self) -> &'static str {
        match self {
            TextFault::Error => "error",
            TextFault::Ambiguous => "ambiguous",
            TextFault::Underspecified => "underspecified",
            TextFault::Assumption => "assumption",
            TextFault::Question => "question",
        }
    }
}

/// The reading of a sentence that has only one.
pub(crate) const TO_THE_LETTER: &str = "To the letter.";

/// How an erratum is shown.
#[derive(Debug)]
pub enum Evidence {
    /// The printed rules violate a property; the repaired rules hold.
    Exploration {
        /// The run in which the printed rules fail.
        printed: Run,
        /// The property that they violate.
        property: Property,
        /// The runs in which the repaired rules hold.
        repaired: &'static [Run],
    },
    /// The text assumes something; the rules hold without it.
    Assumption {
        /// The runs in which they hold without it.
        without: &'static [Run],
    },
    /// The text looks wrong; the exploration shows whether it matters.
    Suspicion {
        /// The runs in which its rules are tried.
        printed: &'static [Run],
    },
    /// The text contradicts itself, as a calculation shows.
    Calculation(fn() -> Vec<CalculatedValue>),
}

/// Every claim, by paper.
pub fn all() -> impl Iterator<Item = &'static Erratum> {
    list::ALL.iter().flat_map(|list| list.iter())
}

/// The claim with this id.
pub fn find(id: &str) -> Option<&'static Erratum> {
    all().find(|erratum| erratum.id == id)
}

/// Findings of others about algorithms that are here.
pub(crate) const FOUND_BY_OTHERS: &[&str] = list::FOUND_BY_OTHERS;

/// Claims that are known or suspected and not shown here: the source and claim, and the reason.
pub(crate) const NOT_SHOWN: &[(&str, &str)] = list::NOT_SHOWN;
