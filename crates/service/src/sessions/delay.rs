//! Leases whose locks nobody else gets for a while after their end, as Consul's sessions have it.

use meshlock_cluster::time::Span;
use meshlock_host::front::Admitted;
use meshlock_system::now;

use super::Sessions;
use crate::metrics::SessionEnd;
use crate::sessions::registry::LeaseId;

impl Sessions {
    /// What hangs on the lease stays for so long after the lease's end. `silence` is for how long its client may believe in it
    /// without a word from here, if not for as long as the lease lasts.
    pub(crate) fn set_delay(&self, id: LeaseId, delay: Span, silence: Option<Span>) {
        self.0.registry().set_delay(id, delay, silence);
    }

    /// Ends the caller's lease; what hangs on it stays for the lease's delay.
    pub(crate) fn retire(&self, caller: &Admitted, id: LeaseId) {
        let mut registry = self.0.registry();
        let retired = if registry.is_of(id, &caller.principal) { registry.retire(id, now()) } else { None };
        drop(registry);
        let Some((owner, keys)) = retired else { return };
        self.0.end_all(id, &owner, keys, SessionEnd::Closed);
        // Also if all that hangs on it stays for a while, its client is to see that the session is over.
        self.0.note_change();
        self.0.alarm.notify_one();
    }
}
