//! When the client of a release is told that it is done.

use std::cell::Cell;
use std::time::Duration;

use meshlock_mirror::ReleaseWait;
use meshlock_system::now;
use tokio::time::timeout;

use super::ChangeNumber;
use crate::sessions::registry::LeaseId;
use crate::sessions::{Inner, Sessions};

tokio::task_local! {
    /// The last release of the call that the current task serves, of which the mirror has to know.
    static RELEASED: Cell<Option<ChangeNumber>>;
}

/// Executes a call, and returns its answer when the mirror knows what the call has released.
pub(crate) async fn acknowledged<T>(sessions: &Sessions, call: impl Future<Output = T>) -> T {
    let (answer, released) =
        RELEASED.scope(Cell::new(None), async { (call.await, RELEASED.with(Cell::get)) }).await;
    if let Some(change) = released {
        sessions.until_mirrored(change).await;
    }
    answer
}

impl Inner {
    /// Notes that the current call has released something of this lease.
    pub(in crate::sessions) fn note_released(&self, lease: LeaseId) {
        let owed = self.registry().source.owes(lease);
        // Without a call there is nobody to be told.
        let _ = RELEASED.try_with(|released| released.set(released.get().max(owed)));
    }

    /// Returns the change that the mirror has to know before what a lease held is given to others, if it ended without its client's word.
    pub(in crate::sessions) fn owed_unasked(&self, lease: LeaseId) -> Option<ChangeNumber> {
        self.registry().source.owes_unasked(lease)
    }
}

impl Sessions {
    /// Waits until the mirror knows of a change, as long as it is heard of.
    async fn until_mirrored(&self, change: ChangeNumber) {
        let mut confirmed = self.0.confirmed.subscribe();
        let release = ReleaseWait::new(change, now());
        loop {
            let until = release.waits_until(&self.registry().source, now());
            let Some(until) = until else { return };
            let left = Duration::from_micros(until.since(now()).micros());
            let _ = timeout(left, confirmed.changed()).await;
        }
    }
}
