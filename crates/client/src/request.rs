//! One acquisition of a lock of a running node, from the request until the release.

use std::pin::pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use meshlock_cluster::names::LockName;
use meshlock_cluster::time::{Span, Time};
use meshlock_wire::clients::{LossKind, RefusalKind, Tag};
use tokio::sync::Notify;

use super::error::ConnectionError;
use super::session::NodeSession;

/// Why a lock that was held is lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Loss {
    /// The node reported it.
    Told(LossKind),
    /// The node has not extended the lease for too long: it is cut off, or has stopped running.
    NodeSilent,
    /// The connection to the node has ended.
    Disconnected,
}

/// Why a lock was not granted.
#[derive(Clone, Debug, thiserror::Error)]
pub enum NotGranted {
    #[error("the lock is held by someone else")]
    Busy,
    #[error("the lock was not granted in time")]
    TimedOut,
    #[error("{why}")]
    Refused { kind: RefusalKind, why: String },
    #[error("the request was released before it was granted")]
    Cancelled,
    #[error(transparent)]
    Disconnected(Arc<ConnectionError>),
}

/// The state of a request.
#[derive(Clone, Debug)]
pub enum RequestState {
    Waiting,
    Held {
        /// The fencing token, to be passed to whatever the lock protects.
        fence: i64,
        /// The number of the permit, if permits are numbered.
        slot: Option<u32>,
        /// How long before another client can hold the lock its loss is reported.
        margin: Span,
    },
    /// It was held, and must not be used after `act_by`.
    Lost {
        act_by: Time,
        why: Loss,
    },
    Ended(NotGranted),
}

/// Until when nobody else holds what a session holds and has not lost, on this machine's clock.
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

    pub(super) fn is_held(&self) -> bool {
        matches!(*self.locked_state(), RequestState::Held { .. })
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
