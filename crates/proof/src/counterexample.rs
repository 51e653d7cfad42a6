//! Why a clause is not inductive: a small state in which all clauses hold, a step, and the state after it.
//!
//! z3 is asked the same question about an instance with a few named elements, quantifiers written out, and for the value of every symbol at every place. The
//! evaluator then takes the step itself, so that what is shown does not depend on the solver's word.

use std::fmt::Write as _;

use crate::evaluate::{ActionInstance, Evaluator};
use crate::model::{ProofModel, SortId};
use crate::query::Query;
use crate::smt::Writer;
use crate::solver::{Solver, SolverError};
use crate::structure::{ModelState, Structure, for_each_tuple};

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

/// The sizes that are tried: small instances are easier to read. The first is that of the sort `site`, the other that of all others.
const SIZES: [(u8, u8); 5] = [(1, 2), (2, 3), (3, 3), (3, 4), (4, 5)];

/// Finds a smallest instance in which `query` goes wrong, if there is one among those that are tried.
pub fn find(model: &ProofModel, query: Query) -> Result<Option<Breaking>, SolverError> {
    for (sites, others) in SIZES {
        let size = |name: &str| if name == "site" { sites } else { others };
        let sizes = model.sorts.iter().map(|sort| size(&sort.name)).collect();
        let structure = Structure::new(model, sizes);
        if let Some(breaking) = find_in(model, query, &structure)? {
            return Ok(Some(breaking));
        }
    }
    Ok(None)
}

fn find_in(
    model: &ProofModel,
    query: Query,
    structure: &Structure<'_>,
) -> Result<Option<Breaking>, SolverError> {
    let writer = Writer::of_instance(structure);
    let mut script = Solver::Z3.prologue() + &query.script_by(&writer, model);
    let (mut asked, mut terms) = (Vec::new(), Vec::new());
    for (sort, declared) in model.sorts.iter().enumerate() {
        name_elements(&declared.name, structure.size(sort), declared.is_ordered, &mut script);
        for element in 0..structure.size(sort) {
            terms.push(format!("{}_is_{element}", declared.name));
            asked.push(AskedValue::Element(sort, element));
        }
    }
    for (number, symbol) in model.symbols.iter().enumerate() {
        let sizes: Vec<u8> = (0..model.sorts.len()).map(|sort| structure.size(sort)).collect();
        for_each_tuple(&sizes, &symbol.arguments, &mut |places| {
            let named = places.iter().zip(&symbol.arguments);
            let named: Vec<String> =
                named.map(|(place, &sort)| format!("{}_is_{place}", writer.sort(sort))).collect();
            let applied = format!("({} {})", symbol.name, named.join(" "));
            terms.push(if named.is_empty() { symbol.name.clone() } else { applied });
            asked.push(AskedValue::Value(structure.index(number, places.iter().copied()), symbol.result));
        });
    }
    let action = match query {
        Query::Step { action, .. } => Some(action),
        Query::Start { .. } | Query::Theorem { .. } => None,
    };
    for &parameter in action.iter().flat_map(|&action| &model.actions[action].parameters) {
        terms.push(writer.variable(parameter));
        asked.push(AskedValue::Parameter(model.variables[parameter].sort));
    }
    write!(script, "(check-sat)\n(get-value ({}))\n", terms.join(" "))
        .expect("a string takes all that is written to it");
    let mut said = String::new();
    Solver::Z3.talk(script, &mut |line| {
        said.push_str(line);
        said.push('\n');
    })?;
    let Some(values) = said.strip_prefix("sat\n") else { return Ok(None) };
    let (state, parameters) = read(structure, &asked, &terms, values);
    Ok(Some(tell(structure, query, state, action.map(|action| ActionInstance { action, parameters }))))
}

/// What is asked for, in the order of the answers.
enum AskedValue {
    Element(SortId, u8),
    /// The index in the state, and the sort of the value if it is not a truth value.
    Value(usize, Option<SortId>),
    Parameter(SortId),
}

/// Says of the elements of a sort that there are no others.
fn name_elements(sort: &str, size: u8, is_ordered: bool, script: &mut String) {
    let names: Vec<String> = (0..size).map(|element| format!("{sort}_is_{element}")).collect();
    let mut line =
        |text: String| writeln!(script, "{text}").expect("a string takes all that is written to it");
    let is_one: Vec<String> = names.iter().map(|name| format!("(= x {name})")).collect();
    line(format!("(assert (forall ((x {sort})) (or {} false)))", is_one.join(" ")));
    if size > 1 {
        line(format!("(assert (distinct {}))", names.join(" ")));
    }
    if is_ordered {
        for pair in names.windows(2) {
            line(format!("(assert (less_{sort} {} {}))", pair[0], pair[1]));
        }
    }
}

/// Reads z3's answer: a list of pairs, each of a term as it was asked and its value.
fn read(
    structure: &Structure<'_>,
    asked: &[AskedValue],
    terms: &[String],
    said: &str,
) -> (ModelState, Vec<u8>) {
    let (mut state, mut parameters, mut elements) = (structure.empty(), Vec::new(), Vec::new());
    let said = said.split_whitespace().collect::<Vec<_>>().join(" ");
    let mut rest = said.as_str();
    for (asked, term) in asked.iter().zip(terms) {
        let at = rest.find(&format!("({term} ")).expect("z3 repeats what it was asked") + term.len() + 2;
        let end = at + rest[at..].find(')').expect("a pair ends");
        let value = rest[at..end].trim();
        rest = &rest[end..];
        let element = |sort: SortId| {
            let known =
                elements.iter().find(|(of, _, name): &&(SortId, u8, String)| *of == sort && name == value);
            known.expect("there are no other elements").1
        };
        match *asked {
            AskedValue::Element(sort, number) => elements.push((sort, number, value.to_owned())),
            AskedValue::Value(index, None) => state[index] = u8::from(value == "true"),
            AskedValue::Value(index, Some(sort)) => state[index] = element(sort),
            AskedValue::Parameter(sort) => parameters.push(element(sort)),
        }
    }
    (state, parameters)
}

/// Takes the step with the evaluator, and makes sure that it breaks the clause.
fn tell(
    structure: &Structure<'_>,
    query: Query,
    state: ModelState,
    instance: Option<ActionInstance>,
) -> Breaking {
    let (model, mut evaluator) = (structure.model, Evaluator::new(structure));
    let broken = match query {
        Query::Start { clause } | Query::Step { clause, .. } => &model.clauses[clause],
        Query::Theorem { theorem } => &model.theorems[theorem],
    };
    let before = structure.describe(&state);
    let Some(ActionInstance { action, parameters }) = instance else {
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
