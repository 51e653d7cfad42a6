//! One wish for a lock, from asking to the end: what the node has said of it.

use std::pin::pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use meshlock_cluster::node::Answer;
use meshlock_cluster::table::Tell;
use meshlock_cluster::time::{Span, Time};
use meshlock_host::Listener;
use meshlock_protocol::Fence;
use tokio::sync::Notify;

/// How far a wish is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stage {
    Waiting,
    Held(Grant),
    /// It was held, and must not be used after this moment.
    Lost {
        act_by: Time,
    },
    /// It was not granted in time.
    TimedOut,
    /// It would have had to wait.
    Busy,
    /// It cannot be granted.
    Refused {
        why: &'static str,
    },
    /// It is over.
    Over,
}

/// What was granted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Grant {
    pub(crate) fence: Fence,
    pub(crate) slot: Option<u32>,
    pub(crate) lease_end: Time,
    pub(crate) margin: Span,
}

/// A wish. The node speaks to it, a guard or a caller looks at it. Every lock that is taken makes one, mostly to be answered at
/// once: it is as light as can be.
pub(crate) struct Wish {
    stage: Mutex<Stage>,
    changed: Notify,
}

impl Wish {
    pub(crate) fn new() -> Self {
        Wish { stage: Mutex::new(Stage::Waiting), changed: Notify::const_new() }
    }

    pub(crate) fn stage(&self) -> Stage {
        *self.lock()
    }

    /// Waits until `done` holds of the stage.
    pub(crate) async fn until(&self, mut done: impl FnMut(&Stage) -> bool) -> Stage {
        loop {
            let mut changed = pin!(self.changed.notified());
            // Before looking, so that no change falls in between.
            changed.as_mut().enable();
            let stage = self.stage();
            if done(&stage) {
                return stage;
            }
            changed.await;
        }
    }

    fn lock(&self) -> MutexGuard<'_, Stage> {
        self.stage.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Listener for Wish {
    fn hear(&self, answer: &Answer) {
        let Answer::Lock(tell) = answer else { return };
        let stage = match *tell {
            Tell::Granted { fence, slot, lease_end, margin, .. } => {
                Stage::Held(Grant { fence, slot, lease_end, margin })
            }
            Tell::Lost { act_by, .. } => Stage::Lost { act_by },
            Tell::TimedOut { .. } => Stage::TimedOut,
            Tell::Busy { .. } => Stage::Busy,
            Tell::Refused { why, .. } => Stage::Refused { why },
            Tell::Released { .. } | Tell::Cancelled { .. } => Stage::Over,
            Tell::Extended { .. } => return,
        };
        *self.lock() = stage;
        self.changed.notify_waiters();
    }
}

/// Until when everything that one session holds is safe, unless it was lost.
#[derive(Default)]
pub(crate) struct LeaseEnd(AtomicU64);

impl LeaseEnd {
    pub(crate) fn get(&self) -> Time {
        Time::from_micros(self.0.load(Ordering::Acquire))
    }
}

impl Listener for LeaseEnd {
    fn hear(&self, answer: &Answer) {
        if let Answer::Lock(Tell::Extended { lease_end, .. }) = answer {
            self.0.fetch_max(lease_end.micros(), Ordering::AcqRel);
        }
    }
}
