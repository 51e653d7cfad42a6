//! One acquisition of a lock, from the request until the release.

use std::pin::pin;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use meshlock_cluster::access::{Denied, Verb};
use meshlock_cluster::cause::Cause;
use meshlock_cluster::claim::{Proof, Reserved};
use meshlock_cluster::names::{ClientLabel, LockName};
use meshlock_cluster::node::{ClientAnswer, ClientCall};
use meshlock_cluster::report::Party;
use meshlock_cluster::table::{
    Acquire, ClaimEvent, ClaimRefusal, LockClaim, LockEvent, LossReason, Outage, Request, RequestRefusal,
    Session, Wait,
};
use meshlock_cluster::time::{Span, Time};
use meshlock_protocol::{Demand, Fence};
use tokio::sync::Notify;

use super::permits::PermitsError;
use super::{Admitted, Front};
use crate::engine::{Listener, Locked};
use crate::gate::{AuditEvent, LockUse, TooMany, Unaudited};

/// Parameters of an acquisition.
#[derive(Clone, Debug)]
pub struct AcquireParams {
    pub lock: LockName,
    pub wait: Wait,
    /// How many clients may hold the lock at a time, as the caller understands it; 1 if it does not say. Another number than that of
    /// the lock's rule, or of those who use it now, is refused.
    pub permits: Option<u32>,
    /// The identifier of the acquisition at all sites, if the caller has one.
    pub cause: Option<Cause>,
}

/// The session that an acquisition belongs to.
#[derive(Clone, Debug)]
pub enum Owner {
    /// An existing session. When it ends, its acquisitions end.
    Session(Session),
    /// A session of its own, opened for this acquisition, with its own label and its own end.
    Own {
        label: ClientLabel,
        /// How long the client relies on what it holds without a message from the site; `None` for as long as the site's lease lasts.
        silence: Option<Span>,
        /// Who waits for one thing at a time and keeps what it has meanwhile, for deadlocks between locks; `None` if that is not known.
        party: Option<Party>,
    },
}

/// A granted lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LockGrant {
    pub fence: Fence,
    /// The number of the permit, if permits are numbered.
    pub slot: Option<u32>,
    /// Nobody else holds the lock before this moment. The session is told of extensions.
    pub lease_end: Time,
    /// How long before that a loss is reported.
    pub margin: Span,
    /// The acquisition whose release handed the lock over, if there was one and it is known.
    pub by: Option<Cause>,
}

/// Why a lock was not granted.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NotGranted {
    /// Another client holds it, and the caller did not want to wait.
    #[error("the lock is held by someone else")]
    Busy,
    /// It did not become free within the caller's time limit.
    #[error("the lock was not granted in time")]
    TimedOut,
    /// The cluster could not serve it, although nobody is known to have the lock.
    #[error(transparent)]
    Unavailable(#[from] Outage),
    #[error(transparent)]
    Denied(#[from] Denied),
    #[error(transparent)]
    Permits(#[from] PermitsError),
    /// The caller has reached one of its limits.
    #[error(transparent)]
    Limit(#[from] TooMany),
    /// The audit log is required and cannot be written.
    #[error(transparent)]
    Unaudited(#[from] Unaudited),
    #[error(transparent)]
    Refused(#[from] RequestRefusal),
    /// The caller claimed a lock, and the claim was not accepted.
    #[error(transparent)]
    NotClaimed(#[from] ClaimRefusal),
}

/// What happens to a claim beside the events of every acquisition.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ClaimNews {
    /// The claim is pending: the lock is safe as long as the grant says, and not beyond `until`.
    Pending { grant: LockGrant, until: Option<Time> },
    /// The claim is settled: the lock is held through this site.
    Settled(LockGrant),
    /// A proof of the lock, with which it can be claimed at another site.
    Proof(Box<Proof>),
}

/// How an acquisition ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Ended {
    Released,
    Cancelled,
    /// The session that it belonged to has ended.
    SessionOver,
    NotGranted(NotGranted),
}

/// The state of an acquisition.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AcquireState {
    Waiting,
    Held(LockGrant),
    /// It was held, and must not be used after `act_by`.
    Lost {
        act_by: Time,
        why: LossReason,
    },
    Ended(Ended),
}

/// A change of an acquisition's state.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AcquireEvent {
    Granted(LockGrant),
    /// The lock is lost. Nobody else holds it before `act_by`.
    Lost {
        act_by: Time,
        why: LossReason,
    },
    /// The last event.
    Ended(Ended),
}

/// Receives the events of one acquisition. Called with the node's lock held: an implementation must neither wait nor call the front.
pub trait Observer: Send + Sync + Sized + 'static {
    fn on_event(&self, acquisition: &Acquisition<Self>, event: &AcquireEvent);

    /// Told only to those who claim locks or ask for proofs.
    fn on_claim(&self, _: &Acquisition<Self>, _: &ClaimNews) {}
}

/// Ignores all events, for callers that read the [state](Acquisition::state) instead.
impl Observer for () {
    fn on_event(&self, _: &Acquisition<Self>, _: &AcquireEvent) {}
}

/// One acquisition of a lock. Every lock call creates one, and most are granted at once, so it is a single allocation.
pub struct Acquisition<O> {
    front: Front,
    caller: Admitted,
    lock: LockName,
    state: Mutex<AcquireState>,
    changed: Notify,
    /// The node's request number; 0 until the node was asked. This field and the next two change only with the node's lock held.
    request: AtomicU64,
    /// Its own session ([`Owner::Own`]); 0 if it has none.
    session: AtomicU64,
    /// Set once the node must not be asked on its behalf any more.
    closed: AtomicBool,
    /// It is a standing claim.
    stands_in: AtomicBool,
    /// Counts the lock towards the caller's limits, if any apply, until the acquisition has ended.
    counted: Mutex<Option<Box<LockUse>>>,
    observer: O,
}

impl Front {
    /// Asks for a lock. Its events go to `observer`, possibly before this function returns; the returned acquisition has its state.
    pub fn acquire<O: Observer>(
        &self,
        caller: &Admitted,
        owner: Owner,
        wanted: AcquireParams,
        observer: O,
    ) -> Arc<Acquisition<O>> {
        let acquisition = self.prepare(caller, &wanted.lock, observer);
        acquisition.start(owner, wanted);
        acquisition
    }

    /// Creates an acquisition that is [started](Acquisition::start) later, for callers that must register it before it is answered.
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
            stands_in: AtomicBool::new(false),
            counted: Mutex::default(),
            observer,
        })
    }
}

impl<O: Observer> Acquisition<O> {
    /// Asks for the lock. Must be called once.
    pub fn start(self: &Arc<Self>, owner: Owner, wanted: AcquireParams) {
        match self.admit() {
            Ok(()) => self.front.0.node.with(|node| self.ask(node, owner, wanted)),
            Err(why) => self.end(Ended::NotGranted(why)),
        }
    }

    /// Claims the lock, which the caller holds through another site, for an existing session. Must be called once, instead of
    /// [`start`](Acquisition::start).
    pub(crate) fn claim(self: &Arc<Self>, session: Session, proof: Proof, reserved: Reserved) {
        if let Err(why) = self.admit() {
            return self.end(Ended::NotGranted(why));
        }
        self.front.0.node.with(|node| {
            if self.closed.load(Ordering::Relaxed) {
                return;
            }
            node.ask(self.clone(), |request| {
                self.request.store(request.0, Ordering::Relaxed);
                ClientCall::Claim(Box::new(LockClaim { session, request, proof, reserved }))
            });
        });
    }

    /// Claims the lock as the mirror of the member that holds it for the caller, in a session of its own. Must be called once, instead of
    /// [`start`](Acquisition::start). The lock counts towards the caller's limits at the site that granted it.
    pub fn stand_in(self: &Arc<Self>, label: ClientLabel, silence: Option<Span>, proof: Proof) {
        if let Err(why) = self.front.check(&self.caller, Verb::Acquire, &self.lock) {
            return self.end(Ended::NotGranted(why.into()));
        }
        self.front.0.node.with(|node| {
            if self.closed.load(Ordering::Relaxed) {
                return;
            }
            self.stands_in.store(true, Ordering::Relaxed);
            let session = node.open_session();
            self.session.store(session.0, Ordering::Relaxed);
            introduce(node, session, label, silence);
            node.ask(self.clone(), |request| {
                self.request.store(request.0, Ordering::Relaxed);
                let reserved = Reserved::Standing;
                ClientCall::Claim(Box::new(LockClaim { session, request, proof, reserved }))
            });
        });
    }

    /// Asks for a proof of the lock, of which the observer is told.
    pub fn prove(&self) {
        self.front.0.node.with(|node| {
            let request = self.request.load(Ordering::Relaxed);
            if request != 0 && !self.closed.load(Ordering::Relaxed) {
                node.call(ClientCall::Prove { request: Request(request) });
            }
        });
    }

    /// Checks rights and limits, and counts the lock towards them.
    fn admit(&self) -> Result<(), NotGranted> {
        self.front.check(&self.caller, Verb::Acquire, &self.lock)?;
        self.front.audit().check()?;
        *self.counted() = self.front.0.gate.use_lock(&self.caller, &self.lock)?.map(Box::new);
        Ok(())
    }

    /// The lock that is asked for.
    pub fn lock(&self) -> &LockName {
        &self.lock
    }

    /// Who is told what happens to the acquisition.
    pub fn observer(&self) -> &O {
        &self.observer
    }

    /// A copy of the state as it is now.
    pub fn state(&self) -> AcquireState {
        self.locked_state().clone()
    }

    /// Waits until `done` holds of the state.
    pub async fn until(&self, mut done: impl FnMut(&AcquireState) -> bool) -> AcquireState {
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

    /// Releases the lock, or stops waiting. The observer is told when that is done.
    pub fn release(&self) {
        self.give_up(ClientCall::Release);
    }

    /// Stops waiting, or releases the lock if it was granted meanwhile. The observer is told when that is done.
    pub(crate) fn cancel(&self) {
        self.give_up(ClientCall::Cancel);
    }

    /// Releases the lock, or stops waiting, without waiting for the node's answer.
    pub fn abandon(&self) {
        self.end(Ended::Released);
        self.front.0.node.with(|node| {
            if let Some(request) = self.close_quietly() {
                node.forget(request);
                node.call(ClientCall::Release(request));
            }
        });
    }

    /// Ends the acquisition and its own session. `why` is the reason unless the acquisition has already ended.
    pub fn close(&self, why: Ended) {
        self.end(why);
        self.front.0.node.with(|node| {
            let request = self.close_quietly();
            let session = self.session.swap(0, Ordering::Relaxed);
            if session != 0 {
                node.close_session(Session(session), request);
            }
        });
    }

    /// Ends the acquisition for its observer and its callers. The node is not told and keeps its state.
    pub fn end(&self, why: Ended) {
        self.advance(AcquireState::Ended(why.clone()), &AcquireEvent::Ended(why));
    }

    /// Changes the label that others see, if the acquisition has its own session.
    pub fn introduce(&self, label: ClientLabel, silence: Option<Span>) {
        self.front.0.node.with(|node| {
            let session = self.session.load(Ordering::Relaxed);
            if session != 0 {
                introduce(node, Session(session), label, silence);
            }
        });
    }

    /// Closes the acquisition without telling the node; returns the node's request number. Must be called with the node's lock held.
    pub(super) fn close_quietly(&self) -> Option<Request> {
        self.closed.store(true, Ordering::Relaxed);
        Some(self.request.load(Ordering::Relaxed)).filter(|request| *request != 0).map(Request)
    }

    fn give_up(&self, call: impl FnOnce(Request) -> ClientCall) {
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

    /// Passes the acquisition to the node, unless it was closed meanwhile.
    fn ask(self: &Arc<Self>, node: &mut Locked<'_>, owner: Owner, wanted: AcquireParams) {
        if self.closed.load(Ordering::Relaxed) {
            return;
        }
        let session = match owner {
            Owner::Session(session) => session,
            Owner::Own { label, silence, party } => {
                let session = node.open_session();
                self.session.store(session.0, Ordering::Relaxed);
                introduce(node, session, label, silence);
                if let Some(party) = party {
                    node.call(ClientCall::JoinParty { session, party });
                }
                session
            }
        };
        let AcquireParams { lock, wait, permits, cause } = wanted;
        let permits = permits.unwrap_or(1);
        node.ask(self.clone(), |request| {
            // Must be stored before the node sees the call: the answer may come before the call returns.
            self.request.store(request.0, Ordering::Relaxed);
            ClientCall::Acquire(Acquire {
                session,
                request,
                lock,
                permits,
                wait,
                cause,
                demand: Demand::PLAIN,
            })
        });
    }

    /// Changes the state and notifies the observer, unless the acquisition has ended.
    fn advance(&self, next: AcquireState, event: &AcquireEvent) {
        let mut state = self.locked_state();
        if matches!(*state, AcquireState::Ended(_)) {
            return;
        }
        *state = next;
        self.count(event);
        self.observer.on_event(self, event);
        drop(state);
        self.changed.notify_waiters();
    }

    /// Counts less towards the caller's limits, if an event says so.
    fn count(&self, event: &AcquireEvent) {
        let mut counted = self.counted();
        match event {
            AcquireEvent::Granted(_) => counted.iter_mut().for_each(|counted| counted.on_granted()),
            AcquireEvent::Lost { .. } => {}
            AcquireEvent::Ended(_) => *counted = None,
        }
    }

    fn counted(&self) -> MutexGuard<'_, Option<Box<LockUse>>> {
        self.counted.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether another thread could read the state now.
    #[cfg(test)]
    pub(super) fn is_visible(&self) -> bool {
        self.state.try_lock().is_ok()
    }

    fn locked_state(&self) -> MutexGuard<'_, AcquireState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<O: Observer> Acquisition<O> {
    fn on_claim_event(&self, event: &ClaimEvent) {
        // A mirror's claim concerns nobody before the other site is gone.
        let stands_in = self.stands_in.load(Ordering::Relaxed);
        let (grant, news) = match *event {
            ClaimEvent::Refused { why, .. } => return self.end(Ended::NotGranted(why.into())),
            ClaimEvent::Pending { fence, slot, lease_end, until, margin, .. } => {
                let grant = LockGrant { fence, slot, lease_end, margin, by: None };
                if !stands_in {
                    self.note_claim(fence);
                }
                (grant, ClaimNews::Pending { grant, until })
            }
            ClaimEvent::Settled { fence, slot, lease_end, margin, .. } => {
                let grant = LockGrant { fence, slot, lease_end, margin, by: None };
                if stands_in {
                    self.note_claim(fence);
                }
                (grant, ClaimNews::Settled(grant))
            }
        };
        let mut state = self.locked_state();
        if matches!(*state, AcquireState::Ended(_) | AcquireState::Lost { .. }) {
            return;
        }
        *state = AcquireState::Held(grant);
        self.counted().iter_mut().for_each(|counted| counted.on_granted());
        self.observer.on_claim(self, &news);
        drop(state);
        self.changed.notify_waiters();
    }

    fn note_claim(&self, fence: Fence) {
        let audit = self.front.audit();
        if audit.wants_all() {
            audit.note(&self.caller, Some(&self.lock), AuditEvent::Claimed { fence: fence.value() });
        }
    }
}

/// Tells the node who an acquisition's own session belongs to.
fn introduce(node: &mut Locked<'_>, session: Session, who: ClientLabel, silence: Option<Span>) {
    let terms = node.node().lease().terms();
    let reacts_within = terms.drift.stretch(silence.unwrap_or(terms.length));
    node.call(ClientCall::Introduce { session, who, reacts_within });
}

impl<O: Observer> Listener for Acquisition<O> {
    fn on_answer(&self, answer: &ClientAnswer) {
        if let ClientAnswer::Proof { proof, .. } = answer {
            // Without a proof the client has none. A refusal would mean its request for the lock.
            if let Some(proof) = proof {
                self.observer.on_claim(self, &ClaimNews::Proof(proof.clone()));
            }
            return;
        }
        if let ClientAnswer::Claim(event) = answer {
            return self.on_claim_event(event);
        }
        let ClientAnswer::Lock(event) = answer else { return };
        let ended = match event.clone() {
            LockEvent::Granted { fence, slot, lease_end, margin, by, .. } => {
                let audit = self.front.audit();
                if audit.wants_all() {
                    audit.note(&self.caller, Some(&self.lock), AuditEvent::Granted { fence: fence.value() });
                }
                let grant = LockGrant { fence, slot, lease_end, margin, by };
                return self.advance(AcquireState::Held(grant), &AcquireEvent::Granted(grant));
            }
            LockEvent::Lost { act_by, why, .. } => {
                return self.advance(AcquireState::Lost { act_by, why }, &AcquireEvent::Lost { act_by, why });
            }
            // No client of this host asks for a mode.
            LockEvent::ModeChanged { .. } | LockEvent::ModeRefused { .. } | LockEvent::Extended { .. } => {
                return;
            }
            LockEvent::Released { .. } => Ended::Released,
            LockEvent::Cancelled { .. } => Ended::Cancelled,
            LockEvent::TimedOut { .. } => Ended::NotGranted(NotGranted::TimedOut),
            LockEvent::Busy { .. } => Ended::NotGranted(NotGranted::Busy),
            LockEvent::Unavailable { why, .. } => Ended::NotGranted(NotGranted::Unavailable(why)),
            LockEvent::Refused { why, .. } => {
                let permits = PermitsError::of(&self.lock, why).map(NotGranted::Permits);
                Ended::NotGranted(permits.unwrap_or(NotGranted::Refused(why)))
            }
        };
        self.end(ended);
    }
}
