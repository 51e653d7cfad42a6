//! Semaphores: locks with several permits.

use std::time::Duration;

use meshlock_node::names::LockName;
use meshlock_node::shell::agree_on_permits;
use meshlock_node::table::Wait;

use super::blocking::wait_for;
use super::guard::Guard;
use super::node::{AcquireError, Node, until};

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
        agree_on_permits(self.node.engine(), &lock, self.permits)
            .await
            .map_err(|error| AcquireError::Refused { lock: lock.clone(), why: error.to_string() })?;
        self.node.acquire(lock, wait).await
    }
}
