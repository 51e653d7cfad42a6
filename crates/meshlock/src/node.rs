//! A node in this process.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use meshlock_cluster::names::{LockName, NameError};
use meshlock_cluster::node::{Answer, Call, Config};
use meshlock_cluster::table::{Request, Session, Wait};
use meshlock_cluster::time::{Span, Time};
use meshlock_host::{Engine, Listener, Setup, StartError};
use meshlock_system::now;
use tokio::sync::watch;

use super::blocking::wait_for;
use super::guard::{Guard, Guards};
use super::semaphore::Semaphore;
use super::wish::{LeaseEnd, Stage, Wish};

/// A site of the cluster, in this process. Clones are the same node; it stops with the last of them and the last guard.
#[derive(Clone)]
pub struct Node {
    inner: Arc<Inner>,
}

pub(crate) struct Inner {
    pub(crate) engine: Engine,
    pub(crate) session: Session,
    pub(crate) lease_end: Arc<LeaseEnd>,
}

/// Why there is no lock.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum AcquireError {
    /// The lock's name.
    #[error(transparent)]
    Name(#[from] NameError),
    /// Someone else has it, and the caller did not want to wait.
    #[error("the lock '{lock}' is held by someone else")]
    Busy {
        /// Which lock.
        lock: LockName,
    },
    /// The caller did not want to wait any longer.
    #[error("did not get the lock '{lock}' in time")]
    TimedOut {
        /// Which lock.
        lock: LockName,
    },
    /// The node cannot grant it.
    #[error("cannot have the lock '{lock}': {why}")]
    Refused {
        /// Which lock.
        lock: LockName,
        /// Why, and what would be right.
        why: String,
    },
}

impl Node {
    /// Starts a site of a cluster.
    pub fn start(setup: Setup) -> Result<Self, StartError> {
        let engine = Engine::start(setup)?;
        let lease_end = Arc::new(LeaseEnd::default());
        let session = engine.open_session(lease_end.clone());
        Ok(Node { inner: Arc::new(Inner { engine, session, lease_end }) })
    }

    /// Starts a site that is a cluster of its own: locks among the tasks and threads of this process.
    pub fn local() -> Result<Self, StartError> {
        let site: meshlock_cluster::names::SiteName = "local".parse().expect("a name");
        Node::start(Setup::new(Config::new(site.clone(), vec![site])))
    }

    /// Waits until this site is a member of the cluster. Nothing needs to: locks wait for it by themselves.
    pub async fn ready(&self) {
        self.inner.engine.until(|stand| stand.open).await;
    }

    /// Waits for a lock, as long as it takes.
    pub async fn lock(&self, name: &str) -> Result<Guard, AcquireError> {
        self.acquire(name.parse()?, Wait::Forever).await
    }

    /// Takes a lock if it is free, without waiting for another holder.
    pub async fn try_lock(&self, name: &str) -> Result<Guard, AcquireError> {
        self.acquire(name.parse()?, Wait::Try).await
    }

    /// Waits for a lock, but not longer than this.
    pub async fn lock_within(&self, name: &str, longest: Duration) -> Result<Guard, AcquireError> {
        self.acquire(name.parse()?, until(longest)).await
    }

    /// Waits for several locks. They are taken in the order of their names, whatever the order here, so that two callers who
    /// want the same ones never wait for each other; a name that is given twice is taken once.
    pub async fn lock_all<'a>(
        &self,
        names: impl IntoIterator<Item = &'a str>,
    ) -> Result<Guards, AcquireError> {
        let names = names.into_iter().map(str::parse).collect::<Result<BTreeSet<LockName>, _>>()?;
        let mut guards = Vec::with_capacity(names.len());
        for name in names {
            guards.push(self.acquire(name, Wait::Forever).await?);
        }
        Ok(Guards::new(guards))
    }

    /// [`lock`](Node::lock) without async.
    pub fn lock_blocking(&self, name: &str) -> Result<Guard, AcquireError> {
        wait_for(self.lock(name))
    }

    /// [`try_lock`](Node::try_lock) without async.
    pub fn try_lock_blocking(&self, name: &str) -> Result<Guard, AcquireError> {
        wait_for(self.try_lock(name))
    }

    /// [`lock_within`](Node::lock_within) without async.
    pub fn lock_within_blocking(&self, name: &str, longest: Duration) -> Result<Guard, AcquireError> {
        wait_for(self.lock_within(name, longest))
    }

    /// A lock that `permits` may hold at once.
    pub fn semaphore(&self, name: &str, permits: u32) -> Semaphore {
        Semaphore::new(self.clone(), name.to_owned(), permits)
    }

    /// Leaves the cluster: the other sites need not wait for this one. Nothing more is granted here; it completes once all that is
    /// held here is given back and the others have agreed.
    pub async fn leave(&self) {
        let left = Arc::new(Left(watch::Sender::new(false)));
        self.inner.engine.ask(left.clone(), |request| Call::Leave { request });
        let _ = left.0.subscribe().wait_for(|left| *left).await;
    }

    /// What drives the node: for whoever builds on more than locks.
    pub fn engine(&self) -> &Engine {
        &self.inner.engine
    }

    pub(super) async fn acquire(&self, lock: LockName, wait: Wait) -> Result<Guard, AcquireError> {
        let wish = Arc::new(Wish::new());
        let session = self.inner.session;
        let (wanted, listener) = (lock.clone(), wish.clone());
        let call = |request| Call::Acquire { session, request, lock: wanted, wait, cause: None };
        let request = self.inner.engine.ask(listener, call);
        let mut pending = Pending { node: Some(&self.inner), request };
        let mut stage = wish.stage();
        // Not for a lock whose token is here: then no task is switched.
        if stage == Stage::Waiting {
            stage = wish.until(|stage| *stage != Stage::Waiting).await;
        }
        pending.node = None;
        match stage {
            Stage::Held(grant) => Ok(Guard::new(self.inner.clone(), lock, request, wish, grant)),
            Stage::TimedOut => Err(AcquireError::TimedOut { lock }),
            Stage::Busy => Err(AcquireError::Busy { lock }),
            Stage::Refused { why } => Err(AcquireError::Refused { lock, why: why.to_owned() }),
            Stage::Waiting | Stage::Lost { .. } | Stage::Over => {
                pending.node = Some(&self.inner);
                Err(AcquireError::Refused {
                    lock,
                    why: "it was lost as it was granted; ask again".to_owned(),
                })
            }
        }
    }
}

impl std::fmt::Debug for Node {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Node").field("member", &self.inner.engine.look(|node| node.me().clone())).finish()
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        self.engine.close_session(self.session, []);
    }
}

/// A wish that is taken back if its caller goes away before it is answered.
struct Pending<'a> {
    node: Option<&'a Arc<Inner>>,
    request: Request,
}

impl Drop for Pending<'_> {
    fn drop(&mut self) {
        if let Some(node) = self.node {
            node.engine.forget(self.request, Call::Cancel(self.request));
        }
    }
}

/// Whether the site has left.
struct Left(watch::Sender<bool>);

impl Listener for Left {
    fn hear(&self, answer: &Answer) {
        if let Answer::Left { .. } = answer {
            self.0.send_replace(true);
        }
    }
}

/// Until so long from now.
pub(super) fn until(longest: Duration) -> Wait {
    let micros = u64::try_from(longest.as_micros()).unwrap_or(u64::MAX);
    let now: Time = now();
    Wait::Until(now + Span::from_micros(micros))
}
