//! What the published texts get wrong, shown by machine.
//!
//! An [`Erratum`] says where a text errs and how to see it: the printed rules as a switchable variant of the algorithm, explored
//! for a shortest counterexample; the repaired rules, explored to the end; or a calculation from the paper's own figures.
//! [`Erratum::investigate`] does the work anew each time, and [`Finding`] says what came of it: a claim that the machine does
//! not bear out is *refuted*, and listed as that.

mod calculation;
mod finding;
mod list;
mod markdown;
mod run;
mod twin;

pub use calculation::Reckoning;
pub use finding::{Counterexample, Explored, Finding, Judgement};
pub use markdown::markdown;
pub use run::Run;
pub(crate) use twin::visit_type;
pub use twin::{spec, visit};

use crate::Property;

/// One claim that a published text errs.
#[derive(Debug)]
pub struct Erratum {
    /// What it is called.
    pub id: &'static str,
    /// Paper, section, figure, line.
    pub source: &'static str,
    /// The error in a few words.
    pub title: &'static str,
    /// What is printed, in our words.
    pub printed: &'static str,
    /// What goes wrong.
    pub wrong: &'static str,
    /// What is right.
    pub repair: &'static str,
    /// How it is shown.
    pub evidence: Evidence,
}

/// How an erratum is shown.
#[derive(Debug)]
pub enum Evidence {
    /// The printed rules violate a property; the repaired rules hold.
    Exploration {
        /// Where the printed rules fail.
        printed: Run,
        /// What they break.
        property: Property,
        /// Where the repaired rules hold.
        repaired: &'static [Run],
    },
    /// The text assumes something; the rules hold without it.
    Assumption {
        /// Where they hold without it.
        without: &'static [Run],
    },
    /// The text looks wrong; whether anything comes of it is to be seen.
    Suspicion {
        /// Where its rules are tried.
        printed: &'static [Run],
    },
    /// The text contradicts itself, in figures.
    Calculation(fn() -> Vec<Reckoning>),
}

/// Every claim, by paper.
pub fn all() -> impl Iterator<Item = &'static Erratum> {
    list::ALL.iter().flat_map(|list| list.iter())
}

/// The claim with this id.
pub fn find(id: &str) -> Option<&'static Erratum> {
    all().find(|erratum| erratum.id == id)
}

/// What is known or suspected to be wrong and not shown here: the source, the claim, why.
pub const NOT_SHOWN: &[(&str, &str)] = list::NOT_SHOWN;
