//! One request for a lock, from asking until it is given back.

use std::pin::pin;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

use meshlock_cluster::access::{Denied, Verb};
use meshlock_cluster::cause::Cause;
use meshlock_cluster::names::{ClientLabel, LockName};
use meshlock_cluster::node::{ClientAnswer, ClientCall};
use meshlock_cluster::table::{Acquire, LockEvent, LossReason, Request, RequestRefusal, Session, Wait};
use meshlock_cluster::time::{Span, Time};
use meshlock_protocol::Fence;
use meshlock_system::now;
use tokio::sync::Notify;
use tokio::task::AbortHandle;
use tokio::time::timeout;

use super::permits::{PermitsError, agree_on_permits, has_permits};
use super::{Admitted, Front, Inner};
use crate::engine::{Listener, Locked};
use crate::gate::Act;

/// How long one that does not want to wait for another holder waits until the cluster has agreed on a lock's permits.
const TRY_WITHIN: Duration = Duration::from_secs(2);

/// What is asked for.
#[derive(Clone, Debug)]
pub struct LockRequest {
    pub lock: LockName,
    pub wait: Wait,
    /// How many permits the caller expects the lock to have, if it does: where no rule names the lock, one is made.
    pub permits: Option<u32>,
    /// The number by which the request is known at all sites, if the caller has one.
    pub cause: Option<Cause>,
}

/// Whose an acquisition is.
#[derive(Clone, Debug)]
pub enum Owner {
    /// A session that is open: what it holds ends with it.
    Session(Session),
    /// A session of its own, opened with it: it has a label of its own and ends alone.
    Own {
        label: ClientLabel,
        /// For how long without a message its client relies on what it holds; none if for as long as the site's lease lasts.
        silence: Option<Span>,
    },
}

/// What was granted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Grant {
    pub fence: Fence,
    /// Which permit, where they are numbered.
    pub slot: Option<u32>,
    /// The lock is safe until then, unless the session is told of an extension.
    pub lease_end: Time,
    /// How long before that its loss is told.
    pub margin: Span,
    /// The request that handed the lock over, if another one's did and that is known.
    pub by: Option<Cause>,
}

/// Why a lock was not granted.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NotGranted {
    /// Someone else holds it, and the caller did not want to wait.
    #[error("the lock is held by someone else")]
    Busy,
    /// It was not free in the time that the caller was ready to wait.
    #[error("the lock was not granted in time")]
    TimedOut,
    #[error(transparent)]
    Denied(#[from] Denied),
    #[error(transparent)]
    Permits(#[from] PermitsError),
    #[error(transparent)]
    Refused(#[from] RequestRefusal),
}

/// How an acquisition ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Ended {
    Released,
    Cancelled,
    /// The session that it belonged to is over.
    SessionOver,
    NotGranted(NotGranted),
}

/// How far an acquisition is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AcquireState {
    Waiting,
    Held(Grant),
    /// It was held, and must not be used after this moment.
    Lost {
        act_by: Time,
        why: LossReason,
    },
    Ended(Ended),
}

/// What happens to an acquisition.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AcquireEvent {
    Granted(Grant),
    /// Nobody else has the lock before `act_by`.
    Lost {
        act_by: Time,
        why: LossReason,
    },
    /// Nothing follows.
    Ended(Ended),
}

/// Is told what happens to one acquisition. Called with the node's lock and the acquisition's state held: it must not wait, nor
/// call the front, nor ask the acquisition for its state.
pub trait Observer: Send + Sync + Sized + 'static {
    fn on_event(&self, acquisition: &Acquisition<Self>, event: &AcquireEvent);
}

/// Nobody is told: whoever wants to know looks at the state.
impl Observer for () {
    fn on_event(&self, _: &Acquisition<Self>, _: &AcquireEvent) {}
}

/// One request for a lock. Every lock that is taken makes one, mostly to be granted at once: it is one allocation.
pub struct Acquisition<O> {
    front: Front,
    caller: Admitted,
    lock: LockName,
    state: Mutex<AcquireState>,
    changed: Notify,
    /// The node's number for it; 0 until the node was asked. This and the next two change only with the node's lock held.
    request: AtomicU64,
    /// The session of its own; 0 if it has none.
    session: AtomicU64,
    /// Nothing is asked of the node for it any more.
    closed: AtomicBool,
    /// Stops the agreement on permits that comes first.
    agreeing: OnceLock<AbortHandle>,
    observer: O,
}

impl Front {
    /// Asks for a lock. What becomes of it is told to `observer`, perhaps before this returns, and is the state of what is returned.
    pub fn acquire<O: Observer>(
        &self,
        caller: &Admitted,
        owner: Owner,
        wanted: LockRequest,
        observer: O,
    ) -> Arc<Acquisition<O>> {
        let acquisition = self.prepare(caller, &wanted.lock, observer);
        acquisition.start(owner, wanted);
        acquisition
    }

    /// An acquisition that is still to be [started](Acquisition::start): for whoever has to know it before it is answered.
    pub fn prepare<O: Observer>(
        &self,
        caller: &Admitted,
        lock: &LockName,
        observer: O,
    ) -> Arc<Acquisition<O>> {
        Arc::new(Acquisition {
            front: self.clone(),
            caller: caller.clone(),
            lock: lock.clone(),
            state: Mutex::new(AcquireState::Waiting),
            changed: Notify::const_new(),
            request: AtomicU64::new(0),
            session: AtomicU64::new(0),
            closed: AtomicBool::new(false),
            agreeing: OnceLock::new(),
            observer,
        })
    }
}

impl<O: Observer> Acquisition<O> {
    /// Asks for the lock, once.
    pub fn start(self: &Arc<Self>, owner: Owner, wanted: LockRequest) {
        let Inner { node, .. } = &*self.front.0;
        if let Err(denied) = self.front.check(&self.caller, Verb::Acquire, &self.lock) {
            return self.end(Ended::NotGranted(denied.into()));
        }
        let Some(permits) = wanted.permits else {
            return node.with(|node| self.ask(node, owner, wanted));
        };
        let too_early = node.with(|node| {
            if has_permits(node.node(), &self.lock, permits) {
                self.ask(node, owner, wanted);
                return None;
            }
            Some((owner, wanted))
        });
        if let Some((owner, wanted)) = too_early {
            self.agree_first(permits, owner, wanted);
        }
    }

    pub fn lock(&self) -> &LockName {
        &self.lock
    }

    pub fn observer(&self) -> &O {
        &self.observer
    }

    pub fn caller(&self) -> &Admitted {
        &self.caller
    }

    pub fn state(&self) -> AcquireState {
        self.locked_state().clone()
    }

    /// What is held, if it is.
    pub fn grant(&self) -> Option<Grant> {
        match *self.locked_state() {
            AcquireState::Held(grant) => Some(grant),
            AcquireState::Waiting | AcquireState::Lost { .. } | AcquireState::Ended(_) => None,
        }
    }

    /// Waits until `done` holds of the state.
    pub async fn until(&self, mut done: impl FnMut(&AcquireState) -> bool) -> AcquireState {
        loop {
            let mut changed = pin!(self.changed.notified());
            // Before looking, so that no change falls in between.
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

    /// Gives the lock back, or stops waiting; the observer is told when that is done.
    pub fn release(&self) {
        self.give_up(ClientCall::Release);
    }

    /// Stops waiting, or gives back what was granted meanwhile; the observer is told when that is done.
    pub fn cancel(&self) {
        self.give_up(ClientCall::Cancel);
    }

    /// Gives the lock back, or stops waiting; what the node says to that is not waited for.
    pub fn abandon(&self) {
        self.end(Ended::Released);
        self.stop_agreeing();
        self.front.0.node.with(|node| {
            if let Some(request) = self.close_quietly() {
                node.forget(request);
                node.call(ClientCall::Release(request));
            }
        });
    }

    /// Ends the session of its own, and with it the acquisition, for this reason unless it has ended before.
    pub fn close(&self, why: Ended) {
        self.end(why);
        self.stop_agreeing();
        self.front.0.node.with(|node| {
            let request = self.close_quietly();
            let session = self.session.swap(0, Ordering::Relaxed);
            if session != 0 {
                node.close_session(Session(session), request);
            }
        });
    }

    /// Ends the acquisition for this reason, as far as its callers know; the node keeps what it has for it.
    pub fn end(&self, why: Ended) {
        self.advance(AcquireState::Ended(why.clone()), &AcquireEvent::Ended(why));
    }

    /// Shows others another label, where the acquisition has a session of its own.
    pub fn introduce(&self, label: ClientLabel, silence: Option<Span>) {
        self.front.0.node.with(|node| {
            let session = self.session.load(Ordering::Relaxed);
            if session != 0 {
                introduce(node, Session(session), label, silence);
            }
        });
    }

    /// Asks the node for nothing more; returns the number under which it knows the acquisition. The node's lock is held.
    pub(super) fn close_quietly(&self) -> Option<Request> {
        self.closed.store(true, Ordering::Relaxed);
        Some(self.request.load(Ordering::Relaxed)).filter(|request| *request != 0).map(Request)
    }

    fn give_up(&self, call: impl FnOnce(Request) -> ClientCall) {
        self.stop_agreeing();
        let asked = self.front.0.node.with(|node| {
            let request = self.request.load(Ordering::Relaxed);
            if request == 0 {
                self.closed.store(true, Ordering::Relaxed);
                return false;
            }
            node.call(call(Request(request)));
            true
        });
        if !asked {
            self.end(Ended::Cancelled);
        }
    }

    fn stop_agreeing(&self) {
        if let Some(agreeing) = self.agreeing.get() {
            agreeing.abort();
        }
    }

    /// Asks the node, unless the acquisition was closed meanwhile.
    fn ask(self: &Arc<Self>, node: &mut Locked<'_>, owner: Owner, wanted: LockRequest) {
        if self.closed.load(Ordering::Relaxed) {
            return;
        }
        let session = match owner {
            Owner::Session(session) => session,
            Owner::Own { label, silence } => {
                let session = node.open_session(Arc::new(Unheard));
                self.session.store(session.0, Ordering::Relaxed);
                introduce(node, session, label, silence);
                session
            }
        };
        let LockRequest { lock, wait, cause, .. } = wanted;
        node.ask(self.clone(), |request| {
            // Before the node sees it: the answer may come before this returns.
            self.request.store(request.0, Ordering::Relaxed);
            ClientCall::Acquire(Acquire { session, request, lock, wait, cause })
        });
    }

    /// Lets the cluster agree on the lock's permits before the node is asked.
    fn agree_first(self: &Arc<Self>, permits: u32, owner: Owner, wanted: LockRequest) {
        let this = self.clone();
        let agreeing = self.front.0.node.tasks().spawn(async move {
            let since = now();
            let agreed = agree_on_permits(&this.front, &this.caller, &wanted.lock, permits);
            let longest = match wanted.wait {
                Wait::Forever => Duration::MAX,
                Wait::Within(span) => Duration::from_micros(span.micros()),
                Wait::Try => TRY_WITHIN,
            };
            match timeout(longest, agreed).await {
                Ok(Ok(())) => {
                    let wait = wanted.wait.after(now().since(since));
                    let wanted = LockRequest { wait, permits: None, ..wanted };
                    this.front.0.node.with(|node| this.ask(node, owner, wanted));
                }
                Ok(Err(error)) => this.end(Ended::NotGranted(error)),
                Err(_) if wanted.wait == Wait::Try => this.end(Ended::NotGranted(NotGranted::Busy)),
                Err(_) => this.end(Ended::NotGranted(NotGranted::TimedOut)),
            }
        });
        let _ = self.agreeing.set(agreeing.abort_handle());
    }

    /// Goes to another state, unless it has ended. Nobody sees the state before the observer has been told of it: whoever
    /// waits for a lock may at once ask what the observer knows.
    fn advance(&self, next: AcquireState, event: &AcquireEvent) {
        let mut state = self.locked_state();
        if matches!(*state, AcquireState::Ended(_)) {
            return;
        }
        *state = next;
        self.observer.on_event(self, event);
        drop(state);
        self.changed.notify_waiters();
    }

    fn locked_state(&self) -> MutexGuard<'_, AcquireState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Says who has a session of its own.
fn introduce(node: &mut Locked<'_>, session: Session, who: ClientLabel, silence: Option<Span>) {
    let terms = node.node().lease().terms();
    let reacts_within = terms.drift.stretch(silence.unwrap_or(terms.length));
    node.call(ClientCall::Introduce { session, who, reacts_within });
}

impl<O: Observer> Listener for Acquisition<O> {
    fn on_answer(&self, answer: &ClientAnswer) {
        let ClientAnswer::Lock(event) = answer else { return };
        let ended = match *event {
            LockEvent::Granted { fence, slot, lease_end, margin, by, .. } => {
                let audit = self.front.0.gate.audit();
                if audit.wants_all() {
                    audit.note(&self.caller, Some(&self.lock), Act::Granted { fence: fence.value() });
                }
                let grant = Grant { fence, slot, lease_end, margin, by };
                return self.advance(AcquireState::Held(grant), &AcquireEvent::Granted(grant));
            }
            LockEvent::Lost { act_by, why, .. } => {
                return self.advance(AcquireState::Lost { act_by, why }, &AcquireEvent::Lost { act_by, why });
            }
            LockEvent::Extended { .. } => return,
            LockEvent::Released { .. } => Ended::Released,
            LockEvent::Cancelled { .. } => Ended::Cancelled,
            LockEvent::TimedOut { .. } => Ended::NotGranted(NotGranted::TimedOut),
            LockEvent::Busy { .. } => Ended::NotGranted(NotGranted::Busy),
            LockEvent::Refused { why, .. } => Ended::NotGranted(NotGranted::Refused(why)),
        };
        self.end(ended);
    }
}

/// The listener of a session of its own: how long the site's lease lasts is not told to its client.
struct Unheard;

impl Listener for Unheard {
    fn on_answer(&self, _: &ClientAnswer) {}
}
