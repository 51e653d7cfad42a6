//! A model: a transition system over sorts, relations and functions, with what is claimed to hold in all its states.
//!
//! Names are resolved to numbers when a model's text is read, so that one definition serves the solvers (`smt.rs`) and
//! finite instances ([`evaluate`](crate::evaluate)).

/// Number of a sort of the model.
pub type SortId = usize;

/// Number of a relation or function of the model.
pub type SymbolId = usize;

/// Number of a variable of the model. Each quantifier that comes from a definition binds variables of its own.
pub type VariableId = usize;

/// A sort: sites, clocks, numbers.
#[derive(Clone, Debug)]
pub struct Sort {
    pub name: String,
    /// Whether the sort has a total order, written `<`.
    pub is_ordered: bool,
}

/// A variable with its sort.
#[derive(Clone, Debug)]
pub struct Variable {
    pub name: String,
    pub sort: SortId,
}

/// A relation or a function.
#[derive(Clone, Debug)]
pub struct Symbol {
    pub name: String,
    pub arguments: Vec<SortId>,
    /// The sort of the value; a relation has none.
    pub result: Option<SortId>,
    /// Whether no action may change it: what all sites share from the start.
    pub is_fixed: bool,
    /// Whether it is of the proof only: no step depends on it.
    pub is_ghost: bool,
}

/// How the names of relations end that say which messages are on their way.
pub(crate) const SENT: &str = "_sent";

/// Where a message that is on its way comes from and goes to. No proof depends on it: it is for those who look at a state.
#[derive(Clone, Copy, Debug)]
pub struct MessageRoute {
    /// The relation that says that the message is on its way.
    pub symbol: SymbolId,
    /// The sender; some models leave open who it is.
    pub from: Option<RouteEnd>,
    pub to: RouteEnd,
}

/// An end of a message's way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RouteEnd {
    /// The argument with this number.
    Argument(usize),
    /// The value of this symbol, which has no arguments.
    Value(SymbolId),
}

/// A value of some sort.
#[derive(Clone, Debug)]
pub enum Expression {
    Variable(VariableId),
    Apply(SymbolId, Vec<Expression>),
    If(Box<Predicate>, Box<Expression>, Box<Expression>),
}

/// Something that holds or does not.
#[derive(Clone, Debug)]
pub enum Predicate {
    Constant(bool),
    Holds(SymbolId, Vec<Expression>),
    Equal(Expression, Expression),
    /// In the total order of this sort.
    Less(SortId, Expression, Expression),
    Not(Box<Predicate>),
    And(Vec<Predicate>),
    Or(Vec<Predicate>),
    Implies(Box<Predicate>, Box<Predicate>),
    Iff(Box<Predicate>, Box<Predicate>),
    All(Vec<VariableId>, Box<Predicate>),
    Some(Vec<VariableId>, Box<Predicate>),
}

/// A named statement, with one line of why.
#[derive(Clone, Debug)]
pub struct NamedClause {
    pub name: String,
    pub why: String,
    /// Without free variables.
    pub holds: Predicate,
    pub kind: ClauseKind,
}

/// What a clause of the invariant is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ClauseKind {
    /// A step on the way.
    Step,
    /// What the proof is for.
    Safety,
    /// A step on the way to a theorem. The other clauses are an inductive invariant without it, and are proved without it, so that what
    /// it says of elements that exist does not burden those proofs.
    Progress,
}

/// Which part of a step of the code an action can be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ActionPart {
    /// The beginning.
    First,
    /// The beginning; and what follows at once if a site has sent the message to itself: the first two parameters are the same.
    Receipt,
    /// What follows at once.
    Sequel,
}

/// A guarded action. All assignments read the state before it.
#[derive(Clone, Debug)]
pub struct ModelAction {
    pub name: String,
    pub part: ActionPart,
    /// The rule of the paper.
    pub rule: String,
    pub parameters: Vec<VariableId>,
    /// All of them must hold; their free variables are the parameters.
    pub guards: Vec<Predicate>,
    pub assignments: Vec<Assignment>,
}

/// The new value of a symbol at some places; everywhere else it keeps its value.
#[derive(Clone, Debug)]
pub struct Assignment {
    pub symbol: SymbolId,
    pub places: Vec<AssignedPlace>,
    pub value: NewValue,
}

/// An argument on the left side of an assignment.
#[derive(Clone, Debug)]
pub enum AssignedPlace {
    /// Every element; the variable stands for it in the value.
    Every(VariableId),
    At(Expression),
}

/// The right side of an assignment.
#[derive(Clone, Debug)]
pub enum NewValue {
    Truth(Predicate),
    Element(Expression),
}

/// A transition system and what is claimed of it.
#[derive(Clone, Debug, Default)]
pub struct ProofModel {
    pub sorts: Vec<Sort>,
    pub variables: Vec<Variable>,
    pub symbols: Vec<Symbol>,
    pub routes: Vec<MessageRoute>,
    pub axioms: Vec<NamedClause>,
    pub initial: Vec<NamedClause>,
    pub actions: Vec<ModelAction>,
    /// Together they are the inductive invariant; those that are safety are what it is for.
    pub clauses: Vec<NamedClause>,
    /// Statements that follow from the clauses.
    pub theorems: Vec<NamedClause>,
}

impl ProofModel {
    /// The number of the symbol with this name.
    pub fn symbol(&self, name: &str) -> Option<SymbolId> {
        self.symbols.iter().position(|symbol| symbol.name == name)
    }

    /// The number of the sort with this name.
    pub fn sort(&self, name: &str) -> Option<SortId> {
        self.sorts.iter().position(|sort| sort.name == name)
    }

    /// The sort of an expression.
    pub fn sort_of(&self, expression: &Expression) -> Option<SortId> {
        match expression {
            Expression::Variable(variable) => Some(self.variables[*variable].sort),
            Expression::Apply(symbol, _) => self.symbols[*symbol].result,
            Expression::If(_, then, _) => self.sort_of(then),
        }
    }
}

/// A name that occurs in a predicate.
enum Occurrence {
    Symbol(SymbolId),
    Variable(VariableId),
}

impl Expression {
    /// Calls `found` with every name in the expression.
    fn for_each_name(&self, found: &mut dyn FnMut(Occurrence)) {
        match self {
            Expression::Variable(variable) => found(Occurrence::Variable(*variable)),
            Expression::Apply(symbol, arguments) => {
                found(Occurrence::Symbol(*symbol));
                for argument in arguments {
                    argument.for_each_name(found);
                }
            }
            Expression::If(condition, then, otherwise) => {
                condition.for_each_name(found);
                then.for_each_name(found);
                otherwise.for_each_name(found);
            }
        }
    }
}

impl Predicate {
    /// Calls `found` with each symbol in the predicate.
    pub(crate) fn for_each_symbol(&self, found: &mut dyn FnMut(SymbolId)) {
        self.for_each_name(&mut |name| {
            if let Occurrence::Symbol(symbol) = name {
                found(symbol);
            }
        });
    }

    /// Calls `found` with each variable that is used in the predicate, also if a quantifier binds it.
    pub(crate) fn for_each_variable(&self, found: &mut dyn FnMut(VariableId)) {
        self.for_each_name(&mut |name| {
            if let Occurrence::Variable(variable) = name {
                found(variable);
            }
        });
    }

    fn for_each_name(&self, found: &mut dyn FnMut(Occurrence)) {
        match self {
            Predicate::Constant(_) => {}
            Predicate::Holds(symbol, arguments) => {
                found(Occurrence::Symbol(*symbol));
                for argument in arguments {
                    argument.for_each_name(found);
                }
            }
            Predicate::Equal(left, right) | Predicate::Less(_, left, right) => {
                left.for_each_name(found);
                right.for_each_name(found);
            }
            Predicate::Not(part) | Predicate::All(_, part) | Predicate::Some(_, part) => {
                part.for_each_name(found);
            }
            Predicate::And(parts) | Predicate::Or(parts) => {
                for part in parts {
                    part.for_each_name(found);
                }
            }
            Predicate::Implies(left, right) | Predicate::Iff(left, right) => {
                left.for_each_name(found);
                right.for_each_name(found);
            }
        }
    }
}

impl ModelAction {
    /// Whether the action assigns to a symbol of `predicate`. If not, it preserves it.
    pub fn touches(&self, predicate: &Predicate) -> bool {
        let mut touched = false;
        predicate.for_each_symbol(&mut |symbol| {
            touched |= self.assignments.iter().any(|assignment| assignment.symbol == symbol);
        });
        touched
    }
}
