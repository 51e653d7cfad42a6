//! A node in this process.

use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use meshlock_cluster::names::LockName;
use meshlock_cluster::table::{Session, Wait};
use meshlock_cluster::time::Span;
use meshlock_host::front::{AcquireState, Acquisition, Admitted, Ended, Front, LockRequest, Owner};
use meshlock_host::gate::Policy;
use meshlock_host::{Engine, door};
use meshlock_system::now;
use tokio::time::timeout;

use crate::blocking::wait_for;
use crate::builder::{NodeBuilder, Served};
use crate::config::{AccessRule, Token, policy};
use crate::error::{AcquireError, StartError};
use crate::guard::{Guard, Guards};
use crate::lease_end::LeaseEnd;
use crate::locking::locking_methods;
use crate::semaphore::{Semaphore, Source};

/// How long the cluster may take to agree that a site without holders has left.
const AGREE_WITHIN: Duration = Duration::from_secs(3);

/// A site of the cluster, in this process. Clones are the same node; it stops with the last of them and the last guard.
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
    /// Before the node: it gives back what its clients hold.
    served: Served,
    front: Front,
    me: Admitted,
    session: Session,
    pub(crate) lease_end: Arc<LeaseEnd>,
    engine: Engine,
}

/// How far a node is.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct View {
    /// The number of the view that is installed: it rises with every change of the members or rules.
    pub epoch: u32,
    /// The names of its members, this site's own among them once it takes part.
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

    /// Starts a site that is a cluster of its own: locks among the tasks and threads of this process.
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

    pub(crate) fn new(engine: Engine, front: Front, served: Served) -> Self {
        let lease_end = Arc::new(LeaseEnd::default());
        let session = front.open_session(lease_end.clone());
        let me = front.in_process();
        Node { inner: Arc::new(Inner { served, front, me, session, lease_end, engine }) }
    }

    /// Waits until this site is a member of the cluster and may grant locks. Nothing needs to: locks wait for it by themselves.
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

    /// Whether this site is a member of the cluster and may grant locks.
    pub fn is_ready(&self) -> bool {
        self.inner.front.is_ready()
    }

    /// The name of this site.
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

    /// The view of the cluster that this site has installed.
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

    /// The names of the sites that the cluster began with, in their order.
    pub fn founding_sites(&self) -> Vec<String> {
        self.inner.front.node().look(|node| node.founders().iter().map(ToString::to_string).collect())
    }

    /// Where other sites reach this one.
    pub fn listen_address(&self) -> Option<SocketAddr> {
        self.inner.engine.listening()
    }

    /// Where clients on other machines reach it.
    pub fn clients_address(&self) -> Option<SocketAddr> {
        self.inner.served.clients
    }

    /// The socket on which it serves clients of this machine.
    pub fn socket(&self) -> Option<&Path> {
        self.inner.served.socket.as_deref()
    }

    /// Where the API is served.
    #[cfg(feature = "api")]
    pub fn api_address(&self) -> Option<SocketAddr> {
        self.inner.served.api.as_ref().map(meshlock_service::Serving::address)
    }

    /// What the site says of itself to Prometheus, as text: the page `/metrics` of the API. None where the API is not served.
    #[cfg(feature = "api")]
    pub fn metrics(&self) -> Option<String> {
        self.inner.served.api.as_ref().map(meshlock_service::Serving::metrics)
    }

    /// Leaves the cluster: the other sites need not wait for this one. Nothing more is granted here; it completes once all that is
    /// held here is given back and the others have agreed.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let node = meshlock::Node::local()?;
    /// node.leave().await;
    /// assert!(node.lock("orders").await.is_err());
    /// # Ok(())
    /// # }
    /// ```
    pub async fn leave(&self) {
        // In this process nobody is denied it; a node that stops has left.
        let _ = self.inner.front.leave(&self.inner.me).await;
    }

    /// Leaves the cluster in bounded time: no more clients are served; those that there are have `grace` to give back what they hold,
    /// then they are told that it is lost. Returns whether the others have agreed; if not, they wait until the site's lease is
    /// over.
    pub async fn shut_down(&self, grace: Duration) -> bool {
        let Inner { front, served, .. } = &*self.inner;
        served.stop_accepting();
        let mut leaving = std::pin::pin!(self.leave());
        if timeout(grace, leaving.as_mut()).await.is_ok() {
            return true;
        }
        let holders = front.take_all_away();
        if holders > 0 {
            tracing::warn!(holders, "clients hold locks: they are told that they have lost them");
        }
        let margin = front.node().look(|node| node.lease().terms().margin);
        timeout(Duration::from_micros(margin.micros()) + AGREE_WITHIN, leaving).await.is_ok()
    }

    /// Completes when the node has failed because of a bug and all that its clients held is over. It grants nothing any more.
    pub async fn failed(&self) {
        let front = &self.inner.front;
        front.node().until(|state| state.failed).await;
        let left = front.lease_end().map_or(Span::ZERO, |end| end.since(now()));
        tokio::time::sleep(Duration::from_micros(left.micros())).await;
    }

    /// Replaces who may do what over `clients` and the API. What was granted before is kept.
    ///
    /// ```
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let node = meshlock::Node::local()?;
    /// use meshlock::config::{AccessRule, Verb};
    ///
    /// node.set_access(&[AccessRule::new("ci-*", "deploy/*", [Verb::Acquire])], &[])?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn set_access(&self, access: &[AccessRule], tokens: &[Token]) -> Result<(), StartError> {
        let policy: Policy = policy(access, tokens)?;
        self.inner.front.gate().replace(policy);
        Ok(())
    }

    /// Opens the audit log anew, after it was moved away.
    pub fn reopen_audit_log(&self) {
        self.inner.front.gate().audit().reopen();
    }

    /// Waits until what was written to the audit log is on its way to the disk, but not for long.
    pub fn flush_audit_log(&self) {
        self.inner.front.gate().audit().flush();
    }

    /// The one way in to the node, for what this crate's own companions build on it.
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
        let wanted = LockRequest { lock, wait, permits, cause: None };
        let mut pending = Pending(Some(front.acquire(me, Owner::Session(*session), wanted, ())));
        let Some(acquisition) = &pending.0 else { unreachable!("just asked") };
        let mut state = acquisition.state();
        // Not for a lock whose token is here: then no task is switched.
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
        self.front.close_session::<()>(self.session, []);
    }
}

/// An acquisition that is taken back if its caller goes away before it is granted.
struct Pending(Option<Arc<Acquisition<()>>>);

impl Drop for Pending {
    fn drop(&mut self) {
        if let Some(acquisition) = &self.0 {
            acquisition.abandon();
        }
    }
}

/// For so long at most.
pub(crate) fn within(longest: Duration) -> Wait {
    Wait::Within(Span::from_micros(u64::try_from(longest.as_micros()).unwrap_or(u64::MAX)))
}

/// What serves clients in other processes.
pub(crate) type DoorServing = door::Serving;
