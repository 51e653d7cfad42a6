//! The desk: where all wire APIs meet the node. It drives the [ledger](crate::ledger), asks the node for what keys want, and
//! keeps the time of leases.
//!
//! Two locks, always in this order: the node's, then the ledger's. So whoever has the ledger never calls the node, which
//! `order.rs` checks.

mod delay;
mod holders;
mod leases;
mod order;
mod question;
#[cfg(test)]
pub(crate) mod tests;
mod wish;

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use meshlock_cluster::access::{Denied, Subject, Verb};
use meshlock_cluster::names::{ClientLabel, LockName, SiteName};
use meshlock_cluster::table::Wait;
use meshlock_cluster::time::{Span, Time};
use meshlock_host::gate::{Caller, Gate};
use meshlock_host::{Handle, PermitsError, agree_on_permits, needs_rule};
use meshlock_system::now;
use tokio::sync::{Notify, mpsc, watch};
use tokio::time::{sleep, timeout};

use crate::ledger::{Begun, Grant, Key, Ledger, LedgerError, Limits, Wanted};
use crate::metrics::Meter;
pub(crate) use holders::{Holder, NotWatched, Watching};
use order::{LedgerGuard, assert_ledger_is_free};
pub(crate) use question::{NoAnswer, Queue};
use wish::Who;
pub(crate) use wish::{Gone, Stage, Wish};

/// How long a call that does not want to wait for another holder waits for the cluster's rules.
const TRY_WITHIN: Duration = Duration::from_secs(5);

/// A key as the desk keeps it.
pub(crate) type DeskKey = Key<Arc<Wish>>;

/// Clones are the same desk.
#[derive(Clone)]
pub(crate) struct Desk(Arc<Inner>);

pub(crate) struct Inner {
    /// Called through `node()`.
    node: Handle,
    pub(crate) site: SiteName,
    pub(crate) limits: Limits,
    /// Who may do what.
    gate: Arc<Gate>,
    ledger: Mutex<Ledger<Arc<Wish>>>,
    /// Rises whenever somebody here gets a lock or loses or gives back one.
    changes: watch::Sender<u64>,
    /// Wishes of which the node has said the last, and when they are to be closed.
    over: mpsc::UnboundedSender<(Arc<Wish>, Time)>,
    /// A lease may end before the one that is waited for.
    alarm: Notify,
    watched: holders::Watched,
    /// Clients whose connections were cut, and until when they may believe that they have what they were given.
    cut: Mutex<BTreeMap<SocketAddr, Time>>,
    meter: Meter,
}

/// What a client asks for.
#[derive(Clone)]
pub(crate) struct Order {
    pub(crate) wanted: Wanted,
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
    Ledger(#[from] LedgerError),
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
    #[error("{0}")]
    Refused(&'static str),
}

impl Desk {
    /// Begins to serve a node. The desk's own tasks run on this runtime until `Desk` is dropped.
    pub(crate) fn open(node: Handle, limits: Limits, gate: Arc<Gate>) -> Self {
        let site = node.look(|node| node.me().site.clone());
        let (over, closing) = mpsc::unbounded_channel();
        let inner = Arc::new(Inner {
            node,
            site,
            limits,
            gate,
            ledger: Mutex::new(Ledger::new(limits)),
            changes: watch::Sender::new(0),
            over,
            alarm: Notify::new(),
            watched: holders::Watched::default(),
            cut: Mutex::default(),
            meter: Meter::default(),
        });
        tokio::spawn(leases::keep_time(Arc::downgrade(&inner)));
        tokio::spawn(close_all(inner.node.clone(), closing));
        Desk(inner)
    }

    /// Whether the caller may do something with a lock.
    pub(crate) fn check(&self, caller: &Caller, verb: Verb, lock: &LockName) -> Result<(), Denied> {
        self.0.gate.check(caller, verb, lock)
    }

    pub(crate) fn gate(&self) -> &Gate {
        &self.0.gate
    }

    /// Waits for a lock. If all who wait for the same key go away before one of them has it, so does the key.
    pub(crate) async fn acquire(
        &self,
        caller: &Caller,
        order: Order,
        permits: Option<u32>,
    ) -> Result<(DeskKey, Grant), NotHeld> {
        let (wait, lock) = (order.wait, &order.wanted.lock);
        self.check(caller, Verb::Acquire, lock)?;
        if let Some(permits) = permits {
            // Whoever asks for permits that no rule gives a lock changes the cluster's rules.
            if self.0.node().look(|node| needs_rule(node, lock, permits)) {
                self.0.gate.check_subject(caller, Verb::Admin, Subject::Cluster)?;
            }
            let agree = agree_on_permits(self.0.node(), lock, permits);
            timeout(until(wait), agree).await.map_err(|_| NotHeld::TimedOut)??;
        }
        loop {
            let (key, is_new) = self.begin(caller, order.clone())?;
            let waiting = Waiting::begin(self, &key);
            let decided = key.driver.until(|stage| *stage != Stage::Waiting);
            let stage = match wait {
                // The node knows for how long.
                _ if is_new => decided.await,
                Wait::Try if key.driver.stage() == Stage::Waiting => return Err(NotHeld::Busy),
                Wait::Try | Wait::Until(_) | Wait::Forever => {
                    timeout(until(wait), decided).await.map_err(|_| NotHeld::TimedOut)?
                }
            };
            if !is_new && matches!(stage, Stage::Gone(Gone::TimedOut | Gone::Busy)) {
                // That was the patience of whoever asked first.
                continue;
            }
            let grant = held(stage)?;
            let key = self.key(caller, &key.name).filter(|now| now.id == key.id).ok_or(NotHeld::GoneAgain)?;
            waiting.has_it();
            return Ok((key, grant));
        }
    }

    /// Asks for a lock and waits only so long for an answer: then the key waits on, without the caller.
    pub(crate) async fn ask(
        &self,
        caller: &Caller,
        order: Order,
        longest: Duration,
    ) -> Result<DeskKey, NotHeld> {
        self.check(caller, Verb::Acquire, &order.wanted.lock)?;
        let name = order.wanted.name.clone();
        let (key, _) = self.begin(caller, order)?;
        key.driver.keep();
        let _ = timeout(longest, key.driver.until(|stage| *stage != Stage::Waiting)).await;
        match key.driver.stage() {
            Stage::Waiting | Stage::Held(_) => {
                self.0.ledger().tell_creation(&name, &caller.principal).ok_or(NotHeld::GoneAgain)
            }
            gone @ Stage::Gone(_) => Err(held(gone).err().unwrap_or(NotHeld::GoneAgain)),
        }
    }

    fn begin(&self, caller: &Caller, order: Order) -> Result<(DeskKey, bool), NotHeld> {
        let Order { wanted, wait, who, if_known } = order;
        let wish = Arc::new(Wish::new(Arc::downgrade(&self.0), caller.clone()));
        let lock = wanted.lock.clone();
        let key = match self.0.ledger().begin(wanted, &caller.principal, wish.clone(), now())? {
            Begun::Known(key) if if_known == IfKnown::Join => return Ok((key, false)),
            Begun::Known(_) => return Err(LedgerError::KeyTaken.into()),
            Begun::New(key) => key,
        };
        let _ = wish.key.set(key.id);
        let who = self.0.who(&key, who);
        wish.open(self.0.node(), lock, wait, who);
        Ok((key, true))
    }

    /// Gives the caller's key back, or stops waiting; gives back whether it was there. What somebody has it may always give back.
    pub(crate) fn release(&self, caller: &Caller, name: &[u8]) -> Option<DeskKey> {
        let key = self.0.ledger().remove_of(name, &caller.principal)?;
        self.0.end(&key, Gone::GivenBack);
        Some(key)
    }

    /// Gives the caller's key another value, and shows it to the others.
    pub(crate) fn set_value(
        &self,
        caller: &Caller,
        name: &[u8],
        value: Vec<u8>,
        who: ClientLabel,
    ) -> Option<DeskKey> {
        let key = self.0.ledger().set_value(name, &caller.principal, value)?;
        let who = self.0.who(&key, who);
        key.driver.introduce(self.0.node(), who);
        self.0.note_change();
        Some(key)
    }

    /// What is known of the caller's key.
    pub(crate) fn key(&self, caller: &Caller, name: &[u8]) -> Option<DeskKey> {
        self.0.ledger().key_of(name, &caller.principal).cloned()
    }

    /// What is known of a key, whosever it is: for those who may watch its lock.
    pub(crate) fn anyones_key(&self, name: &[u8]) -> Option<DeskKey> {
        self.0.ledger().key(name).cloned()
    }

    /// The largest number that a client was told here.
    pub(crate) fn revision(&self) -> i64 {
        self.0.ledger().revision()
    }

    /// The ledger, to look something up. The node must not be called meanwhile.
    pub(crate) fn ledger(&self) -> LedgerGuard<'_> {
        self.0.ledger()
    }

    /// Rises whenever somebody here gets a lock or loses or gives back one.
    pub(crate) fn changes(&self) -> watch::Receiver<u64> {
        self.0.changes.subscribe()
    }

    pub(crate) fn node(&self) -> &Handle {
        self.0.node()
    }

    pub(crate) fn site(&self) -> &SiteName {
        &self.0.site
    }

    pub(crate) fn meter(&self) -> &Meter {
        &self.0.meter
    }

    pub(crate) fn limits(&self) -> Limits {
        self.0.limits
    }

    /// For how long from now on nobody else can have what clients of this site hold, whatever becomes of it and of the way to it;
    /// on a clock that may run slower than this one.
    pub(crate) fn safe_for(&self) -> Span {
        self.0.node().look(|node| {
            let lease = node.lease();
            lease.end().map_or(Span::ZERO, |end| lease.terms().drift.shrink(end.since(now())))
        })
    }

    /// How often a client is told what is safe: a few times while that lasts.
    pub(crate) fn say_so_every(&self) -> Duration {
        let length = self.0.node().look(|node| node.lease().terms().length);
        Duration::from_micros(length.micros() / 4)
    }

    /// Whether this site takes part and may give clients something.
    pub(crate) fn is_ready(&self) -> bool {
        self.0.node().look(|node| {
            node.is_open() && node.view().contains(node.me()) && node.lease().is_comfortable(now())
        })
    }
}

impl Inner {
    pub(crate) fn ledger(&self) -> LedgerGuard<'_> {
        LedgerGuard::lock(&self.ledger)
    }

    /// The node, to call it: never with the ledger in hand.
    fn node(&self) -> &Handle {
        assert_ledger_is_free();
        &self.node
    }

    fn note_change(&self) {
        self.changes.send_modify(|count| *count += 1);
    }

    /// Who has a lease. It is not there any more, as far as it knows, once it could not renew the lease for its time; and if it goes by
    /// what is safe, not for longer than this site's own lease was when it was told.
    fn who(&self, key: &DeskKey, label: ClientLabel) -> Who {
        let terms = self.node().look(|node| node.lease().terms());
        let hears_within = self
            .ledger()
            .lease(key.lease, &key.owner, now())
            .map_or(Span::ZERO, |lease| lease.silence.or(lease.lasts.span()).unwrap_or(terms.length));
        Who { label, hears_within: terms.drift.stretch(hears_within) }
    }

    /// A key has been taken out of the ledger.
    fn end(&self, key: &DeskKey, why: Gone) {
        key.driver.end(why);
        key.driver.close(self.node());
        self.note_change();
    }
}

fn held(stage: Stage) -> Result<Grant, NotHeld> {
    match stage {
        Stage::Held(grant) => Ok(grant),
        Stage::Gone(Gone::Busy) => Err(NotHeld::Busy),
        Stage::Gone(Gone::TimedOut) => Err(NotHeld::TimedOut),
        Stage::Gone(Gone::LeaseOver) => Err(NotHeld::SessionOver),
        Stage::Gone(Gone::Refused(why)) => Err(NotHeld::Refused(why)),
        Stage::Gone(Gone::GivenBack | Gone::Lost) | Stage::Waiting => Err(NotHeld::GoneAgain),
    }
}

/// How long a call may wait.
fn until(wait: Wait) -> Duration {
    match wait {
        Wait::Forever => Duration::MAX,
        Wait::Until(deadline) => Duration::from_micros(deadline.since(now()).micros()),
        Wait::Try => TRY_WITHIN,
    }
}

/// Someone waits for a key. When the last one goes away and none has it, the key goes too.
struct Waiting<'a> {
    desk: &'a Desk,
    key: &'a DeskKey,
}

impl<'a> Waiting<'a> {
    fn begin(desk: &'a Desk, key: &'a DeskKey) -> Self {
        key.driver.add_caller();
        Waiting { desk, key }
    }

    /// The client is told that it has the lock.
    fn has_it(self) {
        self.key.driver.keep();
    }
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        if !self.key.driver.is_left_by_all() {
            return;
        }
        let mut ledger = self.desk.0.ledger();
        let is_same = ledger.key(&self.key.name).is_some_and(|now| now.id == self.key.id);
        let removed = if is_same { ledger.remove(&self.key.name) } else { None };
        drop(ledger);
        if let Some(key) = removed {
            self.desk.0.end(&key, Gone::GivenBack);
        }
    }
}

/// Closes wishes that are over, each when it is time.
async fn close_all(node: Handle, mut closing: mpsc::UnboundedReceiver<(Arc<Wish>, Time)>) {
    while let Some((wish, by)) = closing.recv().await {
        let left = Duration::from_micros(by.since(now()).micros());
        if left.is_zero() {
            wish.close(&node);
            continue;
        }
        let node = node.clone();
        tokio::spawn(async move {
            sleep(left).await;
            wish.close(&node);
        });
    }
}
