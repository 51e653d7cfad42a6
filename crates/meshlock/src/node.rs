//! A node in this process.

use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use meshlock_cluster::names::LockName;
use meshlock_cluster::table::{Session, Wait};
use meshlock_cluster::time::Span;
use meshlock_host::Engine;
use meshlock_host::front::{AcquireParams, AcquireState, Acquisition, Admitted, Ended, Front, Owner};
use meshlock_system::now;

use crate::blocking::wait_for;
use crate::builder::{NodeBuilder, OpenDoors};
use crate::error::{AcquireError, StartError};
use crate::guard::Guard;
use crate::guards::Guards;
use crate::locking::{locking_methods, within};
use crate::semaphore::{PermitSource, Semaphore};

/// Timeout for the cluster to agree that a site without holders has left.
const AGREE_WITHIN: Duration = Duration::from_secs(3);

/// Interval for checking whether a site that leaves has anything to wait for.
const LOOK_EVERY: Duration = Duration::from_millis(50);

/// A site of the cluster, in this process. Clones refer to the same node. It stops when the last clone and the last guard are dropped.
///
/// ```
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let node = meshlock::Node::local()?; // or Node::builder() for a site of a cluster
/// let guard = node.lock_blocking("orders")?;
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct Node {
    inner: Arc<Inner>,
}

pub(crate) struct Inner {
    /// Dropped before the engine, so that it releases what its clients hold.
    served: OpenDoors,
    pub(crate) front: Front,
    me: Admitted,
    session: Session,
    engine: Engine,
}

/// The view of the cluster that a node has installed.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct View {
    /// The number of the view. It rises with every change of the members or rules.
    pub epoch: u32,
    /// The names of its members, which include this site once it takes part.
    pub members: Vec<String>,
}

impl Node {
    /// Describes a site of a cluster, to be [started](NodeBuilder::start).
    ///
    /// ```
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let node = meshlock::Node::builder()
    ///     .site("db-1")
    ///     .sites([("db-1", "127.0.0.1:0")])
    ///     .plaintext() // trust the network; or .tls(…)
    ///     .in_memory() // for a test; or .data(…)
    ///     .start()?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn builder() -> NodeBuilder {
        NodeBuilder::new()
    }

    /// Starts a site that is a cluster of its own: locks for the tasks and threads of this process. It keeps no durable state, so that
    /// [fences](crate::Guard::fence) come from the clock, in steps of four minutes: compare them only within one process.
    ///
    /// ```
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let node = meshlock::Node::local()?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn local() -> Result<Self, StartError> {
        Node::builder().in_memory().start()
    }

    pub(crate) fn new(engine: Engine, front: Front, served: OpenDoors) -> Self {
        let me = front.in_process();
        let session = front.open_session(&me);
        Node { inner: Arc::new(Inner { served, front, me, session, engine }) }
    }

    /// Waits until this site is a member of the cluster and may grant locks. Calling it is optional: the lock methods wait for that
    /// themselves.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let node = meshlock::Node::local()?;
    /// node.ready().await;
    /// assert!(node.is_ready());
    /// # Ok(())
    /// # }
    /// ```
    pub async fn ready(&self) {
        self.inner.front.until_ready().await;
    }

    /// Like [`ready`](Node::ready), without async.
    ///
    /// ```
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let node = meshlock::Node::local()?;
    /// node.ready_blocking();
    /// assert!(node.is_ready());
    /// # Ok(())
    /// # }
    /// ```
    pub fn ready_blocking(&self) {
        wait_for(self.ready());
    }

    /// Returns whether this site is a member of the cluster and may grant locks.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let node = meshlock::Node::local()?;
    /// node.ready().await;
    /// assert!(node.is_ready());
    /// # Ok(())
    /// # }
    /// ```
    pub fn is_ready(&self) -> bool {
        self.inner.front.is_ready()
    }

    /// Returns the name of this site.
    ///
    /// ```
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// assert_eq!(meshlock::Node::local()?.site(), "local");
    /// # Ok(())
    /// # }
    /// ```
    pub fn site(&self) -> &str {
        self.inner.front.site().as_str()
    }

    /// Returns the view of the cluster that this site has installed.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let node = meshlock::Node::local()?;
    /// node.ready().await;
    /// assert_eq!(node.view().members, ["local"]);
    /// # Ok(())
    /// # }
    /// ```
    pub fn view(&self) -> View {
        self.inner.front.node().look(|node| View {
            epoch: node.view().epoch.number(),
            members: node.view().members.iter().map(|member| member.site.to_string()).collect(),
        })
    }

    /// Returns the names of the sites that the cluster was founded with, in their order.
    ///
    /// ```
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let node = meshlock::Node::local()?;
    /// assert_eq!(node.founding_sites(), ["local"]);
    /// # Ok(())
    /// # }
    /// ```
    pub fn founding_sites(&self) -> Vec<String> {
        self.inner.front.node().look(|node| node.founders().iter().map(ToString::to_string).collect())
    }

    /// Returns the sites that this one cannot reach at present: each with the addresses that were tried and the errors there.
    ///
    /// ```
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let node = meshlock::Node::local()?;
    /// assert!(node.unreached_sites().is_empty());
    /// # Ok(())
    /// # }
    /// ```
    pub fn unreached_sites(&self) -> Vec<(String, String)> {
        let unreached = self.inner.front.node().unreached();
        unreached.into_iter().map(|(site, tried)| (site.to_string(), tried)).collect()
    }

    /// Returns the address on which this site listens for other sites; `None` if it does not listen.
    ///
    /// ```
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let node = meshlock::Node::builder()
    ///     .sites([("db-1", "127.0.0.1:0")])
    ///     .plaintext()
    ///     .in_memory()
    ///     .start()?;
    /// assert!(node.listen_address().is_some());
    /// # Ok(())
    /// # }
    /// ```
    pub fn listen_address(&self) -> Option<SocketAddr> {
        self.inner.engine.listening()
    }

    /// Returns the address on which this site serves clients of other machines, if it does ([`NodeBuilder::clients`]).
    ///
    /// ```
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let node = meshlock::Node::builder().in_memory().plaintext().clients("127.0.0.1:0").start()?;
    /// assert!(node.clients_address().is_some());
    /// # Ok(())
    /// # }
    /// ```
    pub fn clients_address(&self) -> Option<SocketAddr> {
        self.inner.served.clients
    }

    /// Returns the Unix socket on which this site serves clients of this machine, if it does ([`NodeBuilder::socket`]).
    ///
    /// ```
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let node = meshlock::Node::local()?;
    /// assert_eq!(node.socket(), None);
    /// # Ok(())
    /// # }
    /// ```
    pub fn socket(&self) -> Option<&Path> {
        self.inner.served.socket.as_deref()
    }

    /// Returns the address of the API, if it is served ([`NodeBuilder::api`]).
    ///
    /// ```
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let node = meshlock::Node::builder().in_memory().api("127.0.0.1:0").start()?;
    /// assert!(node.api_address().is_some());
    /// # Ok(())
    /// # }
    /// ```
    #[cfg(feature = "api")]
    pub fn api_address(&self) -> Option<SocketAddr> {
        self.inner.served.api.as_ref().map(meshlock_service::Serving::address)
    }

    /// Returns the site's metrics in the text format of OpenMetrics, which Prometheus reads: the page `/metrics` of the API, for a program
    /// that serves it itself. The API need not be served; then its own metrics are left out. A call copies and formats some thousand
    /// numbers.
    ///
    /// ```
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let node = meshlock::Node::local()?;
    /// let guard = node.lock_blocking("orders")?;
    /// assert!(node.metrics().contains("\nmeshlock_holders 1\n"));
    /// # Ok(())
    /// # }
    /// ```
    #[cfg(feature = "api")]
    pub fn metrics(&self) -> String {
        match &self.inner.served.api {
            Some(api) => api.metrics(),
            None => meshlock_service::metrics_of(&self.inner.front),
        }
    }

    /// Leaves the cluster, so that the other sites need not wait for this one's lease to end. Nothing more is granted here. Completes
    /// once everything held here is released and the other sites have agreed, and returns `true`. Where they cannot agree, because too
    /// few of them are reachable, it returns `false` after the length of a lease and three seconds; then they wait until this site's
    /// lease ends. [`shut_down`](Node::shut_down) limits the time.
    ///
    /// A site that has begun to leave does not stay, even if the future is dropped: it goes on leaving by itself.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let node = meshlock::Node::local()?;
    /// assert!(node.leave().await);
    /// assert!(node.lock("orders").await.is_err());
    /// # Ok(())
    /// # }
    /// ```
    pub async fn leave(&self) -> bool {
        let Inner { front, me, .. } = &*self.inner;
        // A site that leaves does not renew its lease, so nothing is held any more when the lease is over.
        let longest = Duration::from_micros(front.lease_length().micros()) + AGREE_WITHIN;
        // No rule denies it to this process, and a node that stops has left.
        front.node().within(longest, front.leave(me)).await.is_some()
    }

    /// Like [`leave`](Node::leave), without async.
    ///
    /// ```
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let node = meshlock::Node::local()?;
    /// assert!(node.leave_blocking());
    /// assert!(node.lock_blocking("orders").is_err());
    /// # Ok(())
    /// # }
    /// ```
    pub fn leave_blocking(&self) -> bool {
        wait_for(self.leave())
    }

    /// Leaves the cluster in bounded time. No more clients are accepted; existing ones have `grace` to release what they hold, then they
    /// are told that it is lost and have the margin of a lease to stop. Returns whether the other sites have agreed; if not, they wait
    /// until this site's lease ends. They have three more seconds to agree. If too few of them are reachable for that, nobody waits for them.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let node = meshlock::Node::local()?;
    /// assert!(node.shut_down(std::time::Duration::from_secs(5)).await);
    /// # Ok(())
    /// # }
    /// ```
    pub async fn shut_down(&self, grace: Duration) -> bool {
        let Inner { front, served, me, .. } = &*self.inner;
        served.stop_accepting();
        let mut leaving = std::pin::pin!(front.leave(me));
        let left = async {
            tokio::select! {
                biased;
                _ = leaving.as_mut() => true,
                () = self.until_hopeless() => false,
            }
        };
        if let Some(left) = front.node().within(grace, left).await {
            return left;
        }
        let holders = front.take_all_away(me).unwrap_or_default();
        if holders > 0 {
            tracing::warn!(holders, "clients hold locks: they are told that they have lost them");
        }
        let (margin, can_agree) =
            front.node().look(|node| (node.lease().terms().margin, node.reaches_majority()));
        let to_stop = if holders > 0 { Duration::from_micros(margin.micros()) } else { Duration::ZERO };
        let to_agree = if can_agree { AGREE_WITHIN } else { Duration::ZERO };
        front.node().within(to_stop + to_agree, leaving).await.is_some()
    }

    /// Waits until nothing is held here, and too few sites are reachable to agree on anything: then nothing is worth waiting for.
    async fn until_hopeless(&self) {
        let node = self.inner.front.node();
        while node.look(|node| node.table().holds_anything() || node.reaches_majority()) {
            if !node.sleep(LOOK_EVERY).await {
                return;
            }
        }
    }

    /// Like [`shut_down`](Node::shut_down), without async.
    ///
    /// ```
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let node = meshlock::Node::local()?;
    /// assert!(node.shut_down_blocking(std::time::Duration::from_secs(5)));
    /// # Ok(())
    /// # }
    /// ```
    pub fn shut_down_blocking(&self, grace: Duration) -> bool {
        wait_for(self.shut_down(grace))
    }

    /// Completes when the node has failed because of a bug and the lease under which its clients held locks has ended. A failed node
    /// grants nothing any more.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let node = meshlock::Node::local()?;
    /// # async fn serve() {}
    /// tokio::select! {
    ///     () = node.failed() => std::process::abort(), // let a supervisor start the program again
    ///     () = serve() => {}
    /// }
    /// # Ok(())
    /// # }
    /// ```
    pub async fn failed(&self) {
        let front = &self.inner.front;
        front.node().until(|state| state.failed).await;
        let left = front.lease_end().map_or(Span::ZERO, |end| end.since(now()));
        front.node().sleep(Duration::from_micros(left.micros())).await;
    }

    /// Like [`failed`](Node::failed), without async.
    ///
    /// ```no_run
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let node = meshlock::Node::local()?;
    /// node.failed_blocking(); // on a thread that has nothing else to do
    /// std::process::abort(); // let a supervisor start the program again
    /// # }
    /// ```
    pub fn failed_blocking(&self) {
        wait_for(self.failed());
    }

    /// Returns the node's admission path, for the other crates of this project.
    #[doc(hidden)]
    pub fn front(&self) -> &Front {
        &self.inner.front
    }

    locking_methods!(Node, "node", "# let node = meshlock::Node::local()?;");

    pub(crate) async fn acquire(
        &self,
        lock: LockName,
        wait: Wait,
        permits: Option<u32>,
    ) -> Result<Guard, AcquireError> {
        let Inner { front, me, session, .. } = &*self.inner;
        let wanted = AcquireParams { lock, wait, permits, cause: None };
        let mut pending = AbandonOnDrop(Some(front.acquire(me, Owner::Session(*session), wanted, ())));
        let Some(acquisition) = &pending.0 else { unreachable!("just asked") };
        let mut state = acquisition.state();
        // A lock whose token is at this site is granted at once, without switching tasks.
        if state == AcquireState::Waiting {
            state = acquisition.until(|state| *state != AcquireState::Waiting).await;
        }
        let lock = acquisition.lock().as_str();
        match state {
            AcquireState::Held(grant) => {
                let acquisition = pending.0.take().expect("it is taken once");
                Ok(Guard::of_node(self.inner.clone(), acquisition, grant))
            }
            AcquireState::Ended(Ended::NotGranted(error)) => Err(AcquireError::of_node(lock, &error)),
            AcquireState::Ended(Ended::Released | Ended::Cancelled | Ended::SessionOver)
            | AcquireState::Lost { .. }
            | AcquireState::Waiting => Err(AcquireError::gone_again(lock)),
        }
    }
}

impl std::fmt::Debug for Node {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Node").field("site", &self.site()).finish_non_exhaustive()
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        self.front.close_session::<()>(&self.me, self.session, [], "its program has closed the node");
    }
}

/// Abandons an acquisition if its caller goes away before it is granted.
struct AbandonOnDrop(Option<Arc<Acquisition<()>>>);

impl Drop for AbandonOnDrop {
    fn drop(&mut self) {
        if let Some(acquisition) = &self.0 {
            acquisition.abandon();
        }
    }
}
