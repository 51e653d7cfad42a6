//! Which deliveries are silent, and with which steps of their own site they can change places.

use meshlock_protocol::world::Delivery;

use crate::moves::{Move, Taken};
use crate::state::{GlobalState, Layout};
use crate::table::{Input, SiteStep, Table};

impl Table {
    /// Whether nobody but the site itself can notice what `input` does to its state `local`. Its phase changes only if it enters.
    pub(super) fn is_silent(&self, local: u32, input: Input, after: SiteStep<'_>) -> bool {
        let Input::Packet(packet) = input else { return false };
        let (before, facts) = (self.facts(local), self.facts(after.local));
        after.outcome.is_none()
            && self.label(packet).tokens == 0
            && before.timestamp == facts.timestamp
            && before.tokens == facts.tokens
    }

    /// Whether the step from `after` can change places with the silent delivery that leads there from `before`: whether it is possible in
    /// `before`, has the same effects there, and the delivery is silent behind it and leads to the same state. Steps with a choice do not
    /// change places. If the table does not know what the delivery does there, the local state and the input are returned.
    pub(super) fn commute(
        &self,
        layout: Layout,
        (before, silent): (&GlobalState, Taken),
        (after, taken): (&GlobalState, Taken),
    ) -> Result<bool, (u32, Input)> {
        let (Some((site, delivered)), Some((_, input))) =
            (self.input(layout, before, silent.step), self.input(layout, after, taken.step))
        else {
            return Ok(false);
        };
        let step = |state: &GlobalState| self.step(state.locals[site.index()], input, 0);
        let (Some(early), Some(late)) = (step(before), step(after)) else { return Ok(false) };
        if early.branches.max(late.branches) > 1
            || early.outcome != late.outcome
            || !self.is_within(&[early.local])
            || !self.is_possible_before(layout, (before, silent.step), (after, taken.step))
            || early.outcome.is_some() && self.teaches(layout, (before, silent.step), (after, taken.step))
        {
            return Ok(false);
        }
        let put_off = self.step(early.local, delivered, 0).ok_or((early.local, delivered))?;
        Ok(put_off.branches == 1
            && put_off.local == late.local
            && self.is_silent(early.local, delivered, put_off))
    }

    /// Whether `step` from `after` is possible in `before`, too, where the silent delivery has not happened yet.
    fn is_possible_before(
        &self,
        layout: Layout,
        (before, silent): (&GlobalState, Move),
        (after, step): (&GlobalState, Move),
    ) -> bool {
        let channel = |state: &GlobalState, at: usize| self.label(layout.split(state.packets[at]).0).channel;
        match (silent, step) {
            // A silent delivery may set a timer.
            (_, Move::Process(site, Input::Wake)) => self.facts(before.locals[site.index()]).has_timer,
            (_, Move::Process(..)) => true,
            (Move::Deliver(first), Move::Deliver(then)) => {
                self.bounds.delivery == Delivery::Unordered || channel(before, first) != channel(after, then)
            }
            _ => false,
        }
    }

    /// Whether the silent delivery tells the site of an entry that it does not know of otherwise when it takes `step`, so that what it
    /// sends tells more. No verdict depends on this condition: a schedule in which less is known of entries violates whatever one violates
    /// in which more is known. With it both orders lead to exactly the same state.
    fn teaches(
        &self,
        layout: Layout,
        (before, silent): (&GlobalState, Move),
        (after, step): (&GlobalState, Move),
    ) -> bool {
        let told = |state: &GlobalState, step: Move| {
            if let Move::Deliver(at) = step { layout.split(state.packets[at]).1 } else { 0 }
        };
        let known = |site| layout.known_to(before.knows, site) | told(after, step);
        self.input(layout, before, silent).is_some_and(|(site, _)| told(before, silent) & !known(site) != 0)
    }
}
