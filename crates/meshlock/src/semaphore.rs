//! Semaphores: locks with several permits.

use std::time::Duration;

use meshlock_cluster::names::LockName;
use meshlock_cluster::table::Wait;
use meshlock_host::{agree_on_permits, agree_on_permits_within};
use meshlock_system::now;

use super::blocking::wait_for;
use super::guard::Guard;
use super::node::{AcquireError, Node, until};

/// How long the cluster may take to agree on the permits for a caller that does not want to wait for another holder.
const TRY_WITHIN: Duration = Duration::from_secs(1);

/// A lock that several may hold at once, of all processes of all sites together.
#[derive(Clone, Debug)]
pub struct Semaphore {
    node: Node,
    name: String,
    permits: u32,
}

impl Semaphore {
    pub(super) fn new(node: Node, name: String, permits: u32) -> Self {
        Semaphore { node, name, permits }
    }

    /// Waits for a permit, as long as it takes.
    pub async fn acquire(&self) -> Result<Guard, AcquireError> {
        self.acquire_as(Wait::Forever).await
    }

    /// Takes a permit if one is free.
    pub async fn try_acquire(&self) -> Result<Guard, AcquireError> {
        self.acquire_as(Wait::Try).await
    }

    /// Waits for a permit, but not longer than this.
    pub async fn acquire_within(&self, longest: Duration) -> Result<Guard, AcquireError> {
        self.acquire_as(until(longest)).await
    }

    /// [`acquire`](Semaphore::acquire) without async.
    pub fn acquire_blocking(&self) -> Result<Guard, AcquireError> {
        wait_for(self.acquire())
    }

    async fn acquire_as(&self, wait: Wait) -> Result<Guard, AcquireError> {
        let lock: LockName = self.name.parse()?;
        let (node, permits) = (self.node.engine(), self.permits);
        let within = match wait {
            Wait::Forever => None,
            Wait::Until(deadline) => Some(Duration::from_micros(deadline.since(now()).micros())),
            Wait::Try => Some(TRY_WITHIN),
        };
        let agreed = match within {
            None => Some(agree_on_permits(node, &lock, permits).await),
            Some(within) => agree_on_permits_within(node, &lock, permits, within).await,
        };
        match agreed {
            Some(Ok(())) => self.node.acquire(lock, wait).await,
            Some(Err(error)) => Err(AcquireError::Refused { lock, why: error.to_string() }),
            None if wait == Wait::Try => Err(AcquireError::Busy { lock }),
            None => Err(AcquireError::TimedOut { lock }),
        }
    }
}
