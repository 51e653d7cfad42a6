//! Declarations, clauses and actions.

use super::{Definition, Reader, TextError};
use crate::model::{
    ActionPart, AssignedPlace, Assignment, ClauseKind, Expression, ModelAction, NamedClause, NewValue,
    Predicate, Sort, SortId, Symbol, Variable, VariableId,
};
use crate::text::formula::Scope;

impl Reader {
    /// Reads one item.
    pub(super) fn item(&mut self) -> Result<(), TextError> {
        match self.next()?.as_str() {
            "sort" => {
                let sorts = self.list()?;
                self.model.sorts.extend(sorts.into_iter().map(|name| Sort { name, is_ordered: false }));
            }
            "ordered" => {
                for name in self.list()? {
                    let sort = self.sort(&name)?;
                    self.model.sorts[sort].is_ordered = true;
                }
            }
            "var" => self.variables()?,
            "relation" => self.relations(false)?,
            "function" => self.function(false)?,
            "fixed" if self.takes("relation") => self.relations(true)?,
            "fixed" => self.function(true)?,
            "ghost" => self.ghosts()?,
            "sent" => self.route()?,
            "define" => self.definition()?,
            "action" => return self.action(ActionPart::First),
            "receive" => return self.action(ActionPart::Receipt),
            "then" => return self.action(ActionPart::Sequel),
            "axiom" => self.axiom()?,
            "init" => {
                let clause = self.clause(ClauseKind::Step)?;
                self.model.initial.push(clause);
            }
            "invariant" => self.invariant(ClauseKind::Step)?,
            "safety" => self.invariant(ClauseKind::Safety)?,
            "progress" => self.invariant(ClauseKind::Progress)?,
            "theorem" => {
                let clause = self.clause(ClauseKind::Step)?;
                self.model.theorems.push(clause);
            }
            other => return Err(self.error(format!("'{other}' begins no item"))),
        }
        self.expect(";")
    }

    /// Names with commas between them.
    fn list(&mut self) -> Result<Vec<String>, TextError> {
        let mut names = vec![self.next()?];
        while self.takes(",") {
            names.push(self.next()?);
        }
        Ok(names)
    }

    /// Names in parentheses; nothing at all is no name.
    pub(super) fn listed(&mut self) -> Result<Vec<String>, TextError> {
        if !self.takes("(") {
            return Ok(Vec::new());
        }
        let names = self.list()?;
        self.expect(")")?;
        Ok(names)
    }

    fn sort(&self, name: &str) -> Result<SortId, TextError> {
        self.model.sort(name).ok_or_else(|| self.error(format!("there is no sort '{name}'")))
    }

    fn variables(&mut self) -> Result<(), TextError> {
        let names = self.list()?;
        self.expect(":")?;
        let sort = self.next()?;
        let sort = self.sort(&sort)?;
        for name in names {
            self.names.insert(name.clone(), self.model.variables.len());
            self.model.variables.push(Variable { name, sort });
        }
        Ok(())
    }

    fn relations(&mut self, is_fixed: bool) -> Result<(), TextError> {
        loop {
            let name = self.next()?;
            let sorts = self.listed()?;
            self.declare(name, &sorts, None, is_fixed)?;
            if !self.takes(",") {
                return Ok(());
            }
        }
    }

    fn function(&mut self, is_fixed: bool) -> Result<(), TextError> {
        let name = self.next()?;
        let sorts = self.listed()?;
        self.expect(":")?;
        let result = self.next()?;
        let result = self.sort(&result)?;
        self.declare(name, &sorts, Some(result), is_fixed)
    }

    /// A relation or function of the proof only.
    fn ghosts(&mut self) -> Result<(), TextError> {
        let first = self.model.symbols.len();
        if self.takes("relation") {
            self.relations(false)?;
        } else {
            self.expect("function")?;
            self.function(false)?;
        }
        self.model.symbols[first..].iter_mut().for_each(|symbol| symbol.is_ghost = true);
        Ok(())
    }

    fn declare(
        &mut self,
        name: String,
        sorts: &[String],
        result: Option<SortId>,
        is_fixed: bool,
    ) -> Result<(), TextError> {
        if self.model.symbol(&name).is_some() || self.names.contains_key(&name) {
            return Err(self.error(format!("'{name}' is declared twice")));
        }
        let arguments = sorts.iter().map(|sort| self.sort(sort)).collect::<Result<_, _>>()?;
        self.model.symbols.push(Symbol { name, arguments, result, is_fixed, is_ghost: false });
        Ok(())
    }

    /// Notes where the body begins; it is read wherever the definition is used.
    fn definition(&mut self) -> Result<(), TextError> {
        let name = self.next()?;
        let parameters = self.listed()?;
        self.expect("=")?;
        self.definitions.insert(name, Definition { parameters, body: self.at });
        while self.peek().is_some_and(|next| next != ";") {
            self.at += 1;
        }
        Ok(())
    }

    fn quoted(&mut self) -> Result<String, TextError> {
        let text = self.next()?;
        match text.strip_prefix('"') {
            Some(quoted) => Ok(quoted.to_owned()),
            None => Err(self.error("one line of why is expected, in quotes")),
        }
    }

    /// An axiom is taken for true in every state, and no question asks whether a step keeps it. So it may speak only of what no step changes.
    fn axiom(&mut self) -> Result<(), TextError> {
        let clause = self.clause(ClauseKind::Step)?;
        let mut changing = None;
        clause.holds.for_each_symbol(&mut |symbol| {
            let symbol = &self.model.symbols[symbol];
            changing = changing.take().or_else(|| (!symbol.is_fixed).then(|| symbol.name.clone()));
        });
        if let Some(changing) = changing {
            let name = &clause.name;
            return Err(self.error(format!("the axiom {name} speaks of '{changing}', which is not fixed")));
        }
        self.model.axioms.push(clause);
        Ok(())
    }

    fn invariant(&mut self, kind: ClauseKind) -> Result<(), TextError> {
        let clause = self.clause(kind)?;
        self.model.clauses.push(clause);
        Ok(())
    }

    fn clause(&mut self, kind: ClauseKind) -> Result<NamedClause, TextError> {
        let name = self.next()?;
        let why = self.quoted()?;
        self.expect(":")?;
        let holds = self.predicate(&Scope::new())?;
        let free = self.free(&holds, &[]);
        let holds = if free.is_empty() { holds } else { Predicate::All(free, Box::new(holds)) };
        Ok(NamedClause { name, why, holds, kind })
    }

    /// The free variables of a predicate other than `bound`, in the order of their first use.
    fn free(&self, predicate: &Predicate, bound: &[VariableId]) -> Vec<VariableId> {
        let mut free = Vec::new();
        // Only variables by name can be free: those that quantifiers bind are copies.
        let named: Vec<VariableId> = self.names.values().copied().collect();
        predicate.for_each_variable(&mut |variable| {
            if named.contains(&variable) && !bound.contains(&variable) && !free.contains(&variable) {
                free.push(variable);
            }
        });
        free
    }

    fn action(&mut self, part: ActionPart) -> Result<(), TextError> {
        let name = self.next()?;
        let mut parameters = Vec::new();
        for parameter in self.listed()? {
            parameters.push(self.variable(&parameter)?);
        }
        let rule = self.quoted()?;
        self.expect("{")?;
        let (mut guards, mut assignments) = (Vec::new(), Vec::new());
        while !self.takes("}") {
            if self.takes("when") {
                let guard = self.predicate(&Scope::new())?;
                if let Some(&free) = self.free(&guard, &parameters).first() {
                    let name = &self.model.variables[free].name;
                    return Err(self.error(format!("'{name}' is no parameter of the action")));
                }
                guards.push(guard);
            } else {
                let assignment = self.assignment(&parameters)?;
                if assignments.iter().any(|other: &Assignment| other.symbol == assignment.symbol) {
                    return Err(self.error("an action assigns to each symbol once"));
                }
                assignments.push(assignment);
            }
            self.expect(";")?;
        }
        if part == ActionPart::Receipt && parameters.len() < 2 {
            return Err(self.error(format!("'{name}' does not say who receives from whom")));
        }
        self.model.actions.push(ModelAction { name, part, rule, parameters, guards, assignments });
        Ok(())
    }

    fn assignment(&mut self, parameters: &[VariableId]) -> Result<Assignment, TextError> {
        let name = self.next()?;
        let Some(symbol) = self.model.symbol(&name).filter(|&symbol| !self.model.symbols[symbol].is_fixed)
        else {
            return Err(self.error(format!("'{name}' is nothing that an action can change")));
        };
        let mut places = Vec::new();
        if self.takes("(") {
            loop {
                let place = self.expression(&Scope::new())?;
                places.push(match place {
                    Expression::Variable(variable) if !parameters.contains(&variable) => {
                        AssignedPlace::Every(variable)
                    }
                    other @ (Expression::Variable(_) | Expression::Apply(..) | Expression::If(..)) => {
                        AssignedPlace::At(other)
                    }
                });
                if !self.takes(",") {
                    break;
                }
            }
            self.expect(")")?;
        }
        if places.len() != self.model.symbols[symbol].arguments.len() {
            return Err(self.error(format!("'{name}' has another number of arguments")));
        }
        self.expect(":=")?;
        let value = match self.model.symbols[symbol].result {
            None => NewValue::Truth(self.predicate(&Scope::new())?),
            Some(_) => NewValue::Element(self.expression(&Scope::new())?),
        };
        Ok(Assignment { symbol, places, value })
    }
}

#[cfg(test)]
mod tests {
    use crate::text::parse;

    const MODEL: &str = r#"
        sort site;
        var i, j: site;
        fixed relation next(site, site);
        fixed first: site;
        relation inside(site);
        function leader: site;
        axiom ring "w": exists j. next(i, j) & j != first;
        init nobody "w": !inside(i);
        safety exclusion "w": inside(i) & inside(j) -> i = j;
    "#;

    #[test]
    fn an_axiom_about_what_a_step_can_change_is_refused() {
        parse(MODEL).unwrap();
        let refused = |axiom: &str| {
            let text = MODEL.replace("exists j. next(i, j) & j != first", axiom);
            parse(&text).expect_err("it would be assumed, and never asked for").what
        };
        assert_eq!(refused("!inside(i)"), "the axiom ring speaks of 'inside', which is not fixed");
        // Also in a value, and deep inside.
        assert_eq!(refused("next(i, leader)"), "the axiom ring speaks of 'leader', which is not fixed");
        assert!(refused("forall j. next(i, j) -> exists i. next(j, i) & inside(i)").contains("'inside'"));
        assert!(refused("next(i, if inside(i) then i else first)").contains("'inside'"));
    }
}
