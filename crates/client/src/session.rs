//! One session with a node that many callers of a program share: a thread reads the node's messages, callers write their own.

use std::collections::BTreeMap;
use std::io::{self, Write};
use std::net::Shutdown;
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use meshlock_cluster::names::{ClientLabel, LockName, SiteName};
use meshlock_cluster::table::Wait;
use meshlock_cluster::time::{Span, Time};
use meshlock_system::{ClockAlarm, now};
use meshlock_wire::clients::{Tag, ToClient, ToNode, put_to_node};
use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::Errno;

use super::connection::Connection;
use super::error::ConnectionError;
use super::keeper::Keeping;
use super::node_endpoint::NodeEndpoint;
use super::request::{HeldUntil, Loss, NotGranted, RemoteRequest, RequestState};

/// How long dropping the last user of a session waits until the node knows that it has ended.
const END_WITHIN: Duration = Duration::from_millis(500);

/// A session with one node. It ends when its last user is dropped.
pub(super) struct NodeSession {
    /// Every caller writes its own messages.
    writer: Mutex<UnixStream>,
    site: SiteName,
    /// Index of its endpoint.
    endpoint: usize,
    last_tag: AtomicU64,
    shared: Arc<SessionState>,
    /// Disconnects when the thread has ended.
    ended: Mutex<Receiver<()>>,
}

/// What the thread and the callers share.
struct SessionState {
    open: Mutex<OpenRequests>,
    held_until: Arc<HeldUntil>,
}

/// The requests that have not ended.
struct OpenRequests {
    requests: BTreeMap<Tag, Arc<RemoteRequest>>,
    /// Why the session has ended, once it has.
    over: Option<Arc<ConnectionError>>,
}

impl NodeSession {
    /// Opens a session with the first of these nodes that answers, beginning with the one at `first`.
    pub(super) fn open(
        endpoints: &[NodeEndpoint],
        first: usize,
        label: &ClientLabel,
    ) -> Result<Arc<Self>, ConnectionError> {
        let mut refused = None;
        for at in (0..endpoints.len()).map(|step| (first + step) % endpoints.len()) {
            match Connection::connect(&endpoints[at], label, &Keeping::Thread) {
                Ok(connection) => return NodeSession::start(connection, at),
                Err(error) => refused = refused.or(Some(error)),
            }
        }
        Err(refused.unwrap_or(ConnectionError::NoEndpoint))
    }

    fn start(connection: Connection, endpoint: usize) -> Result<Arc<Self>, ConnectionError> {
        let failed = |error| ConnectionError::Io { endpoint: connection.endpoint().clone(), error };
        let writer = connection.as_fd().try_clone_to_owned().map(UnixStream::from).map_err(failed)?;
        let alarm = ClockAlarm::new().map_err(failed)?;
        let open = Mutex::new(OpenRequests { requests: BTreeMap::new(), over: None });
        let shared = Arc::new(SessionState { open, held_until: Arc::default() });
        let site = connection.site().clone();
        let (says, ended) = channel();
        let reader = SessionReader {
            connection,
            alarm,
            shared: Arc::downgrade(&shared),
            margin: Span::ZERO,
            _ended: says,
        };
        std::thread::Builder::new()
            .name("meshlock client".to_owned())
            .spawn(move || reader.read_all())
            .map_err(ConnectionError::Thread)?;
        let (writer, ended) = (Mutex::new(writer), Mutex::new(ended));
        Ok(Arc::new(NodeSession { writer, site, endpoint, last_tag: AtomicU64::new(1 << 32), shared, ended }))
    }

    /// Whether the session has not ended.
    pub(super) fn is_open(&self) -> bool {
        self.shared.open().over.is_none()
    }

    pub(super) fn endpoint(&self) -> usize {
        self.endpoint
    }

    pub(super) fn site(&self) -> &SiteName {
        &self.site
    }

    /// Asks for a lock.
    pub(super) fn acquire(
        self: &Arc<Self>,
        lock: LockName,
        wait: Wait,
        permits: Option<u32>,
    ) -> Result<Arc<RemoteRequest>, Arc<ConnectionError>> {
        let tag = self.last_tag.fetch_add(1, Ordering::Relaxed) + 1;
        let held_until = self.shared.held_until.clone();
        let request = Arc::new(RemoteRequest::new(Arc::downgrade(self), tag, lock.clone(), held_until));
        {
            let mut open = self.shared.open();
            if let Some(over) = &open.over {
                return Err(over.clone());
            }
            open.requests.insert(tag, request.clone());
        }
        // If this fails, the thread notices and ends all requests.
        self.say(&ToNode::Acquire { tag, lock, wait, permits });
        Ok(request)
    }

    /// Releases a lock, or stops waiting for it.
    pub(super) fn release(&self, tag: Tag) {
        self.shared.open().requests.remove(&tag);
        self.say(&ToNode::Release(tag));
    }

    fn say(&self, message: &ToNode) {
        let mut bytes = Vec::new();
        put_to_node(message, &mut bytes);
        let mut writer = self.writer.lock().unwrap_or_else(PoisonError::into_inner);
        if writer.write_all(&bytes).is_err() {
            let _ = writer.shutdown(Shutdown::Both);
        }
    }
}

impl Drop for NodeSession {
    fn drop(&mut self) {
        let _ = self.writer.lock().unwrap_or_else(PoisonError::into_inner).shutdown(Shutdown::Both);
        // Bounded: a node that cannot be reached notices the end by itself.
        let _ = self.ended.lock().unwrap_or_else(PoisonError::into_inner).recv_timeout(END_WITHIN);
    }
}

impl SessionState {
    fn open(&self) -> MutexGuard<'_, OpenRequests> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The thread that reads the node's messages, and declares locks lost when the node has been silent for too long.
struct SessionReader {
    connection: Connection,
    alarm: ClockAlarm,
    shared: Weak<SessionState>,
    /// How long before the end of the lease a loss is reported: the longest margin that the node has sent.
    margin: Span,
    /// Dropped when the thread ends.
    _ended: Sender<()>,
}

impl SessionReader {
    fn read_all(mut self) {
        let over = loop {
            // Received messages come first: while this process was stopped, the lease may have been extended all the time.
            match self.connection.received() {
                Ok(Some(message)) => {
                    let Some(shared) = self.shared.upgrade() else { return };
                    self.on_message(&shared, message);
                    continue;
                }
                Ok(None) => {}
                Err(error) => break error,
            }
            let read = self.wait();
            match read.and_then(|readable| if readable { self.connection.read_available() } else { Ok(()) }) {
                Ok(()) => {}
                Err(error) => break error,
            }
            let Some(shared) = self.shared.upgrade() else { return };
            self.lose_if_due(&shared);
        };
        if let Some(shared) = self.shared.upgrade() {
            on_end(&shared, over);
        }
    }

    /// Waits until the node sends something or a loss is due. Returns whether there is something to read.
    fn wait(&self) -> Result<bool, ConnectionError> {
        let due = self.shared.upgrade().and_then(|shared| self.due(&shared));
        let failed =
            |error: io::Error| ConnectionError::Io { endpoint: self.connection.endpoint().clone(), error };
        self.alarm.set(due).map_err(failed)?;
        let mut waits =
            [PollFd::new(&self.connection, PollFlags::IN), PollFd::new(&self.alarm, PollFlags::IN)];
        match poll(&mut waits, None) {
            Ok(_) | Err(Errno::INTR) => Ok(!waits[0].revents().is_empty()),
            Err(error) => Err(failed(error.into())),
        }
    }

    /// Returns when everything that is held is lost unless the node extends it before; `None` if nothing is held.
    fn due(&self, shared: &SessionState) -> Option<Time> {
        let holds = shared.open().requests.values().any(|request| request.is_held());
        holds.then(|| shared.held_until.get().before(self.margin))
    }

    fn lose_if_due(&self, shared: &SessionState) {
        if self.due(shared).is_some_and(|due| due <= now()) {
            let act_by = shared.held_until.get();
            let held: Vec<_> =
                shared.open().requests.values().filter(|request| request.is_held()).cloned().collect();
            for request in held {
                request.advance(RequestState::Lost { act_by, why: Loss::NodeSilent });
            }
        }
    }

    fn on_message(&mut self, shared: &SessionState, message: ToClient) {
        let tag = message.tag();
        let of = |tag: Tag| shared.open().requests.get(&tag).cloned();
        match message {
            ToClient::Extended { lease_end } => shared.held_until.extend(self.connection.local(lease_end)),
            ToClient::Granted { tag, fence, slot, lease_end, margin } => {
                shared.held_until.extend(self.connection.local(lease_end));
                self.margin = self.margin.max(margin);
                if let Some(request) = of(tag) {
                    request.advance(RequestState::Held { fence, slot, margin });
                }
            }
            ToClient::Lost { tag, act_by, why } => {
                if let Some(request) = of(tag) {
                    let act_by = self.connection.local(act_by);
                    request.advance(RequestState::Lost { act_by, why: Loss::Told(why) });
                }
            }
            ToClient::TimedOut(_) => end(shared, tag, NotGranted::TimedOut),
            ToClient::Busy(_) => end(shared, tag, NotGranted::Busy),
            ToClient::Refused { kind, why, .. } => end(shared, tag, NotGranted::Refused { kind, why }),
            ToClient::Released(_) | ToClient::Cancelled(_) => end(shared, tag, NotGranted::Cancelled),
            ToClient::Welcome { .. }
            | ToClient::Pong { .. }
            | ToClient::LostV2 { .. }
            | ToClient::RefusedV2 { .. }
            | ToClient::Queue { .. }
            | ToClient::Status { .. }
            | ToClient::Broken { .. }
            | ToClient::RulesSet { .. }
            | ToClient::Locks { .. }
            | ToClient::Leaves { .. }
            | ToClient::Left(_)
            | ToClient::Traced { .. } => {}
        }
    }
}

/// Handles the end of the connection: held locks are lost, and waiting requests are not granted.
fn on_end(shared: &SessionState, over: ConnectionError) {
    let over = Arc::new(over);
    let requests = {
        let mut open = shared.open();
        open.over = Some(over.clone());
        std::mem::take(&mut open.requests)
    };
    let act_by = shared.held_until.get();
    for request in requests.into_values() {
        if request.is_held() {
            request.advance(RequestState::Lost { act_by, why: Loss::Disconnected });
        } else {
            request.advance(RequestState::Ended(NotGranted::Disconnected(over.clone())));
        }
    }
}

fn end(shared: &SessionState, tag: Option<Tag>, why: NotGranted) {
    let request = tag.and_then(|tag| shared.open().requests.remove(&tag));
    if let Some(request) = request {
        request.advance(RequestState::Ended(why));
    }
}
