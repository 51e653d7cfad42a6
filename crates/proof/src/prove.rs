//! Proving: every question about a model is put to the solvers, and their answers are put together.

use crate::model::ProofModel;
use crate::query::Query;
use crate::solver::{QuestionAbout, Solver, SolverAnswer, SolverError, SolverReply};

/// The replies to one question, in the order of the solvers that were asked.
#[derive(Clone, Debug)]
pub struct Judged {
    pub query: Query,
    pub replies: Vec<SolverReply>,
}

/// What the answers to a question come to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Judgement {
    Proved,
    /// A solver knows a state and a step that go wrong.
    Refuted,
    /// No solver knows.
    Open,
    /// One solver has proved what another one refutes: one of them is wrong, and nothing is proved.
    Contradictory,
}

impl Judged {
    /// What the answers come to.
    pub fn judgement(&self) -> Judgement {
        let has = |answer| self.replies.iter().any(|reply| reply.answer == answer);
        match (has(SolverAnswer::Impossible), has(SolverAnswer::Possible)) {
            (true, true) => Judgement::Contradictory,
            (true, false) => Judgement::Proved,
            (false, true) => Judgement::Refuted,
            (false, false) => Judgement::Open,
        }
    }
}

/// Puts `queries` to `solvers`, of which none may be missing. `progress` is called after each answer.
pub fn judge(
    model: &ProofModel,
    queries: &[Query],
    solvers: &[Solver],
    progress: &mut dyn FnMut(Solver, Query),
) -> Result<Vec<Judged>, SolverError> {
    for &solver in solvers {
        solver.is_there()?;
    }
    let scripts: Vec<String> = queries.iter().map(|query| query.script(model)).collect();
    let mut judged: Vec<Judged> =
        queries.iter().map(|&query| Judged { query, replies: Vec::new() }).collect();
    for &solver in solvers {
        solver.ask(QuestionAbout::Sorts, &scripts, &mut |number, reply| {
            judged[number].replies.push(reply);
            progress(solver, queries[number]);
        })?;
    }
    Ok(judged)
}

/// Whether every question is proved.
pub fn is_proved(judged: &[Judged]) -> bool {
    judged.iter().all(|judged| judged.judgement() == Judgement::Proved)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_solver_that_proves_is_enough_unless_another_one_refutes() {
        use SolverAnswer::{Impossible, Possible, Unknown};
        for (answers, judgement) in [
            ([Impossible, Impossible], Judgement::Proved),
            ([Impossible, Unknown], Judgement::Proved),
            ([Unknown, Impossible], Judgement::Proved),
            ([Possible, Possible], Judgement::Refuted),
            ([Unknown, Possible], Judgement::Refuted),
            ([Unknown, Unknown], Judgement::Open),
            ([Impossible, Possible], Judgement::Contradictory),
            ([Possible, Impossible], Judgement::Contradictory),
        ] {
            let replies = answers.map(|answer| SolverReply { answer, steps: None }).to_vec();
            let judged = Judged { query: Query::Theorem { theorem: 0 }, replies };
            assert_eq!(judged.judgement(), judgement, "{answers:?}");
            assert_eq!(is_proved(&[judged]), judgement == Judgement::Proved);
        }
    }
}
