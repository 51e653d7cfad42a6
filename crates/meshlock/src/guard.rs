//! What whoever holds a lock has in hand.

use std::sync::Arc;
use std::time::{Duration, Instant};

use meshlock_cluster::names::LockName;
use meshlock_cluster::node::Call;
use meshlock_cluster::table::Request;
use meshlock_cluster::time::Time;
use meshlock_system::now;

use super::blocking::wait_for;
use super::node::Inner;
use super::wish::{Grant, Stage, Wish};

/// A lock that is held. Dropping it gives the lock back.
///
/// A lock can be lost: this site may be cut off from the others, or an operator may break the lock. [`lost`](Guard::lost)
/// tells, early enough to stop ([`margin`](Guard::margin)); until [`valid_until`](Guard::valid_until) nobody else
/// holds it. A program that was paused for longer than that cannot be told in time: hand the [`fence`](Guard::fence) to
/// whatever the lock protects and let it refuse older ones.
#[must_use = "the lock is given back when the guard is dropped"]
pub struct Guard {
    node: Arc<Inner>,
    lock: LockName,
    request: Request,
    wish: Arc<Wish>,
    grant: Grant,
}

impl Guard {
    pub(super) fn new(
        node: Arc<Inner>,
        lock: LockName,
        request: Request,
        wish: Arc<Wish>,
        grant: Grant,
    ) -> Self {
        Guard { node, lock, request, wish, grant }
    }

    /// The name of the lock.
    pub fn name(&self) -> &str {
        self.lock.as_str()
    }

    /// The number of this grant: larger than that of every earlier holder of the lock (with numbered permits, of the
    /// [`slot`](Guard::slot)). Hand it to whatever the lock protects, which refuses smaller ones than it has seen.
    pub fn fence(&self) -> i64 {
        self.grant.fence.value()
    }

    /// Which of the semaphore's permits this is, where they are numbered.
    pub fn slot(&self) -> Option<u32> {
        self.grant.slot
    }

    /// Whether the lock is lost.
    pub fn is_lost(&self) -> bool {
        !matches!(self.wish.stage(), Stage::Held(_)) || now() >= self.end()
    }

    /// Completes when the lock is lost. There is at least [`margin`](Guard::margin) left then to stop, unless this process was
    /// stopped itself.
    pub async fn lost(&self) {
        self.wish.until(|stage| !matches!(stage, Stage::Held(_))).await;
    }

    /// [`lost`](Guard::lost) without async.
    pub fn wait_until_lost(&self) {
        wait_for(self.lost());
    }

    /// Until when nobody else can hold the lock, as far as is known now. It moves on while the site keeps its lease.
    pub fn valid_until(&self) -> Instant {
        Instant::now() + self.remaining()
    }

    /// How long that is from now.
    pub fn remaining(&self) -> Duration {
        Duration::from_micros(self.end().since(now()).micros())
    }

    /// How long before the lock can be someone else's its loss is told.
    pub fn margin(&self) -> Duration {
        Duration::from_micros(self.grant.margin.micros())
    }

    /// Gives the lock back. What dropping the guard does too.
    pub fn release(self) {}

    fn end(&self) -> Time {
        match self.wish.stage() {
            Stage::Held(_) => self.grant.lease_end.max(self.node.lease_end.get()),
            Stage::Lost { act_by } => act_by,
            Stage::Waiting | Stage::TimedOut | Stage::Busy | Stage::Refused { .. } | Stage::Over => {
                Time::ZERO
            }
        }
    }
}

impl Drop for Guard {
    fn drop(&mut self) {
        self.node.engine.forget(self.request, Call::Release(self.request));
    }
}

impl std::fmt::Debug for Guard {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Guard")
            .field("lock", &self.lock)
            .field("fence", &self.fence())
            .finish_non_exhaustive()
    }
}

/// Several locks, held together. Given back in the reverse order.
#[derive(Debug)]
#[must_use = "the locks are given back when the guards are dropped"]
pub struct Guards(Vec<Guard>);

impl Guards {
    pub(super) fn new(guards: Vec<Guard>) -> Self {
        Guards(guards)
    }

    /// The guard of this lock.
    pub fn get(&self, name: &str) -> Option<&Guard> {
        self.0.iter().find(|guard| guard.name() == name)
    }

    /// All of them, in the order of their names.
    pub fn iter(&self) -> impl Iterator<Item = &Guard> {
        self.0.iter()
    }
}

impl Drop for Guards {
    fn drop(&mut self) {
        while self.0.pop().is_some() {}
    }
}
