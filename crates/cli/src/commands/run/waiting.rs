//! Requests the lock and waits for it.

use std::io::IsTerminal;
use std::os::fd::AsFd;
use std::time::Duration;

use meshlock_cluster::names::{ClientLabel, LockName};
use meshlock_cluster::node::LockQueue;
use meshlock_cluster::node::line;
use meshlock_cluster::table::Wait;
use meshlock_cluster::time::{Span, Time};
use meshlock_system::now;
use meshlock_wire::clients::{RefusalKind, Tag, ToClient, ToNode};
use rustix::process::{Signal, getpid, kill_process};

use super::events::{EventSource, WakeReason};
use super::tell;
use crate::embedded;
use crate::location::{self, NodeFlags, NodeLocation};
use meshlock_client::{Connection, ConnectionError};

/// After this time, a user at a terminal is told who holds the lock.
const TELL_AFTER: Span = Span::from_millis(1000);

/// How long to wait for messages that should have arrived already.
const AT_ONCE: Duration = Duration::from_millis(1);

/// How long the node may take to answer the question for its status.
const ANSWER_WITHIN: Duration = Duration::from_secs(5);

/// A request of `meshlock run` for a lock.
pub(super) struct RunRequest {
    lock: LockName,
    wait: Wait,
    permits: Option<u32>,
    who: ClientLabel,
    /// The node; `None` for the embedded node, which is started again if it ends.
    location: Option<NodeLocation>,
    remote: Option<Connection>,
    since: Time,
}

/// A lock that was granted.
pub(super) struct GrantedLock {
    /// The session: the lock is held while its socket is open in some process.
    pub(super) remote: Connection,
    pub(super) tag: Tag,
    pub(super) grant: GrantTerms,
}

impl GrantedLock {
    /// Returns whether the lock is still held, with time to spare: this process may have been stopped since the grant. Handles all
    /// messages that have arrived since.
    pub(super) fn is_still_held(&mut self) -> bool {
        loop {
            match self.remote.receive(Some(AT_ONCE)) {
                Ok(Some(ToClient::Extended { lease_end })) => {
                    self.grant.lease_end = self.grant.lease_end.max(self.remote.local(lease_end));
                }
                Ok(Some(ToClient::Lost { tag, .. })) if tag == self.tag => return false,
                Ok(Some(_)) => {}
                Ok(None) => return now() < self.grant.lease_end.before(self.grant.margin),
                Err(_) => return false,
            }
        }
    }
}

/// The terms of a grant.
#[derive(Clone, Copy, Debug)]
pub(super) struct GrantTerms {
    pub(super) fence: i64,
    pub(super) slot: Option<u32>,
    /// Nobody else gets the lock before this time, by our clock.
    pub(super) lease_end: Time,
    /// How long before that CMD is told to stop.
    pub(super) margin: Span,
}

/// How waiting for the lock ended.
pub(super) enum Waited {
    Granted(GrantedLock),
    /// The lock was not granted in the given time.
    NotInTime,
    /// The node refused the request, for this reason.
    Refused(String),
    /// The node leaves its cluster, and no other may be used.
    NodeLeaves,
    /// This signal ended the wait.
    Interrupted(Signal),
}

/// The node's answer to the request.
enum NodeAnswer {
    Granted(GrantTerms),
    NotInTime,
    Refused(RefusalKind, String),
}

impl RunRequest {
    /// Finds the node, or starts the embedded one, and connects.
    pub(super) fn new(
        lock: LockName,
        wait: Wait,
        permits: Option<u32>,
        node: &NodeFlags,
        who: ClientLabel,
    ) -> anyhow::Result<Self> {
        let location = match node.find() {
            Ok(location) if location.as_socket().is_some_and(embedded::is_embedded) => None,
            Ok(location) => Some(location),
            Err(error) if location::is_none(&error) => None,
            Err(error) => return Err(error),
        };
        let mut request = RunRequest { lock, wait, permits, who, location, remote: None, since: now() };
        request.remote = Some(request.connect()?);
        Ok(request)
    }

    fn connect(&self) -> anyhow::Result<Connection> {
        match &self.location {
            Some(location) => Ok(location.connect_for_children(&self.who)?),
            None => embedded::connect(&self.who),
        }
    }

    /// Waits for the answer. If the embedded node ends meanwhile, it is started again.
    pub(super) fn wait(&mut self, events: &EventSource) -> anyhow::Result<Waited> {
        loop {
            let remote = match self.remote.take() {
                Some(remote) => remote,
                None => self.connect()?,
            };
            match self.wait_at(remote, events) {
                Ok(Some(waited)) => return Ok(waited),
                Ok(None) if self.location.is_none() => {}
                Ok(None) => return Ok(Waited::NodeLeaves),
                Err(error) if self.location.is_none() && is_gone(&error) => {}
                Err(error) => return Err(error),
            }
        }
    }

    /// Waits for the answer of one node. Returns `None` if the node leaves its cluster.
    fn wait_at(&self, mut remote: Connection, events: &EventSource) -> anyhow::Result<Option<Waited>> {
        let tag = remote.tag();
        let (lock, permits) = (self.lock.clone(), self.permits);
        remote.send(&ToNode::Acquire {
            tag,
            lock,
            wait: self.wait.after(now().since(self.since)),
            permits,
        })?;
        let mut tell_at = std::io::stderr().is_terminal().then(|| self.since + TELL_AFTER);
        loop {
            match events.wait(Some(remote.as_fd()), tell_at)? {
                WakeReason::Time => {
                    tell_at = None;
                    let (question, lock) = (remote.tag(), self.lock.clone());
                    remote.send(&ToNode::Queue { tag: question, lock })?;
                }
                WakeReason::Signal(signal) if ends_waiting(signal) => {
                    return Ok(Some(Waited::Interrupted(signal)));
                }
                WakeReason::Signal(_) => {}
                WakeReason::Node => match self.read(&mut remote, tag)? {
                    None => {}
                    Some(NodeAnswer::Granted(grant)) => {
                        return Ok(Some(Waited::Granted(GrantedLock { remote, tag, grant })));
                    }
                    Some(NodeAnswer::NotInTime) => return Ok(Some(Waited::NotInTime)),
                    Some(NodeAnswer::Refused(kind, _)) if is_leaving(kind, &mut remote)? => return Ok(None),
                    Some(NodeAnswer::Refused(_, why)) => return Ok(Some(Waited::Refused(why))),
                },
            }
        }
    }

    /// Reads the messages of the node, up to the answer to the request `tag`.
    fn read(&self, remote: &mut Connection, tag: Tag) -> Result<Option<NodeAnswer>, ConnectionError> {
        let mut next = remote.receive(Some(AT_ONCE))?;
        while let Some(message) = next {
            if let ToClient::Queue { queue, .. } = &message {
                self.tell(queue);
            }
            if message.tag() == Some(tag)
                && let Some(found) = answer(message, remote)
            {
                return Ok(Some(found));
            }
            next = remote.received()?;
        }
        Ok(None)
    }

    /// Tells the user at the terminal for whom the request waits.
    fn tell(&self, queue: &LockQueue) {
        let line = line(&queue.sites, &queue.missing, queue.permits);
        let ours =
            line.iter().find(|waiting| waiting.waiter.label.as_ref().is_some_and(|label| self.is_us(label)));
        if let Some(waiting) = ours {
            tell(format!("waiting for '{}' {}", self.lock, waiting.why));
        }
    }

    /// Returns whether this is our label. The node may have added the name from our certificate to it.
    fn is_us(&self, label: &ClientLabel) -> bool {
        let rest = label.as_str().strip_prefix(self.who.as_str());
        rest.is_some_and(|rest| rest.is_empty() || rest.starts_with(", client "))
    }

    /// Explains to the user why the lock was not granted in time.
    pub(super) fn why_not(&self) -> String {
        match self.wait {
            Wait::Within(span) => {
                format!("did not get the lock '{}' within {} ms", self.lock, span.micros() / 1000)
            }
            Wait::Try | Wait::Forever => format!("someone else has the lock '{}'", self.lock),
        }
    }
}

/// Converts a message about our request to an answer.
fn answer(message: ToClient, remote: &Connection) -> Option<NodeAnswer> {
    if let ToClient::Granted { fence, slot, lease_end, margin, .. } = message {
        let lease_end = remote.local(lease_end);
        return Some(NodeAnswer::Granted(GrantTerms { fence, slot, lease_end, margin }));
    }
    if let ToClient::Refused { kind, why, .. } = message {
        return Some(NodeAnswer::Refused(kind, why));
    }
    matches!(message, ToClient::TimedOut(_) | ToClient::Busy(_)).then_some(NodeAnswer::NotInTime)
}

/// Applies the default action of a signal while waiting: returns whether it ends the wait, and stops this process if the signal
/// says so.
fn ends_waiting(signal: Signal) -> bool {
    let harmless = [Signal::CHILD, Signal::CONT, Signal::WINCH, Signal::URG];
    let stops = [Signal::TSTP, Signal::TTIN, Signal::TTOU];
    if stops.contains(&signal) {
        let _ = kill_process(getpid(), Signal::STOP);
        return false;
    }
    !harmless.contains(&signal)
}

/// Returns whether the node refuses because it leaves its cluster. A node of protocol version 2 gives no reason, and is asked for
/// its status.
fn is_leaving(kind: RefusalKind, remote: &mut Connection) -> Result<bool, ConnectionError> {
    if kind != RefusalKind::Other {
        return Ok(kind == RefusalKind::Leaving);
    }
    match remote.ask(ANSWER_WITHIN, |tag| ToNode::Status { tag }) {
        Ok(answer) => Ok(matches!(answer, ToClient::Status { status, .. } if status.leaving)),
        // A client that may not ask for the status was refused for another reason.
        Err(ConnectionError::Refused { .. }) => Ok(false),
        Err(error) => Err(error),
    }
}

/// Returns whether the node has closed the connection.
fn is_gone(error: &anyhow::Error) -> bool {
    matches!(error.downcast_ref(), Some(ConnectionError::Closed(_)))
}
