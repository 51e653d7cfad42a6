//! A site's state in the terms of a model: what `crates/proof` compares the code with.
//!
//! A model of an algorithm has relations and functions, such as `waiting(site)` and `clock(site): time`. An algorithm that is
//! [`Modelled`] says which of them hold because of a site's state or a message on its way. What is not said does not hold, or has
//! the first value.

use crate::{Algorithm, Clock, Count, SiteId, Slot};

/// An algorithm with a model in `crates/proof`.
pub trait Modelled: Algorithm {
    /// Adds what holds because of this site's state.
    fn facts(&self, facts: &mut ModelFacts);

    /// Adds what holds because `message` is on its way.
    fn message_facts(from: SiteId, to: SiteId, message: &Self::Message, facts: &mut ModelFacts);
}

/// One entry of a relation, or one value of a function.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ModelFact {
    /// The name of the relation or function.
    pub symbol: &'static str,
    /// Its arguments.
    pub arguments: Vec<u64>,
    /// The value; 1 for an entry of a relation.
    pub value: u64,
}

/// What is known to hold.
#[derive(Clone, Debug, Default)]
pub struct ModelFacts(pub Vec<ModelFact>);

impl ModelFacts {
    /// Adds an entry of a relation.
    pub fn holds(&mut self, symbol: &'static str, arguments: &[&dyn ModelElement]) {
        self.add(symbol, arguments, 1);
    }

    /// Adds an entry of a relation if `holds`.
    pub fn holds_if(&mut self, holds: bool, symbol: &'static str, arguments: &[&dyn ModelElement]) {
        if holds {
            self.holds(symbol, arguments);
        }
    }

    /// Adds a value of a function.
    pub fn value(&mut self, symbol: &'static str, arguments: &[&dyn ModelElement], value: &dyn ModelElement) {
        self.add(symbol, arguments, value.number());
    }

    fn add(&mut self, symbol: &'static str, arguments: &[&dyn ModelElement], value: u64) {
        let arguments = arguments.iter().map(|argument| argument.number()).collect();
        self.0.push(ModelFact { symbol, arguments, value });
    }
}

/// An element of a sort: its number in the order of the sort.
pub trait ModelElement {
    /// The number.
    fn number(&self) -> u64;
}

impl ModelElement for SiteId {
    fn number(&self) -> u64 {
        self.index() as u64
    }
}

impl ModelElement for Clock {
    fn number(&self) -> u64 {
        self.value()
    }
}

impl ModelElement for Count {
    fn number(&self) -> u64 {
        self.value()
    }
}

impl ModelElement for Slot {
    fn number(&self) -> u64 {
        u64::from(self.0)
    }
}

impl ModelElement for u64 {
    fn number(&self) -> u64 {
        *self
    }
}
