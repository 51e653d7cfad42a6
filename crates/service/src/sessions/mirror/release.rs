//! When the client of a release is told that it is done.

use std::cell::Cell;
use std::time::Duration;

use meshlock_system::now;
use tokio::time::{Instant, timeout_at};

use super::mutant::{self, MirrorMutant};
use super::{ACKNOWLEDGE_WITHIN, ChangeNumber};
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
        let owed = self.registry().source.owes(lease, now());
        // Without a call there is nobody to be told.
        let _ = RELEASED.try_with(|released| released.set(released.get().max(owed)));
    }

    /// Returns the change that the mirror has to know before what a lease held is given to others, if it ended without its client's word.
    pub(in crate::sessions) fn owed_unasked(&self, lease: LeaseId) -> Option<ChangeNumber> {
        if mutant::is_on(MirrorMutant::GivenBeforeCleared) {
            return None;
        }
        self.registry().source.owes(lease, now())
    }
}

impl Sessions {
    /// Waits until the mirror knows of a change, as long as it is heard of.
    async fn until_mirrored(&self, change: ChangeNumber) {
        if mutant::is_on(MirrorMutant::AcknowledgedUnmirrored) {
            return;
        }
        let mut confirmed = self.0.confirmed.subscribe();
        let deadline = Instant::now() + Duration::from_micros(ACKNOWLEDGE_WITHIN.micros());
        loop {
            {
                let source = &self.registry().source;
                if source.is_known(change) || !source.is_followed(now(), ACKNOWLEDGE_WITHIN) {
                    return;
                }
            }
            if timeout_at(deadline, confirmed.changed()).await.is_err() {
                return;
            }
        }
    }
}
