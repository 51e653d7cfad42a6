//! Predicates and expressions.

use std::collections::BTreeMap;

use super::{Definition, Reader, TextError};
use crate::model::{Expression, Predicate, Variable, VariableId};

/// What names stand for inside a quantifier or a definition, where that is not the variable of that name.
pub(super) type Scope = BTreeMap<String, Expression>;

impl Reader {
    pub(super) fn predicate(&mut self, scope: &Scope) -> Result<Predicate, TextError> {
        let left = self.implication(scope)?;
        if self.takes("<->") {
            return Ok(Predicate::Iff(Box::new(left), Box::new(self.implication(scope)?)));
        }
        Ok(left)
    }

    fn implication(&mut self, scope: &Scope) -> Result<Predicate, TextError> {
        let left = self.disjunction(scope)?;
        if self.takes("->") {
            return Ok(Predicate::Implies(Box::new(left), Box::new(self.implication(scope)?)));
        }
        Ok(left)
    }

    fn disjunction(&mut self, scope: &Scope) -> Result<Predicate, TextError> {
        let first = self.conjunction(scope)?;
        if self.peek() != Some("|") {
            return Ok(first);
        }
        let mut parts = vec![first];
        while self.takes("|") {
            parts.push(self.conjunction(scope)?);
        }
        Ok(Predicate::Or(parts))
    }

    fn conjunction(&mut self, scope: &Scope) -> Result<Predicate, TextError> {
        let first = self.unary(scope)?;
        if self.peek() != Some("&") {
            return Ok(first);
        }
        let mut parts = vec![first];
        while self.takes("&") {
            parts.push(self.unary(scope)?);
        }
        Ok(Predicate::And(parts))
    }

    fn unary(&mut self, scope: &Scope) -> Result<Predicate, TextError> {
        match self.peek() {
            Some("!") => {
                self.at += 1;
                Ok(Predicate::Not(Box::new(self.unary(scope)?)))
            }
            Some("(") => {
                self.at += 1;
                let inner = self.predicate(scope)?;
                self.expect(")")?;
                Ok(inner)
            }
            Some("forall") => self.quantified(scope, Predicate::All),
            Some("exists") => self.quantified(scope, Predicate::Some),
            Some("true") => {
                self.at += 1;
                Ok(Predicate::Constant(true))
            }
            Some("false") => {
                self.at += 1;
                Ok(Predicate::Constant(false))
            }
            _ => self.atom(scope),
        }
    }

    /// A quantifier binds copies of the variables that it names, so that a definition can be used anywhere.
    fn quantified(
        &mut self,
        scope: &Scope,
        quantifier: fn(Vec<VariableId>, Box<Predicate>) -> Predicate,
    ) -> Result<Predicate, TextError> {
        self.at += 1;
        let (mut inner, mut bound) = (scope.clone(), Vec::new());
        loop {
            let name = self.next()?;
            let sort = self.model.variables[self.variable(&name)?].sort;
            let copy = self.model.variables.len();
            self.model.variables.push(Variable { name: name.clone(), sort });
            inner.insert(name, Expression::Variable(copy));
            bound.push(copy);
            if !self.takes(",") {
                break;
            }
        }
        self.expect(".")?;
        Ok(quantifier(bound, Box::new(self.predicate(&inner)?)))
    }

    /// A relation, the use of a definition, or a comparison.
    fn atom(&mut self, scope: &Scope) -> Result<Predicate, TextError> {
        let name = self.peek().unwrap_or_default().to_owned();
        let relation = self.model.symbol(&name).filter(|&symbol| self.model.symbols[symbol].result.is_none());
        if let Some(symbol) = relation {
            self.at += 1;
            let arguments = self.arguments(scope)?;
            self.check_arguments(symbol, &arguments)?;
            return Ok(Predicate::Holds(symbol, arguments));
        }
        if let Some(definition) = self.definitions.get(&name).cloned()
            && !self.is_value(&definition)
        {
            self.at += 1;
            let inner = self.enter(&definition, scope)?;
            return self.within(&definition, |reader| reader.predicate(&inner));
        }
        let left = self.expression(scope)?;
        let sign = self.next()?;
        let right = self.expression(scope)?;
        self.compare(&sign, left, right)
    }

    fn compare(&self, sign: &str, left: Expression, right: Expression) -> Result<Predicate, TextError> {
        let sort = self.model.sort_of(&left);
        if sort != self.model.sort_of(&right) {
            return Err(self.error("values of different sorts are compared"));
        }
        let less = |left, right| match sort {
            Some(sort) if self.model.sorts[sort].is_ordered => Ok(Predicate::Less(sort, left, right)),
            _ => Err(self.error("this sort has no order")),
        };
        Ok(match sign {
            "=" => Predicate::Equal(left, right),
            "!=" => Predicate::Not(Box::new(Predicate::Equal(left, right))),
            "<" => less(left, right)?,
            ">" => less(right, left)?,
            "<=" => Predicate::Not(Box::new(less(right, left)?)),
            ">=" => Predicate::Not(Box::new(less(left, right)?)),
            other => return Err(self.error(format!("'{other}' compares nothing"))),
        })
    }

    pub(super) fn expression(&mut self, scope: &Scope) -> Result<Expression, TextError> {
        let name = self.next()?;
        if name == "if" {
            let condition = self.predicate(scope)?;
            self.expect("then")?;
            let then = self.expression(scope)?;
            self.expect("else")?;
            let otherwise = self.expression(scope)?;
            return Ok(Expression::If(Box::new(condition), Box::new(then), Box::new(otherwise)));
        }
        if let Some(meant) = scope.get(&name) {
            return Ok(meant.clone());
        }
        if let Some(&variable) = self.names.get(&name) {
            return Ok(Expression::Variable(variable));
        }
        if let Some(definition) = self.definitions.get(&name).cloned() {
            let inner = self.enter(&definition, scope)?;
            return self.within(&definition, |reader| reader.expression(&inner));
        }
        let Some(symbol) = self.model.symbol(&name) else {
            return Err(self.error(format!("'{name}' is not declared")));
        };
        let arguments = self.arguments(scope)?;
        self.check_arguments(symbol, &arguments)?;
        Ok(Expression::Apply(symbol, arguments))
    }

    /// Expressions in parentheses; nothing at all is none.
    fn arguments(&mut self, scope: &Scope) -> Result<Vec<Expression>, TextError> {
        let mut arguments = Vec::new();
        if self.takes("(") {
            loop {
                arguments.push(self.expression(scope)?);
                if !self.takes(",") {
                    break;
                }
            }
            self.expect(")")?;
        }
        Ok(arguments)
    }

    fn check_arguments(&self, symbol: usize, arguments: &[Expression]) -> Result<(), TextError> {
        let symbol = &self.model.symbols[symbol];
        let sorts: Vec<_> = arguments.iter().map(|argument| self.model.sort_of(argument)).collect();
        let wanted: Vec<_> = symbol.arguments.iter().map(|&sort| Some(sort)).collect();
        if sorts == wanted {
            Ok(())
        } else {
            Err(self.error(format!("the arguments of '{}' are wrong", symbol.name)))
        }
    }

    pub(super) fn variable(&self, name: &str) -> Result<VariableId, TextError> {
        self.names.get(name).copied().ok_or_else(|| self.error(format!("'{name}' is no variable")))
    }

    /// Whether the definition stands for a value and not for a predicate.
    fn is_value(&self, definition: &Definition) -> bool {
        let first = self.lexemes[definition.body].text.as_str();
        first == "if"
    }

    /// Reads the arguments of a definition: what its parameters stand for.
    fn enter(&mut self, definition: &Definition, scope: &Scope) -> Result<Scope, TextError> {
        let arguments = self.arguments(scope)?;
        if arguments.len() != definition.parameters.len() {
            return Err(self.error("a definition is used with another number of arguments"));
        }
        Ok(definition.parameters.iter().cloned().zip(arguments).collect())
    }

    /// Reads the body of a definition and comes back.
    fn within<T>(
        &mut self,
        definition: &Definition,
        read: impl FnOnce(&mut Self) -> Result<T, TextError>,
    ) -> Result<T, TextError> {
        let back = std::mem::replace(&mut self.at, definition.body);
        let body = read(self)?;
        self.expect(";")?;
        self.at = back;
        Ok(body)
    }
}
