//! Names that nobody may enter in a view, because they have more holders than permits, or holders with different numbers
//! of permits: their holders are counted down, and a new view lets the name run again.

use std::collections::BTreeMap;

use meshlock_protocol::Mode;

use super::lock::Env;
use super::opening::{Opening, opening};
use super::{LocalView, LockTable, TableOutput};
use crate::mutant::{self, Mutant};
use crate::names::LockName;

/// The remaining holders of a name that nobody may enter: their modes, by their number of permits and place. Who shares counts once at
/// each place.
pub(super) type Leftover = BTreeMap<(u32, usize), Vec<Mode>>;

impl LockTable {
    /// Handles a member's message that one of its clients has left a lock that nobody may enter.
    pub(crate) fn on_left_elsewhere(&mut self, place: usize, lock: &LockName, out: &mut Vec<TableOutput>) {
        let found = self.local_view.as_ref().zip(self.draining.get_mut(lock));
        let Some((local_view, left)) = found.filter(|(_, left)| has_one(left, place)) else {
            return out.push(TableOutput::Misbehaved { place, why: "leaves a lock that it does not hold" });
        };
        self.has_drained |= take_one(local_view, lock, left, place);
    }

    /// Returns whether nobody could enter some lock when the view opened, and a new view would let it run again. It is
    /// noted when a holder leaves: holders only become fewer while the view lasts, so it stays so.
    pub(crate) fn has_drained(&self) -> bool {
        self.has_drained
    }

    /// Checks what is noted against the holders that are left.
    pub(super) fn check_draining(&self) -> Result<(), &'static str> {
        let may_open = |view: &LocalView| {
            self.draining.iter().any(|(name, left)| opening(view, name, left) != Opening::Drains)
        };
        if self.local_view.as_ref().is_some_and(may_open) != self.has_drained {
            return Err("T9: a name that could be entered in a new view is noted");
        }
        Ok(())
    }
}

impl Env<'_> {
    /// Tells all members that one holder of a lock that nobody may enter has left.
    pub(super) fn leave_draining(&mut self) {
        let Some(local_view) = self.local_view else { return };
        if let Some(left) = self.draining.get_mut(&self.key.name) {
            *self.has_drained |= take_one(local_view, &self.key.name, left, local_view.me);
            self.out.push(TableOutput::Left(self.key.name.clone()));
        }
    }
}

/// Returns whether the member at `place` has a holder left.
fn has_one(left: &Leftover, place: usize) -> bool {
    left.iter().any(|((_, of), modes)| *of == place && !modes.is_empty())
}

/// Counts down one holder of the member at `place`, if it has one, and returns whether a new view would let the name run
/// again. A correct member has holders with one number of permits only.
fn take_one(local_view: &LocalView, name: &LockName, left: &mut Leftover, place: usize) -> bool {
    let found = left.iter_mut().find(|((_, of), modes)| *of == place && !modes.is_empty());
    // It does not say which one has left. That the strongest stay is the careful guess: it lets a name run too late, and never too early,
    // for the next census says what is so.
    if let Some((_, modes)) = found
        && let Some(weakest) = (0..modes.len()).min_by_key(|at| modes[*at])
    {
        modes.swap_remove(weakest);
    }
    opening(local_view, name, left) != Opening::Drains && !mutant::is_on(Mutant::DrainedUnnoticed)
}
