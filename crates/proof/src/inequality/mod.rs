//! Inequalities between lengths of time: real numbers, with the constants of the configuration as variables.
//!
//! Each is a claim that follows from named assumptions, and one question to both solvers: can the assumptions hold and the claim not?
//! The assumptions are about times that clocks show, or say what the code computes. What the code computes it is held to by tests in
//! `crates/cluster`, which put its own numbers into the same formulas ([`Inequality::holds`]).

pub mod document;
pub mod lease;
mod term;

use std::fmt::Write as _;

pub use term::{Rational, TermError};

use crate::solver::{QuestionAbout, Solver, SolverAnswer, SolverError, SolverReply};
use term::Term;

/// A claim about real numbers that follows from assumptions.
#[derive(Debug)]
pub struct Inequality {
    pub name: &'static str,
    pub why: &'static str,
    /// The variables, each with what it stands for.
    pub variables: &'static [(&'static str, &'static str)],
    pub assumptions: &'static [Assumption],
    /// In the notation of SMT-LIB, as all formulas.
    pub claim: &'static str,
    /// Assumptions that are wrong: with them the claim must not follow.
    pub wrong: &'static [WrongAssumption],
    /// The deliberate bugs of the code, and the assumption that each breaks.
    pub mutants: &'static [(&'static str, &'static str)],
}

/// What a claim rests on.
#[derive(Debug)]
pub struct Assumption {
    pub name: &'static str,
    pub why: &'static str,
    pub holds: &'static str,
    /// Whether the code computes it, so that a test compares.
    pub is_computed: bool,
}

/// An assumption with a bug in it.
#[derive(Debug)]
pub struct WrongAssumption {
    pub about: &'static str,
    /// The assumption that is replaced.
    pub instead_of: &'static str,
    pub holds: &'static str,
}

/// The answers to the question about one inequality.
#[derive(Debug)]
pub struct JudgedInequality {
    pub inequality: &'static Inequality,
    /// In the order of [`Solver::ALL`].
    pub replies: Vec<SolverReply>,
    /// Whether the assumptions do not contradict each other, by both solvers.
    pub is_consistent: bool,
    /// For each wrong assumption the numbers that fulfil everything but the claim.
    pub counterexamples: Vec<Option<String>>,
}

impl JudgedInequality {
    /// What was found about an inequality if it is proved, and refuted with each wrong assumption: for all that the solvers have no part in.
    pub fn as_if_proved(inequality: &'static Inequality) -> JudgedInequality {
        let proved = SolverReply { answer: SolverAnswer::Impossible, steps: None };
        JudgedInequality {
            inequality,
            replies: vec![proved; Solver::ALL.len()],
            is_consistent: true,
            counterexamples: vec![Some(String::new()); inequality.wrong.len()],
        }
    }

    /// Whether both solvers have proved it, and refuted what is wrong.
    pub fn holds(&self) -> bool {
        self.replies.iter().all(|reply| reply.answer == SolverAnswer::Impossible)
            && self.is_consistent
            && self.counterexamples.iter().all(Option::is_some)
    }
}

impl Inequality {
    /// Puts the question, with and without the claim and with each wrong assumption, to both solvers.
    pub fn judge(&'static self) -> Result<JudgedInequality, SolverError> {
        let refuted = |text: String| format!("{text}(assert (not {}))\n", self.claim);
        let questions = [refuted(self.script(None)), self.script(None)];
        let (mut replies, mut is_consistent) = (Vec::new(), true);
        for solver in Solver::ALL {
            solver.ask(QuestionAbout::Reals, &questions, &mut |number, reply| match number {
                0 => replies.push(reply),
                _ => is_consistent &= reply.answer == SolverAnswer::Possible,
            })?;
        }
        let every = self.wrong.iter().map(|wrong| self.counterexample(&refuted(self.script(Some(wrong)))));
        let counterexamples = every.collect::<Result<_, _>>()?;
        Ok(JudgedInequality { inequality: self, replies, is_consistent, counterexamples })
    }

    /// The variables and assumptions in SMT-LIB.
    fn script(&self, wrong: Option<&WrongAssumption>) -> String {
        let mut text = String::new();
        let mut line =
            |what: String| writeln!(text, "{what}").expect("a string takes all that is written to it");
        for (name, _) in self.variables {
            line(format!("(declare-const {name} Real)"));
        }
        for assumption in self.assumptions {
            let replaced = wrong.filter(|wrong| wrong.instead_of == assumption.name);
            line(format!("(assert {})", replaced.map_or(assumption.holds, |wrong| wrong.holds)));
        }
        text
    }

    /// Numbers that fulfil `script`, by z3, if there are any.
    fn counterexample(&self, script: &str) -> Result<Option<String>, SolverError> {
        let names: Vec<String> = self.variables.iter().map(|(name, _)| (*name).to_owned()).collect();
        let values = Solver::find_values(QuestionAbout::Reals, script, &names)?;
        let shown = |values: Vec<String>| {
            let pairs = names.iter().zip(values).map(|(name, value)| format!("({name} {value})"));
            pairs.collect::<Vec<_>>().join(" ")
        };
        Ok(values.map(shown))
    }

    /// Whether an assumption holds of these numbers.
    pub fn holds(&self, assumption: &str, numbers: &[(&str, Rational)]) -> Result<bool, TermError> {
        let known = self.assumptions.iter().find(|known| known.name == assumption);
        let known =
            known.ok_or_else(|| TermError(format!("{} has no assumption {assumption}", self.name)))?;
        Term::parse(known.holds)?.truth(numbers)
    }

    /// The assumptions that say what the code computes.
    pub fn computed(&self) -> impl Iterator<Item = &'static Assumption> {
        self.assumptions.iter().filter(|assumption| assumption.is_computed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_wrong_assumption_and_mutant_names_an_assumption_and_every_variable_is_used() {
        for inequality in lease::ALL {
            let names: Vec<&str> = inequality.assumptions.iter().map(|assumption| assumption.name).collect();
            assert!(!inequality.wrong.is_empty(), "{}", inequality.name);
            for wrong in inequality.wrong {
                assert!(names.contains(&wrong.instead_of), "{}: {}", inequality.name, wrong.instead_of);
            }
            for (mutant, broken) in inequality.mutants {
                let is_computed = inequality.computed().any(|assumption| assumption.name == *broken);
                assert!(is_computed, "{}: {mutant} breaks {broken}", inequality.name);
            }
            let formulas: Vec<Term> = (inequality.assumptions.iter().map(|assumption| assumption.holds))
                .chain(inequality.wrong.iter().map(|wrong| wrong.holds))
                .chain([inequality.claim])
                .map(|formula| Term::parse(formula).unwrap())
                .collect();
            for (name, _) in inequality.variables {
                assert!(formulas.iter().any(|formula| formula.mentions(name)), "{}: {name}", inequality.name);
            }
        }
    }
}
