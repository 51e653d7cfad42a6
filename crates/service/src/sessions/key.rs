//! One key's acquisition at the node: what was asked there, and what the node has said of it.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{OnceLock, Weak};

use meshlock_host::front::{AcquireEvent, Acquisition, Ended, LockGrant, Observer};
use meshlock_system::now;

use super::Inner;
use super::registry::{Grant, KeyId};

/// What a key has at the node: a session of its own, so that it has a label of its own and ends alone.
pub(crate) type KeyAcquisition = Acquisition<KeyObserver>;

/// Tells the registry what becomes of a key, and counts who waits for it.
pub(crate) struct KeyObserver {
    sessions: Weak<Inner>,
    /// Set before the node is asked.
    pub(super) key: OnceLock<KeyId>,
    /// How many calls wait for it.
    callers: AtomicUsize,
    /// It stays though nobody waits for it: a client was told of it.
    kept: AtomicBool,
}

impl KeyObserver {
    pub(super) fn new(sessions: Weak<Inner>) -> Self {
        let (callers, kept) = (AtomicUsize::new(0), AtomicBool::new(false));
        KeyObserver { sessions, key: OnceLock::new(), callers, kept }
    }

    pub(super) fn add_caller(&self) {
        self.callers.fetch_add(1, Ordering::Relaxed);
    }

    /// A client is told of the key.
    pub(super) fn keep(&self) {
        self.kept.store(true, Ordering::Relaxed);
    }

    /// A call waits no more. Returns whether it was the last one, and nobody was told of the key.
    pub(super) fn is_left_by_all(&self) -> bool {
        self.callers.fetch_sub(1, Ordering::Relaxed) == 1 && !self.kept.load(Ordering::Relaxed)
    }
}

/// Called with the node's lock held. The registry's may be taken: whoever has that never calls the node.
impl Observer for KeyObserver {
    fn on_event(&self, _: &KeyAcquisition, event: &AcquireEvent) {
        if let (Some(sessions), Some(key)) = (self.sessions.upgrade(), self.key.get()) {
            sessions.on_event(*key, event);
        }
    }
}

impl Inner {
    /// Something has happened to a key.
    fn on_event(&self, id: KeyId, event: &AcquireEvent) {
        let over = match event {
            AcquireEvent::Granted(LockGrant { fence, slot, .. }) => {
                self.registry().on_granted(id, Grant { fence: fence.value(), slot: *slot });
                return self.note_change();
            }
            AcquireEvent::Lost { act_by, .. } => self.registry().on_lost(id).map(|key| (key, *act_by)),
            AcquireEvent::Ended(Ended::NotGranted(_)) => self.registry().on_over(id).map(|key| (key, now())),
            // Whoever ended it has taken it out of the registry.
            AcquireEvent::Ended(Ended::Released | Ended::Cancelled | Ended::SessionOver) => return,
        };
        if let Some((key, by)) = over {
            let _ = self.over.send((key.driver, by));
        }
        self.note_change();
    }
}
