//! Everything about one algorithm: its questions answered, and its code compared.

use crate::model::ProofModel;
use crate::models::Covered;
use crate::possible::{Possible, PossibleInstance};
use crate::prove::{self, Judged};
use crate::query::Query;
use crate::solver::{Solver, SolverAnswer, SolverError, SolverReply};
use crate::tie::{TieBreak, TieReport, TieRun};

/// What was found about one algorithm.
#[derive(Debug)]
pub struct Examined {
    pub covered: &'static Covered,
    pub model: ProofModel,
    /// The answers of [`Solver::ALL`].
    pub judged: Vec<Judged>,
    /// Whether what the proof is about is possible.
    pub possible: Vec<PossibleInstance>,
    /// The runs of the code, up to the first in which code and model part.
    pub ties: Vec<(TieRun, Result<TieReport, TieBreak>)>,
}

/// What is being done.
#[derive(Clone, Copy, Debug)]
pub enum Doing {
    Asking(Solver, Query),
    Looking(Possible),
    Comparing(TieRun),
}

/// Which runs of the code are compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TieEffort {
    /// None. Instances that must not be found ([`Covered::about_nothing`]) are not looked for either: that takes about as long as the proofs
    /// of their models.
    None,
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
    let is_left_out =
        |what: &Possible| effort == TieEffort::None && covered.about_nothing.contains(&what.name(&model));
    let looked = Possible::all(&model).into_iter().filter(|what| !is_left_out(what)).map(|what| {
        progress(Doing::Looking(what));
        what.find(&model)
    });
    let possible = looked.collect::<Result<_, _>>()?;
    let (small, long) = match effort {
        TieEffort::None => (Vec::new(), Vec::new()),
        TieEffort::Short => (covered.runs(), Vec::new()),
        TieEffort::Long => (covered.runs(), covered.long_runs()),
    };
    let ties = small.into_iter().chain(long).map(|run| {
        progress(Doing::Comparing(run));
        (run, covered.compare(&run))
    });
    Ok(Examined { covered, ties: ties.collect(), judged, possible, model })
}

impl Examined {
    /// What was found about an algorithm if every question is proved: for all that the solvers have no part in.
    pub fn as_if_proved(
        covered: &'static Covered,
        ties: Vec<(TieRun, Result<TieReport, TieBreak>)>,
    ) -> Examined {
        let model = covered.model();
        let replies = vec![SolverReply { answer: SolverAnswer::Impossible, steps: None }; Solver::ALL.len()];
        let proved = Query::all(&model).into_iter().map(|query| Judged { query, replies: replies.clone() });
        Examined { covered, judged: proved.collect(), possible: Vec::new(), ties, model }
    }

    /// Whether every question is proved, the proof is about something, and the code agrees in every run.
    pub fn holds(&self) -> bool {
        prove::is_proved(&self.judged)
            && self.empty().next().is_none()
            && self.ties.iter().all(|(_, tie)| tie.is_ok())
    }

    /// What should be possible, and of which no instance was found; or the other way round.
    pub fn empty(&self) -> impl Iterator<Item = Possible> {
        let is_found_as_it_should = |found: &&PossibleInstance| {
            let name = found.what.name(&self.model);
            let is_premise = matches!(found.what, Possible::Premise { .. });
            found.state.is_some() != (is_premise && self.covered.about_nothing.contains(&name))
        };
        self.possible.iter().filter(move |found| !is_found_as_it_should(found)).map(|found| found.what)
    }

    /// The question that took a solver most steps, and how many.
    pub fn hardest(&self, solver: Solver) -> Option<(Query, u64)> {
        self.taken(solver).max_by_key(|(_, steps)| *steps)
    }

    /// The steps that a solver took for all questions, as far as it told.
    pub fn steps(&self, solver: Solver) -> u64 {
        self.taken(solver).map(|(_, steps)| steps).sum()
    }

    /// Each question with the steps that a solver took for it, if it told.
    fn taken(&self, solver: Solver) -> impl Iterator<Item = (Query, u64)> {
        let at = Solver::ALL.into_iter().position(|other| other == solver);
        self.judged.iter().filter_map(move |judged| Some((judged.query, judged.replies.get(at?)?.steps?)))
    }

    /// The number of questions that a solver has proved.
    pub fn proved_by(&self, solver: Solver) -> usize {
        let at = Solver::ALL.into_iter().position(|other| other == solver).unwrap_or_default();
        let is_proved = |judged: &&Judged| {
            judged.replies.get(at).is_some_and(|reply| reply.answer == SolverAnswer::Impossible)
        };
        self.judged.iter().filter(is_proved).count()
    }
}
