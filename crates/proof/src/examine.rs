//! Everything about one algorithm: its questions answered, and its code compared.

use crate::model::ProofModel;
use crate::models::Covered;
use crate::prove::{self, Judged};
use crate::query::Query;
use crate::solver::{Solver, SolverAnswer, SolverError};
use crate::tie::{TieBreak, TieReport, TieRun};

/// What was found about one algorithm.
#[derive(Debug)]
pub struct Examined {
    pub covered: &'static Covered,
    pub model: ProofModel,
    /// The answers of [`Solver::ALL`].
    pub judged: Vec<Judged>,
    /// The runs of the code, up to the first in which code and model part.
    pub ties: Vec<(TieRun, Result<TieReport, TieBreak>)>,
}

/// What is being done.
#[derive(Clone, Copy, Debug)]
pub enum Doing {
    Asking(Solver, Query),
    Comparing(TieRun),
}

/// Which runs of the code are compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TieEffort {
    /// Those of the tests.
    Short,
    /// The larger ones, too.
    Long,
}

/// Asks both solvers everything about the model, and compares the code with it.
pub fn examine(
    covered: &'static Covered,
    effort: TieEffort,
    progress: &mut dyn FnMut(Doing),
) -> Result<Examined, SolverError> {
    let model = covered.model();
    let queries = Query::all(&model);
    let judged = prove::judge(&model, &queries, &Solver::ALL, &mut |solver, query| {
        progress(Doing::Asking(solver, query));
    })?;
    let long = if effort == TieEffort::Long { covered.long_runs } else { &[] };
    let ties = covered.runs.iter().chain(long).map(|run| {
        progress(Doing::Comparing(*run));
        (*run, covered.compare(run))
    });
    Ok(Examined { covered, ties: ties.collect(), judged, model })
}

impl Examined {
    /// What was found about an algorithm if every question is proved: for all that the solvers have no part in.
    pub fn as_if_proved(
        covered: &'static Covered,
        ties: Vec<(TieRun, Result<TieReport, TieBreak>)>,
    ) -> Examined {
        let model = covered.model();
        let answers = vec![SolverAnswer::Impossible; Solver::ALL.len()];
        let proved = Query::all(&model).into_iter().map(|query| Judged { query, answers: answers.clone() });
        Examined { covered, judged: proved.collect(), ties, model }
    }

    /// Whether every question is proved and the code agrees in every run.
    pub fn holds(&self) -> bool {
        prove::is_proved(&self.judged) && self.ties.iter().all(|(_, tie)| tie.is_ok())
    }

    /// The number of questions that a solver has proved.
    pub fn proved_by(&self, solver: Solver) -> usize {
        let at = Solver::ALL.into_iter().position(|other| other == solver).unwrap_or_default();
        self.judged.iter().filter(|judged| judged.answers.get(at) == Some(&SolverAnswer::Impossible)).count()
    }
}
