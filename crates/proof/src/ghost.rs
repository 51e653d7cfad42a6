//! Ghosts: relations and functions that are of a proof only.
//!
//! They record what has happened, so that clauses can speak of it. The model without them takes exactly the same steps: no guard depends
//! on them, nothing else is assigned from them, every step says what they are after it, and so does the start. All of this is required of a
//! model's text ([`fault`]). So what is proved with ghosts, and does not speak of them, holds without them.

use crate::model::{
    AssignedPlace, Expression, ModelAction, NamedClause, NewValue, Predicate, ProofModel, Symbol, SymbolId,
};

/// What makes ghosts more than a record, if something does. No axiom speaks of them: axioms are about what is fixed.
pub(crate) fn fault(model: &ProofModel) -> Option<String> {
    let mentions = |predicate: &Predicate| mentions_ghost(model, predicate);
    for action in &model.actions {
        if action.guards.iter().any(mentions) {
            return Some(format!("the guard of {} depends on a ghost", action.name));
        }
        let assigns = |is_ghost: bool| {
            action
                .assignments
                .iter()
                .filter(move |assignment| model.symbols[assignment.symbol].is_ghost == is_ghost)
        };
        let depends = |value: &NewValue, places: &[AssignedPlace]| {
            let mut found = matches!(value, NewValue::Truth(truth) if mentions(truth));
            let expressions = places.iter().filter_map(|place| match place {
                AssignedPlace::At(expression) => Some(expression),
                AssignedPlace::Every(_) => None,
            });
            let value = if let NewValue::Element(element) = value { Some(element) } else { None };
            for expression in expressions.chain(value) {
                // An expression is part of an equation, for the one way to look through it.
                found |= mentions(&Predicate::Equal(expression.clone(), expression.clone()));
            }
            found
        };
        if assigns(false).any(|assignment| depends(&assignment.value, &assignment.places)) {
            return Some(format!("{} assigns a ghost's value to what is none", action.name));
        }
    }
    let mut defined: Vec<SymbolId> = Vec::new();
    for initial in model.initial.iter().filter(|initial| mentions(&initial.holds)) {
        match defines(model, &initial.holds) {
            Some(ghost) if !defined.contains(&ghost) => defined.push(ghost),
            Some(_) => return Some(format!("{} defines a ghost a second time", initial.name)),
            None => {
                return Some(format!("{} does not say plainly what one ghost is at the start", initial.name));
            }
        }
    }
    let undefined = |(number, symbol): &(SymbolId, &Symbol)| symbol.is_ghost && !defined.contains(number);
    let undefined = model.symbols.iter().enumerate().find(undefined);
    undefined.map(|(_, symbol)| format!("nothing says what {} is at the start", symbol.name))
}

/// The ghost of which a predicate says everywhere what it is, by what is no ghost: `ghost(i, j) <-> …` or `ghost(i) = …`.
fn defines(model: &ProofModel, predicate: &Predicate) -> Option<SymbolId> {
    let (bound, part) = if let Predicate::All(bound, part) = predicate {
        (bound.as_slice(), &**part)
    } else {
        (&[][..], predicate)
    };
    let (ghost, places, rest) = if let Predicate::Iff(left, right) = part {
        let Predicate::Holds(ghost, places) = &**left else { return None };
        (*ghost, places, (**right).clone())
    } else {
        let Predicate::Equal(Expression::Apply(ghost, places), right) = part else { return None };
        (*ghost, places, Predicate::Equal(right.clone(), right.clone()))
    };
    let mut variables = Vec::new();
    for place in places {
        let Expression::Variable(variable) = place else { return None };
        if variables.contains(variable) {
            return None;
        }
        variables.push(*variable);
    }
    // Another variable on the right side could make it say two things of one place.
    if bound.len() != variables.len() {
        return None;
    }
    (model.symbols[ghost].is_ghost && !mentions_ghost(model, &rest)).then_some(ghost)
}

fn mentions_ghost(model: &ProofModel, predicate: &Predicate) -> bool {
    let mut found = false;
    predicate.for_each_symbol(&mut |symbol| found |= model.symbols[symbol].is_ghost);
    found
}

impl ProofModel {
    /// The same model without its ghosts, and without what is said of them. Their values stay what they are in every state.
    pub fn without_ghosts(&self) -> ProofModel {
        let speaks_of_none = |named: &&NamedClause| !mentions_ghost(self, &named.holds);
        let kept = |list: &[NamedClause]| list.iter().filter(speaks_of_none).cloned().collect();
        let without = |action: &ModelAction| {
            let mut action = action.clone();
            action.assignments.retain(|assignment| !self.symbols[assignment.symbol].is_ghost);
            action
        };
        ProofModel {
            initial: kept(&self.initial),
            clauses: kept(&self.clauses),
            theorems: kept(&self.theorems),
            actions: self.actions.iter().map(without).collect(),
            ..self.clone()
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::text::parse;

    const MODEL: &str = r#"
        sort site;
        var i, j: site;
        relation waiting(site);
        ghost relation seen(site);
        init nobody "w": !waiting(i);
        init start "w": seen(i) <-> waiting(i);
        action ask(i) "r" { when !waiting(i); waiting(i) := true; seen(i) := true; }
        invariant record "w": waiting(i) -> seen(i);
        safety plain "w": waiting(i) -> waiting(i);
    "#;

    fn refused(from: &str, to: &str) -> String {
        assert!(MODEL.contains(from), "{from}");
        parse(&MODEL.replace(from, to)).expect_err("it is no record").what
    }

    #[test]
    fn a_ghost_is_a_record_and_nothing_else() {
        parse(MODEL).unwrap();
        assert!(refused("when !waiting(i)", "when !seen(i)").contains("guard of ask"));
        assert!(refused("waiting(i) := true", "waiting(i) := seen(i)").contains("to what is none"));
        assert!(refused("seen(i) <-> waiting(i)", "seen(i) -> waiting(i)").contains("plainly"));
        assert!(refused("seen(i) <-> waiting(i)", "seen(i) <-> !seen(j)").contains("plainly"));
        assert!(refused("seen(i) <-> waiting(i)", "seen(i) <-> waiting(j)").contains("plainly"));
        assert!(refused("init start \"w\": seen(i) <-> waiting(i);", "").contains("nothing says"));
        assert!(
            refused("init nobody", "init again \"w\": seen(i) <-> true; init nobody").contains("second time")
        );
        assert!(refused("init nobody", "axiom odd \"w\": seen(i); init nobody").contains("axiom odd"));
    }

    #[test]
    fn without_ghosts_what_speaks_of_them_is_left_out() {
        let model = parse(MODEL).unwrap().without_ghosts();
        assert_eq!(model.clauses.iter().map(|clause| clause.name.as_str()).collect::<Vec<_>>(), ["plain"]);
        assert_eq!((model.initial.len(), model.actions[0].assignments.len()), (1, 1));
    }
}
