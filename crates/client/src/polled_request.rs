//! A request over a session of its own, for programs that have their own event loop: they poll its descriptor beside what else they wait
//! for, such as signals.
//!
//! - Inputs: [`on_readable`](PolledRequest::on_readable) when the descriptor is readable; at the time that [`due`](PolledRequest::due) returns,
//!   [`catch_up`](PolledRequest::catch_up) and then [`lose_if_due`](PolledRequest::lose_if_due).
//! - Outputs: [`state`](PolledRequest::state), and the answers to what was asked besides, [`take_queue`](PolledRequest::take_queue) and
//!   [`take_guard_refusal`](PolledRequest::take_guard_refusal).
//!
//! After an error the session is over: the state says what this means for the request, and there is no descriptor any more.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::{Duration, Instant};

use meshlock_cluster::names::LockName;
use meshlock_cluster::report::LockQueue;
use meshlock_cluster::table::Wait;
use meshlock_cluster::time::Time;
use meshlock_system::now;
use meshlock_wire::clients::{RefusalKind, Tag, ToClient, ToNode};

use super::catch_up::catch_up;
use super::connection::Connection;
use super::error::ConnectionError;
use super::node_endpoint::NodeEndpoint;
use super::open_requests::OpenRequests;
use super::request_state::RequestState;

/// How long the node may take to answer the question for its status.
const ANSWER_WITHIN: Duration = Duration::from_secs(5);

/// A request for a lock, and the session that it is made in. The lock is held while any process has the session's
/// [descriptors](PolledRequest::descriptors) open.
#[derive(Debug)]
pub struct PolledRequest {
    endpoint: NodeEndpoint,
    /// `None` once the session is over.
    connection: Option<Connection>,
    lock: LockName,
    tag: Tag,
    inbox: Inbox,
}

/// What the node has said: what that means for the request, and answers that nobody has taken yet.
#[derive(Debug, Default)]
struct Inbox {
    requests: OpenRequests,
    queue: Option<LockQueue>,
    guard_refusal: Option<String>,
    /// Why the node is about to end the session.
    dismissal: Option<String>,
}

impl Inbox {
    fn on_message(&mut self, message: ToClient, connection: &Connection) {
        if let ToClient::Queue { queue, .. } = message {
            self.queue = Some(queue);
        } else if let ToClient::Refused { tag: 0, kind: RefusalKind::Denied, why } = message {
            self.dismissal = Some(why);
        } else if let ToClient::Refused { tag: 0, why, .. } = message {
            // Of all that is asked, only Guard has no tag of its own.
            self.guard_refusal = Some(why);
        } else {
            self.requests.on_message(message, |time| connection.local(time));
        }
    }
}

impl PolledRequest {
    /// Asks for a lock, or for one of its permits.
    pub fn send(
        mut connection: Connection,
        lock: LockName,
        wait: Wait,
        permits: Option<u32>,
    ) -> Result<Self, ConnectionError> {
        let tag = connection.tag();
        let mut inbox = Inbox::default();
        inbox.requests.open(tag);
        connection.send(&ToNode::Acquire { tag, lock: lock.clone(), wait, permits })?;
        let endpoint = connection.endpoint().clone();
        Ok(PolledRequest { endpoint, connection: Some(connection), lock, tag, inbox })
    }

    /// Returns the state of the request.
    pub fn state(&self) -> &RequestState {
        self.inbox.requests.state(self.tag).expect("the request is never forgotten")
    }

    /// Returns when the lock is lost unless the node extends the lease before; `None` if it is not held.
    pub fn due(&self) -> Option<Time> {
        self.inbox.requests.due()
    }

    /// Returns the endpoint of the node.
    pub fn endpoint(&self) -> &NodeEndpoint {
        &self.endpoint
    }

    /// Returns the descriptor to poll; `None` once the session is over.
    pub fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        self.connection.as_ref().map(AsFd::as_fd)
    }

    /// Returns the descriptors that keep the lock while any process has them open, for processes that are trusted with the session. There
    /// are none once the session is over.
    pub fn descriptors(&self) -> impl Iterator<Item = BorrowedFd<'_>> {
        self.connection.iter().flat_map(Connection::descriptors)
    }

    /// Takes the descriptor that keeps the lock while any process has it open, and over which nothing can be asked.
    pub fn take_keep_alive(&mut self) -> Option<OwnedFd> {
        self.connection.as_mut().and_then(Connection::take_keep_alive)
    }

    /// Takes the connection to a node on another machine. As long as any process has it open, the node assumes that the client may still
    /// run.
    pub fn take_line(&mut self) -> Option<OwnedFd> {
        self.connection.as_mut().and_then(Connection::take_line)
    }

    /// Reads what has arrived and handles it. To be called when the descriptor is readable.
    pub fn on_readable(&mut self) -> Result<(), ConnectionError> {
        self.in_session(|connection, inbox| {
            let mut next = connection.receive_available()?;
            // Not what comes after that: the end of the session is an event of its own.
            while let Some(message) = next {
                inbox.on_message(message, connection);
                next = connection.received()?;
            }
            Ok(())
        })
    }

    /// If a loss is due, handles the messages that are waiting until none is due any more: if this process was stopped, nobody has read
    /// them, and they may have extended the lease.
    pub fn catch_up(&mut self) -> Result<(), ConnectionError> {
        if self.due().is_none_or(|due| now() < due) {
            return Ok(());
        }
        self.in_session(|connection, inbox| {
            catch_up(connection, |connection, message| {
                inbox.on_message(message, connection);
                inbox.requests.due()
            })
        })
    }

    /// If the node has not extended the lease in time, the lock is lost. [`catch_up`](PolledRequest::catch_up) comes first.
    pub fn lose_if_due(&mut self, now: Time) {
        self.inbox.requests.lose_if_due(now);
    }

    /// Handles all messages that have arrived, and returns whether the lock is held with time to spare. To be called before something is
    /// started that relies on it: this process may have been stopped since the grant.
    pub fn is_still_held(&mut self) -> bool {
        // If the session is over, the state says so.
        let _ = self.in_session(|connection, inbox| {
            while let Some(message) = connection.receive_available()? {
                inbox.on_message(message, connection);
            }
            Ok(())
        });
        self.due().is_some_and(|due| now() < due)
    }

    /// Asks who holds the lock and who waits for it. [`take_queue`](PolledRequest::take_queue) returns the answer when it has arrived.
    pub fn ask_queue(&mut self) -> Result<(), ConnectionError> {
        let lock = self.lock.clone();
        self.in_session(|connection, _| {
            let tag = connection.tag();
            connection.send(&ToNode::Queue { tag, lock })
        })
    }

    /// Returns who holds the lock and who waits for it, if the node says so within `within`. For a request that has ended.
    pub fn queue_within(&mut self, within: Duration) -> Option<LockQueue> {
        let lock = self.lock.clone();
        let answer =
            self.in_session(|connection, _| connection.ask(within, |tag| ToNode::Queue { tag, lock }));
        if let Ok(ToClient::Queue { queue, .. }) = answer { Some(queue) } else { None }
    }

    /// Takes the answer to [`ask_queue`](PolledRequest::ask_queue), if it has arrived.
    pub fn take_queue(&mut self) -> Option<LockQueue> {
        self.inbox.queue.take()
    }

    /// Asks the node to kill this process group of its machine if the lock is lost and this process is gone.
    pub fn guard(&mut self, group: i32) -> Result<(), ConnectionError> {
        self.in_session(|connection, _| connection.send(&ToNode::Guard { group }))
    }

    /// Takes the node's reason for not [guarding](PolledRequest::guard) the process group, if it has refused to.
    pub fn take_guard_refusal(&mut self) -> Option<String> {
        self.inbox.guard_refusal.take()
    }

    /// Returns why the node has ended the session, if it has said so: the client's certificate has ended, or is revoked.
    pub fn dismissal(&self) -> Option<&str> {
        self.inbox.dismissal.as_deref()
    }

    /// Returns whether a refusal of this kind means that the node leaves its cluster. A node of protocol version 2 gives no reason, and is
    /// asked for its status.
    pub fn is_leaving(&mut self, refusal: RefusalKind) -> Result<bool, ConnectionError> {
        if refusal != RefusalKind::Other {
            return Ok(refusal == RefusalKind::Leaving);
        }
        self.in_session(|connection, _| {
            match connection.ask(ANSWER_WITHIN, |tag| ToNode::Status { tag }) {
                Ok(answer) => Ok(matches!(answer, ToClient::Status { status, .. } if status.leaving)),
                // A client that may not ask for the status was refused for another reason.
                Err(ConnectionError::Refused { .. }) => Ok(false),
                Err(error) => Err(error),
            }
        })
    }

    /// Releases the lock, and waits until the node has confirmed it, at most for `within`. Then the session ends.
    pub fn release(mut self, within: Duration) {
        let (tag, until) = (self.tag, Instant::now() + within);
        self.inbox.requests.forget(tag);
        // If the session is over, there is nothing to release.
        let _ = self.in_session(|connection, _| {
            connection.send(&ToNode::Release(tag))?;
            while let Some(message) =
                connection.receive(Some(until.saturating_duration_since(Instant::now())))?
            {
                if message == ToClient::Released(tag) {
                    break;
                }
            }
            Ok(())
        });
        self.end(within);
    }

    /// Ends the session and waits until the node knows it, at most for `within`.
    pub fn end(self, within: Duration) {
        if let Some(connection) = self.connection {
            connection.end(within);
        }
    }

    /// Does something with the session, which is over if that fails.
    fn in_session<T>(
        &mut self,
        act: impl FnOnce(&mut Connection, &mut Inbox) -> Result<T, ConnectionError>,
    ) -> Result<T, ConnectionError> {
        let PolledRequest { endpoint, connection, inbox, .. } = self;
        let Some(open) = connection else { return Err(ConnectionError::Closed(endpoint.clone())) };
        let done = act(open, inbox);
        if done.is_err() {
            *connection = None;
            inbox.requests.on_end();
        }
        done
    }
}

#[cfg(test)]
mod tests;
