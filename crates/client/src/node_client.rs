//! A client of running nodes: one session at a time, reopened with another node when one is gone.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use meshlock_cluster::names::{ClientLabel, LockName, SiteName};
use meshlock_cluster::table::Wait;
use meshlock_system::now;
use meshlock_wire::clients::RefusalKind;
use tokio::sync::oneshot;

use super::error::ConnectionError;
use super::nearest::NodeChoice;
use super::node_endpoint::NodeEndpoint;
use super::remote_request::RemoteRequest;
use super::request_state::{NotGranted, RequestState};
use super::session::NodeSession;

/// A client of running nodes. Clones share one session.
#[derive(Clone)]
pub struct NodeClient {
    inner: Arc<Inner>,
}

struct Inner {
    endpoints: Vec<NodeEndpoint>,
    label: ClientLabel,
    session: Mutex<Option<Arc<NodeSession>>>,
    /// Which node the next session is opened with.
    choice: Mutex<NodeChoice>,
    /// Held while connecting, so that one caller connects at a time.
    connecting: Mutex<()>,
}

/// Why a client of running nodes did not get a lock.
#[derive(Debug, thiserror::Error)]
pub enum NotAcquired {
    /// A node answered, and did not grant it.
    #[error(transparent)]
    NotGranted(#[from] NotGranted),
    /// There is no session, and no node accepts a new one.
    #[error(transparent)]
    Unreachable(ConnectionError),
}

/// A held lock of a running node. Dropping it releases the lock.
pub struct HeldLock {
    request: Arc<RemoteRequest>,
    /// Keeps the session open.
    _session: Arc<NodeSession>,
}

impl NodeClient {
    /// Connects to the nearest of these nodes that answers, which blocks.
    fn connect(endpoints: Vec<NodeEndpoint>, label: ClientLabel) -> Result<Self, ConnectionError> {
        let session = NodeSession::open(&endpoints, NodeChoice::Nearest, &label)?;
        let choice = Mutex::new(NodeChoice::NearestAfter(session.endpoint()));
        let (session, connecting) = (Mutex::new(Some(session)), Mutex::default());
        Ok(NodeClient { inner: Arc::new(Inner { endpoints, label, session, choice, connecting }) })
    }

    /// Connects to the nearest of these nodes that answers, on a thread of its own so that the caller's runtime is not blocked. `label`
    /// identifies this program to operators and other clients.
    pub async fn connect_async(
        endpoints: Vec<NodeEndpoint>,
        label: ClientLabel,
    ) -> Result<Self, ConnectionError> {
        on_a_thread(move || NodeClient::connect(endpoints, label)).await
    }

    /// Returns the site of the open session; `None` while there is no session.
    pub fn site(&self) -> Option<SiteName> {
        self.inner.session().as_ref().filter(|session| session.is_open()).map(|session| session.site())
    }

    /// Asks for a lock, or for one of its permits, and waits until it is granted. If the node goes away meanwhile, another node is
    /// asked.
    pub async fn acquire(
        &self,
        lock: LockName,
        wait: Wait,
        permits: Option<u32>,
    ) -> Result<HeldLock, NotAcquired> {
        let since = now();
        // Number of answers that a node is leaving its cluster. A session that has moved is not at the node at which it was opened, so that
        // a node may be asked twice.
        let mut left = 0;
        loop {
            let session = self.session().await.map_err(NotAcquired::Unreachable)?;
            let asked = session.acquire(lock.clone(), wait.after(now().since(since)), permits);
            let request = match asked {
                Some(request) => ReleaseOnDrop(Some(request)),
                // The session has just ended. Another node may answer.
                None => continue,
            };
            let state = request.until_decided().await;
            match state {
                RequestState::Held { .. } => {
                    let request = request.keep();
                    return Ok(HeldLock { request, _session: session });
                }
                RequestState::Ended(NotGranted::Disconnected) => {}
                RequestState::Ended(NotGranted::Refused { kind: RefusalKind::Leaving, .. })
                    if left + 1 < 2 * self.inner.endpoints.len() && self.inner.endpoints.len() > 1 =>
                {
                    left += 1;
                    self.inner.go_on_from(&session);
                }
                RequestState::Ended(why) => return Err(why.into()),
                // The lock was lost as it was granted.
                RequestState::Waiting | RequestState::Lost { .. } => return Err(NotGranted::Cancelled.into()),
            }
        }
    }

    /// Returns the open session, or opens one.
    async fn session(&self) -> Result<Arc<NodeSession>, ConnectionError> {
        if let Some(session) = self.inner.open_session() {
            return Ok(session);
        }
        let inner = self.inner.clone();
        on_a_thread(move || inner.connect()).await
    }
}

impl Inner {
    fn session(&self) -> MutexGuard<'_, Option<Arc<NodeSession>>> {
        self.session.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Makes the next request go to the endpoint after this session's. The session keeps what it holds.
    fn go_on_from(&self, session: &Arc<NodeSession>) {
        let mut current = self.session();
        if current.as_ref().is_some_and(|current| Arc::ptr_eq(current, session)) {
            *self.choice() = NodeChoice::FirstFrom(session.endpoint() + 1);
            *current = None;
        }
    }

    fn choice(&self) -> MutexGuard<'_, NodeChoice> {
        self.choice.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn open_session(&self) -> Option<Arc<NodeSession>> {
        self.session().as_ref().filter(|session| session.is_open()).cloned()
    }

    /// Opens a session, unless another caller has done so meanwhile.
    fn connect(&self) -> Result<Arc<NodeSession>, ConnectionError> {
        let _one = self.connecting.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(session) = self.open_session() {
            return Ok(session);
        }
        let choice = *self.choice();
        let session = NodeSession::open(&self.endpoints, choice, &self.label)?;
        // The next one is needed when this one has ended.
        *self.choice() = NodeChoice::NearestAfter(session.endpoint());
        // Dropping the old session may wait for its end, so it happens without the lock.
        let old = self.session().replace(session.clone());
        drop(old);
        Ok(session)
    }
}

impl HeldLock {
    /// The request that was granted.
    pub fn request(&self) -> &Arc<RemoteRequest> {
        &self.request
    }
}

impl Drop for HeldLock {
    fn drop(&mut self) {
        self.request.release();
    }
}

/// Releases a request if its caller goes away before it is granted.
struct ReleaseOnDrop(Option<Arc<RemoteRequest>>);

impl ReleaseOnDrop {
    async fn until_decided(&self) -> RequestState {
        match &self.0 {
            Some(request) => request.until(|state| !matches!(state, RequestState::Waiting)).await,
            None => RequestState::Waiting,
        }
    }

    fn keep(mut self) -> Arc<RemoteRequest> {
        self.0.take().expect("it is taken once")
    }
}

impl Drop for ReleaseOnDrop {
    fn drop(&mut self) {
        if let Some(request) = self.0.take() {
            request.release();
        }
    }
}

/// Runs `connect`, which blocks, on a new thread.
async fn on_a_thread<T: Send + 'static>(
    connect: impl FnOnce() -> Result<T, ConnectionError> + Send + 'static,
) -> Result<T, ConnectionError> {
    let (sender, connected) = oneshot::channel();
    std::thread::Builder::new()
        .name("meshlock connect".to_owned())
        .spawn(move || sender.send(connect()))
        .map_err(ConnectionError::Thread)?;
    connected.await.unwrap_or(Err(ConnectionError::NoEndpoint))
}
