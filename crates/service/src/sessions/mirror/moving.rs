//! A site that leaves: its sessions move to the mirror, which then answers for them.

use std::sync::Weak;
use std::time::Duration;

use meshlock_cluster::table::RequestRefusal;
use meshlock_host::front::{Ended, NotGranted};
use tokio::time::sleep;

use crate::metrics::SessionEnd;
use crate::sessions::registry::LeaseId;
use crate::sessions::{AcquireState, Inner, Sessions};

/// How often it is looked whether the site leaves, and whether its sessions have moved.
const LOOK_EVERY: Duration = Duration::from_millis(50);

/// Moves sessions once the site leaves, until the last clone of the sessions is dropped.
pub(in crate::sessions) async fn keep_moving(sessions: Weak<Inner>) {
    let mut is_told = false;
    loop {
        let Some(sessions) = sessions.upgrade() else { return };
        if sessions.front().is_leaving() {
            if !std::mem::replace(&mut is_told, true) {
                sessions.registry().source.on_leaving();
                sessions.note_change();
            }
            sessions.forget_moved();
        }
        drop(sessions);
        sleep(LOOK_EVERY).await;
    }
}

impl Inner {
    /// Forgets the sessions that the mirror answers for by now. The node keeps what they hold until it has left.
    fn forget_moved(&self) {
        let moved = self.registry().source.moved().unwrap_or_default();
        if moved.is_empty() {
            return;
        }
        tracing::info!(sessions = moved.len(), "sessions have moved to another site");
        for lease in moved {
            self.forget_session(lease);
        }
        // Whoever keeps them alive here has to go elsewhere.
        self.stopping.note_loss();
        self.note_change();
    }

    fn forget_session(&self, lease: LeaseId) {
        let revoked = {
            let mut registry = self.registry();
            let revoked = registry.revoke(lease);
            registry.source.on_moved(lease);
            revoked
        };
        let Some((owner, keys)) = revoked else { return };
        self.set_elsewhere(lease, true);
        self.note_end(lease, &owner, SessionEnd::Moved);
        for key in keys {
            let why = if key.driver.state() == AcquireState::Waiting {
                Ended::NotGranted(NotGranted::Refused(RequestRefusal::Leaving))
            } else {
                Ended::SessionOver
            };
            key.driver.close(why);
        }
    }

    /// Notes whether a session that was here is at another site now.
    pub(super) fn set_elsewhere(&self, lease: LeaseId, is_elsewhere: bool) {
        let mut all = self.elsewhere.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        if is_elsewhere {
            all.insert(lease);
            // Whoever asks has its session for a short time only.
            while all.len() > self.limits.sessions {
                all.pop_first();
            }
        } else {
            all.remove(&lease);
        }
    }
}

impl Sessions {
    /// Returns whether a session was here a while ago and is at another site now, so that it is not over.
    pub(crate) fn is_elsewhere(&self, lease: LeaseId) -> bool {
        self.0.elsewhere.lock().unwrap_or_else(std::sync::PoisonError::into_inner).contains(&lease)
    }
}
