//! A model in SMT-LIB 2: declarations, axioms, predicates, and an action as definitions of the state after it.
//!
//! The value of a symbol after an action is a defined function, `name_next`. So no query has a second copy of the state, nor
//! statements that everything else stays as it was.

use std::fmt::Write as _;

use crate::model::{
    AssignedPlace, Assignment, Expression, ModelAction, NewValue, Predicate, ProofModel, SortId, SymbolId,
    VariableId,
};
use crate::structure::{Structure, for_each_tuple};

/// Which state a predicate speaks of.
#[derive(Clone, Copy)]
pub(crate) enum When<'a> {
    Now,
    /// After this action.
    After(&'a ModelAction),
}

/// Writes parts of a model.
pub(crate) struct Writer<'a> {
    model: &'a ProofModel,
    /// The sizes of the sorts, if quantifiers are written out for each of so many named elements.
    sizes: Option<Vec<u8>>,
}

impl<'a> Writer<'a> {
    pub(crate) fn new(model: &'a ProofModel) -> Self {
        Writer { model, sizes: None }
    }

    /// A writer for an instance with named elements. Without quantifiers a solver need not guess which instances of them matter.
    pub(crate) fn of_instance(structure: &Structure<'a>) -> Self {
        let model = structure.model;
        let sizes = (0..model.sorts.len()).map(|sort| structure.size(sort)).collect();
        Writer { model, sizes: Some(sizes) }
    }

    /// Sorts, symbols, orders and axioms.
    pub(crate) fn declarations(&self) -> String {
        let mut text = String::new();
        for sort in &self.model.sorts {
            line(&mut text, format_args!("(declare-sort {} 0)", sort.name));
        }
        for (sort, &size) in self.model.sorts.iter().zip(self.sizes.iter().flatten()) {
            for element in 0..size {
                line(&mut text, format_args!("(declare-const {0}_is_{element} {0})", sort.name));
            }
        }
        for symbol in &self.model.symbols {
            let result = symbol.result.map_or("Bool", |sort| self.sort(sort));
            let arguments: Vec<&str> = symbol.arguments.iter().map(|&sort| self.sort(sort)).collect();
            line(&mut text, format_args!("(declare-fun {} ({}) {result})", symbol.name, arguments.join(" ")));
        }
        for sort in self.model.sorts.iter().filter(|sort| sort.is_ordered) {
            let s = &sort.name;
            line(&mut text, format_args!("(declare-fun less_{s} ({s} {s}) Bool)"));
            line(&mut text, format_args!("(assert (forall ((a {s})) (not (less_{s} a a))))"));
            line(
                &mut text,
                format_args!(
                    "(assert (forall ((a {s}) (b {s}) (c {s})) (=> (and (less_{s} a b) (less_{s} b c)) (less_{s} a c))))"
                ),
            );
            line(
                &mut text,
                format_args!(
                    "(assert (forall ((a {s}) (b {s})) (or (less_{s} a b) (= a b) (less_{s} b a))))"
                ),
            );
        }
        for axiom in &self.model.axioms {
            text.push_str(&self.assertion(&axiom.holds));
        }
        text
    }

    /// That the predicate holds now.
    pub(crate) fn assertion(&self, predicate: &Predicate) -> String {
        format!("(assert {})\n", self.predicate(predicate, When::Now))
    }

    /// That the predicate does not hold.
    pub(crate) fn negation(&self, predicate: &Predicate, when: When<'_>) -> String {
        format!("(assert (not {}))\n", self.predicate(predicate, when))
    }

    /// The parameters of an action, its guard, and the symbols after it.
    pub(crate) fn action(&self, action: &ModelAction) -> String {
        let mut text = String::new();
        for &parameter in &action.parameters {
            let sort = self.sort(self.model.variables[parameter].sort);
            line(&mut text, format_args!("(declare-const {} {sort})", self.variable(parameter)));
        }
        for guard in &action.guards {
            text.push_str(&self.assertion(guard));
        }
        for assignment in &action.assignments {
            self.next_value(assignment, &mut text);
        }
        text
    }

    fn next_value(&self, assignment: &Assignment, text: &mut String) {
        let symbol = &self.model.symbols[assignment.symbol];
        let (mut parameters, mut places, mut names) = (Vec::new(), Vec::new(), Vec::new());
        for (index, (place, &sort)) in assignment.places.iter().zip(&symbol.arguments).enumerate() {
            let name = match place {
                AssignedPlace::Every(variable) => self.variable(*variable),
                AssignedPlace::At(expression) => {
                    let name = format!("at_{index}");
                    places.push(format!("(= {name} {})", self.expression(expression, When::Now)));
                    name
                }
            };
            parameters.push(format!("({name} {})", self.sort(sort)));
            names.push(name);
        }
        let value = match &assignment.value {
            NewValue::Truth(predicate) => self.predicate(predicate, When::Now),
            NewValue::Element(expression) => self.expression(expression, When::Now),
        };
        let value = match places.as_slice() {
            [] => value,
            [one] => format!("(ite {one} {value} ({} {}))", symbol.name, names.join(" ")),
            many => format!("(ite (and {}) {value} ({} {}))", many.join(" "), symbol.name, names.join(" ")),
        };
        let result = symbol.result.map_or("Bool", |sort| self.sort(sort));
        let parameters = parameters.join(" ");
        line(text, format_args!("(define-fun {}_next ({parameters}) {result} {value})", symbol.name));
    }

    pub(crate) fn sort(&self, sort: SortId) -> &'a str {
        &self.model.sorts[sort].name
    }

    pub(crate) fn variable(&self, variable: VariableId) -> String {
        format!("{}_{variable}", self.model.variables[variable].name)
    }

    fn applied(&self, symbol: SymbolId, arguments: &[Expression], when: When<'_>) -> String {
        let mut name = self.model.symbols[symbol].name.clone();
        if let When::After(action) = when
            && action.assignments.iter().any(|assignment| assignment.symbol == symbol)
        {
            name.push_str("_next");
        }
        if arguments.is_empty() {
            return name;
        }
        let arguments: Vec<String> =
            arguments.iter().map(|argument| self.expression(argument, when)).collect();
        format!("({name} {})", arguments.join(" "))
    }

    fn expression(&self, expression: &Expression, when: When<'_>) -> String {
        match expression {
            Expression::Variable(variable) => self.variable(*variable),
            Expression::Apply(symbol, arguments) => self.applied(*symbol, arguments, when),
            Expression::If(condition, then, otherwise) => format!(
                "(ite {} {} {})",
                self.predicate(condition, when),
                self.expression(then, when),
                self.expression(otherwise, when)
            ),
        }
    }

    fn predicate(&self, predicate: &Predicate, when: When<'_>) -> String {
        let all = |parts: &[Predicate]| {
            parts.iter().map(|part| self.predicate(part, when)).collect::<Vec<_>>().join(" ")
        };
        match predicate {
            Predicate::Constant(value) => value.to_string(),
            Predicate::Holds(symbol, arguments) => self.applied(*symbol, arguments, when),
            Predicate::Equal(left, right) => {
                format!("(= {} {})", self.expression(left, when), self.expression(right, when))
            }
            Predicate::Less(sort, left, right) => format!(
                "(less_{} {} {})",
                self.sort(*sort),
                self.expression(left, when),
                self.expression(right, when)
            ),
            Predicate::Not(part) => format!("(not {})", self.predicate(part, when)),
            Predicate::And(parts) => format!("(and {})", all(parts)),
            Predicate::Or(parts) => format!("(or {})", all(parts)),
            Predicate::Implies(left, right) => {
                format!("(=> {} {})", self.predicate(left, when), self.predicate(right, when))
            }
            Predicate::Iff(left, right) => {
                format!("(= {} {})", self.predicate(left, when), self.predicate(right, when))
            }
            Predicate::All(variables, part) => self.quantified("forall", variables, part, when),
            Predicate::Some(variables, part) => self.quantified("exists", variables, part, when),
        }
    }

    fn quantified(&self, word: &str, variables: &[VariableId], part: &Predicate, when: When<'_>) -> String {
        if let Some(sizes) = &self.sizes {
            return self.written_out(sizes, word, variables, &self.predicate(part, when));
        }
        let bound = variables.iter().map(|&variable| {
            format!("({} {})", self.variable(variable), self.sort(self.model.variables[variable].sort))
        });
        format!("({word} ({}) {})", bound.collect::<Vec<_>>().join(" "), self.predicate(part, when))
    }
}

impl Writer<'_> {
    /// A quantified `part` for each choice of named elements.
    fn written_out(&self, sizes: &[u8], word: &str, variables: &[VariableId], part: &str) -> String {
        let sorts: Vec<SortId> =
            variables.iter().map(|&variable| self.model.variables[variable].sort).collect();
        let mut text = if word == "forall" { "(and true".to_owned() } else { "(or false".to_owned() };
        for_each_tuple(sizes, &sorts, &mut |elements| {
            text.push_str(" (let (");
            for ((&variable, &sort), element) in variables.iter().zip(&sorts).zip(elements) {
                write!(text, "({} {}_is_{element})", self.variable(variable), self.sort(sort))
                    .expect("a string takes all that is written to it");
            }
            write!(text, ") {part})").expect("a string takes all that is written to it");
        });
        text.push(')');
        text
    }
}

/// Appends one line.
fn line(text: &mut String, what: std::fmt::Arguments<'_>) {
    writeln!(text, "{what}").expect("a string takes all that is written to it");
}
