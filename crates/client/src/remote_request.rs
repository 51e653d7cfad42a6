//! One caller's request in a session that many callers share, from the request until the release.

use std::pin::pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use meshlock_cluster::names::LockName;
use meshlock_cluster::time::Time;
use meshlock_wire::clients::Tag;
use tokio::sync::Notify;

use super::request_state::{NotGranted, RequestState};
use super::session::NodeSession;

/// Until when nobody else holds what a session holds and has not lost, on this machine's clock: a copy that callers read without waiting
/// for the session.
#[derive(Debug, Default)]
pub(crate) struct HeldUntil(AtomicU64);

impl HeldUntil {
    pub(crate) fn get(&self) -> Time {
        Time::from_micros(self.0.load(Ordering::Acquire))
    }

    pub(super) fn extend(&self, until: Time) {
        self.0.fetch_max(until.micros(), Ordering::AcqRel);
    }
}

/// A request for a lock of a running node, until it is released.
#[derive(Debug)]
pub struct RemoteRequest {
    session: Weak<NodeSession>,
    tag: Tag,
    lock: LockName,
    held_until: Arc<HeldUntil>,
    state: Mutex<RequestState>,
    changed: Notify,
}

impl RemoteRequest {
    pub(super) fn new(
        session: Weak<NodeSession>,
        tag: Tag,
        lock: LockName,
        held_until: Arc<HeldUntil>,
    ) -> Self {
        let state = Mutex::new(RequestState::Waiting);
        RemoteRequest { session, tag, lock, held_until, state, changed: Notify::const_new() }
    }

    #[cfg(test)]
    pub(super) fn tag(&self) -> Tag {
        self.tag
    }

    /// The lock that is asked for.
    pub fn lock(&self) -> &LockName {
        &self.lock
    }

    /// A copy of the state as it is now.
    pub fn state(&self) -> RequestState {
        self.locked_state().clone()
    }

    /// Returns until when nobody else holds the lock, as far as is known now, while it is held.
    pub fn held_until(&self) -> Time {
        self.held_until.get()
    }

    /// Waits until `done` holds of the state.
    pub async fn until(&self, mut done: impl FnMut(&RequestState) -> bool) -> RequestState {
        loop {
            let mut changed = pin!(self.changed.notified());
            // Registers for notifications before reading the state, so that no change is missed.
            changed.as_mut().enable();
            {
                let state = self.locked_state();
                if done(&state) {
                    return state.clone();
                }
            }
            changed.await;
        }
    }

    /// Releases the lock, or stops waiting for it.
    pub(crate) fn release(&self) {
        if let Some(session) = self.session.upgrade() {
            session.release(self.tag);
        }
        self.advance(RequestState::Ended(NotGranted::Cancelled));
    }

    /// Changes the state, unless the request has ended.
    pub(super) fn advance(&self, next: RequestState) {
        {
            let mut state = self.locked_state();
            if matches!(*state, RequestState::Ended(_)) {
                return;
            }
            *state = next;
        }
        self.changed.notify_waiters();
    }

    fn locked_state(&self) -> MutexGuard<'_, RequestState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
