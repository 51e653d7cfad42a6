//! Sessions of the wire APIs: the layer between the APIs and the node. It drives the [registry], starts acquisitions
//! at the node for keys, and expires leases.
//!
//! There are two locks, always taken in this order: the node's, then the registry's. So whoever holds the registry
//! never calls the node; `order.rs` checks it.

mod delay;
mod holders;
mod key;
mod leases;
pub(crate) mod mirror;
mod order;
mod promise;
pub(crate) mod registry;
mod revocation;
mod stopping;
#[cfg(test)]
pub(crate) mod tests;
mod whereabouts;

use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, OnceLock, Weak};
use std::time::Duration;

use meshlock_cluster::access::{Denied, Principal, Verb};
use meshlock_cluster::names::{ClientLabel, LockName, SiteName, fnv_1a};
use meshlock_cluster::report::Party;
use meshlock_cluster::table::{LossReason, Outage, RequestRefusal, Wait};
use meshlock_cluster::time::{Span, Time};
use meshlock_host::front::{AcquireParams, Admitted, Ended, Front, NotGranted, Owner, PermitsError};
pub(crate) use meshlock_host::front::{AcquireState, NotAnswered};
use meshlock_host::gate::{TooMany, Unaudited};
use meshlock_system::now;
use tokio::sync::{Notify, mpsc, watch};
use tokio::time::{sleep, timeout};

use crate::correlation;
use crate::forward::Outgoing;
use crate::metrics::ApiMeter;
pub(crate) use holders::{Holder, HolderWatch, WatchError, holders_in};
pub(crate) use key::{KeyAcquisition, KeyObserver};
use mirror::{ChangeNumber, Companion};
use order::{RegistryGuard, assert_registry_is_free};
pub(crate) use promise::REACTION;
use whereabouts::Remembered;
pub(crate) use whereabouts::SessionPlace;

use registry::{ApiLimits, BeginOutcome, KeyGrant, LeaseId, NewKey, Registry, RegistryError, RegistryKey};
pub(crate) use stopping::{StreamEnd, until_end};

/// How often it is looked whether a mirror that does not ask still counts on what it was told.
const CLEARED_CHECK: Duration = Duration::from_millis(100);

/// A key and its acquisition at the node.
pub(crate) type SessionKey = RegistryKey<Arc<KeyAcquisition>>;

/// All sessions of a site. Clones share the same state.
#[derive(Clone)]
pub(crate) struct Sessions(Arc<Inner>);

/// What all clones of [`Sessions`] share.
pub(crate) struct Inner {
    /// Use `front()`, which checks the lock order.
    front: Front,
    pub(crate) limits: ApiLimits,
    registry: Mutex<Registry<Arc<KeyAcquisition>>>,
    /// Incremented whenever a client of this site is granted a lock, loses one or releases one.
    changes: watch::Sender<u64>,
    /// Acquisitions that have ended at the node, and when each is to be closed.
    over: mpsc::UnboundedSender<Closing>,
    /// Notified when a lease may end earlier than the one that the timer waits for.
    alarm: Notify,
    watched: holders::WatchedLocks,
    /// Clients whose connections were cut, and until when each may rely on its locks.
    cut: Mutex<BTreeMap<SocketAddr, Time>>,
    stopping: stopping::Stopping,
    meter: ApiMeter,
    /// Calls that wait for an answer of another member.
    outgoing: Outgoing,
    /// Where sessions of other sites were found.
    remembered: Remembered,
    /// Incremented whenever the mirror has asked.
    confirmed: watch::Sender<u64>,
    /// Sessions that were here and are at another site now.
    elsewhere: Mutex<BTreeSet<LeaseId>>,
    /// What else has to be known of a session to go on with it elsewhere.
    companion: OnceLock<Box<dyn Companion>>,
}

/// An acquisition that has ended and is to be closed.
struct Closing {
    acquisition: Arc<KeyAcquisition>,
    /// Until then its client may rely on the lock.
    by: Time,
    /// The mirror has to know of this change before.
    owed: Option<ChangeNumber>,
}

/// A request for a key.
#[derive(Clone)]
pub(crate) struct KeyRequest {
    pub(crate) wanted: NewKey,
    pub(crate) wait: Wait,
    /// See [`AcquireParams::permits`].
    pub(crate) permits: Option<u32>,
    /// Label of the client, for operators.
    pub(crate) who: ClientLabel,
    pub(crate) if_known: IfKnown,
}

/// What to do if the lease already has a key of the same name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum IfKnown {
    /// Both calls wait for the same key.
    Join,
    /// The request is refused.
    Refuse,
}

/// Why a lock was not acquired.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum AcquireError {
    #[error(transparent)]
    Denied(#[from] Denied),
    #[error(transparent)]
    Registry(#[from] RegistryError),
    #[error(transparent)]
    Permits(#[from] PermitsError),
    #[error("the lock is held by someone else")]
    Busy,
    #[error("the lock was not granted in time")]
    TimedOut,
    /// The request was the youngest of a deadlock, and the lock's rule says that it does not wait.
    #[error("{}", RequestRefusal::Deadlock)]
    Deadlock,
    #[error("the session ended while it waited for the lock; begin a new one")]
    SessionOver,
    #[error("the lock was released or lost as soon as it was granted; try again")]
    LostAtOnce,
    /// The cluster could not serve it, although nobody is known to have the lock.
    #[error(transparent)]
    Unavailable(Outage),
    #[error(transparent)]
    Limit(TooMany),
    #[error(transparent)]
    Unaudited(Unaudited),
    #[error(transparent)]
    Refused(RequestRefusal),
}

impl Sessions {
    /// Starts serving a node. Background tasks run on the current runtime until the last clone is dropped.
    pub(crate) fn open(front: Front, limits: ApiLimits) -> Self {
        let (over, closing) = mpsc::unbounded_channel();
        let registry = Registry::of_site(limits, leases::site_number(front.site()));
        let inner = Arc::new(Inner {
            front,
            limits,
            registry: Mutex::new(registry),
            changes: watch::Sender::new(0),
            over,
            alarm: Notify::new(),
            watched: holders::WatchedLocks::default(),
            cut: Mutex::default(),
            stopping: stopping::Stopping::default(),
            meter: ApiMeter::default(),
            outgoing: Outgoing::default(),
            remembered: Remembered::default(),
            confirmed: watch::Sender::new(0),
            elsewhere: Mutex::default(),
            companion: OnceLock::new(),
        });
        tokio::spawn(stopping::keep_looking(Arc::downgrade(&inner)));
        tokio::spawn(leases::expire_leases(Arc::downgrade(&inner)));
        let revocations = inner.front.node().trust().revocations();
        tokio::spawn(revocation::keep_ending(Arc::downgrade(&inner), revocations));
        tokio::spawn(close_all(Arc::downgrade(&inner), closing));
        tokio::spawn(mirror::follow(Arc::downgrade(&inner)));
        tokio::spawn(mirror::keep_moving(Arc::downgrade(&inner)));
        Sessions(inner)
    }

    /// Checks whether the caller may do something with a lock.
    pub(crate) fn check(&self, caller: &Admitted, verb: Verb, lock: &LockName) -> Result<(), Denied> {
        self.0.front.check(caller, verb, lock)
    }

    /// Waits for a lock. The key is removed if all calls that wait for it go away before one of them has the lock.
    pub(crate) async fn acquire(
        &self,
        caller: &Admitted,
        request: KeyRequest,
    ) -> Result<(SessionKey, KeyGrant), AcquireError> {
        let since = now();
        loop {
            let wait = request.wait.after(now().since(since));
            let (key, is_new) = self.begin(caller, KeyRequest { wait, ..request.clone() })?;
            let waiting = Waiting::begin(self, &key);
            let decided = key.driver.until(|state| *state != AcquireState::Waiting);
            let state = match wait {
                // The node applies the time limit.
                _ if is_new => decided.await,
                Wait::Try if key.driver.state() == AcquireState::Waiting => {
                    return Err(not_granted(self.0.front.not_in_time(wait)));
                }
                Wait::Try | Wait::Forever => decided.await,
                Wait::Within(longest) => {
                    let longest = Duration::from_micros(longest.micros());
                    let late = |_| not_granted(self.0.front.not_in_time(wait));
                    timeout(longest, decided).await.map_err(late)?
                }
            };
            let gave_up = matches!(
                state,
                AcquireState::Ended(Ended::NotGranted(
                    NotGranted::TimedOut | NotGranted::Busy | NotGranted::Unavailable(_)
                ))
            );
            if !is_new && gave_up {
                // The first call gave up, with its own time limit; this one may wait longer.
                continue;
            }
            let grant = held(state)?;
            let key =
                self.key(caller, &key.name).filter(|now| now.id == key.id).ok_or(AcquireError::LostAtOnce)?;
            waiting.keep();
            return Ok((key, grant));
        }
    }

    /// Requests a lock and waits for the answer at most `longest`. After that the key goes on waiting without the
    /// caller.
    pub(crate) async fn ask(
        &self,
        caller: &Admitted,
        request: KeyRequest,
        longest: Duration,
    ) -> Result<SessionKey, AcquireError> {
        let name = request.wanted.name.clone();
        let (key, _) = self.begin(caller, request)?;
        key.driver.observer().keep();
        let _ = timeout(longest, key.driver.until(|state| *state != AcquireState::Waiting)).await;
        match key.driver.state() {
            AcquireState::Waiting | AcquireState::Held(_) => self
                .0
                .registry()
                .fix_creation_revision(&name, &caller.principal)
                .ok_or(AcquireError::LostAtOnce),
            gone @ (AcquireState::Lost { .. } | AcquireState::Ended(_)) => {
                Err(held(gone).err().unwrap_or(AcquireError::LostAtOnce))
            }
        }
    }

    fn begin(&self, caller: &Admitted, request: KeyRequest) -> Result<(SessionKey, bool), AcquireError> {
        let KeyRequest { wanted, wait, permits, who, if_known } = request;
        let lock = wanted.lock.clone();
        if self.is_closing() {
            return Err(AcquireError::Refused(RequestRefusal::Leaving));
        }
        // Check before the key exists, so that a denied request leaves nothing behind.
        self.check(caller, Verb::Acquire, &lock)?;
        if self.is_for_another(wanted.lease) {
            return Err(AcquireError::Refused(RequestRefusal::Leaving));
        }
        let observer = KeyObserver::new(Arc::downgrade(&self.0), who.clone());
        let acquisition = self.0.front().prepare(caller, &lock, observer);
        let begun = self.0.registry().begin(wanted, &caller.principal, acquisition.clone(), now())?;
        let key = match begun {
            BeginOutcome::Known(key) if if_known == IfKnown::Join => return Ok((key, false)),
            BeginOutcome::Known(_) => return Err(RegistryError::KeyTaken.into()),
            BeginOutcome::New(key) => key,
        };
        let _ = acquisition.observer().key.set(key.id);
        let party = Some(party_of(key.lease));
        let owner = Owner::Own { label: who, silence: self.0.silence(&key), party };
        let cause = correlation::current();
        acquisition.start(owner, AcquireParams { lock, wait, permits, cause });
        Ok((key, true))
    }

    /// Returns whether a principal has a session here.
    pub(crate) fn has_session_of(&self, principal: &Principal) -> bool {
        self.0.registry().has_lease_of(principal)
    }

    /// Releases the caller's key, or stops waiting for it. Returns the key if it existed. Releasing needs no right: a
    /// client may always release what it holds.
    pub(crate) fn release(&self, caller: &Admitted, name: &[u8]) -> Option<SessionKey> {
        let key = self.0.registry().remove_of(name, &caller.principal)?;
        self.0.note_released(key.lease);
        self.0.end(&key, Ended::Released);
        Some(key)
    }

    /// Replaces the value of the caller's key, and the label by which other sites know it.
    pub(crate) fn set_value(
        &self,
        caller: &Admitted,
        name: &[u8],
        value: Vec<u8>,
        who: ClientLabel,
    ) -> Option<SessionKey> {
        let key = self.0.registry().set_value(name, &caller.principal, value)?;
        let silence = self.0.silence(&key);
        key.driver.observer().set_label(who.clone());
        key.driver.introduce(who, silence);
        self.0.note_change();
        Some(key)
    }

    /// Returns the caller's key of this name.
    pub(crate) fn key(&self, caller: &Admitted, name: &[u8]) -> Option<SessionKey> {
        self.0.registry().key_of(name, &caller.principal).cloned()
    }

    /// Returns the key of this name regardless of its owner. Only for callers that may watch its lock.
    pub(crate) fn anyones_key(&self, name: &[u8]) -> Option<SessionKey> {
        self.0.registry().key(name).cloned()
    }

    /// Returns the largest revision that a client of this site was told.
    pub(crate) fn revision(&self) -> i64 {
        self.0.registry().revision()
    }

    /// Locks the registry for lookups. The node must not be called meanwhile.
    pub(crate) fn registry(&self) -> RegistryGuard<'_> {
        self.0.registry()
    }

    /// A counter that is incremented whenever a client of this site is granted a lock, loses one or releases one.
    pub(crate) fn changes(&self) -> watch::Receiver<u64> {
        self.0.changes.subscribe()
    }

    pub(crate) fn front(&self) -> &Front {
        self.0.front()
    }

    pub(crate) fn site(&self) -> &SiteName {
        self.0.front.site()
    }

    /// Says who else has to know of sessions that go on elsewhere. Must be called at most once.
    pub(crate) fn accompany(&self, companion: Box<dyn Companion>) {
        let _ = self.0.companion.set(companion);
    }

    pub(crate) fn outgoing(&self) -> &Outgoing {
        &self.0.outgoing
    }

    pub(crate) fn meter(&self) -> &ApiMeter {
        &self.0.meter
    }

    pub(crate) fn limits(&self) -> ApiLimits {
        self.0.limits
    }

    /// How often a holder is told for how long its lock is safe: four times per lease.
    pub(crate) fn safety_interval(&self) -> Duration {
        Duration::from_micros(self.0.front().lease_length().micros() / 4)
    }
}

impl Inner {
    pub(crate) fn registry(&self) -> RegistryGuard<'_> {
        RegistryGuard::lock(&self.registry)
    }

    /// Returns the interface to the node. Panics if this thread holds the registry.
    fn front(&self) -> &Front {
        assert_registry_is_free();
        &self.front
    }

    fn note_change(&self) {
        self.changes.send_modify(|count| *count += 1);
    }

    /// Returns for how long the client of a key relies on its lock without a message from this site: the time to live
    /// of its lease, after which it knows that it could not renew it. `None` for a client that goes by `safe_ms`,
    /// which never exceeds this site's own lease.
    fn silence(&self, key: &SessionKey) -> Option<Span> {
        let registry = self.registry();
        let lease = registry.lease(key.lease, &key.owner, now());
        lease.map_or(Some(Span::ZERO), |lease| lease.silence.or(lease.lasts.span()))
    }

    /// Ends the acquisition of a key that was removed from the registry.
    fn end(&self, key: &SessionKey, why: Ended) {
        assert_registry_is_free();
        key.driver.close(why);
        self.note_change();
    }

    /// Ends a key that was removed from the registry without its client's word. Its lock stays taken until `by`, and until the mirror
    /// does not answer for it any more.
    fn end_unasked(&self, key: SessionKey, by: Time) {
        let owed = self.owed_unasked(key.lease);
        key.driver.end(Ended::SessionOver);
        if owed.is_none() && by <= now() {
            key.driver.close(Ended::SessionOver);
        } else {
            let _ = self.over.send(Closing { acquisition: key.driver, by, owed });
        }
        self.note_change();
    }
}

/// Returns the party that a session is, for deadlocks between locks. Sites tell each other its number, and no client.
fn party_of(lease: LeaseId) -> Party {
    Party(fnv_1a(lease.to_string().bytes()))
}

fn held(state: AcquireState) -> Result<KeyGrant, AcquireError> {
    match state {
        AcquireState::Held(grant) => Ok(KeyGrant { fence: grant.fence.value(), slot: grant.slot }),
        AcquireState::Ended(Ended::NotGranted(error)) => Err(not_granted(error)),
        AcquireState::Ended(Ended::SessionOver) => Err(AcquireError::SessionOver),
        AcquireState::Lost { .. } | AcquireState::Waiting | AcquireState::Ended(_) => {
            Err(AcquireError::LostAtOnce)
        }
    }
}

fn not_granted(error: NotGranted) -> AcquireError {
    match error {
        NotGranted::Busy => AcquireError::Busy,
        NotGranted::TimedOut => AcquireError::TimedOut,
        NotGranted::Unavailable(outage) => AcquireError::Unavailable(outage),
        NotGranted::Denied(denied) => AcquireError::Denied(denied),
        NotGranted::Permits(error) => AcquireError::Permits(error),
        NotGranted::Limit(error) => AcquireError::Limit(error),
        NotGranted::Unaudited(error) => AcquireError::Unaudited(error),
        NotGranted::NotClaimed(_) => AcquireError::LostAtOnce,
        NotGranted::Refused(RequestRefusal::Deadlock) => AcquireError::Deadlock,
        NotGranted::Refused(refusal) => AcquireError::Refused(refusal),
    }
}

/// Explains to a person why a key is not held any more.
pub(crate) fn why_over(state: &AcquireState) -> String {
    match state {
        AcquireState::Lost { why: LossReason::LeaseEnd | LossReason::Broken, .. } => {
            "the site is cut off from the others, or the lock was broken".to_owned()
        }
        AcquireState::Lost { why, .. } => why.to_string(),
        AcquireState::Ended(Ended::SessionOver) => "the session was ended".to_owned(),
        AcquireState::Ended(_) | AcquireState::Waiting | AcquireState::Held(_) => {
            "it was released".to_owned()
        }
    }
}

/// A call that waits for a key. If the last such call goes away and none has the lock, the key is removed.
struct Waiting<'a> {
    sessions: &'a Sessions,
    key: &'a SessionKey,
}

impl<'a> Waiting<'a> {
    fn begin(sessions: &'a Sessions, key: &'a SessionKey) -> Self {
        key.driver.observer().add_caller();
        Waiting { sessions, key }
    }

    /// Keeps the key: the client is told that it has the lock.
    fn keep(self) {
        self.key.driver.observer().keep();
    }
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        if !self.key.driver.observer().remove_caller() {
            return;
        }
        let mut registry = self.sessions.0.registry();
        let is_same = registry.key(&self.key.name).is_some_and(|now| now.id == self.key.id);
        let removed = if is_same { registry.remove(&self.key.name) } else { None };
        drop(registry);
        if let Some(key) = removed {
            self.sessions.0.end(&key, Ended::Released);
        }
    }
}

/// Closes ended acquisitions, each at its time.
async fn close_all(sessions: Weak<Inner>, mut closing: mpsc::UnboundedReceiver<Closing>) {
    while let Some(Closing { acquisition, by, owed }) = closing.recv().await {
        let left = Duration::from_micros(by.since(now()).micros());
        if left.is_zero() && owed.is_none() {
            acquisition.close(Ended::SessionOver);
            continue;
        }
        let sessions = sessions.clone();
        tokio::spawn(async move {
            sleep(left).await;
            until_cleared(&sessions, owed).await;
            acquisition.close(Ended::SessionOver);
        });
    }
}

/// Waits until no mirror counts on what was before a change any more.
async fn until_cleared(sessions: &Weak<Inner>, owed: Option<ChangeNumber>) {
    let Some(change) = owed else { return };
    loop {
        let Some(sessions) = sessions.upgrade() else { return };
        let mut confirmed = sessions.confirmed.subscribe();
        if sessions.is_cleared(change, now()) {
            return;
        }
        drop(sessions);
        // The mirror may not ask any more.
        let _ = timeout(CLEARED_CHECK, confirmed.changed()).await;
    }
}
