//! What a step does to a global state.

use meshlock_protocol::registry::info::Order;
use meshlock_protocol::world::{Delivery, Violation};
use meshlock_protocol::{Phase, SiteId, Slot};

use crate::moves::{Move, Taken};
use crate::property::{Properties, Property};
use crate::state::{GlobalState, Layout};
use crate::table::{StepOutcome, Table};

/// The table does not know yet what a step does.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Unknown;

/// What applying a step shows, beside the state after it.
#[derive(Debug)]
pub(crate) struct Applied {
    /// What is wrong with the step.
    pub(crate) wrong: Option<Violation>,
    /// The site that enters by it.
    pub(crate) entering: Option<SiteId>,
    /// The number of different results that the choices of the step's site can have.
    pub(crate) branches: u32,
}

impl Table {
    /// Makes `next` the state after a step, in its normal form if the run is endless, and returns what is wrong with that step.
    pub(crate) fn apply_relative(
        &self,
        layout: Layout,
        state: &GlobalState,
        taken: Taken,
        next: &mut GlobalState,
    ) -> Result<Applied, Unknown> {
        let applied = self.apply(layout, state, taken, next)?;
        if self.is_relative && applied.wrong.is_none() {
            self.normalise(layout, next)?;
        }
        Ok(applied)
    }

    /// Makes `next` the state after each way in which `step` can end, by the choices of its site, and calls `each` with the way,
    /// with what is wrong and with `next`, which is in its normal form if the run is endless.
    pub(crate) fn apply_all(
        &self,
        layout: Layout,
        state: &GlobalState,
        step: Move,
        next: &mut GlobalState,
        mut each: impl FnMut(Taken, Option<Violation>, &GlobalState),
    ) -> Result<(), Unknown> {
        let mut branch = 0;
        loop {
            let taken = Taken { step, branch };
            let Applied { wrong, branches, .. } = self.apply_relative(layout, state, taken, next)?;
            each(taken, wrong, next);
            branch += 1;
            if branch >= branches {
                return Ok(());
            }
        }
    }

    /// Makes `next` the state after `step`, and returns what is wrong with that step.
    pub(crate) fn apply(
        &self,
        layout: Layout,
        state: &GlobalState,
        Taken { step, branch }: Taken,
        next: &mut GlobalState,
    ) -> Result<Applied, Unknown> {
        next.copy(state);
        let is_fresh = self.take_packet(layout, state, step, next)?;
        if let Some(change) = step.change() {
            next.faults = self.change(state.faults, change).ok_or(Unknown)?;
        }
        let Some((site, input)) = self.input(layout, state, step) else {
            self.forget_known(layout, next);
            return Ok(Applied { wrong: None, entering: None, branches: 1 });
        };
        let taken = self.step(state.locals[site.index()], input, branch).ok_or(Unknown)?;
        let branches = taken.branches;
        next.locals[site.index()] = taken.local;
        let Some(outcome) = taken.outcome else {
            self.forget_known(layout, next);
            return Ok(Applied { wrong: None, entering: None, branches });
        };
        let fence = self.perform(layout, site, outcome, next);
        self.forget_known(layout, next);
        let grants = outcome.entry.is_some() || outcome.upgrade.is_some();
        if !grants && outcome.wrong.is_none() && outcome.refused.is_none() {
            return Ok(Applied { wrong: None, entering: None, branches });
        }
        let is_fault_free = || is_fresh && self.faults(next.faults).is_fault_free();
        // A fence can fall back because two sites are inside at once; then that, the more serious one, is reported.
        let crowd = fence.as_ref().and_then(|_| self.too_many_inside(next));
        let wrong = [
            crowd,
            outcome.wrong.as_deref().cloned(),
            fence,
            outcome.entry.and_then(|_| self.out_of_order(site, next)),
            outcome.refused.as_deref().filter(|_| is_fault_free()).cloned(),
        ];
        let wrong = wrong.into_iter().flatten().find(|wrong| is_checked(self.bounds.properties, wrong));
        Ok(Applied { wrong, entering: outcome.entry.map(|_| site), branches })
    }

    /// Does what `step` does to the packets in flight and to what sites know. Returns whether the packet that arrives,
    /// if one does, still had its contents.
    fn take_packet(
        &self,
        layout: Layout,
        state: &GlobalState,
        step: Move,
        next: &mut GlobalState,
    ) -> Result<bool, Unknown> {
        match step {
            Move::Process(..) | Move::Fail(_) => {}
            Move::Deliver(at) | Move::Lose(at) => {
                let (packet, knows) = layout.split(next.packets.remove(at));
                let label = self.label(packet);
                if matches!(step, Move::Deliver(_)) && self.facts(state.locals[label.to.index()]).up {
                    next.knows = layout.learn(next.knows, label.to, knows);
                }
                return Ok(!label.spent);
            }
            Move::Duplicate(at) => {
                let (packet, knows) = layout.split(state.packets[at]);
                next.knows = layout.learn(next.knows, self.label(packet).to, knows);
                self.spend(layout, next, |found, _| found == at)?;
            }
            // Certain knowledge of a failure comes with a new view, whose fences are above all of the old one.
            Move::Tell { to, about } => {
                if self.faults(state.faults).has_missed_failure(to, about) {
                    next.knows = layout.learn(next.knows, to, layout.known_to(state.knows, about));
                }
            }
            Move::Recover(site) => self.spend(layout, next, |_, to| to == site)?,
        }
        Ok(true)
    }

    /// Sends the packets of `outcome` and notes its entry or upgrade. Returns what is wrong with the fence of that.
    fn perform(
        &self,
        layout: Layout,
        site: SiteId,
        outcome: &StepOutcome,
        next: &mut GlobalState,
    ) -> Option<Violation> {
        let upgrade = outcome.upgrade.map(|before| (Slot::default(), before));
        let Some((slot, before)) = outcome.entry.or(upgrade) else {
            self.send(layout, site, &outcome.sends, next);
            return None;
        };
        let (early, late) = outcome.sends.split_at(before as usize);
        self.send(layout, site, early, next);
        let wrong = self.enter(layout, site, slot, next);
        self.send(layout, site, late, next);
        wrong
    }

    /// Adds packets to those in flight, with what their sender knows now.
    fn send(&self, layout: Layout, site: SiteId, packets: &[u32], next: &mut GlobalState) {
        let knows = layout.known_to(next.knows, site);
        for &packet in packets {
            self.insert(layout, next, layout.join(packet, knows));
        }
    }

    /// Makes the entry the last one of its fence line, of which no other site knows yet. Returns what is wrong if
    /// `site` did not know of the ones before it.
    fn enter(&self, layout: Layout, site: SiteId, slot: Slot, next: &mut GlobalState) -> Option<Violation> {
        if layout.lines() == 0 {
            return None;
        }
        let mode = self.facts(next.locals[site.index()]).mode;
        let (line, needed) = layout.fence_line(site, slot, mode);
        let knew = layout.known_to(next.knows, site) & needed == needed;
        next.knows = layout.learn(layout.forget(next.knows, line), site, 1 << line);
        next.packets.iter_mut().for_each(|code| *code &= !(1 << line));
        if self.bounds.delivery == Delivery::Unordered {
            next.packets.sort_unstable();
        }
        (!knew).then_some(Violation::FenceFellBack { site, slot })
    }

    /// Inserts a packet at its place among those in flight.
    fn insert(&self, layout: Layout, next: &mut GlobalState, code: u32) {
        let at = match self.bounds.delivery {
            Delivery::Unordered => next.packets.partition_point(|&other| other <= code),
            Delivery::Fifo => {
                let channel = |code: u32| self.label(layout.split(code).0).channel;
                let mine = channel(code);
                next.packets.partition_point(|&other| channel(other) <= mine)
            }
        };
        next.packets.insert(at, code);
    }

    /// Marks the packets that `which` accepts, given their position and receiver, as spent.
    fn spend(
        &self,
        layout: Layout,
        next: &mut GlobalState,
        which: impl Fn(usize, SiteId) -> bool,
    ) -> Result<(), Unknown> {
        for (at, code) in next.packets.iter_mut().enumerate() {
            let (packet, knows) = layout.split(*code);
            if which(at, self.label(packet).to) {
                *code = layout.join(self.spent(packet).ok_or(Unknown)?, knows);
            }
        }
        if self.bounds.delivery == Delivery::Unordered {
            next.packets.sort_unstable();
        }
        Ok(())
    }

    /// Checks that `site`, which has just entered, has the smallest timestamp of all that wait and that it excludes, where that is promised.
    fn out_of_order(&self, site: SiteId, next: &GlobalState) -> Option<Violation> {
        if self.info.order != Order::Timestamp {
            return None;
        }
        let own = self.facts(next.locals[site.index()]);
        let mine = own.timestamp?;
        let passed = SiteId::all(next.locals.len()).find(|&other| {
            let facts = self.facts(next.locals[other.index()]);
            other != site
                && facts.up
                && facts.phase == Phase::Waiting
                && !own.mode.admits(facts.mode)
                && facts.timestamp < Some(mine)
                && facts.timestamp.is_some()
        });
        passed.map(|passed| Violation::OutOfOrder { site, passed })
    }
}

/// Whether this run checks the property that `wrong` breaks. A site that disagrees with its host about its process ends
/// every run: nothing that comes after it means anything.
fn is_checked(properties: Properties, wrong: &Violation) -> bool {
    let contract = matches!(
        wrong,
        Violation::EnteredUnasked { .. }
            | Violation::EnteredTwice { .. }
            | Violation::UpgradedUnasked { .. }
            | Violation::WrongMode { .. }
            | Violation::WrongPhase { .. }
    );
    contract || properties.contains(Property::of(wrong))
}

impl Table {
    /// Checks `state` as a whole.
    pub(crate) fn examine(&self, layout: Layout, state: &GlobalState) -> Option<Violation> {
        let properties = self.bounds.properties;
        if properties.contains(Property::Exclusion)
            && let Some(wrong) = self.too_many_inside(state)
        {
            return Some(wrong);
        }
        if properties.contains(Property::Tokens)
            && let Some(wrong) = self.examine_tokens(layout, state)
        {
            return Some(wrong);
        }
        if !properties.contains(Property::Invariants) || self.faults(state.faults).is_amid_fault() {
            return None;
        }
        let broken = self.sites().check_together(self.labels(), layout, state).err();
        broken.map(|invariant| Violation::Together { invariant })
    }

    fn examine_tokens(&self, layout: Layout, state: &GlobalState) -> Option<Violation> {
        let expected = self.expected_tokens();
        let at_sites: u32 = state.locals.iter().map(|&local| self.facts(local).tokens).sum();
        let in_flight = state.packets.iter().map(|&code| self.label(layout.split(code).0));
        let in_flight = in_flight.filter(|label| label.tokens > 0 && !label.spent);
        let arriving = in_flight.filter(|label| self.facts(state.locals[label.to.index()]).up);
        let found = (at_sites + arriving.map(|label| label.tokens).sum::<u32>()) as usize;
        // A token may be lost with a failed site; none may appear from nowhere.
        let wrong = found > expected || (found < expected && self.faults(state.faults).is_fault_free());
        wrong.then_some(Violation::TokensNotConserved { found, expected })
    }
}
