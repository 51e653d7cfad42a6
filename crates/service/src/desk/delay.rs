//! Leases whose locks nobody else gets for a while after their end, as Consul's sessions have it.

use meshlock_node::shell::now;
use meshlock_node::time::Span;

use super::Desk;
use crate::ledger::LeaseId;

impl Desk {
    /// What hangs on the lease stays for so long after the lease's end. `silence` is for how long its client may believe in it
    /// without a word from here, if not for as long as the lease lasts.
    pub(crate) fn set_delay(&self, id: LeaseId, delay: Span, silence: Option<Span>) {
        self.0.ledger().set_delay(id, delay, silence);
    }

    /// Ends a lease; what hangs on it stays for the lease's delay.
    pub(crate) fn retire(&self, id: LeaseId) {
        let keys = self.0.ledger().retire(id, now());
        self.0.end_all(keys.unwrap_or_default());
        // Also if all that hangs on it stays for a while, its client is to see that the session is over.
        self.0.note_change();
        self.0.alarm.notify_one();
    }
}
