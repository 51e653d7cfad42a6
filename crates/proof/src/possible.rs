//! Whether a proof is about anything: an invariant that no state fulfils, an action that can never happen and a theorem about what never
//! is are proved, too.
//!
//! For the start, for each action, and for what each theorem is about, z3 looks for a small instance (`instance.rs`): a state in which
//! the axioms and all clauses hold, and in which the action can happen. The evaluator confirms what it finds.

use crate::evaluate::Evaluator;
use crate::instance::{self, FoundInstance};
use crate::model::{ClauseKind, NamedClause, Predicate, ProofModel};
use crate::smt::Writer;
use crate::solver::SolverError;
use crate::structure::Structure;

/// What must be possible.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Possible {
    /// A first state.
    Start,
    /// A step of this action from a state in which all clauses hold.
    Step { action: usize },
    /// A state in which all clauses hold, and what a statement is about: the left side of what it implies. The number counts the
    /// clauses that are safety, then the theorems.
    Premise { statement: usize },
}

/// What was found out about it.
#[derive(Clone, Debug)]
pub struct PossibleInstance {
    pub what: Possible,
    /// A state as text; nothing if none was found among the sizes that are tried.
    pub state: Option<Vec<String>>,
}

impl Possible {
    /// Everything that must be possible in this model.
    pub fn all(model: &ProofModel) -> Vec<Possible> {
        let steps = (0..model.actions.len()).map(|action| Possible::Step { action });
        let premises = statements(model).enumerate().filter(|(_, named)| premise(&named.holds).is_some());
        let premises = premises.map(|(statement, _)| Possible::Premise { statement });
        std::iter::once(Possible::Start).chain(steps).chain(premises).collect()
    }

    /// The name of the action or statement.
    pub fn name(self, model: &ProofModel) -> &str {
        match self {
            Possible::Start => "(start)",
            Possible::Step { action } => &model.actions[action].name,
            Possible::Premise { statement } => {
                statements(model).nth(statement).map_or("", |named| &named.name)
            }
        }
    }

    /// Looks for a smallest instance.
    pub fn find(self, model: &ProofModel) -> Result<PossibleInstance, SolverError> {
        let action = if let Possible::Step { action } = self { Some(action) } else { None };
        let state = instance::smallest(model, &mut |structure| {
            let found = instance::find(structure, action, |writer| self.script(writer, model))?;
            Ok(found.map(|found| self.confirm(structure, &found)))
        })?;
        Ok(PossibleInstance { what: self, state })
    }

    fn script(self, writer: &Writer<'_>, model: &ProofModel) -> String {
        let mut text = writer.declarations();
        if self == Possible::Start {
            model.initial.iter().for_each(|initial| text.push_str(&writer.assertion(&initial.holds)));
        }
        model.clauses.iter().for_each(|clause| text.push_str(&writer.assertion(&clause.holds)));
        match self {
            Possible::Start => {}
            Possible::Step { action } => text.push_str(&writer.action(&model.actions[action])),
            Possible::Premise { .. } => text.push_str(&writer.assertion(&self.premise(model))),
        }
        text
    }

    fn premise(self, model: &ProofModel) -> Predicate {
        let Possible::Premise { statement } = self else { return Predicate::Constant(true) };
        let premise = statements(model).nth(statement).and_then(|named| premise(&named.holds));
        premise.expect("only statements with a premise are asked for")
    }

    /// Makes sure with the evaluator that the state is what was asked for.
    fn confirm(
        self,
        structure: &Structure<'_>,
        FoundInstance { state, step }: &FoundInstance,
    ) -> Vec<String> {
        let (model, mut evaluator) = (structure.model, Evaluator::new(structure));
        let initial = if self == Possible::Start { model.initial.as_slice() } else { &[] };
        for named in model.axioms.iter().chain(&model.clauses).chain(initial) {
            assert!(
                evaluator.holds(state, &named.holds),
                "z3 and the evaluator disagree about {}",
                named.name
            );
        }
        assert!(
            evaluator.holds(state, &self.premise(model)),
            "z3 and the evaluator disagree about a premise"
        );
        if let Some(step) = step {
            let action = &model.actions[step.action];
            evaluator.set(action, &step.parameters);
            assert!(
                evaluator.is_enabled(state, action),
                "z3 and the evaluator disagree about {}",
                action.name
            );
        }
        structure.describe(state)
    }
}

/// What is proved: safety and theorems.
fn statements(model: &ProofModel) -> impl Iterator<Item = &NamedClause> {
    model.clauses.iter().filter(|clause| clause.kind == ClauseKind::Safety).chain(&model.theorems)
}

/// That there is something which the statement is about, if it says *for all … if … then …*.
fn premise(statement: &Predicate) -> Option<Predicate> {
    if let Predicate::All(variables, part) = statement {
        return Some(Predicate::Some(variables.clone(), Box::new(premise(part)?)));
    }
    if let Predicate::Implies(left, _) = statement { Some((**left).clone()) } else { None }
}
