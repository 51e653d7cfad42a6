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
use meshlock_cluster::time::Time;
use meshlock_system::{ClockAlarm, now};
use meshlock_wire::clients::{Tag, ToClient, ToNode, put_to_node};
use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::Errno;

use super::catch_up::catch_up;
use super::connection::Connection;
use super::error::ConnectionError;
use super::keeper::Keeping;
use super::nearest::NodeChoice;
use super::node_endpoint::NodeEndpoint;
use super::open_requests::OpenRequests;
use super::remote_request::{HeldUntil, RemoteRequest};
use super::request_state::RequestState;
use super::touch::Touch;

/// How long dropping the last user of a session waits until the node knows that it has ended.
const END_WITHIN: Duration = Duration::from_millis(500);

/// A session with one node. It ends when its last user is dropped.
pub(super) struct NodeSession {
    /// Every caller writes its own messages.
    writer: Arc<Mutex<UnixStream>>,
    /// Index of the endpoint at which it was opened.
    endpoint: usize,
    last_tag: AtomicU64,
    shared: Arc<SharedSession>,
    /// Disconnects when the thread has ended.
    ended: Mutex<Receiver<()>>,
}

/// What the thread and the callers share.
struct SharedSession {
    /// The site that it is connected to. It can move to another one.
    site: Mutex<SiteName>,
    open: Mutex<OpenSession>,
    held_until: Arc<HeldUntil>,
}

/// The requests of a session, and who made them.
#[derive(Default)]
struct OpenSession {
    requests: OpenRequests,
    callers: BTreeMap<Tag, Arc<RemoteRequest>>,
    /// Whether the connection has ended.
    over: bool,
}

impl NodeSession {
    /// Opens a session with one of these nodes that answers.
    pub(super) fn open(
        endpoints: &[NodeEndpoint],
        choice: NodeChoice,
        label: &ClientLabel,
    ) -> Result<Arc<Self>, ConnectionError> {
        let (connection, at) = Connection::connect_to_any(endpoints, choice, label, &Keeping::Thread)?;
        NodeSession::start(connection, at)
    }

    fn start(connection: Connection, endpoint: usize) -> Result<Arc<Self>, ConnectionError> {
        let failed = |error| ConnectionError::Io { endpoint: connection.endpoint().clone(), error };
        let writer = connection.as_fd().try_clone_to_owned().map(UnixStream::from).map_err(failed)?;
        let alarm = ClockAlarm::new().map_err(failed)?;
        let site = Mutex::new(connection.site().clone());
        let shared = Arc::new(SharedSession { site, open: Mutex::default(), held_until: Arc::default() });
        let (says, ended) = channel();
        let writer = Arc::new(Mutex::new(writer));
        let touch = connection.estimate().map(|estimate| Touch::promise(estimate, writer.clone(), now()));
        let touch = touch.transpose().map_err(failed)?;
        if let Some(end) = touch.as_ref().and_then(Touch::session_end) {
            shared.open().requests.keep_until(end);
        }
        let reader =
            SessionReader { connection, alarm, shared: Arc::downgrade(&shared), touch, _ended: says };
        std::thread::Builder::new()
            .name("meshlock client".to_owned())
            .spawn(move || reader.run())
            .map_err(ConnectionError::Thread)?;
        let ended = Mutex::new(ended);
        Ok(Arc::new(NodeSession { writer, endpoint, last_tag: AtomicU64::new(1 << 32), shared, ended }))
    }

    /// Whether the session has not ended.
    pub(super) fn is_open(&self) -> bool {
        !self.shared.open().over
    }

    pub(super) fn endpoint(&self) -> usize {
        self.endpoint
    }

    pub(super) fn site(&self) -> SiteName {
        self.shared.site.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Asks for a lock; `None` if the session has ended.
    pub(super) fn acquire(
        self: &Arc<Self>,
        lock: LockName,
        wait: Wait,
        permits: Option<u32>,
    ) -> Option<Arc<RemoteRequest>> {
        let tag = self.last_tag.fetch_add(1, Ordering::Relaxed) + 1;
        let held_until = self.shared.held_until.clone();
        let request = Arc::new(RemoteRequest::new(Arc::downgrade(self), tag, lock.clone(), held_until));
        {
            let mut open = self.shared.open();
            if open.over {
                return None;
            }
            open.requests.open(tag);
            open.callers.insert(tag, request.clone());
        }
        // If this fails, the thread notices and ends all requests.
        self.say(&ToNode::Acquire { tag, lock, wait, permits });
        Some(request)
    }

    /// Releases a lock, or stops waiting for it.
    pub(super) fn release(&self, tag: Tag) {
        self.shared.open().forget(tag);
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

impl OpenSession {
    /// Returns the caller whose request has changed and the new state, and forgets requests that have ended.
    fn on_change(&mut self, tag: Tag) -> Option<(Arc<RemoteRequest>, RequestState)> {
        let change = (self.callers.get(&tag)?.clone(), self.requests.state(tag)?.clone());
        if let (_, RequestState::Ended(_)) = change {
            self.forget(tag);
        }
        Some(change)
    }

    fn forget(&mut self, tag: Tag) {
        self.requests.forget(tag);
        self.callers.remove(&tag);
    }
}

impl SharedSession {
    fn open(&self) -> MutexGuard<'_, OpenSession> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn due(&self) -> Option<Time> {
        self.open().requests.due()
    }

    fn on_message(&self, message: ToClient, connection: &Connection) {
        let change = {
            let mut open = self.open();
            let tag = open.requests.on_message(message, |time| connection.local(time));
            // Before a caller learns that it holds something.
            self.held_until.extend(open.requests.held_until());
            tag.and_then(|tag| open.on_change(tag))
        };
        if let Some((request, state)) = change {
            request.advance(state);
        }
    }

    /// Handles something that can change many requests, and tells their callers.
    fn on_event(&self, event: impl FnOnce(&mut OpenSession) -> Vec<Tag>) {
        let changes: Vec<_> = {
            let mut open = self.open();
            event(&mut open).into_iter().filter_map(|tag| open.on_change(tag)).collect()
        };
        for (request, state) in changes {
            request.advance(state);
        }
    }
}

/// The thread that reads the node's messages, and declares locks lost when the node has been silent for too long.
struct SessionReader {
    connection: Connection,
    alarm: ClockAlarm,
    shared: Weak<SharedSession>,
    /// Keeps in touch with a node of this machine. With another machine's, a relay does.
    touch: Option<Touch>,
    /// Dropped when the thread ends.
    _ended: Sender<()>,
}

impl SessionReader {
    fn run(mut self) {
        if self.read_all().is_err()
            && let Some(shared) = self.shared.upgrade()
        {
            shared.on_event(|open| {
                open.over = true;
                open.requests.on_end()
            });
        }
    }

    /// Reads until the connection fails, or nobody uses the session any more.
    fn read_all(&mut self) -> Result<(), ConnectionError> {
        loop {
            while let Some(message) = self.connection.received()? {
                let Some(shared) = self.shared.upgrade() else { return Ok(()) };
                on_message(&shared, self.touch.as_mut(), message, &self.connection);
            }
            if let Some(touch) = &mut self.touch {
                touch.ping_if_due(now());
            }
            let due = self.shared.upgrade().and_then(|shared| shared.due());
            let next_ping = self.touch.as_ref().map(Touch::next_ping);
            self.wait([due, next_ping].into_iter().flatten().min())?;
            if due.is_none_or(|due| now() < due) {
                self.connection.read_available()?;
                continue;
            }
            let Some(shared) = self.shared.upgrade() else { return Ok(()) };
            let touch = &mut self.touch;
            catch_up(&mut self.connection, |connection, message| {
                on_message(&shared, touch.as_mut(), message, connection);
                shared.due()
            })?;
            shared.on_event(|open| open.requests.lose_if_due(now()));
        }
    }

    /// Waits until the node sends something or a loss is due.
    fn wait(&self, due: Option<Time>) -> Result<(), ConnectionError> {
        let failed =
            |error: io::Error| ConnectionError::Io { endpoint: self.connection.endpoint().clone(), error };
        self.alarm.set(due).map_err(failed)?;
        let mut waits =
            [PollFd::new(&self.connection, PollFlags::IN), PollFd::new(&self.alarm, PollFlags::IN)];
        match poll(&mut waits, None) {
            Ok(_) | Err(Errno::INTR) => Ok(()),
            Err(error) => Err(failed(error.into())),
        }
    }
}

/// Handles a message of the node: first what it says about the session, then about requests.
fn on_message(shared: &SharedSession, touch: Option<&mut Touch>, message: ToClient, connection: &Connection) {
    if let Some(touch) = touch {
        touch.on_message(&message);
        if let Some(end) = touch.session_end() {
            shared.open().requests.keep_until(end);
        }
    }
    if let ToClient::Welcome { site, .. } = message {
        // The relay has moved the session to another node.
        *shared.site.lock().unwrap_or_else(PoisonError::into_inner) = site;
        return;
    }
    shared.on_message(message, connection);
}

#[cfg(test)]
mod tests;
