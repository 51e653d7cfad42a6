//! The normal form of a state in an endless run: numbers that only grow become relative to the smallest of their family.
//!
//! What the numbers are the algorithm says ([`meshlock_protocol::relative`]). In each family the smallest number that is counted on from, over
//! all sites and all messages in flight, becomes 1; one that is only remembered becomes 0 if it is smaller than those. Two states with the same normal form can take the same steps, to states with the
//! same normal form: `bisimulation` checks that.

use meshlock_protocol::relative::Use;
use meshlock_protocol::world::{Delivery, Violation};
use meshlock_protocol::{Family, LookupMap};
use smallvec::SmallVec;

use crate::apply::{Applied, Unknown};
use crate::interner::Interner;
use crate::moves::{Move, Taken};
use crate::state::{GlobalState, Layout};
use crate::table::Table;

/// A number for each family, in the order of the families.
pub(crate) type PerFamily = SmallVec<[(Family, u64); 4]>;

/// Normal forms that were learnt so far, by number.
#[derive(Default)]
pub(crate) struct NormalForms {
    /// By local state and by packet: the smallest number of each family.
    pub(crate) locals: Vec<PerFamily>,
    pub(crate) packets: Vec<PerFamily>,
    /// What is subtracted from each family.
    bases: Interner<PerFamily>,
    /// By local state, or packet, and base.
    local_after: LookupMap<(u32, u32), u32>,
    packet_after: LookupMap<(u32, u32), u32>,
}

/// Keeps the smaller number of a family.
pub(crate) fn lower(lows: &mut PerFamily, family: Family, usage: Use, number: u64) {
    if usage == Use::Remembered {
        return;
    }
    match lows.binary_search_by_key(&family, |&(known, _)| known) {
        Ok(at) => lows[at].1 = lows[at].1.min(number),
        Err(at) => lows.insert(at, (family, number)),
    }
}

/// Subtracts what `base` says from a number of `family`.
pub(crate) fn subtract(base: &PerFamily, family: Family, number: &mut u64) {
    if let Ok(at) = base.binary_search_by_key(&family, |&(known, _)| known) {
        *number = number.saturating_sub(base[at].1);
    }
}

impl NormalForms {
    /// The local state with a base subtracted, if that is known.
    pub(crate) fn local(&self, local: u32, base: u32) -> Option<u32> {
        self.local_after.get(&(local, base)).copied()
    }

    /// The packet with a base subtracted, if that is known.
    pub(crate) fn packet(&self, packet: u32, base: u32) -> Option<u32> {
        self.packet_after.get(&(packet, base)).copied()
    }

    /// What the numbers of `state` have in common.
    fn base(&self, layout: Layout, state: &GlobalState) -> PerFamily {
        let mut base = PerFamily::new();
        let locals = state.locals.iter().map(|&local| &self.locals[local as usize]);
        let packets = state.packets.iter().map(|&code| &self.packets[layout.split(code).0 as usize]);
        for &(family, number) in locals.chain(packets).flatten() {
            lower(&mut base, family, Use::Counted, number.saturating_sub(1));
        }
        base.retain(|&mut (_, number)| number > 0);
        base
    }
}

impl Table {
    /// Replaces `state` by its normal form. Returns the number of the base that was subtracted.
    pub(crate) fn normalise(&self, layout: Layout, state: &mut GlobalState) -> Result<u32, Unknown> {
        let forms = &self.normal_forms;
        let base = forms.bases.find(&forms.base(layout, state)).ok_or(Unknown)?;
        for local in &mut state.locals {
            *local = forms.local(*local, base).ok_or(Unknown)?;
        }
        for code in &mut state.packets {
            let (packet, knows) = layout.split(*code);
            *code = layout.join(forms.packet(packet, base).ok_or(Unknown)?, knows);
        }
        if self.bounds.delivery == Delivery::Unordered {
            state.packets.sort_unstable();
        }
        Ok(base)
    }

    /// Every result of a step whose code has run: what is wrong with it, and the state after it, which is not in its normal form.
    pub(crate) fn results_of(
        &self,
        layout: Layout,
        state: &GlobalState,
        step: Move,
    ) -> Vec<(Option<Violation>, GlobalState)> {
        let (mut results, mut next) = (Vec::new(), GlobalState::default());
        loop {
            let branch = u32::try_from(results.len()).expect("a few branches");
            let applied = self.apply(layout, state, Taken { step, branch }, &mut next);
            let Applied { wrong, branches, .. } = applied.expect("the step was learnt");
            results.push((wrong, next.clone()));
            if branch + 1 >= branches {
                return results;
            }
        }
    }

    /// Finds out what the normal forms of the states after a step that was learnt are made of.
    pub(crate) fn learn_normal_forms(&mut self, layout: Layout, state: &GlobalState, step: Move) {
        for (wrong, next) in self.results_of(layout, state, step) {
            if wrong.is_none() {
                self.learn_normal_form(layout, &next);
            }
        }
    }

    /// Finds out what the normal form of `state` is made of.
    pub(crate) fn learn_normal_form(&mut self, layout: Layout, state: &GlobalState) {
        let base = self.normal_forms.base(layout, state);
        let number = self.normal_forms.bases.insert(base.clone()).0;
        for &local in &state.locals {
            if self.normal_forms.local(local, number).is_none() {
                let after = self.local_less(local, &base);
                self.normal_forms.local_after.insert((local, number), after);
            }
        }
        for &code in &state.packets {
            let packet = layout.split(code).0;
            if self.normal_forms.packet(packet, number).is_none() {
                let after = self.packet_less(packet, &base);
                self.normal_forms.packet_after.insert((packet, number), after);
            }
        }
    }
}
