//! How many elements each sort of a model needs, so that every state of a run can be said.

use std::ops::ControlFlow;

use meshlock_check::Bounds;
use meshlock_check::visit::{Catalogue, Visited, VisitedState, visit};
use meshlock_protocol::{LookupMap, ModelFacts, Modelled, PlanError, Spec};

use super::TieRun;
use crate::model::ProofModel;

/// The number of elements of each sort. Sites, permits and sets of sites are known; of clocks and counters there are as many as the code
/// reaches in the run, for which the run is visited once.
pub(super) fn of<A: Modelled>(
    model: &ProofModel,
    spec: &Spec,
    run: &TieRun,
    bounds: &Bounds,
) -> Result<Vec<u8>, PlanError> {
    let known: Vec<Option<usize>> = model.sorts.iter().map(|sort| known(run, &sort.name)).collect();
    let sorts = vec![0; known.len()];
    let mut largest = Largest { model, sorts, sites: LookupMap::default(), messages: LookupMap::default() };
    let mut states = 0;
    let ended = visit::<A, ()>(bounds, &spec.values, &mut |catalogue, visited| match visited {
        Visited::State(_) if states == run.most_states => ControlFlow::Break(()),
        Visited::State(state) => {
            states += 1;
            largest.see(catalogue, state);
            ControlFlow::Continue(())
        }
        Visited::Step { next, .. } => {
            largest.see(catalogue, next);
            ControlFlow::Continue(())
        }
    });
    let (ControlFlow::Continue(_) | ControlFlow::Break(())) = ended?;
    let reached =
        largest.sorts.into_iter().map(|largest| usize::try_from(largest).map_or(usize::MAX, |most| most + 1));
    let sizes = known.into_iter().zip(reached).map(|(known, reached)| known.unwrap_or(reached));
    // A value beyond 255 is outside the instance, and the comparison says so.
    Ok(sizes.map(|size| u8::try_from(size).unwrap_or(u8::MAX)).collect())
}

/// The size of a sort that the run itself says; of numbers it does not.
fn known(run: &TieRun, sort: &str) -> Option<usize> {
    match sort {
        "site" => Some(run.sites),
        "permit" => Some(run.permits),
        // Each set of sites, its members as bits.
        "crowd" | "set" => Some(1 << run.sites),
        _ => None,
    }
}

/// The largest element of each sort that the code has said so far.
struct Largest<'a> {
    model: &'a ProofModel,
    sorts: Vec<u64>,
    /// The sites and messages that were asked.
    sites: LookupMap<u32, ()>,
    messages: LookupMap<(usize, usize, u32), ()>,
}

impl Largest<'_> {
    fn see<A: Modelled>(&mut self, catalogue: Catalogue<'_, A>, state: &VisitedState) {
        let mut facts = ModelFacts::default();
        for &number in &state.sites {
            if self.sites.insert(number, ()).is_none() {
                catalogue.site(number).facts(&mut facts);
            }
        }
        for &(from, to, number) in &state.messages {
            if self.messages.insert((from.index(), to.index(), number), ()).is_none() {
                A::message_facts(from, to, catalogue.message(number), &mut facts);
            }
        }
        for fact in &facts.0 {
            // What the model does not have is reported where states are compared.
            let Some(symbol) = self.model.symbol(fact.symbol) else { continue };
            let symbol = &self.model.symbols[symbol];
            let values = symbol.result.map(|sort| (sort, fact.value));
            for (sort, element) in
                symbol.arguments.iter().copied().zip(fact.arguments.iter().copied()).chain(values)
            {
                self.sorts[sort] = self.sorts[sort].max(element);
            }
        }
    }
}
