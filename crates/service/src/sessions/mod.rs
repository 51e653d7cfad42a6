//! Sessions of the wire APIs: where all of them meet the node. Drives the [registry], asks the node for what keys want, and keeps
//! the time of leases.
//!
//! Two locks, always in this order: the node's, then the registry's. So whoever has the registry never calls the node, which
//! `order.rs` checks.

mod delay;
mod holders;
mod key;
mod leases;
mod order;
pub(crate) mod registry;
#[cfg(test)]
pub(crate) mod tests;

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use meshlock_cluster::access::{Denied, Verb};
use meshlock_cluster::names::{ClientLabel, LockName, SiteName};
use meshlock_cluster::table::{LossReason, RequestRefusal, Wait};
use meshlock_cluster::time::{Span, Time};
use meshlock_host::front::{AcquireParams, Admitted, Ended, Front, NotGranted, Owner, PermitsError};
pub(crate) use meshlock_host::front::{AcquireState, NotAnswered};
use meshlock_host::gate::Gate;
use meshlock_system::now;
use tokio::sync::{Notify, mpsc, watch};
use tokio::time::{sleep, timeout};

use crate::correlation;
use crate::metrics::Meter;
pub(crate) use holders::{Holder, NotWatched, Watching, holders_in};
pub(crate) use key::{KeyAcquisition, KeyObserver};
use order::{RegistryGuard, assert_registry_is_free};
use registry::{Begun, Grant, Key, Limits, NewKey, Registry, RegistryError};

/// A key and its acquisition at the node.
pub(crate) type SessionKey = Key<Arc<KeyAcquisition>>;

/// All sessions of a site. Clones are the same.
#[derive(Clone)]
pub(crate) struct Sessions(Arc<Inner>);

pub(crate) struct Inner {
    /// Called through `front()`.
    front: Front,
    pub(crate) limits: Limits,
    registry: Mutex<Registry<Arc<KeyAcquisition>>>,
    /// Rises whenever somebody here gets a lock or loses or gives back one.
    changes: watch::Sender<u64>,
    /// Acquisitions of which the node has said the last, and when they are to be closed.
    over: mpsc::UnboundedSender<(Arc<KeyAcquisition>, Time)>,
    /// A lease may end before the one that is waited for.
    alarm: Notify,
    watched: holders::Watched,
    /// Clients whose connections were cut, and until when they may rely on what they were granted.
    cut: Mutex<BTreeMap<SocketAddr, Time>>,
    meter: Meter,
}

/// What a client asks for.
#[derive(Clone)]
pub(crate) struct KeyRequest {
    pub(crate) wanted: NewKey,
    pub(crate) wait: Wait,
    /// Who asks, for operators.
    pub(crate) who: ClientLabel,
    pub(crate) if_known: IfKnown,
}

/// What is done for a lease that has asked for the same before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum IfKnown {
    /// Both wait for the same key.
    Join,
    /// It is refused.
    Refuse,
}

/// Why there is no lock.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum NotHeld {
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
    #[error("the session ended while it waited for the lock; begin a new one")]
    SessionOver,
    #[error("the lock was given back, or lost, as it was granted; ask again")]
    GoneAgain,
    #[error(transparent)]
    Refused(RequestRefusal),
}

impl Sessions {
    /// Begins to serve a node. Its own tasks run on this runtime until the last clone is dropped.
    pub(crate) fn open(front: Front, limits: Limits) -> Self {
        let (over, closing) = mpsc::unbounded_channel();
        let inner = Arc::new(Inner {
            front,
            limits,
            registry: Mutex::new(Registry::new(limits)),
            changes: watch::Sender::new(0),
            over,
            alarm: Notify::new(),
            watched: holders::Watched::default(),
            cut: Mutex::default(),
            meter: Meter::default(),
        });
        tokio::spawn(leases::keep_time(Arc::downgrade(&inner)));
        tokio::spawn(close_all(closing));
        Sessions(inner)
    }

    /// Whether the caller may do something with a lock.
    pub(crate) fn check(&self, caller: &Admitted, verb: Verb, lock: &LockName) -> Result<(), Denied> {
        self.0.front.check(caller, verb, lock)
    }

    pub(crate) fn gate(&self) -> &Gate {
        self.0.front.gate()
    }

    /// Waits for a lock. If all who wait for the same key go away before one of them has it, so does the key.
    pub(crate) async fn acquire(
        &self,
        caller: &Admitted,
        order: KeyRequest,
        permits: Option<u32>,
    ) -> Result<(SessionKey, Grant), NotHeld> {
        let since = now();
        loop {
            let wait = order.wait.after(now().since(since));
            let (key, is_new) = self.begin(caller, KeyRequest { wait, ..order.clone() }, permits)?;
            let waiting = Waiting::begin(self, &key);
            let decided = key.driver.until(|state| *state != AcquireState::Waiting);
            let state = match wait {
                // The node knows for how long.
                _ if is_new => decided.await,
                Wait::Try if key.driver.state() == AcquireState::Waiting => return Err(NotHeld::Busy),
                Wait::Try | Wait::Forever => decided.await,
                Wait::Within(longest) => {
                    let longest = Duration::from_micros(longest.micros());
                    timeout(longest, decided).await.map_err(|_| NotHeld::TimedOut)?
                }
            };
            let gave_up = AcquireState::Ended(Ended::NotGranted(NotGranted::TimedOut));
            let found_it_busy = AcquireState::Ended(Ended::NotGranted(NotGranted::Busy));
            if !is_new && (state == gave_up || state == found_it_busy) {
                // That was how long whoever asked first was ready to wait.
                continue;
            }
            let grant = held(state)?;
            let key = self.key(caller, &key.name).filter(|now| now.id == key.id).ok_or(NotHeld::GoneAgain)?;
            waiting.has_it();
            return Ok((key, grant));
        }
    }

    /// Asks for a lock and waits only so long for an answer: then the key waits on, without the caller.
    pub(crate) async fn ask(
        &self,
        caller: &Admitted,
        order: KeyRequest,
        longest: Duration,
    ) -> Result<SessionKey, NotHeld> {
        let name = order.wanted.name.clone();
        let (key, _) = self.begin(caller, order, None)?;
        key.driver.observer().keep();
        let _ = timeout(longest, key.driver.until(|state| *state != AcquireState::Waiting)).await;
        match key.driver.state() {
            AcquireState::Waiting | AcquireState::Held(_) => {
                self.0.registry().tell_creation(&name, &caller.principal).ok_or(NotHeld::GoneAgain)
            }
            gone @ (AcquireState::Lost { .. } | AcquireState::Ended(_)) => {
                Err(held(gone).err().unwrap_or(NotHeld::GoneAgain))
            }
        }
    }

    fn begin(
        &self,
        caller: &Admitted,
        order: KeyRequest,
        permits: Option<u32>,
    ) -> Result<(SessionKey, bool), NotHeld> {
        let KeyRequest { wanted, wait, who, if_known } = order;
        let lock = wanted.lock.clone();
        // Before there is a key: whoever may not have the lock leaves nothing behind.
        self.check(caller, Verb::Acquire, &lock)?;
        let observer = KeyObserver::new(Arc::downgrade(&self.0));
        let acquisition = self.0.front().prepare(caller, &lock, observer);
        let begun = self.0.registry().begin(wanted, &caller.principal, acquisition.clone(), now())?;
        let key = match begun {
            Begun::Known(key) if if_known == IfKnown::Join => return Ok((key, false)),
            Begun::Known(_) => return Err(RegistryError::KeyTaken.into()),
            Begun::New(key) => key,
        };
        let _ = acquisition.observer().key.set(key.id);
        let owner = Owner::Own { label: who, silence: self.0.silence(&key) };
        let cause = correlation::current();
        acquisition.start(owner, AcquireParams { lock, wait, permits, cause });
        Ok((key, true))
    }

    /// Gives the caller's key back, or stops waiting; gives back whether it was there. What somebody has it may always give back.
    pub(crate) fn release(&self, caller: &Admitted, name: &[u8]) -> Option<SessionKey> {
        let key = self.0.registry().remove_of(name, &caller.principal)?;
        self.0.end(&key, Ended::Released);
        Some(key)
    }

    /// Gives the caller's key another value, and shows it to the others.
    pub(crate) fn set_value(
        &self,
        caller: &Admitted,
        name: &[u8],
        value: Vec<u8>,
        who: ClientLabel,
    ) -> Option<SessionKey> {
        let key = self.0.registry().set_value(name, &caller.principal, value)?;
        let silence = self.0.silence(&key);
        key.driver.introduce(who, silence);
        self.0.note_change();
        Some(key)
    }

    /// What is known of the caller's key.
    pub(crate) fn key(&self, caller: &Admitted, name: &[u8]) -> Option<SessionKey> {
        self.0.registry().key_of(name, &caller.principal).cloned()
    }

    /// What is known of a key, whosever it is: for those who may watch its lock.
    pub(crate) fn anyones_key(&self, name: &[u8]) -> Option<SessionKey> {
        self.0.registry().key(name).cloned()
    }

    /// The largest number that a client was told here.
    pub(crate) fn revision(&self) -> i64 {
        self.0.registry().revision()
    }

    /// The registry, to look something up. The node must not be called meanwhile.
    pub(crate) fn registry(&self) -> RegistryGuard<'_> {
        self.0.registry()
    }

    /// Rises whenever somebody here gets a lock or loses or gives back one.
    pub(crate) fn changes(&self) -> watch::Receiver<u64> {
        self.0.changes.subscribe()
    }

    pub(crate) fn front(&self) -> &Front {
        self.0.front()
    }

    pub(crate) fn site(&self) -> &SiteName {
        self.0.front.site()
    }

    pub(crate) fn meter(&self) -> &Meter {
        &self.0.meter
    }

    pub(crate) fn limits(&self) -> Limits {
        self.0.limits
    }

    /// How often a client is told what is safe: a few times while that lasts.
    pub(crate) fn say_so_every(&self) -> Duration {
        let length = self.0.front().node().look(|node| node.lease().terms().length);
        Duration::from_micros(length.micros() / 4)
    }
}

impl Inner {
    pub(crate) fn registry(&self) -> RegistryGuard<'_> {
        RegistryGuard::lock(&self.registry)
    }

    /// The way to the node: never with the registry in hand.
    fn front(&self) -> &Front {
        assert_registry_is_free();
        &self.front
    }

    fn note_change(&self) {
        self.changes.send_modify(|count| *count += 1);
    }

    /// For how long without a message the client of a key relies on what it holds: until it could not renew its lease for the
    /// lease's time, or, if it goes by what is safe, not for longer than this site's own lease was when it was told.
    fn silence(&self, key: &SessionKey) -> Option<Span> {
        let registry = self.registry();
        let lease = registry.lease(key.lease, &key.owner, now());
        lease.map_or(Some(Span::ZERO), |lease| lease.silence.or(lease.lasts.span()))
    }

    /// A key has been taken out of the registry.
    fn end(&self, key: &SessionKey, why: Ended) {
        assert_registry_is_free();
        key.driver.close(why);
        self.note_change();
    }
}

fn held(state: AcquireState) -> Result<Grant, NotHeld> {
    match state {
        AcquireState::Held(grant) => Ok(Grant { fence: grant.fence.value(), slot: grant.slot }),
        AcquireState::Ended(Ended::NotGranted(error)) => Err(match error {
            NotGranted::Busy => NotHeld::Busy,
            NotGranted::TimedOut => NotHeld::TimedOut,
            NotGranted::Denied(denied) => NotHeld::Denied(denied),
            NotGranted::Permits(error) => NotHeld::Permits(error),
            NotGranted::Refused(refusal) => NotHeld::Refused(refusal),
        }),
        AcquireState::Ended(Ended::SessionOver) => Err(NotHeld::SessionOver),
        AcquireState::Lost { .. } | AcquireState::Waiting | AcquireState::Ended(_) => Err(NotHeld::GoneAgain),
    }
}

/// Why a key is not held any more, for people.
pub(crate) fn why_over(state: &AcquireState) -> String {
    match state {
        AcquireState::Lost { why: LossReason::LeaseEnd | LossReason::Broken, .. } => {
            "the site is cut off from the others, or the lock was broken".to_owned()
        }
        AcquireState::Lost { why, .. } => why.to_string(),
        AcquireState::Ended(Ended::SessionOver) => "the session was ended".to_owned(),
        AcquireState::Ended(_) | AcquireState::Waiting | AcquireState::Held(_) => {
            "it was given back".to_owned()
        }
    }
}
/// Someone waits for a key. When the last one goes away and none has it, the key goes too.
struct Waiting<'a> {
    sessions: &'a Sessions,
    key: &'a SessionKey,
}

impl<'a> Waiting<'a> {
    fn begin(sessions: &'a Sessions, key: &'a SessionKey) -> Self {
        key.driver.observer().add_caller();
        Waiting { sessions, key }
    }

    /// The client is told that it has the lock.
    fn has_it(self) {
        self.key.driver.observer().keep();
    }
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        if !self.key.driver.observer().is_left_by_all() {
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

/// Closes acquisitions that are over, each when it is time.
async fn close_all(mut closing: mpsc::UnboundedReceiver<(Arc<KeyAcquisition>, Time)>) {
    while let Some((acquisition, by)) = closing.recv().await {
        let left = Duration::from_micros(by.since(now()).micros());
        if left.is_zero() {
            acquisition.close(Ended::SessionOver);
            continue;
        }
        tokio::spawn(async move {
            sleep(left).await;
            acquisition.close(Ended::SessionOver);
        });
    }
}
