//! A program's way to running nodes: one session at a time, opened again with another node when one is gone.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use meshlock_cluster::names::{ClientLabel, LockName, SiteName};
use meshlock_cluster::table::Wait;
use meshlock_system::now;
use meshlock_wire::clients::RefusalKind;
use tokio::sync::oneshot;

use super::endpoint::Endpoint;
use super::error::ConnectionError;
use super::request::{LockRequest, NotGranted, RequestState};
use super::session::Session;

/// A program's way to running nodes. Clones share one session.
#[derive(Clone)]
pub struct Client {
    inner: Arc<Inner>,
}

struct Inner {
    endpoints: Vec<Endpoint>,
    label: ClientLabel,
    session: Mutex<Option<Arc<Session>>>,
    /// The endpoint to begin with.
    first: AtomicUsize,
    /// Held by whoever connects: one at a time.
    connecting: Mutex<()>,
}

/// A lock of a running node that is held. Dropping it gives it back.
pub struct HeldLock {
    request: Arc<LockRequest>,
    /// Keeps the session open.
    _session: Arc<Session>,
}

impl Client {
    /// Connects to the first of these nodes that answers. `label` is how operators and other clients know this program.
    pub fn connect(endpoints: Vec<Endpoint>, label: ClientLabel) -> Result<Self, ConnectionError> {
        let session = Mutex::new(Some(Session::open(&endpoints, 0, &label)?));
        let (first, connecting) = (AtomicUsize::new(0), Mutex::default());
        Ok(Client { inner: Arc::new(Inner { endpoints, label, session, first, connecting }) })
    }

    /// [`connect`](Client::connect) on a thread of its own, so that no runtime has to stand still.
    pub async fn connect_async(
        endpoints: Vec<Endpoint>,
        label: ClientLabel,
    ) -> Result<Self, ConnectionError> {
        on_a_thread(move || Client::connect(endpoints, label)).await
    }

    /// The site that the session is with; none while there is no session.
    pub fn site(&self) -> Option<SiteName> {
        self.inner
            .session()
            .as_ref()
            .filter(|session| session.is_open())
            .map(|session| session.site().clone())
    }

    /// Asks for a lock, or for one of its permits, and waits until it is granted. If the node goes away meanwhile, another one is
    /// asked.
    pub async fn acquire(
        &self,
        lock: LockName,
        wait: Wait,
        permits: Option<u32>,
    ) -> Result<HeldLock, NotGranted> {
        let since = now();
        // How many nodes have said that they leave: each is asked once.
        let mut left = 0;
        loop {
            let session = self.session().await.map_err(|error| NotGranted::Disconnected(Arc::new(error)))?;
            let asked = session.acquire(lock.clone(), wait.after(now().since(since)), permits);
            let request = match asked {
                Ok(request) => Pending(Some(request)),
                // It ended just now: there may be another node.
                Err(_) => continue,
            };
            let state = request.until_decided().await;
            match state {
                RequestState::Held { .. } => {
                    let request = request.keep();
                    return Ok(HeldLock { request, _session: session });
                }
                RequestState::Ended(NotGranted::Disconnected(_)) => {}
                RequestState::Ended(NotGranted::Refused { kind: RefusalKind::Leaving, .. })
                    if left + 1 < self.inner.endpoints.len() =>
                {
                    left += 1;
                    self.inner.go_on_from(&session);
                }
                RequestState::Ended(why) => return Err(why),
                // Lost as it was granted.
                RequestState::Waiting | RequestState::Lost { .. } => return Err(NotGranted::Cancelled),
            }
        }
    }

    /// The session that is open, or a new one with the first node that answers.
    async fn session(&self) -> Result<Arc<Session>, ConnectionError> {
        if let Some(session) = self.inner.open_session() {
            return Ok(session);
        }
        let inner = self.inner.clone();
        on_a_thread(move || inner.connect()).await
    }
}

impl Inner {
    fn session(&self) -> MutexGuard<'_, Option<Arc<Session>>> {
        self.session.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The next request goes to the endpoint after the one of this session, which keeps what it holds.
    fn go_on_from(&self, session: &Arc<Session>) {
        let mut current = self.session();
        if current.as_ref().is_some_and(|current| Arc::ptr_eq(current, session)) {
            self.first.store(session.endpoint() + 1, Ordering::Relaxed);
            *current = None;
        }
    }

    fn open_session(&self) -> Option<Arc<Session>> {
        self.session().as_ref().filter(|session| session.is_open()).cloned()
    }

    /// Opens a session, unless another caller has done so meanwhile.
    fn connect(&self) -> Result<Arc<Session>, ConnectionError> {
        let _one = self.connecting.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(session) = self.open_session() {
            return Ok(session);
        }
        let first = self.first.load(Ordering::Relaxed);
        let session = Session::open(&self.endpoints, first, &self.label)?;
        // What is replaced may wait a moment for its end: not with the lock held.
        let old = self.session().replace(session.clone());
        drop(old);
        Ok(session)
    }
}

impl HeldLock {
    pub fn request(&self) -> &Arc<LockRequest> {
        &self.request
    }
}

impl Drop for HeldLock {
    fn drop(&mut self) {
        self.request.release();
    }
}

/// A request that is taken back if its caller goes away before it is granted.
struct Pending(Option<Arc<LockRequest>>);

impl Pending {
    async fn until_decided(&self) -> RequestState {
        match &self.0 {
            Some(request) => request.until(|state| !matches!(state, RequestState::Waiting)).await,
            None => RequestState::Waiting,
        }
    }

    fn keep(mut self) -> Arc<LockRequest> {
        self.0.take().expect("it is taken once")
    }
}

impl Drop for Pending {
    fn drop(&mut self) {
        if let Some(request) = self.0.take() {
            request.release();
        }
    }
}

/// Connecting blocks: a thread does it.
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
