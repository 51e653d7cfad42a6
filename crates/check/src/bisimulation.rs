//! Whether the normal form of endless runs is a bisimulation: a state and its normal form can take the same steps, to states with the
//! same normal form.
//!
//! An algorithm that forgets to name a number, names one that does not matter to the family, or forgets what still matters, would make
//! states equal from which different things follow. So every step of the explored graph is taken twice: as the search takes it, and without
//! making the result relative; then every step that can follow is compared. A window says which steps are taken, as in the search; what can
//! follow is compared without it.

use std::collections::BTreeSet;

use meshlock_protocol::{PlanError, Spec};

use crate::Bounds;
use crate::interner::Interner;
use crate::moves::Move;
use crate::state::{GlobalState, Layout};
use crate::table::Table;

/// What was compared.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NormalFormComparison {
    /// The number of normal forms that were reached: all of the graph, unless that has more than were asked for.
    pub reached: usize,
    /// The number of states, as they come out of a step, that differ from their normal form. What can follow was compared for each.
    pub differing: usize,
    /// The first state that can do something else than its normal form: what, and which of the two can.
    pub difference: Option<String>,
}

/// Something that can follow a state, in the terms of its normal form.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Following {
    /// The step; packets by the number of their normal form.
    step: String,
    /// What is wrong with the step or with the state itself, if anything is.
    wrong: Option<String>,
    /// The normal form of the state after it.
    after: Vec<u8>,
}

/// Compares the states of an endless run with their normal forms: what follows the first so many normal forms.
pub fn compare_with_normal_forms(
    spec: &Spec,
    bounds: &Bounds,
    states: usize,
) -> Result<NormalFormComparison, PlanError> {
    let bounds = bounds.clone().endless();
    let sites = crate::sites_of(spec, &bounds)?;
    let mut table = Table::new(&bounds, sites);
    let layout = Layout::of(table.info, &bounds);
    let mut comparison = NormalFormComparison { reached: 0, differing: 0, difference: None };
    if !table.is_relative {
        return Ok(comparison);
    }
    let (mut known, mut seen, mut body) = (Interner::default(), Interner::default(), Vec::new());
    let mut state = table.first_state(layout);
    layout.encode(&state, &mut body);
    known.insert(body.clone());
    let (mut number, mut moves) = (0, Vec::new());
    while number < known.len().min(states) {
        layout.decode(known.get(u32::try_from(number).expect("a few states")), &mut state);
        number += 1;
        table.moves_in_window(layout, &state, &mut moves);
        for step in std::mem::take(&mut moves) {
            table.learn(layout, &state, step);
            for (wrong, next) in table.results_of(layout, &state, step) {
                body.clear();
                layout.encode(&next, &mut body);
                if wrong.is_some() || !seen.insert(body.clone()).1 {
                    continue;
                }
                let mut normal = next.clone();
                table.learn_normal_form(layout, &normal);
                let base = table.normalise(layout, &mut normal).expect("it was learnt");
                body.clear();
                layout.encode(&normal, &mut body);
                known.insert(body.clone());
                comparison.reached = known.len();
                if next == normal {
                    continue;
                }
                comparison.differing += 1;
                comparison.difference = table.difference(layout, (&next, base), &normal);
                if comparison.difference.is_some() {
                    return Ok(comparison);
                }
            }
        }
    }
    Ok(comparison)
}

impl Table {
    /// What a state can do and its normal form, which has another base, cannot, or the other way round.
    fn difference(
        &mut self,
        layout: Layout,
        (state, base): (&GlobalState, u32),
        normal: &GlobalState,
    ) -> Option<String> {
        self.learn_normal_form(layout, normal);
        let own = self.normalise(layout, &mut normal.clone()).expect("it was learnt");
        let (here, there) = (self.following(layout, state, base), self.following(layout, normal, own));
        let only = |set: &BTreeSet<Following>, other: &BTreeSet<Following>| {
            set.difference(other).next().map(|following| format!("{} {:?}", following.step, following.wrong))
        };
        let here_only = only(&here, &there).map(|what| format!("only as it is: {what}"));
        here_only.or_else(|| only(&there, &here).map(|what| format!("only in normal form: {what}")))
    }

    /// All that can follow a state.
    fn following(&mut self, layout: Layout, state: &GlobalState, base: u32) -> BTreeSet<Following> {
        let (mut moves, mut following) = (Vec::new(), BTreeSet::new());
        self.moves(layout, state, &mut moves);
        let itself = self.examine(layout, state).map(|wrong| wrong.to_string());
        following.insert(Following { step: "stays".to_owned(), wrong: itself, after: Vec::new() });
        for step in moves {
            self.learn(layout, state, step);
            let name = self.name_in_normal_form(layout, state, step, base);
            for (wrong, mut next) in self.results_of(layout, state, step) {
                let mut after = Vec::new();
                if wrong.is_none() {
                    self.learn_normal_form(layout, &next);
                    self.normalise(layout, &mut next).expect("it was learnt");
                    layout.encode(&next, &mut after);
                }
                let wrong = wrong.map(|wrong| wrong.to_string());
                following.insert(Following { step: name.clone(), wrong, after });
            }
        }
        following
    }

    fn name_in_normal_form(&self, layout: Layout, state: &GlobalState, step: Move, base: u32) -> String {
        let message = |at: usize| {
            let (packet, knows) = layout.split(state.packets[at]);
            let packet = self.normal_forms.packet(packet, base).expect("the normal form was learnt");
            let label = self.label(packet);
            format!("{} → {} {}, knows {knows}", label.from, label.to, self.sites().print(label.message))
        };
        match step {
            Move::Deliver(at) => message(at),
            Move::Duplicate(at) => format!("{}, and again", message(at)),
            Move::Lose(at) => format!("{} is lost", message(at)),
            Move::Process(..) | Move::Tell { .. } | Move::Fail(_) | Move::Recover(_) => format!("{step:?}"),
        }
    }
}
