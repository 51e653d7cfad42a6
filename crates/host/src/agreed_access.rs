//! What the host does by the access document that the cluster has agreed on: it refuses who is revoked, tells the node the calendar time by
//! which join tokens end, and gives the gate the rules, tokens and limits.
//!
//! The node says with its lock held that there is another document, so all of this is done by tasks of the node's own runtime.

use std::sync::{Arc, Weak};
use std::time::Duration;

use meshlock_cluster::access::AgreedAccess;
use meshlock_cluster::node::Input;
use meshlock_system::wall;
use meshlock_tls::Revoked;
use tokio::sync::watch;
use tokio::time::sleep;

use super::engine::SharedNode;
use super::gate::Gate;
use super::trust::Trust;

/// How often the node is told the calendar time. Join tokens last for minutes at least.
const TELL_EVERY: Duration = Duration::from_secs(5);

/// Refuses whom the document revokes, from now on.
pub(super) fn revoke(trust: &Trust, access: &AgreedAccess) {
    match Revoked::new(&access.document.revoked) {
        Ok(revoked) => trust.set_agreed_revoked(revoked),
        // It was checked before it was agreed on. To let everyone in again would be worse than to keep the list before it.
        Err((at, error)) => tracing::error!(
            entry = at + 1,
            %error,
            "the cluster's list of the revoked cannot be read, and the one before it stays in use; upgrade this site"
        ),
    }
}

/// Refuses whom the document revokes, whenever it has changed, until the node is dropped.
pub(super) async fn keep_revoking(trust: Trust, mut access: watch::Receiver<Arc<AgreedAccess>>) {
    while access.changed().await.is_ok() {
        let access = access.borrow_and_update().clone();
        revoke(&trust, &access);
    }
}

/// Gives the gate what the document says, now and whenever it has changed, until the node is dropped.
pub(super) async fn keep_replacing(gate: Weak<Gate>, mut access: watch::Receiver<Arc<AgreedAccess>>) {
    while access.changed().await.is_ok() {
        let access = access.borrow_and_update().clone();
        let Some(gate) = gate.upgrade() else { return };
        gate.replace_agreed(access.document.clone());
    }
}

/// Tells the node the calendar time now and then, until it is dropped.
pub(super) async fn keep_telling_time(shared: Weak<SharedNode>) {
    while let Some(shared) = shared.upgrade() {
        shared.step(|_| Input::WallClock(wall() / 1_000_000));
        drop(shared);
        sleep(TELL_EVERY).await;
    }
}
