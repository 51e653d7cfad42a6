//! Why a clause is not inductive: a small state in which all clauses hold, a step, and the state after it.
//!
//! z3 is asked the same question about an instance (`instance.rs`) with a few named elements. The evaluator then takes the step itself,
//! so that what is shown does not depend on the solver's word.

use crate::evaluate::{ActionInstance, Evaluator};
use crate::instance::{self, FoundInstance};
use crate::model::{ModelAction, NamedClause, ProofModel};
use crate::query::Query;
use crate::solver::SolverError;
use crate::structure::{StateFact, Structure};

/// A variable of a clause or action, and the element that it stands for: `i`, `site0`.
pub type Binding = (String, String);

/// A state and a step that break a clause.
#[derive(Clone, Debug)]
pub struct Breaking {
    /// The sites of the instance.
    pub sites: Vec<String>,
    /// The clause that is broken, and its line of why.
    pub clause: String,
    pub why: String,
    /// For which elements the clause does not hold, if it says something of all elements.
    pub fails_for: Vec<Binding>,
    /// What holds before.
    pub before: Vec<StateFact>,
    /// Without one the state itself breaks the clause.
    pub step: Option<BreakingStep>,
}

/// The step that breaks the clause.
#[derive(Clone, Debug)]
pub struct BreakingStep {
    pub action: String,
    /// The rule of the paper.
    pub rule: String,
    pub parameters: Vec<Binding>,
    /// What holds after it.
    pub after: Vec<StateFact>,
}

impl Breaking {
    /// What holds before, as text.
    pub fn before(&self) -> Vec<String> {
        self.before.iter().map(ToString::to_string).collect()
    }

    /// The action with its parameters, as text.
    pub fn step(&self) -> Option<String> {
        let step = self.step.as_ref()?;
        let named: Vec<&str> = step.parameters.iter().map(|(_, element)| element.as_str()).collect();
        Some(format!("{}({})", step.action, named.join(", ")))
    }

    /// What holds after the step and did not before, or the other way round, as text.
    pub fn change(&self) -> Vec<String> {
        let after = self.step.as_ref().map_or(&self.before, |step| &step.after);
        let gone = self.before.iter().filter(|fact| !after.contains(fact)).map(|fact| format!("− {fact}"));
        let come = after.iter().filter(|fact| !self.before.contains(fact)).map(|fact| format!("+ {fact}"));
        gone.chain(come).collect()
    }
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
    let Some(ActionInstance { action, parameters }) = step else {
        return breaking(structure, &mut evaluator, broken, &state, None);
    };
    let action = &model.actions[action];
    evaluator.set(action, &parameters);
    assert!(evaluator.is_enabled(&state, action), "z3 and the evaluator disagree about {}", action.name);
    let next = evaluator.after(&state, action);
    breaking(structure, &mut evaluator, broken, &state, Some((action, &parameters, &next)))
}

/// What is shown of a state, and of the step to the next one if there is one: the last state breaks the clause.
fn breaking(
    structure: &Structure<'_>,
    evaluator: &mut Evaluator<'_>,
    broken: &NamedClause,
    state: &[u8],
    step: Option<(&ModelAction, &[u8], &[u8])>,
) -> Breaking {
    let (model, last) = (structure.model, step.map_or(state, |(_, _, next)| next));
    assert!(!evaluator.holds(last, &broken.holds), "z3 and the evaluator disagree about {}", broken.name);
    let named = |variable: usize, element: u8| {
        let variable = &model.variables[variable];
        (variable.name.clone(), structure.element(variable.sort, element))
    };
    let fails_for = evaluator.counterexample(last, &broken.holds);
    let site = model.sort("site");
    Breaking {
        sites: site.map_or(Vec::new(), |site| structure.all(site)),
        clause: broken.name.clone(),
        why: broken.why.clone(),
        fails_for: fails_for.into_iter().map(|(variable, element)| named(variable, element)).collect(),
        before: structure.facts(state),
        step: step.map(|(action, parameters, next)| BreakingStep {
            action: action.name.clone(),
            rule: action.rule.clone(),
            parameters: action
                .parameters
                .iter()
                .zip(parameters)
                .map(|(&variable, &element)| named(variable, element))
                .collect(),
            after: structure.facts(next),
        }),
    }
}
