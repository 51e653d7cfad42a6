//! Ends the sessions of clients that are revoked, as soon as they are: of all that have a revoked name, and those that were begun or last
//! renewed with a revoked certificate. (A client that has another certificate by then keeps its sessions if it has renewed them with it.)
//!
//! Such a session is gone at once: nobody can renew it, nothing waits for a lock in its name, and nobody sees it. What it holds is free for
//! others once its client cannot rely on it any more: the client was told for how long it may, and cannot be told otherwise, because its
//! connection is ended.

use std::sync::Weak;

use meshlock_cluster::access::Principal;
use meshlock_cluster::time::Time;
use meshlock_host::front::{AcquireState, Ended};
use meshlock_host::gate::Caller;
use meshlock_system::now;
use tokio::sync::watch;

use super::{Inner, SessionKey};
use crate::metrics::SessionEnd;
use crate::sessions::registry::LeaseId;

/// Ends sessions whenever the list of the revoked has changed, until the last clone of the sessions is dropped.
pub(super) async fn keep_ending(sessions: Weak<Inner>, mut revocations: watch::Receiver<u64>) {
    loop {
        match sessions.upgrade() {
            Some(sessions) => sessions.end_revoked(),
            None => return,
        }
        if revocations.changed().await.is_err() {
            return;
        }
    }
}

impl Inner {
    /// Ends the sessions of all clients that are revoked now.
    fn end_revoked(&self) {
        let revoked = self.front().node().trust().revoked();
        if revoked.is_empty() {
            return;
        }
        let is_revoked = |owner: &Caller| match &owner.principal {
            Principal::Named(name) => {
                revoked.has_client(name)
                    || owner.certificate.as_ref().is_some_and(|serial| revoked.has_serial(serial))
            }
            Principal::Local | Principal::User(_) | Principal::Anyone => false,
        };
        let (now, site_lease_end) = (now(), self.front().lease_end());
        let leases = self.registry().leases_relied_on(is_revoked, now);
        for (lease, relies_until) in leases {
            // Who goes by what this site has told it relies on nothing for longer than the site's own lease lasts.
            let until = relies_until.or(site_lease_end).unwrap_or(now);
            self.end_lease_of_revoked(lease, until);
        }
    }

    fn end_lease_of_revoked(&self, lease: LeaseId, until: Time) {
        let ended = self.registry().revoke(lease);
        let Some((owner, keys)) = ended else { return };
        tracing::info!(%lease, principal = %owner.principal, keys = keys.len(), "a session has ended: its client or certificate was revoked");
        self.note_end(lease, &owner, SessionEnd::Revoked);
        let (held, waiting): (Vec<SessionKey>, Vec<SessionKey>) =
            keys.into_iter().partition(|key| key.driver.state() != AcquireState::Waiting);
        for key in waiting {
            self.end(&key, Ended::SessionOver);
        }
        for key in held {
            self.end_at(key, until);
        }
    }
}
