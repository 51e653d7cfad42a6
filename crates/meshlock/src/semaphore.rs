//! Semaphores: locks with several permits.

use std::time::Duration;

use meshlock_cluster::table::Wait;

use crate::blocking::wait_for;
use crate::client::Client;
use crate::error::AcquireError;
use crate::guard::Guard;
use crate::node::{Node, within};

/// Where permits come from.
#[derive(Clone, Debug)]
pub(crate) enum Source {
    Node(Node),
    Client(Client),
}

/// A lock that several may hold at once, of all processes of all sites together. Made by [`Node::semaphore`] and
/// [`Client::semaphore`](crate::Client::semaphore).
///
/// ```
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let node = meshlock::Node::local()?;
/// let pool = node.semaphore("pool", 2);
/// let permit = pool.acquire_blocking()?;
/// assert_eq!(permit.slot(), Some(0)); // which of the two
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct Semaphore {
    source: Source,
    name: String,
    permits: u32,
}

impl Semaphore {
    pub(crate) fn new(source: Source, name: String, permits: u32) -> Self {
        Semaphore { source, name, permits }
    }

    /// Waits for a permit, as long as it takes.
    pub async fn acquire(&self) -> Result<Guard, AcquireError> {
        self.acquire_as(Wait::Forever).await
    }

    /// Takes a permit if one is free, without waiting for another holder.
    pub async fn try_acquire(&self) -> Result<Guard, AcquireError> {
        self.acquire_as(Wait::Try).await
    }

    /// Waits for a permit, but not longer than this.
    pub async fn acquire_within(&self, longest: Duration) -> Result<Guard, AcquireError> {
        self.acquire_as(within(longest)).await
    }

    /// [`acquire`](Semaphore::acquire) without async.
    pub fn acquire_blocking(&self) -> Result<Guard, AcquireError> {
        wait_for(self.acquire())
    }

    /// [`try_acquire`](Semaphore::try_acquire) without async.
    pub fn try_acquire_blocking(&self) -> Result<Guard, AcquireError> {
        wait_for(self.try_acquire())
    }

    /// [`acquire_within`](Semaphore::acquire_within) without async.
    pub fn acquire_within_blocking(&self, longest: Duration) -> Result<Guard, AcquireError> {
        wait_for(self.acquire_within(longest))
    }

    async fn acquire_as(&self, wait: Wait) -> Result<Guard, AcquireError> {
        let (lock, permits) = (self.name.parse()?, Some(self.permits));
        match &self.source {
            Source::Node(node) => node.acquire(lock, wait, permits).await,
            Source::Client(client) => client.acquire(lock, wait, permits).await,
        }
    }
}
