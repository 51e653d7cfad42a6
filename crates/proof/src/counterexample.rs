//! Why a clause is not inductive: a small state in which all clauses hold, a step, and the state after it.
//!
//! z3 is asked the same question about an instance (`instance.rs`) with a few named elements. The evaluator then takes the step itself,
//! so that what is shown does not depend on the solver's word.

use crate::evaluate::{ActionInstance, Evaluator};
use crate::instance::{self, FoundInstance};
use crate::model::ProofModel;
use crate::query::Query;
use crate::solver::SolverError;
use crate::structure::Structure;

/// A state and a step that break a clause.
#[derive(Clone, Debug)]
pub struct Breaking {
    /// What holds before, as text.
    pub before: Vec<String>,
    /// The action with its parameters as text; without one the state itself breaks the clause.
    pub step: Option<String>,
    /// What holds after it and did not before, or the other way round.
    pub change: Vec<String>,
}

/// Finds a smallest instance in which `query` goes wrong, if there is one among those that are tried.
pub fn find(model: &ProofModel, query: Query) -> Result<Option<Breaking>, SolverError> {
    let action = match query {
        Query::Step { action, .. } => Some(action),
        Query::Start { .. } | Query::Theorem { .. } => None,
    };
    instance::smallest(model, &mut |structure| {
        let found = instance::find(structure, action, |writer| query.script_by(writer, model))?;
        Ok(found.map(|found| tell(structure, query, found)))
    })
}

/// Takes the step with the evaluator, and makes sure that it breaks the clause.
fn tell(structure: &Structure<'_>, query: Query, FoundInstance { state, step }: FoundInstance) -> Breaking {
    let (model, mut evaluator) = (structure.model, Evaluator::new(structure));
    let broken = match query {
        Query::Start { clause } | Query::Step { clause, .. } => &model.clauses[clause],
        Query::Theorem { theorem } => &model.theorems[theorem],
    };
    let before = structure.describe(&state);
    let Some(ActionInstance { action, parameters }) = step else {
        assert!(
            !evaluator.holds(&state, &broken.holds),
            "z3 and the evaluator disagree about {}",
            broken.name
        );
        return Breaking { before, step: None, change: Vec::new() };
    };
    let action = &model.actions[action];
    evaluator.set(action, &parameters);
    assert!(evaluator.is_enabled(&state, action), "z3 and the evaluator disagree about {}", action.name);
    let next = evaluator.after(&state, action);
    assert!(!evaluator.holds(&next, &broken.holds), "z3 and the evaluator disagree about {}", broken.name);
    let after = structure.describe(&next);
    let gone = before.iter().filter(|fact| !after.contains(fact)).map(|fact| format!("− {fact}"));
    let come = after.iter().filter(|fact| !before.contains(fact)).map(|fact| format!("+ {fact}"));
    let change = gone.chain(come).collect();
    let named = action.parameters.iter().zip(&parameters);
    let named: Vec<String> = named
        .map(|(&parameter, &element)| structure.element(model.variables[parameter].sort, element))
        .collect();
    Breaking { before, step: Some(format!("{}({})", action.name, named.join(", "))), change }
}
