//! Guards of held locks, and how the loss of a lock is reported.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use meshlock_client::{HeldLock, Loss as ClientLoss, RemoteRequest, RequestState};
use meshlock_cluster::time::Time;
use meshlock_system::now;
use meshlock_wire::clients::LossKind;
#[cfg(feature = "node")]
use {
    crate::node::Inner,
    meshlock_cluster::table::LossReason as NodeLoss,
    meshlock_host::front::{AcquireState, Acquisition, LockGrant},
};

use crate::blocking::wait_for;

/// A held lock. Dropping it releases the lock.
///
/// A lock can be lost: its site may be cut off from the others, or an operator may break the lock. [`lost`](Guard::lost) reports it early
/// enough to stop ([`margin`](Guard::margin)); nobody else holds the lock before [`valid_until`](Guard::valid_until). A program that was
/// paused for longer than that cannot be told in time: pass the [`fence`](Guard::fence) to whatever the lock protects, and let it
/// refuse older ones.
///
/// ```
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let node = meshlock::Node::local()?;
/// let guard = node.lock_blocking("orders")?;
/// assert_eq!(guard.name(), "orders");
/// assert!(guard.fence() > 0 && !guard.is_lost());
/// assert!(guard.remaining() > guard.margin());
/// drop(guard); // releases the lock
/// # Ok(())
/// # }
/// ```
#[must_use = "the lock is released when the guard is dropped"]
pub struct Guard(GrantedBy);

/// The grant of a node in this process, or of a running node through a client.
enum GrantedBy {
    #[cfg(feature = "node")]
    Node {
        node: Arc<Inner>,
        acquisition: Arc<Acquisition<()>>,
        grant: LockGrant,
    },
    Client {
        held: HeldLock,
        fence: i64,
        slot: Option<u32>,
        margin: Duration,
    },
}

/// The loss of a lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Loss {
    /// Why the lock was lost.
    pub reason: LossReason,
    /// Nobody else holds the lock before this moment.
    pub act_by: Instant,
}

/// Why a lock was lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, thiserror::Error)]
#[non_exhaustive]
pub enum LossReason {
    /// The site could not renew its lease: it is cut off from the others, or was suspended.
    #[error("the site could not renew its lease")]
    LeaseEnded,
    /// An operator broke the lock.
    #[error("the lock was broken by an operator")]
    Broken,
    /// The site was excluded from the cluster.
    #[error("the site was excluded from the cluster")]
    Excluded,
    /// The site leaves the cluster.
    #[error("the site is leaving the cluster")]
    Leaving,
    /// The node has failed because of a bug.
    #[error("the node has failed because of a bug")]
    NodeFailed,
    /// The connection to the node has ended. This happens only to locks of a [`Client`](crate::Client).
    #[error("the connection to the node has ended")]
    Disconnected,
    /// The guard was dropped, which released the lock.
    #[error("the lock was given back")]
    Released,
    /// The node does not say why.
    #[error("the node does not say why")]
    Unknown,
}

/// A future that completes when a lock is lost; created by [`Guard::lost`] and [`Guards::lost`](crate::Guards::lost). It borrows nothing, so that it can be moved to a task, and does
/// not keep the lock.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let node = meshlock::Node::local()?;
/// let guard = node.lock("orders").await?;
/// let watcher = tokio::spawn(guard.lost());
/// drop(guard);
/// assert_eq!(watcher.await?.reason, meshlock::LossReason::Released);
/// # Ok(())
/// # }
/// ```
#[must_use = "a future does nothing unless it is awaited"]
pub struct Lost(Pin<Box<dyn Future<Output = Loss> + Send>>);

impl Lost {
    /// Completes when the first of these does.
    pub(crate) fn first_of(mut all: Vec<Lost>) -> Self {
        Lost(Box::pin(std::future::poll_fn(move |context| {
            let mut lost = all.iter_mut().map(|lost| lost.0.as_mut().poll(context));
            lost.find(Poll::is_ready).unwrap_or(Poll::Pending)
        })))
    }
}

impl Future for Lost {
    type Output = Loss;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Loss> {
        self.0.as_mut().poll(context)
    }
}

impl Guard {
    #[cfg(feature = "node")]
    pub(crate) fn of_node(node: Arc<Inner>, acquisition: Arc<Acquisition<()>>, grant: LockGrant) -> Self {
        Guard(GrantedBy::Node { node, acquisition, grant })
    }

    /// Creates the guard of a lock that a running node has granted; `None` if it is already lost.
    pub(crate) fn of_client(held: HeldLock) -> Option<Self> {
        let RequestState::Held { fence, slot, margin } = held.request().state() else { return None };
        let margin = Duration::from_micros(margin.micros());
        Some(Guard(GrantedBy::Client { held, fence, slot, margin }))
    }

    /// Returns the name of the lock.
    ///
    /// ```
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let node = meshlock::Node::local()?;
    /// let guard = node.lock_blocking("orders")?;
    /// assert_eq!(guard.name(), "orders");
    /// # Ok(())
    /// # }
    /// ```
    pub fn name(&self) -> &str {
        match &self.0 {
            #[cfg(feature = "node")]
            GrantedBy::Node { acquisition, .. } => acquisition.lock().as_str(),
            GrantedBy::Client { held, .. } => held.request().lock().as_str(),
        }
    }

    /// Returns the fencing token of this grant. It is larger than that of every earlier holder of the lock (with numbered permits, of
    /// the same [`slot`](Guard::slot)). Pass it to whatever the lock protects, which refuses a fence that is smaller than one it has seen.
    ///
    /// Fences rise for as long as the cluster exists. A node that keeps no durable state and is a cluster of its own (`Node::local`,
    /// `NodeBuilder::in_memory`) takes them from the clock, in steps of four minutes.
    ///
    /// ```
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let node = meshlock::Node::local()?;
    /// let first = node.lock_blocking("orders")?.fence();
    /// let second = node.lock_blocking("orders")?.fence();
    /// assert!(second > first);
    /// # Ok(())
    /// # }
    /// ```
    pub fn fence(&self) -> i64 {
        match &self.0 {
            #[cfg(feature = "node")]
            GrantedBy::Node { grant, .. } => grant.fence.value(),
            GrantedBy::Client { fence, .. } => *fence,
        }
    }

    /// Returns the number of the semaphore's permit, if its permits are numbered.
    ///
    /// ```
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let node = meshlock::Node::local()?;
    /// let permit = node.semaphore("pool", 2).acquire_blocking()?;
    /// assert_eq!(permit.slot(), Some(0));
    /// # Ok(())
    /// # }
    /// ```
    pub fn slot(&self) -> Option<u32> {
        match &self.0 {
            #[cfg(feature = "node")]
            GrantedBy::Node { grant, .. } => grant.slot,
            GrantedBy::Client { slot, .. } => *slot,
        }
    }

    /// Returns whether the lock is lost.
    ///
    /// ```
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let node = meshlock::Node::local()?;
    /// # let guard = node.lock_blocking("orders")?;
    /// assert!(!guard.is_lost());
    /// # Ok(())
    /// # }
    /// ```
    pub fn is_lost(&self) -> bool {
        self.loss().is_some() || now() >= self.end()
    }

    /// Returns the loss of the lock, if it is lost.
    ///
    /// ```
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let node = meshlock::Node::local()?;
    /// let guard = node.lock_blocking("orders")?;
    /// assert_eq!(guard.loss(), None);
    /// # Ok(())
    /// # }
    /// ```
    pub fn loss(&self) -> Option<Loss> {
        match &self.0 {
            #[cfg(feature = "node")]
            GrantedBy::Node { acquisition, .. } => loss_at_node(&acquisition.state()),
            GrantedBy::Client { held, .. } => loss_at_client(&held.request().state()),
        }
    }

    /// Completes when the lock is lost, with the reason. At least [`margin`](Guard::margin) is then left to stop, unless this process was
    /// suspended itself. It also completes when the guard is dropped.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let node = meshlock::Node::local()?;
    /// # async fn work() {}
    /// let guard = node.lock("orders").await?;
    /// tokio::select! {
    ///     loss = guard.lost() => eprintln!("stopping: {}", loss.reason),
    ///     () = work() => {}
    /// }
    /// # Ok(())
    /// # }
    /// ```
    pub fn lost(&self) -> Lost {
        match &self.0 {
            #[cfg(feature = "node")]
            GrantedBy::Node { acquisition, .. } => {
                let acquisition = acquisition.clone();
                Lost(Box::pin(async move {
                    let state = acquisition.until(|state| loss_at_node(state).is_some()).await;
                    loss_at_node(&state).expect("waited for")
                }))
            }
            GrantedBy::Client { held, .. } => {
                let request: Arc<RemoteRequest> = held.request().clone();
                Lost(Box::pin(async move {
                    let state = request.until(|state| loss_at_client(state).is_some()).await;
                    loss_at_client(&state).expect("waited for")
                }))
            }
        }
    }

    /// Blocks the calling thread until the lock is lost: [`lost`](Guard::lost) without async.
    ///
    /// ```no_run
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let node = meshlock::Node::local()?;
    /// let guard = node.lock_blocking("orders")?;
    /// let loss = guard.wait_until_lost(); // on a thread that has nothing else to do
    /// eprintln!("stopping: {}", loss.reason);
    /// # Ok(())
    /// # }
    /// ```
    pub fn wait_until_lost(&self) -> Loss {
        wait_for(self.lost())
    }

    /// Returns until when nobody else can hold the lock, as far as is known now. It advances while the site renews its lease.
    ///
    /// ```
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let node = meshlock::Node::local()?;
    /// # let guard = node.lock_blocking("orders")?;
    /// assert!(guard.valid_until() > std::time::Instant::now());
    /// # Ok(())
    /// # }
    /// ```
    pub fn valid_until(&self) -> Instant {
        Instant::now() + self.remaining()
    }

    /// Returns for how long from now nobody else can hold the lock, as far as is known now.
    ///
    /// ```
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let node = meshlock::Node::local()?;
    /// # let guard = node.lock_blocking("orders")?;
    /// assert!(guard.remaining() > guard.margin());
    /// # Ok(())
    /// # }
    /// ```
    pub fn remaining(&self) -> Duration {
        Duration::from_micros(self.end().since(now()).micros())
    }

    /// Returns how long before another client can hold the lock its loss is reported.
    ///
    /// ```
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let node = meshlock::Node::local()?;
    /// # let guard = node.lock_blocking("orders")?;
    /// assert_eq!(guard.margin(), std::time::Duration::from_millis(500)); // the default of `Lease::margin`
    /// # Ok(())
    /// # }
    /// ```
    pub fn margin(&self) -> Duration {
        match &self.0 {
            #[cfg(feature = "node")]
            GrantedBy::Node { grant, .. } => Duration::from_micros(grant.margin.micros()),
            GrantedBy::Client { margin, .. } => *margin,
        }
    }

    /// Releases the lock, as dropping the guard does.
    ///
    /// ```
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let node = meshlock::Node::local()?;
    /// # let guard = node.lock_blocking("orders")?;
    /// guard.release();
    /// assert!(node.try_lock_blocking("orders").is_ok());
    /// # Ok(())
    /// # }
    /// ```
    pub fn release(self) {}

    fn end(&self) -> Time {
        match &self.0 {
            #[cfg(feature = "node")]
            GrantedBy::Node { node, acquisition, grant } => {
                // Read before the state: a lock that is not lost after that was covered by this lease.
                let renewed_until = node.front.node().renewed_until();
                match acquisition.state() {
                    AcquireState::Held(_) => grant.lease_end.max(renewed_until),
                    AcquireState::Lost { act_by, .. } => act_by,
                    AcquireState::Waiting | AcquireState::Ended(_) => Time::ZERO,
                }
            }
            GrantedBy::Client { held, .. } => match held.request().state() {
                RequestState::Held { .. } => held.request().held_until(),
                RequestState::Lost { act_by, .. } => act_by,
                RequestState::Waiting | RequestState::Ended(_) => Time::ZERO,
            },
        }
    }
}

fn loss(reason: LossReason, act_by: Time) -> Loss {
    Loss { reason, act_by: Instant::now() + Duration::from_micros(act_by.since(now()).micros()) }
}

#[cfg(feature = "node")]
fn loss_at_node(state: &AcquireState) -> Option<Loss> {
    match *state {
        AcquireState::Waiting | AcquireState::Held(_) => None,
        AcquireState::Lost { act_by, why } => Some(loss(of_node(why), act_by)),
        AcquireState::Ended(_) => Some(loss(LossReason::Released, Time::ZERO)),
    }
}

fn loss_at_client(state: &RequestState) -> Option<Loss> {
    match *state {
        RequestState::Waiting | RequestState::Held { .. } => None,
        RequestState::Lost { act_by, why } => Some(loss(of_client(why), act_by)),
        RequestState::Ended(_) => Some(loss(LossReason::Released, Time::ZERO)),
    }
}

#[cfg(feature = "node")]
fn of_node(why: NodeLoss) -> LossReason {
    match why {
        NodeLoss::LeaseEnd => LossReason::LeaseEnded,
        NodeLoss::Broken => LossReason::Broken,
        NodeLoss::Excluded => LossReason::Excluded,
        NodeLoss::Leaving => LossReason::Leaving,
        NodeLoss::Failed => LossReason::NodeFailed,
        NodeLoss::ReservationOver | NodeLoss::Conflict | NodeLoss::TakenOver => LossReason::Unknown,
    }
}

fn of_client(why: ClientLoss) -> LossReason {
    match why {
        ClientLoss::NodeSilent | ClientLoss::Told(LossKind::LeaseEnd) => LossReason::LeaseEnded,
        ClientLoss::Disconnected => LossReason::Disconnected,
        ClientLoss::Told(LossKind::Broken) => LossReason::Broken,
        ClientLoss::Told(LossKind::Excluded) => LossReason::Excluded,
        ClientLoss::Told(LossKind::Leaving) => LossReason::Leaving,
        ClientLoss::Told(LossKind::Failed) => LossReason::NodeFailed,
        ClientLoss::Told(LossKind::Unknown) => LossReason::Unknown,
    }
}

impl Drop for Guard {
    fn drop(&mut self) {
        match &self.0 {
            #[cfg(feature = "node")]
            GrantedBy::Node { acquisition, .. } => acquisition.abandon(),
            // It releases itself.
            GrantedBy::Client { .. } => {}
        }
    }
}

impl std::fmt::Debug for Guard {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Guard")
            .field("lock", &self.name())
            .field("fence", &self.fence())
            .finish_non_exhaustive()
    }
}
