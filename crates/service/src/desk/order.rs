//! The order of the two locks, held by a check instead of a promise: whoever has the ledger never calls the node, whose lock comes
//! first. A temporary that lives a little longer than it seems is enough to break it, and two threads then wait for each other.

use std::cell::Cell;
use std::ops::{Deref, DerefMut};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::Wish;
use crate::ledger::Ledger;

thread_local! {
    /// How often this thread has the ledger.
    static HELD: Cell<u32> = const { Cell::new(0) };
}

/// The ledger, for as long as this is there.
pub(crate) struct LedgerGuard<'a>(MutexGuard<'a, Ledger<Arc<Wish>>>);

impl<'a> LedgerGuard<'a> {
    pub(super) fn lock(ledger: &'a Mutex<Ledger<Arc<Wish>>>) -> Self {
        let guard = ledger.lock().unwrap_or_else(PoisonError::into_inner);
        HELD.set(HELD.get() + 1);
        LedgerGuard(guard)
    }
}

impl Drop for LedgerGuard<'_> {
    fn drop(&mut self) {
        HELD.set(HELD.get() - 1);
    }
}

impl Deref for LedgerGuard<'_> {
    type Target = Ledger<Arc<Wish>>;
    fn deref(&self) -> &Self::Target {
        &self.0
    }
}

impl DerefMut for LedgerGuard<'_> {
    fn deref_mut(&mut self) -> &mut Self::Target {
        &mut self.0
    }
}

/// The node may be called now.
pub(super) fn assert_ledger_is_free() {
    assert_eq!(HELD.get(), 0, "whoever has the ledger never calls the node");
}
