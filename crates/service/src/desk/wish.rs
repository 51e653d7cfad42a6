//! One key's wish at the node: what was asked there, and what the node has said of it.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError, Weak};

use meshlock_cluster::names::{ClientLabel, LockName};
use meshlock_cluster::node::{Answer, Call};
use meshlock_cluster::table::{Request, Session, Tell, Wait};
use meshlock_cluster::time::Span;
use meshlock_host::gate::{Act, Caller};
use meshlock_host::{Handle, Listener};
use meshlock_system::now;
use tokio::sync::watch;

use super::Inner;
use crate::correlation;
use crate::ledger::{Grant, KeyId};

/// How far a wish is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stage {
    Waiting,
    Held(Grant),
    Gone(Gone),
}

/// Why a key is not there any more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Gone {
    /// Its client said so.
    GivenBack,
    /// Its lease is over.
    LeaseOver,
    /// It was held, and is lost: this site is cut off, or the lock was broken.
    Lost,
    /// It would have had to wait.
    Busy,
    /// It was not granted in time.
    TimedOut,
    /// It cannot be granted.
    Refused(&'static str),
}

/// Who wishes.
pub(super) struct Who {
    pub(super) label: ClientLabel,
    /// After so long it has heard what it was told, or has given up by itself what it holds.
    pub(super) hears_within: Span,
}

impl Who {
    fn introduce(self, session: Session) -> Call {
        Call::Introduce { session, who: self.label, hears_within: self.hears_within }
    }
}

pub(crate) struct Wish {
    desk: Weak<Inner>,
    /// Whose it is, for the audit log.
    caller: Caller,
    /// Set before the node is asked.
    pub(super) key: OnceLock<KeyId>,
    stage: watch::Sender<Stage>,
    place: Mutex<Place>,
    /// How many calls wait for it.
    callers: AtomicUsize,
    /// It stays though nobody waits for it: a client was told of it.
    kept: AtomicBool,
}

/// What the wish has at the node. Each has a session of its own, so that each has a label of its own and ends alone.
#[derive(Clone, Copy)]
enum Place {
    NotYet,
    Open { session: Session, request: Option<Request> },
    Closed,
}

impl Wish {
    pub(super) fn new(desk: Weak<Inner>, caller: Caller) -> Self {
        let (key, place) = (OnceLock::new(), Mutex::new(Place::NotYet));
        let (callers, kept) = (AtomicUsize::new(0), AtomicBool::new(false));
        Wish { desk, caller, key, stage: watch::Sender::new(Stage::Waiting), place, callers, kept }
    }

    pub(super) fn add_caller(&self) {
        self.callers.fetch_add(1, Ordering::Relaxed);
    }

    /// A client is told of it.
    pub(super) fn keep(&self) {
        self.kept.store(true, Ordering::Relaxed);
    }

    /// A call waits no more. Says whether it was the last one, and nobody was told of the key.
    pub(super) fn is_left_by_all(&self) -> bool {
        self.callers.fetch_sub(1, Ordering::Relaxed) == 1 && !self.kept.load(Ordering::Relaxed)
    }

    pub(crate) fn stage(&self) -> Stage {
        *self.stage.borrow()
    }

    /// Waits until `done` holds of the stage.
    pub(crate) async fn until(&self, done: impl FnMut(&Stage) -> bool) -> Stage {
        let mut stage = self.stage.subscribe();
        *stage.wait_for(done).await.expect("the wish itself keeps the other end")
    }

    /// Asks the node.
    pub(super) fn open(self: &Arc<Self>, node: &Handle, lock: LockName, wait: Wait, who: Who) {
        let session = node.open_session(Arc::new(Deaf));
        if !self.advance(Place::Open { session, request: None }) {
            return node.close_session(session, []);
        }
        node.tell(who.introduce(session));
        let cause = correlation::current();
        let request = node.ask(self.clone(), |request| Call::Acquire { session, request, lock, wait, cause });
        if !self.advance(Place::Open { session, request: Some(request) }) {
            // It was closed meanwhile, before there was a request to be forgotten.
            node.close_session(session, [request]);
        }
    }

    /// Shows the node's other clients another name.
    pub(super) fn introduce(&self, node: &Handle, who: Who) {
        let place = *self.place.lock().unwrap_or_else(PoisonError::into_inner);
        if let Place::Open { session, .. } = place {
            node.tell(who.introduce(session));
        }
    }

    /// Wants nothing of the node any more. What it held is free.
    pub(super) fn close(&self, node: &Handle) {
        let mut place = self.place.lock().unwrap_or_else(PoisonError::into_inner);
        let before = std::mem::replace(&mut *place, Place::Closed);
        drop(place);
        if let Place::Open { session, request } = before {
            node.close_session(session, request);
        }
    }

    /// Its key is gone, for this reason unless for an earlier one.
    pub(super) fn end(&self, why: Gone) {
        self.become_unless_gone(Stage::Gone(why));
    }

    fn advance(&self, next: Place) -> bool {
        let mut place = self.place.lock().unwrap_or_else(PoisonError::into_inner);
        let open = !matches!(*place, Place::Closed);
        if open {
            *place = next;
        }
        open
    }

    fn become_unless_gone(&self, next: Stage) {
        self.stage.send_if_modified(|stage| {
            let changes = !matches!(stage, Stage::Gone(_));
            if changes {
                *stage = next;
            }
            changes
        });
    }
}

/// Called with the node's lock held. The ledger's may be taken: whoever has that never calls the node.
impl Listener for Wish {
    fn hear(&self, answer: &Answer) {
        let Answer::Lock(tell) = answer else { return };
        let Some(desk) = self.desk.upgrade() else { return };
        desk.hear(self.key.get().copied(), tell);
    }
}

impl Inner {
    /// The node has spoken of a key.
    fn hear(&self, key: Option<KeyId>, tell: &Tell) {
        let Some(id) = key else { return };
        let (why, by) = match *tell {
            Tell::Granted { fence, slot, .. } => {
                let grant = Grant { fence: fence.value(), slot };
                let granted = self.ledger().on_granted(id, grant);
                if let Some(key) = granted {
                    let act = Act::Granted { fence: grant.fence };
                    self.gate.audit().note(&key.driver.caller, Some(&key.lock), act);
                    key.driver.become_unless_gone(Stage::Held(grant));
                }
                return self.note_change();
            }
            Tell::Lost { act_by, .. } => (Gone::Lost, act_by),
            Tell::TimedOut { .. } => (Gone::TimedOut, now()),
            Tell::Busy { .. } => (Gone::Busy, now()),
            Tell::Refused { why, .. } => (Gone::Refused(why), now()),
            Tell::Extended { .. } | Tell::Released { .. } | Tell::Cancelled { .. } => return,
        };
        let over = if why == Gone::Lost { self.ledger().on_lost(id) } else { self.ledger().on_over(id) };
        if let Some(key) = over {
            key.driver.end(why);
            let _ = self.over.send((key.driver, by));
        }
        self.note_change();
    }
}

/// Hears how long the site's lease lasts, and needs not know: a client of this API is told when it has lost something.
struct Deaf;

impl Listener for Deaf {
    fn hear(&self, _: &Answer) {}
}
