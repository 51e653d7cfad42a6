//! Semaphores: locks with several permits.

use std::time::Duration;

use meshlock_cluster::table::Wait;

use crate::blocking::wait_for;
use crate::client::Client;
use crate::error::AcquireError;
use crate::guard::Guard;
use crate::locking::within;
#[cfg(feature = "node")]
use crate::node::Node;

/// What grants a semaphore's permits.
#[derive(Clone, Debug)]
pub(crate) enum PermitSource {
    #[cfg(feature = "node")]
    Node(Node),
    Client(Client),
}

/// A lock that several clients may hold at once, counted over all processes of all sites. Created by `Node::semaphore` and
/// [`Client::semaphore`].
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
    source: PermitSource,
    name: String,
    permits: u32,
}

impl Semaphore {
    pub(crate) fn new(source: PermitSource, name: String, permits: u32) -> Self {
        Semaphore { source, name, permits }
    }

    /// Waits for a permit, without a time limit.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let node = meshlock::Node::local()?;
    /// # let pool = node.semaphore("pool", 2);
    /// let permit = pool.acquire().await?;
    /// # Ok(())
    /// # }
    /// ```
    pub async fn acquire(&self) -> Result<Guard, AcquireError> {
        self.acquire_as(Wait::Forever).await
    }

    /// Takes a permit if one is free, without waiting for a holder to release one.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let node = meshlock::Node::local()?;
    /// # let pool = node.semaphore("pool", 2);
    /// let (first, second) = (pool.acquire().await?, pool.acquire().await?);
    /// assert!(matches!(pool.try_acquire().await, Err(meshlock::AcquireError::Busy { .. })));
    /// # Ok(())
    /// # }
    /// ```
    pub async fn try_acquire(&self) -> Result<Guard, AcquireError> {
        self.acquire_as(Wait::Try).await
    }

    /// Waits for a permit, at most for `longest`.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let node = meshlock::Node::local()?;
    /// # let pool = node.semaphore("pool", 2);
    /// let permit = pool.acquire_within(std::time::Duration::from_secs(5)).await?;
    /// # Ok(())
    /// # }
    /// ```
    pub async fn acquire_within(&self, longest: Duration) -> Result<Guard, AcquireError> {
        self.acquire_as(within(longest)).await
    }

    /// Like [`acquire`](Semaphore::acquire), without async.
    ///
    /// ```
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let node = meshlock::Node::local()?;
    /// # let pool = node.semaphore("pool", 2);
    /// let permit = pool.acquire_blocking()?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn acquire_blocking(&self) -> Result<Guard, AcquireError> {
        wait_for(self.acquire())
    }

    /// Like [`try_acquire`](Semaphore::try_acquire), without async.
    ///
    /// ```
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let node = meshlock::Node::local()?;
    /// # let pool = node.semaphore("pool", 2);
    /// let permit = pool.try_acquire_blocking()?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn try_acquire_blocking(&self) -> Result<Guard, AcquireError> {
        wait_for(self.try_acquire())
    }

    /// Like [`acquire_within`](Semaphore::acquire_within), without async.
    ///
    /// ```
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let node = meshlock::Node::local()?;
    /// # let pool = node.semaphore("pool", 2);
    /// let permit = pool.acquire_within_blocking(std::time::Duration::from_secs(5))?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn acquire_within_blocking(&self, longest: Duration) -> Result<Guard, AcquireError> {
        wait_for(self.acquire_within(longest))
    }

    async fn acquire_as(&self, wait: Wait) -> Result<Guard, AcquireError> {
        let (lock, permits) = (self.name.parse()?, Some(self.permits));
        match &self.source {
            #[cfg(feature = "node")]
            PermitSource::Node(node) => node.acquire(lock, wait, permits).await,
            PermitSource::Client(client) => client.acquire(lock, wait, permits).await,
        }
    }
}
