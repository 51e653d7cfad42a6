//! Small instances of a model that z3 finds: a few named elements of each sort, quantifiers written out, and the value of every symbol at
//! every place.

use std::fmt::Write as _;

use crate::evaluate::ActionInstance;
use crate::model::{ProofModel, SortId};
use crate::smt::Writer;
use crate::solver::{QuestionAbout, Solver, SolverError};
use crate::structure::{ModelState, Structure, for_each_tuple};

/// The sizes that are tried: small instances are easier to read. The first is that of the sort `site`, then that of `permit`: fewer than sites,
/// so that somebody has none; then that of all others.
const SIZES: [(u8, u8, u8); 5] = [(1, 1, 2), (2, 1, 3), (3, 2, 3), (3, 2, 4), (4, 2, 5)];

/// A state of an instance, and the action that can happen in it.
pub(crate) struct FoundInstance {
    pub(crate) state: ModelState,
    pub(crate) step: Option<ActionInstance>,
}

/// Calls `attempt` with instances from small to large until it returns something.
pub(crate) fn smallest<T>(
    model: &ProofModel,
    attempt: &mut dyn FnMut(&Structure<'_>) -> Result<Option<T>, SolverError>,
) -> Result<Option<T>, SolverError> {
    for (sites, permits, others) in SIZES {
        let size = |name: &str| match name {
            "site" => sites,
            "permit" => permits,
            _ => others,
        };
        let sizes = model.sorts.iter().map(|sort| size(&sort.name)).collect();
        if let Some(found) = attempt(&Structure::new(model, sizes))? {
            return Ok(Some(found));
        }
    }
    Ok(None)
}

/// A state of this instance that fulfils what `describe` writes, with the parameters of `action` if the text declares them.
pub(crate) fn find(
    structure: &Structure<'_>,
    action: Option<usize>,
    describe: impl Fn(&Writer<'_>) -> String,
) -> Result<Option<FoundInstance>, SolverError> {
    let (model, writer) = (structure.model, Writer::of_instance(structure));
    let mut script = describe(&writer);
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
    for &parameter in action.iter().flat_map(|&action| &model.actions[action].parameters) {
        terms.push(writer.variable(parameter));
        asked.push(AskedValue::Parameter(model.variables[parameter].sort));
    }
    let Some(values) = Solver::find_values(QuestionAbout::Sorts, &script, &terms)? else { return Ok(None) };
    let (state, parameters) = read(structure, &asked, &values);
    let step = action.map(|action| ActionInstance { action, parameters });
    Ok(Some(FoundInstance { state, step }))
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

/// The state and the parameters, of the values in the order in which they were asked for.
fn read(structure: &Structure<'_>, asked: &[AskedValue], values: &[String]) -> (ModelState, Vec<u8>) {
    let (mut state, mut parameters, mut elements) = (structure.empty(), Vec::new(), Vec::new());
    for (asked, value) in asked.iter().zip(values) {
        let element = |sort: SortId| {
            let known =
                elements.iter().find(|(of, _, name): &&(SortId, u8, String)| *of == sort && name == value);
            known.expect("there are no other elements").1
        };
        match *asked {
            AskedValue::Element(sort, number) => elements.push((sort, number, value.clone())),
            AskedValue::Value(index, None) => state[index] = u8::from(value == "true"),
            AskedValue::Value(index, Some(sort)) => state[index] = element(sort),
            AskedValue::Parameter(sort) => parameters.push(element(sort)),
        }
    }
    (state, parameters)
}
