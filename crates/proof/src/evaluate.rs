//! Predicates and actions on a finite instance: the same definitions that the solvers get.

use std::ops::ControlFlow;

use crate::model::{AssignedPlace, Assignment, Expression, ModelAction, NewValue, Predicate, VariableId};
use crate::structure::{ModelState, Structure};

/// Evaluates on one state. Keeps what each variable stands for.
pub struct Evaluator<'a> {
    structure: &'a Structure<'a>,
    values: Vec<u8>,
}

/// An action with what its parameters stand for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ActionInstance {
    /// The number of the action in its model.
    pub action: usize,
    pub parameters: Vec<u8>,
}

/// Conditions by the variable after which they can be evaluated, so that a choice that cannot lead anywhere ends early.
pub(crate) struct Staged<'a> {
    variables: &'a [VariableId],
    /// Before any variable is chosen, after the first, and so on.
    stages: Vec<Vec<&'a Predicate>>,
}

impl<'a> Staged<'a> {
    /// The guards of an action, by its parameters.
    pub(crate) fn guards(action: &'a ModelAction) -> Self {
        Staged::new(&action.parameters, &action.guards)
    }

    fn new(variables: &'a [VariableId], conditions: impl IntoIterator<Item = &'a Predicate>) -> Self {
        let mut stages = vec![Vec::new(); variables.len() + 1];
        let mut conjuncts = Vec::new();
        for condition in conditions {
            split(condition, &mut conjuncts);
        }
        for conjunct in conjuncts {
            let mut stage = 0;
            conjunct.for_each_variable(&mut |variable| {
                let at = variables.iter().position(|&chosen| chosen == variable);
                stage = stage.max(at.map_or(0, |at| at + 1));
            });
            stages[stage].push(conjunct);
        }
        Staged { variables, stages }
    }
}

/// A clause, taken apart into what it is about and what it says of that.
pub(crate) struct StagedClause<'a> {
    about: Staged<'a>,
    says: Option<&'a Predicate>,
}

impl<'a> StagedClause<'a> {
    pub(crate) fn of(clause: &'a Predicate) -> Self {
        let (variables, part) = if let Predicate::All(variables, part) = clause {
            (variables.as_slice(), &**part)
        } else {
            (&[][..], clause)
        };
        if let Predicate::Implies(left, right) = part {
            return StagedClause { about: Staged::new(variables, [&**left]), says: Some(right) };
        }
        if let Predicate::Not(denied) = part {
            // Nothing is said of what must not be.
            return StagedClause { about: Staged::new(variables, [&**denied]), says: None };
        }
        StagedClause { about: Staged::new(variables, []), says: Some(part) }
    }
}

/// Takes conjunctions apart.
fn split<'a>(predicate: &'a Predicate, into: &mut Vec<&'a Predicate>) {
    if let Predicate::And(parts) = predicate {
        for part in parts {
            split(part, into);
        }
    } else {
        into.push(predicate);
    }
}

impl<'a> Evaluator<'a> {
    /// An evaluator of states of `structure`.
    pub fn new(structure: &'a Structure<'a>) -> Self {
        Evaluator { structure, values: vec![0; structure.model.variables.len()] }
    }

    /// Whether a predicate holds. Its free variables stand for what was last set.
    pub fn holds(&mut self, state: &[u8], predicate: &Predicate) -> bool {
        match predicate {
            Predicate::Constant(value) => *value,
            Predicate::Holds(symbol, arguments) => state[self.place(state, *symbol, arguments)] == 1,
            Predicate::Equal(left, right) => self.value(state, left) == self.value(state, right),
            Predicate::Less(_, left, right) => self.value(state, left) < self.value(state, right),
            Predicate::Not(part) => !self.holds(state, part),
            Predicate::And(parts) => parts.iter().all(|part| self.holds(state, part)),
            Predicate::Or(parts) => parts.iter().any(|part| self.holds(state, part)),
            Predicate::Implies(left, right) => !self.holds(state, left) || self.holds(state, right),
            Predicate::Iff(left, right) => self.holds(state, left) == self.holds(state, right),
            Predicate::All(variables, part) => self.all(state, variables, part, true),
            Predicate::Some(variables, part) => !self.all(state, variables, part, false),
        }
    }

    /// Whether `part` is `wanted` for everything that the variables can stand for.
    fn all(&mut self, state: &[u8], variables: &[VariableId], part: &Predicate, wanted: bool) -> bool {
        let Some((&first, rest)) = variables.split_first() else { return self.holds(state, part) == wanted };
        let before = self.values[first];
        let size = self.structure.size(self.structure.model.variables[first].sort);
        let holds = (0..size).all(|element| {
            self.values[first] = element;
            self.all(state, rest, part, wanted)
        });
        self.values[first] = before;
        holds
    }

    /// What the variables of a predicate stand for where it does not hold: nothing if it holds, or does not speak of all elements.
    pub(crate) fn counterexample(&mut self, state: &[u8], predicate: &Predicate) -> Vec<(VariableId, u8)> {
        let Predicate::All(variables, part) = predicate else { return Vec::new() };
        let mut found = Vec::new();
        // What is not for all of them fails for some: the first of those is kept.
        for &variable in variables {
            let size = self.structure.size(self.structure.model.variables[variable].sort);
            let rest = &variables[found.len() + 1..];
            let fails = (0..size).find(|&element| {
                self.values[variable] = element;
                !self.all(state, rest, part, true)
            });
            let Some(element) = fails else { return Vec::new() };
            self.values[variable] = element;
            found.push((variable, element));
        }
        found
    }

    fn place(&mut self, state: &[u8], symbol: usize, arguments: &[Expression]) -> usize {
        let structure = self.structure;
        let sorts = &structure.model.symbols[symbol].arguments;
        let folded = arguments.iter().zip(sorts).fold(0, |index, (argument, &sort)| {
            index * usize::from(structure.size(sort)) + usize::from(self.value(state, argument))
        });
        structure.start(symbol) + folded
    }

    fn value(&mut self, state: &[u8], expression: &Expression) -> u8 {
        match expression {
            Expression::Variable(variable) => self.values[*variable],
            Expression::Apply(symbol, arguments) => state[self.place(state, *symbol, arguments)],
            Expression::If(condition, then, otherwise) => {
                let chosen = if self.holds(state, condition) { then } else { otherwise };
                self.value(state, chosen)
            }
        }
    }

    /// Lets the parameters of the action stand for these elements.
    pub(crate) fn set(&mut self, action: &ModelAction, parameters: &[u8]) {
        for (&parameter, &element) in action.parameters.iter().zip(parameters) {
            self.values[parameter] = element;
        }
    }

    /// Whether the action can happen with the parameters that are set.
    pub(crate) fn is_enabled(&mut self, state: &[u8], action: &ModelAction) -> bool {
        action.guards.iter().all(|guard| self.holds(state, guard))
    }

    /// Calls `found` with every instance of the action that can happen: what its parameters stand for, and the state after it.
    pub(crate) fn for_each_step(
        &mut self,
        state: &[u8],
        action: &ModelAction,
        guards: &Staged<'_>,
        found: &mut dyn FnMut(&[u8], ModelState),
    ) {
        let ended = self.choose(state, guards, 0, &mut |evaluator| {
            let chosen: Vec<u8> =
                action.parameters.iter().map(|&parameter| evaluator.values[parameter]).collect();
            found(&chosen, evaluator.after(state, action));
            ControlFlow::Continue(())
        });
        assert!(ended.is_continue(), "nothing ends it early");
    }

    /// Whether a clause holds.
    pub(crate) fn clause_holds(&mut self, state: &[u8], clause: &StagedClause<'_>) -> bool {
        let ended = self.choose(state, &clause.about, 0, &mut |evaluator| match clause.says {
            Some(says) if evaluator.holds(state, says) => ControlFlow::Continue(()),
            Some(_) | None => ControlFlow::Break(()),
        });
        ended.is_continue()
    }

    /// Calls `found` with every choice for the variables from `at` on that fulfils all conditions.
    fn choose(
        &mut self,
        state: &[u8],
        staged: &Staged<'_>,
        at: usize,
        found: &mut dyn FnMut(&mut Self) -> ControlFlow<()>,
    ) -> ControlFlow<()> {
        if !staged.stages[at].iter().all(|condition| self.holds(state, condition)) {
            return ControlFlow::Continue(());
        }
        let Some(&variable) = staged.variables.get(at) else { return found(self) };
        for element in 0..self.structure.size(self.structure.model.variables[variable].sort) {
            self.values[variable] = element;
            self.choose(state, staged, at + 1, found)?;
        }
        ControlFlow::Continue(())
    }

    /// The state after an action whose parameters are set.
    pub(crate) fn after(&mut self, state: &[u8], action: &ModelAction) -> ModelState {
        let mut next = state.to_vec();
        for assignment in &action.assignments {
            self.assign(state, assignment, 0, self.structure.start(assignment.symbol), &mut next);
        }
        next
    }

    /// Assigns at every place that agrees with those from `at` on; `folded` is the index of the places before.
    fn assign(&mut self, state: &[u8], assignment: &Assignment, at: usize, folded: usize, next: &mut [u8]) {
        let Some(place) = assignment.places.get(at) else {
            next[folded] = match &assignment.value {
                NewValue::Truth(predicate) => u8::from(self.holds(state, predicate)),
                NewValue::Element(expression) => self.value(state, expression),
            };
            return;
        };
        let structure = self.structure;
        let sorts = &structure.model.symbols[assignment.symbol].arguments;
        let stride: usize = sorts[at + 1..].iter().map(|&sort| usize::from(structure.size(sort))).product();
        match place {
            AssignedPlace::At(expression) => {
                let element = usize::from(self.value(state, expression));
                self.assign(state, assignment, at + 1, folded + element * stride, next);
            }
            AssignedPlace::Every(variable) => {
                for element in 0..structure.size(sorts[at]) {
                    self.values[*variable] = element;
                    self.assign(state, assignment, at + 1, folded + usize::from(element) * stride, next);
                }
            }
        }
    }
}
