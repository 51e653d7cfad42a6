//! What whoever holds a lock has in hand.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use meshlock_client::{HeldLock, LockRequest, Loss as ClientLoss, RequestState};
use meshlock_cluster::table::LossReason as NodeLoss;
use meshlock_cluster::time::Time;
use meshlock_host::front::{AcquireState, Acquisition, Grant};
use meshlock_system::now;
use meshlock_wire::clients::LossKind;

use crate::blocking::wait_for;
use crate::node::Inner;

/// A lock that is held. Dropping it gives the lock back.
///
/// A lock can be lost: its site may be cut off from the others, or an operator may break the lock. [`lost`](Guard::lost)
/// tells, early enough to stop ([`margin`](Guard::margin)); until [`valid_until`](Guard::valid_until) nobody else
/// holds it. A program that was paused for longer than that cannot be told in time: hand the [`fence`](Guard::fence) to
/// whatever the lock protects and let it refuse older ones.
///
/// ```
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let node = meshlock::Node::local()?;
/// let guard = node.lock_blocking("orders")?;
/// assert_eq!(guard.name(), "orders");
/// assert!(guard.fence() > 0 && !guard.is_lost());
/// assert!(guard.remaining() > guard.margin());
/// drop(guard); // and the next one has it
/// # Ok(())
/// # }
/// ```
#[must_use = "the lock is given back when the guard is dropped"]
pub struct Guard(Held);

enum Held {
    Node { node: Arc<Inner>, acquisition: Arc<Acquisition<()>>, grant: Grant },
    Client { held: HeldLock, fence: i64, slot: Option<u32>, margin: Duration },
}

/// A lock is lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Loss {
    /// Why.
    pub reason: LossReason,
    /// Until then nobody else holds the lock.
    pub act_by: Instant,
}

/// Why a lock was lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, thiserror::Error)]
#[non_exhaustive]
pub enum LossReason {
    /// The site could not renew its lease: it is cut off from the others, or stood still.
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
    /// The connection to the node has ended. Only a [`Client`](crate::Client)'s locks are lost so.
    #[error("the connection to the node has ended")]
    Disconnected,
    /// The guard was dropped: the lock was given back.
    #[error("the lock was given back")]
    Released,
    /// The node does not say why.
    #[error("the node does not say why")]
    Unknown,
}

/// Completes when a lock is lost; made by [`Guard::lost`]. It owns what it needs, so that it can be given to a task, and does not keep
/// the lock.
#[must_use = "a future does nothing unless it is awaited"]
pub struct Lost(Pin<Box<dyn Future<Output = Loss> + Send>>);

impl Future for Lost {
    type Output = Loss;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Loss> {
        self.0.as_mut().poll(context)
    }
}

impl Guard {
    pub(crate) fn of_node(node: Arc<Inner>, acquisition: Arc<Acquisition<()>>, grant: Grant) -> Self {
        Guard(Held::Node { node, acquisition, grant })
    }

    /// The guard of a lock that a running node has granted; none if it is lost already.
    pub(crate) fn of_client(held: HeldLock) -> Option<Self> {
        let RequestState::Held { fence, slot, margin } = held.request().state() else { return None };
        let margin = Duration::from_micros(margin.micros());
        Some(Guard(Held::Client { held, fence, slot, margin }))
    }

    /// The name of the lock.
    pub fn name(&self) -> &str {
        match &self.0 {
            Held::Node { acquisition, .. } => acquisition.lock().as_str(),
            Held::Client { held, .. } => held.request().lock().as_str(),
        }
    }

    /// The number of this grant: larger than that of every earlier holder of the lock (with numbered permits, of the
    /// [`slot`](Guard::slot)). Hand it to whatever the lock protects, which refuses smaller ones than it has seen.
    pub fn fence(&self) -> i64 {
        match &self.0 {
            Held::Node { grant, .. } => grant.fence.value(),
            Held::Client { fence, .. } => *fence,
        }
    }

    /// Which of the semaphore's permits this is, where they are numbered.
    pub fn slot(&self) -> Option<u32> {
        match &self.0 {
            Held::Node { grant, .. } => grant.slot,
            Held::Client { slot, .. } => *slot,
        }
    }

    /// Whether the lock is lost.
    pub fn is_lost(&self) -> bool {
        self.loss().is_some() || now() >= self.end()
    }

    /// Why and since when the lock is lost, if it is.
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
            Held::Node { acquisition, .. } => loss_at_node(&acquisition.state()),
            Held::Client { held, .. } => loss_at_client(&held.request().state()),
        }
    }

    /// Completes when the lock is lost, with the reason. There is at least [`margin`](Guard::margin) left then to stop, unless this
    /// process was stopped itself. It completes as well when the guard is dropped.
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
            Held::Node { acquisition, .. } => {
                let acquisition = acquisition.clone();
                Lost(Box::pin(async move {
                    let state = acquisition.until(|state| loss_at_node(state).is_some()).await;
                    loss_at_node(&state).expect("waited for")
                }))
            }
            Held::Client { held, .. } => {
                let request: Arc<LockRequest> = held.request().clone();
                Lost(Box::pin(async move {
                    let state = request.until(|state| loss_at_client(state).is_some()).await;
                    loss_at_client(&state).expect("waited for")
                }))
            }
        }
    }

    /// [`lost`](Guard::lost) without async.
    ///
    /// ```
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let node = meshlock::Node::local()?;
    /// let guard = node.lock_blocking("orders")?;
    /// let lost = guard.lost();
    /// drop(guard);
    /// assert_eq!(meshlock::block_on(lost).reason, meshlock::LossReason::Released);
    /// # Ok(())
    /// # }
    /// ```
    pub fn wait_until_lost(&self) -> Loss {
        wait_for(self.lost())
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
        match &self.0 {
            Held::Node { grant, .. } => Duration::from_micros(grant.margin.micros()),
            Held::Client { margin, .. } => *margin,
        }
    }

    /// Gives the lock back. What dropping the guard does too.
    pub fn release(self) {}

    fn end(&self) -> Time {
        match &self.0 {
            Held::Node { node, acquisition, grant } => match acquisition.state() {
                AcquireState::Held(_) => grant.lease_end.max(node.lease_end.get()),
                AcquireState::Lost { act_by, .. } => act_by,
                AcquireState::Waiting | AcquireState::Ended(_) => Time::ZERO,
            },
            Held::Client { held, .. } => match held.request().state() {
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

fn of_node(why: NodeLoss) -> LossReason {
    match why {
        NodeLoss::LeaseEnd => LossReason::LeaseEnded,
        NodeLoss::Broken => LossReason::Broken,
        NodeLoss::Excluded => LossReason::Excluded,
        NodeLoss::Leaving => LossReason::Leaving,
        NodeLoss::Failed => LossReason::NodeFailed,
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
        if let Held::Node { acquisition, .. } = &self.0 {
            acquisition.abandon();
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

/// Several locks, held together. Given back in the reverse order.
#[derive(Debug)]
#[must_use = "the locks are given back when the guards are dropped"]
pub struct Guards(Vec<Guard>);

impl Guards {
    pub(crate) fn new(guards: Vec<Guard>) -> Self {
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

    /// Whether one of them is lost.
    pub fn is_lost(&self) -> bool {
        self.0.iter().any(Guard::is_lost)
    }

    /// Gives all of them back. What dropping them does too.
    pub fn release(self) {}
}

impl Drop for Guards {
    fn drop(&mut self) {
        while self.0.pop().is_some() {}
    }
}
