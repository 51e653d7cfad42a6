//! The acquisition behind a key: passes the node's events on to the registry.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Mutex, OnceLock, PoisonError, Weak};

use meshlock_cluster::names::ClientLabel;
use meshlock_host::front::{AcquireEvent, Acquisition, ClaimNews, Ended, LockGrant, Observer};
use meshlock_system::now;

use super::registry::{KeyGrant, KeyId};
use super::{Closing, Inner};

/// The acquisition of a key at the node. Each key has a node session of its own, so that it has its own label and can
/// end alone.
pub(crate) type KeyAcquisition = Acquisition<KeyObserver>;

/// Reports the events of a key's acquisition to the registry, and counts the calls that wait for the key.
pub(crate) struct KeyObserver {
    sessions: Weak<Inner>,
    /// Set before the acquisition is started.
    pub(super) key: OnceLock<KeyId>,
    /// Number of calls that wait for the key.
    callers: AtomicUsize,
    /// The key stays even if no call waits for it, because a client has been told of it.
    kept: AtomicBool,
    /// The label by which other sites know the client.
    label: Mutex<ClientLabel>,
    /// The proof that the client holds the lock through this site, if it was asked for.
    proof: OnceLock<Vec<u8>>,
    /// The lock was claimed for another site, and is held through this one now.
    settled: AtomicBool,
}

impl KeyObserver {
    pub(super) fn new(sessions: Weak<Inner>, label: ClientLabel) -> Self {
        let (callers, kept, settled) = (AtomicUsize::new(0), AtomicBool::new(false), AtomicBool::new(false));
        let (key, label, proof) = (OnceLock::new(), Mutex::new(label), OnceLock::new());
        KeyObserver { sessions, key, callers, kept, label, proof, settled }
    }

    pub(super) fn label(&self) -> ClientLabel {
        self.label.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    pub(super) fn set_label(&self, label: ClientLabel) {
        *self.label.lock().unwrap_or_else(PoisonError::into_inner) = label;
    }

    pub(super) fn proof(&self) -> Option<Vec<u8>> {
        self.proof.get().cloned()
    }

    /// Returns whether a lock that was claimed is held through this site.
    pub(super) fn is_settled(&self) -> bool {
        self.settled.load(Ordering::Relaxed)
    }

    pub(super) fn add_caller(&self) {
        self.callers.fetch_add(1, Ordering::Relaxed);
    }

    /// Keeps the key although no call may wait for it: a client is told of it.
    pub(super) fn keep(&self) {
        self.kept.store(true, Ordering::Relaxed);
    }

    /// Removes a call that waited. Returns whether it was the last one and no client was told of the key.
    pub(super) fn remove_caller(&self) -> bool {
        self.callers.fetch_sub(1, Ordering::Relaxed) == 1 && !self.kept.load(Ordering::Relaxed)
    }
}

/// Called with the node's lock held. Locking the registry here is safe: whoever holds the registry never calls the
/// node.
impl Observer for KeyObserver {
    fn on_event(&self, _: &KeyAcquisition, event: &AcquireEvent) {
        if let (Some(sessions), Some(key)) = (self.sessions.upgrade(), self.key.get()) {
            sessions.on_event(*key, event);
        }
    }

    fn on_claim(&self, _: &KeyAcquisition, news: &ClaimNews) {
        match news {
            ClaimNews::Proof(proof) => {
                let _ = self.proof.set(proof.to_bytes());
            }
            ClaimNews::Settled(_) => self.settled.store(true, Ordering::Relaxed),
            ClaimNews::Pending { .. } => {}
        }
    }
}

impl Inner {
    /// Handles an event of a key's acquisition.
    fn on_event(&self, id: KeyId, event: &AcquireEvent) {
        let over = match event {
            AcquireEvent::Granted(LockGrant { fence, slot, .. }) => {
                self.registry().on_granted(id, KeyGrant { fence: fence.value(), slot: *slot });
                return self.note_change();
            }
            AcquireEvent::Lost { act_by, .. } => {
                let lost = self.registry().on_lost(id).map(|key| (key, *act_by));
                // Those who keep the lease alive are told without being asked.
                self.stopping.note_loss();
                lost
            }
            AcquireEvent::Ended(Ended::NotGranted(_)) => self.registry().on_over(id).map(|key| (key, now())),
            // The caller that ended the acquisition has already removed the key from the registry.
            AcquireEvent::Ended(Ended::Released | Ended::Cancelled | Ended::SessionOver) => return,
        };
        if let Some((key, by)) = over {
            let owed = self.registry().source.owes(key.lease);
            let _ = self.over.send(Closing { acquisition: key.driver, by, owed });
        }
        self.note_change();
    }
}
