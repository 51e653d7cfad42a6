//! The questions that make up a proof, each small enough to be answered by itself.

use crate::model::{ClauseKind, NamedClause, ProofModel};
use crate::smt::{When, Writer};

/// One question: can this go wrong? A solver that answers *unsat* has proved that it cannot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Query {
    /// An initial state in which the clause does not hold.
    Start { clause: usize },
    /// A state in which all clauses hold that this one may rest on, and a step of the action to one in which it does not.
    Step { action: usize, clause: usize },
    /// A state in which all clauses hold and the theorem does not.
    Theorem { theorem: usize },
}

impl Query {
    /// All questions about the model. A clause that an action does not touch is preserved by it, and not asked for.
    pub fn all(model: &ProofModel) -> Vec<Query> {
        let clauses = || 0..model.clauses.len();
        let mut queries: Vec<Query> = clauses().map(|clause| Query::Start { clause }).collect();
        for (number, action) in model.actions.iter().enumerate() {
            let touched = clauses().filter(|&clause| action.touches(&model.clauses[clause].holds));
            queries.extend(touched.map(|clause| Query::Step { action: number, clause }));
        }
        queries.extend((0..model.theorems.len()).map(|theorem| Query::Theorem { theorem }));
        queries
    }

    /// The name of the action, or of what stands in its place.
    pub fn action_name(self, model: &ProofModel) -> &str {
        match self {
            Query::Start { .. } => "(start)",
            Query::Step { action, .. } => &model.actions[action].name,
            Query::Theorem { .. } => "(theorem)",
        }
    }

    /// The name of the clause or theorem.
    pub fn clause_name(self, model: &ProofModel) -> &str {
        match self {
            Query::Start { clause } | Query::Step { clause, .. } => &model.clauses[clause].name,
            Query::Theorem { theorem } => &model.theorems[theorem].name,
        }
    }

    /// The question in SMT-LIB, without the request for an answer.
    pub fn script(self, model: &ProofModel) -> String {
        self.script_by(&Writer::new(model), model)
    }

    /// The question as this writer puts it.
    pub(crate) fn script_by(self, writer: &Writer<'_>, model: &ProofModel) -> String {
        let mut text = writer.declarations();
        match self {
            Query::Start { clause } => {
                model.initial.iter().for_each(|initial| text.push_str(&writer.assertion(&initial.holds)));
                text.push_str(&writer.negation(&model.clauses[clause].holds, When::Now));
            }
            Query::Step { action, clause } => {
                let (action, clause) = (&model.actions[action], &model.clauses[clause]);
                let rests_on =
                    |other: &NamedClause| other.kind != ClauseKind::Progress || clause.kind == other.kind;
                assert_clauses(model.clauses.iter().filter(|other| rests_on(other)), writer, &mut text);
                text.push_str(&writer.action(action));
                text.push_str(&writer.negation(&clause.holds, When::After(action)));
            }
            Query::Theorem { theorem } => {
                assert_clauses(model.clauses.iter(), writer, &mut text);
                text.push_str(&writer.negation(&model.theorems[theorem].holds, When::Now));
            }
        }
        text
    }
}

fn assert_clauses<'a>(
    clauses: impl Iterator<Item = &'a NamedClause>,
    writer: &Writer<'_>,
    text: &mut String,
) {
    clauses.for_each(|clause| text.push_str(&writer.assertion(&clause.holds)));
}
