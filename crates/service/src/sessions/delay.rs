//! Lock delay: locks of a lease that stay taken for a while after the lease has ended, as with Consul's sessions.

use meshlock_cluster::time::Span;
use meshlock_host::front::Admitted;
use meshlock_system::now;

use super::Sessions;
use crate::metrics::SessionEnd;
use crate::sessions::registry::LeaseId;

impl Sessions {
    /// Sets for how long the keys of a lease stay after the lease has ended. `silence` is for how long the client may
    /// rely on its locks without a message from this site; `None` means as long as the lease lasts.
    pub(crate) fn set_delay(&self, id: LeaseId, delay: Span, silence: Option<Span>) {
        self.0.registry().set_delay(id, delay, silence);
    }

    /// Ends the caller's lease. Its keys stay for the lease's delay.
    pub(crate) fn retire(&self, caller: &Admitted, id: LeaseId) {
        let mut registry = self.0.registry();
        let retired = if registry.is_of(id, &caller.principal) { registry.retire(id, now()) } else { None };
        drop(registry);
        let Some((owner, keys)) = retired else { return };
        self.0.note_released(id);
        self.0.end_all(id, &owner, keys, SessionEnd::Closed);
        // Wake those who watch the session: it is over, even if all of its keys stay for the delay.
        self.0.note_change();
        self.0.alarm.notify_one();
    }
}
