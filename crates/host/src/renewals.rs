//! How the renewals of a site's lease reach those who rely on it.
//!
//! A renewal extends everything that the site's clients hold and have not lost, and costs the same however much that is:
//! with the node's lock held only a number is stored. Who holds something in this process reads the number. Clients in
//! other processes are told by the tasks that serve them, which the node's own task wakes afterwards.

use std::sync::atomic::{AtomicU64, Ordering};

use meshlock_cluster::time::Time;
use tokio::sync::{Notify, watch};

/// The end of the lease as of its last renewal.
pub(super) struct Renewals {
    /// In microseconds; it never decreases. What was lost is not held again, whatever it says.
    end: AtomicU64,
    renewed: Notify,
    told: watch::Sender<Time>,
}

impl Renewals {
    pub(super) fn new() -> Self {
        Renewals { end: AtomicU64::new(0), renewed: Notify::new(), told: watch::Sender::new(Time::ZERO) }
    }

    /// Takes a renewal. Called with the node's lock held, and wakes one task at most.
    pub(super) fn on_renewed(&self, end: Time) {
        self.end.fetch_max(end.micros(), Ordering::AcqRel);
        self.renewed.notify_one();
    }

    /// Returns until when everything lasts that is held and not lost. A caller that relies on a lock reads this first, and then whether
    /// the lock is lost: the lease may have ended, and come back without the lock, in between.
    pub(super) fn end(&self) -> Time {
        Time::from_micros(self.end.load(Ordering::Acquire))
    }

    /// Returns a channel with the end of the lease, which changes after every renewal.
    pub(super) fn watch(&self) -> watch::Receiver<Time> {
        self.told.subscribe()
    }

    /// Passes renewals on to those who watch, without the node's lock.
    pub(super) async fn keep_telling(&self) {
        loop {
            self.renewed.notified().await;
            self.told.send_replace(self.end());
        }
    }
}

#[cfg(test)]
mod tests {
    use std::pin::pin;
    use std::task::{Context, Waker};

    use super::*;

    #[test]
    fn a_renewal_is_read_at_once_and_told_by_the_task() {
        let (renewals, mut context) = (Renewals::new(), Context::from_waker(Waker::noop()));
        let watching = renewals.watch();
        for end in [5, 9, 7] {
            renewals.on_renewed(Time::from_micros(end));
        }
        assert_eq!(renewals.end(), Time::from_micros(9), "a lease never becomes shorter");
        assert!(!watching.has_changed().unwrap(), "whoever renews wakes nobody but the task");
        assert!(pin!(renewals.keep_telling()).poll(&mut context).is_pending());
        assert!(watching.has_changed().unwrap());
        assert_eq!(*watching.borrow(), Time::from_micros(9));
    }
}
