//! The end of the lease of a node's own session.

use std::sync::atomic::{AtomicU64, Ordering};

use meshlock_cluster::node::ClientAnswer;
use meshlock_cluster::table::LockEvent;
use meshlock_cluster::time::Time;
use meshlock_host::Listener;

/// Until when nobody else holds what the session holds and has not lost.
#[derive(Default)]
pub(crate) struct LeaseEnd(AtomicU64);

impl LeaseEnd {
    pub(crate) fn get(&self) -> Time {
        Time::from_micros(self.0.load(Ordering::Acquire))
    }
}

impl Listener for LeaseEnd {
    fn on_answer(&self, answer: &ClientAnswer) {
        if let ClientAnswer::Lock(LockEvent::Extended { lease_end, .. }) = answer {
            self.0.fetch_max(lease_end.micros(), Ordering::AcqRel);
        }
    }
}
