//! A visit to every state and every step of a run, in the order of a breadth-first search.
//!
//! For whoever wants to see the sites themselves, and not what the search makes of them: `crates/proof` compares each step with a
//! model. The visit goes on past violations, so that it also shows what a mutant does. It runs on one thread.

use std::ops::ControlFlow;

use meshlock_protocol::registry::values::Values;
use meshlock_protocol::{Algorithm, PlanError, SiteId, Slot};

use crate::Bounds;
use crate::interner::Interner;
use crate::moves::{Move, Taken};
use crate::property::{Properties, Property};
use crate::sites::Typed;
use crate::state::{GlobalState, Layout};
use crate::table::{Input, Table};

/// A global state by the numbers of its parts: [`Catalogue`] knows what they stand for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct VisitedState {
    /// The number of each site's state.
    pub sites: Vec<u32>,
    /// The messages on their way: sender, receiver, number.
    pub messages: Vec<(SiteId, SiteId, u32)>,
}

/// The sites and messages that were seen so far, by their numbers.
#[derive(Clone, Copy)]
pub struct Catalogue<'a, A: Algorithm>(&'a Typed<A>);

impl<'a, A: Algorithm> Catalogue<'a, A> {
    /// The state of a site.
    pub fn site(&self, number: u32) -> &'a A {
        self.0.site(number)
    }

    /// A message.
    pub fn message(&self, number: u32) -> &'a A::Message {
        self.0.message(number)
    }
}

/// A process leaves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Departure {
    /// It becomes idle.
    Leaves(SiteId),
    /// It requests again in the same step.
    Returns(SiteId),
}

/// What a visit shows.
pub enum Visited<'a> {
    /// A state that was not seen before. Its number is that of the states before it.
    State(&'a VisitedState),
    /// A step from the state that was shown last. A step that leads to a known state is shown, too.
    Step {
        /// The state after it.
        next: &'a VisitedState,
        /// The process that leaves, if one does. Of the steps from a state, those in which it only leaves come before those in which it
        /// also requests again.
        departure: Option<Departure>,
        /// The site that enters, if one does, and with which permit.
        entered: Option<(SiteId, Slot)>,
        /// What is wrong with the step, if anything is: a message of a correct site is refused, or too many are inside.
        wrong: Option<String>,
    },
}

/// Visits everything within `bounds`. Returns the number of states, unless `visit` ends it early.
///
/// Fences are left out: what sites know of them does not belong to the algorithm.
pub fn visit<A: Algorithm, B>(
    bounds: &Bounds,
    values: &Values,
    visit: &mut dyn FnMut(Catalogue<'_, A>, Visited<'_>) -> ControlFlow<B>,
) -> Result<ControlFlow<B, usize>, PlanError> {
    let bounds = bounds.clone().checking(Properties::all().without(Property::Fences));
    let mut table = Table::new(&bounds, Typed::<A>::start(&bounds, values)?);
    let layout = Layout::of(table.info, &bounds);
    let (mut known, mut body, mut moves) = (Interner::default(), Vec::new(), Vec::new());
    let (mut state, mut next) = (table.first_state(layout), GlobalState::default());
    layout.encode(&state, &mut body);
    known.insert(body.clone());
    let mut number = 0;
    while number < known.len() {
        let at = u32::try_from(number).expect("fewer than 2^32 states");
        layout.decode(known.get(at), &mut state);
        number += 1;
        let shown = describe(&table, layout, &state);
        if let ControlFlow::Break(end) = visit(catalogue(&table), Visited::State(&shown)) {
            return Ok(ControlFlow::Break(end));
        }
        table.moves(layout, &state, &mut moves);
        for &step in &moves {
            table.learn(layout, &state, step);
            let mut end: ControlFlow<B> = ControlFlow::Continue(());
            let applied = table.apply_all(layout, &state, step, &mut next, |taken, wrong, next| {
                if end.is_continue() {
                    let shown = describe(&table, layout, next);
                    let (entered, departure) = (entered(&table, layout, &state, taken), departure(step));
                    let wrong = wrong.map(|wrong| wrong.to_string());
                    end = visit(catalogue(&table), Visited::Step { next: &shown, departure, entered, wrong });
                    body.clear();
                    layout.encode(next, &mut body);
                    known.insert(body.clone());
                }
            });
            applied.expect("all that was unknown was learnt");
            if let ControlFlow::Break(end) = end {
                return Ok(ControlFlow::Break(end));
            }
        }
    }
    Ok(ControlFlow::Continue(known.len()))
}

/// What a step of a process is, if it leaves in it.
fn departure(step: Move) -> Option<Departure> {
    let Move::Process(site, input) = step else { return None };
    let returns = matches!(input, Input::Return(_)).then_some(Departure::Returns(site));
    if input == Input::Release { Some(Departure::Leaves(site)) } else { returns }
}

fn catalogue<A: Algorithm>(table: &Table) -> Catalogue<'_, A> {
    let typed = table.sites().as_any().downcast_ref();
    Catalogue(typed.expect("the visit was started with this algorithm"))
}

/// The site that enters in a step that was learnt.
fn entered(table: &Table, layout: Layout, state: &GlobalState, taken: Taken) -> Option<(SiteId, Slot)> {
    let (site, input) = table.input(layout, state, taken.step)?;
    let (slot, _) = table.step(state.locals[site.index()], input, taken.branch)?.outcome?.entry?;
    Some((site, slot))
}

fn describe(table: &Table, layout: Layout, state: &GlobalState) -> VisitedState {
    let messages = state.packets.iter().map(|&code| {
        let label = table.label(layout.split(code).0);
        (label.from, label.to, label.message)
    });
    VisitedState {
        sites: state.locals.iter().map(|&local| table.facts(local).site).collect(),
        messages: messages.collect(),
    }
}
