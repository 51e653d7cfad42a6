//! Finite instances of a model: so many elements of each sort, and a table of values for each symbol.
//!
//! The elements of a sort are numbers from 0 in its order. A state is one row of bytes, so that states are compared and copied at
//! once.

use std::fmt;

use crate::model::{ProofModel, RouteEnd, SENT, SortId, Symbol, SymbolId};

/// The size of each sort, and where each symbol's values are in a state.
#[derive(Clone, Debug)]
pub struct Structure<'a> {
    pub(crate) model: &'a ProofModel,
    sizes: Vec<u8>,
    starts: Vec<usize>,
    length: usize,
}

/// The value of every symbol at every place: 0 or 1 for a relation, an element's number for a function.
pub type ModelState = Vec<u8>;

/// A value outside the instance.
#[derive(Debug, thiserror::Error)]
#[error(
    "{symbol}({arguments:?}) = {value} is outside the instance of {sizes:?} elements, or the model has no such symbol"
)]
pub struct OutsideError {
    pub symbol: String,
    pub arguments: Vec<u64>,
    pub value: u64,
    pub sizes: Vec<u8>,
}

/// Something that holds in a state: `missing(site0, site1)`, `clock(site0) = time2`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StateFact {
    pub symbol: String,
    /// The arguments' names.
    pub of: Vec<String>,
    /// The value of a function; a relation has none.
    pub value: Option<String>,
    /// The message, if the fact says that one is on its way.
    pub message: Option<InFlight>,
}

impl fmt::Display for StateFact {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.symbol)?;
        if !self.of.is_empty() {
            write!(f, "({})", self.of.join(", "))?;
        }
        self.value.as_ref().map_or(Ok(()), |value| write!(f, " = {value}"))
    }
}

/// A message on its way between two sites.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InFlight {
    /// `REQUEST`, of `request_sent`.
    pub kind: String,
    /// The sender, if the model says who it is.
    pub from: Option<String>,
    pub to: String,
    /// What the message carries beside its ends.
    pub carries: Vec<String>,
}

impl<'a> Structure<'a> {
    /// An instance with these sizes, in the order of the sorts.
    pub fn new(model: &'a ProofModel, sizes: Vec<u8>) -> Self {
        assert_eq!(sizes.len(), model.sorts.len(), "each sort has a size");
        let (mut starts, mut length) = (Vec::new(), 0);
        for symbol in &model.symbols {
            starts.push(length);
            length += symbol.arguments.iter().map(|&sort| usize::from(sizes[sort])).product::<usize>();
        }
        Structure { model, sizes, starts, length }
    }

    /// The number of elements of a sort.
    pub fn size(&self, sort: SortId) -> u8 {
        self.sizes[sort]
    }

    /// The state in which nothing holds and every value is the first of its sort.
    pub fn empty(&self) -> ModelState {
        vec![0; self.length]
    }

    /// Where in a state the value of `symbol` begins.
    pub(crate) fn start(&self, symbol: SymbolId) -> usize {
        self.starts[symbol]
    }

    /// Where in a state the value of `symbol` at these places is.
    pub(crate) fn index(&self, symbol: SymbolId, places: impl IntoIterator<Item = u8>) -> usize {
        let sorts = &self.model.symbols[symbol].arguments;
        let folded = sorts.iter().zip(places);
        self.starts[symbol]
            + folded
                .fold(0, |index, (&sort, place)| index * usize::from(self.sizes[sort]) + usize::from(place))
    }

    /// The place of a fact in a state, with its value.
    pub fn locate(&self, symbol: &str, arguments: &[u64], value: u64) -> Result<(usize, u8), OutsideError> {
        let outside = || OutsideError {
            symbol: symbol.to_owned(),
            arguments: arguments.to_vec(),
            value,
            sizes: self.sizes.clone(),
        };
        let number = self.model.symbol(symbol).ok_or_else(outside)?;
        let declared = &self.model.symbols[number];
        let fits = |(&sort, &argument): (&SortId, &u64)| argument < u64::from(self.sizes[sort]);
        let limit = declared.result.map_or(2, |sort| u64::from(self.sizes[sort]));
        if declared.arguments.len() != arguments.len()
            || !declared.arguments.iter().zip(arguments).all(fits)
            || value >= limit
        {
            return Err(outside());
        }
        let small = |number: u64| u8::try_from(number).expect("it is smaller than a size");
        Ok((self.index(number, arguments.iter().map(|&argument| small(argument))), small(value)))
    }

    /// Everything that holds in a state, and every value of a function.
    pub fn facts(&self, state: &[u8]) -> Vec<StateFact> {
        let mut facts = Vec::new();
        for (number, symbol) in self.model.symbols.iter().enumerate() {
            for_each_tuple(&self.sizes, &symbol.arguments, &mut |places| {
                let value = state[self.index(number, places.iter().copied())];
                let of = || self.elements(&symbol.arguments, places);
                match symbol.result {
                    None if value == 1 => facts.push(StateFact {
                        symbol: symbol.name.clone(),
                        of: of(),
                        value: None,
                        message: self.message(state, number, places),
                    }),
                    Some(sort) => facts.push(StateFact {
                        symbol: symbol.name.clone(),
                        of: of(),
                        value: Some(self.element(sort, value)),
                        message: None,
                    }),
                    None => {}
                }
            });
        }
        facts
    }

    /// The same as text.
    pub fn describe(&self, state: &[u8]) -> Vec<String> {
        self.facts(state).iter().map(ToString::to_string).collect()
    }

    /// The names of elements, by the sort of each.
    fn elements(&self, sorts: &[SortId], elements: &[u8]) -> Vec<String> {
        sorts.iter().zip(elements).map(|(&sort, &element)| self.element(sort, element)).collect()
    }

    /// The message that a relation says is on its way, if it is one that does.
    fn message(&self, state: &[u8], symbol: SymbolId, places: &[u8]) -> Option<InFlight> {
        let route = self.model.routes.iter().find(|route| route.symbol == symbol)?;
        let Symbol { name, arguments, .. } = &self.model.symbols[symbol];
        let end = |end: RouteEnd| match end {
            RouteEnd::Argument(at) => self.element(arguments[at], places[at]),
            RouteEnd::Value(constant) => {
                let sort = self.model.symbols[constant].result.expect("routes lead to values only");
                self.element(sort, state[self.index(constant, [])])
            }
        };
        let is_end = |at: usize| [route.from, Some(route.to)].contains(&Some(RouteEnd::Argument(at)));
        let carried = (0..arguments.len()).filter(|&at| !is_end(at));
        Some(InFlight {
            kind: name.trim_end_matches(SENT).to_uppercase(),
            from: route.from.map(end),
            to: end(route.to),
            carries: carried.map(|at| self.element(arguments[at], places[at])).collect(),
        })
    }

    /// The names of all elements of a sort.
    pub(crate) fn all(&self, sort: SortId) -> Vec<String> {
        (0..self.sizes[sort]).map(|element| self.element(sort, element)).collect()
    }

    /// The name of an element: `site0`, `time2`.
    pub fn element(&self, sort: SortId, element: u8) -> String {
        format!("{}{element}", self.model.sorts[sort].name)
    }
}

/// Calls `each` with every tuple of elements of these sorts.
pub(crate) fn for_each_tuple(sizes: &[u8], sorts: &[SortId], each: &mut dyn FnMut(&[u8])) {
    fn extend(sizes: &[u8], sorts: &[SortId], tuple: &mut Vec<u8>, each: &mut dyn FnMut(&[u8])) {
        let Some(&sort) = sorts.get(tuple.len()) else { return each(tuple) };
        for element in 0..sizes[sort] {
            tuple.push(element);
            extend(sizes, sorts, tuple, each);
            tuple.pop();
        }
    }
    extend(sizes, sorts, &mut Vec::new(), each);
}
