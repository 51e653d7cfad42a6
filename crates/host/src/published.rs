//! What may be read of a node without taking its lock, so that a call that acquires a lock takes the node's lock only for that.
//!
//! All of it but the health of the disk is written with the node's lock held, after every input, and may be a moment old when it is read. Each value says why that
//! does no harm.

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use meshlock_cluster::lease::Terms;
use meshlock_cluster::node::Node;
use meshlock_cluster::time::{Drift, Span, Time};
use meshlock_system::now;

use super::disk_health::DiskHealth;

/// The published values.
#[derive(Debug, Default)]
pub(super) struct Published {
    /// The epoch of the installed view. It is only shown.
    epoch: AtomicU32,
    /// The bound on clock drift, in parts per million. It changes at most once, when the first view is installed, before any lock is
    /// granted.
    drift: AtomicU32,
    /// The other terms of leases in microseconds: length, margin, and how often they are renewed. They change when the drift does.
    terms: [AtomicU64; 3],
    /// The end of the lease in microseconds, or 0. An older one is earlier: a client that is told so relies on its locks for a shorter
    /// time. It says nothing about what clients were told before, which may be later.
    lease_end: AtomicU64,
    /// Until when locks may be granted, in microseconds, or 0. The node itself decides on each grant.
    grants_until: AtomicU64,
    /// What the writes to the disk have shown. It is only shown.
    pub(super) disk: DiskHealth,
}

impl Published {
    /// Publishes the state of the node. Must be called with the node's lock held. It writes only what has changed, so that readers on
    /// other cores keep their copy.
    pub(super) fn update(&self, node: &Node, has_failed: bool) {
        let (lease, terms) = (node.lease(), node.lease().terms());
        let end = lease.end().unwrap_or(Time::ZERO);
        // Its machines run only while it is a member.
        let grants = node.is_open() && !has_failed;
        let grants_until = if grants { end.before(terms.margin) } else { Time::ZERO };
        for (published, now) in [(&self.epoch, node.view().epoch.number()), (&self.drift, terms.drift.ppm())]
        {
            if published.load(Ordering::Relaxed) != now {
                published.store(now, Ordering::Relaxed);
            }
        }
        let spans = [terms.length, terms.margin, terms.renew_every];
        for (published, now) in self.terms.iter().zip(spans) {
            if published.load(Ordering::Relaxed) != now.micros() {
                published.store(now.micros(), Ordering::Relaxed);
            }
        }
        for (published, now) in [(&self.lease_end, end), (&self.grants_until, grants_until)] {
            if published.load(Ordering::Relaxed) != now.micros() {
                published.store(now.micros(), Ordering::Relaxed);
            }
        }
    }

    pub(super) fn epoch(&self) -> u32 {
        self.epoch.load(Ordering::Relaxed)
    }

    pub(super) fn drift(&self) -> Drift {
        Drift::from_ppm(self.drift.load(Ordering::Relaxed))
    }

    /// Returns the terms of leases.
    pub(super) fn terms(&self) -> Terms {
        let [length, margin, renew_every] =
            [0, 1, 2].map(|at: usize| Span::from_micros(self.terms[at].load(Ordering::Relaxed)));
        Terms { length, drift: self.drift(), margin, renew_every }
    }

    /// Returns for how long the lease lasts from now.
    pub(super) fn lease_left(&self) -> Span {
        Time::from_micros(self.lease_end.load(Ordering::Relaxed)).since(now())
    }

    /// Returns whether locks may be granted now.
    pub(super) fn may_grant(&self) -> bool {
        now().micros() < self.grants_until.load(Ordering::Relaxed)
    }
}
