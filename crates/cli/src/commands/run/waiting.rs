//! Waiting for the lock.

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

use super::tell;
use super::watch::{Watch, Woken};
use crate::embedded;
use crate::place::{self, Place, Where};
use meshlock_client::{Connection, ConnectionError};

/// After so long a person who waits is told for whom.
const TELL_AFTER: Span = Span::from_millis(1000);

/// How long to read what has come already.
const AT_ONCE: Duration = Duration::from_millis(1);

/// How long the node may take to say how it is.
const ANSWER_WITHIN: Duration = Duration::from_secs(5);

/// A lock that somebody wants.
pub(super) struct LockRequest {
    lock: LockName,
    wait: Wait,
    permits: Option<u32>,
    who: ClientLabel,
    /// Which node; none for the one that this user's locks need, and which is started again if it goes.
    place: Option<Place>,
    remote: Option<Connection>,
    since: Time,
}

/// A lock that we have.
pub(super) struct Held {
    /// The session: the lock is held as long as its socket is open in some process.
    pub(super) remote: Connection,
    pub(super) tag: Tag,
    pub(super) grant: Grant,
}

impl Held {
    /// Whether there is time to start something under the lock: this process may have been stopped since it was granted. Hears
    /// all that was said since.
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

/// What the node promises.
#[derive(Clone, Copy, Debug)]
pub(super) struct Grant {
    pub(super) fence: i64,
    pub(super) slot: Option<u32>,
    /// Nobody else has it before this moment, on our clock.
    pub(super) lease_end: Time,
    /// How long before that we stop.
    pub(super) margin: Span,
}

/// How the waiting ended.
pub(super) enum Waited {
    /// With the lock.
    Granted(Held),
    /// Too late.
    NotInTime,
    /// It cannot be had, and why.
    Refused(String),
    /// The node that we have to use leaves its cluster.
    NodeLeaves,
    /// A signal told us to go.
    Interrupted(Signal),
}

/// What the node has said to the one who waits.
enum Heard {
    Granted(Grant),
    NotInTime,
    Refused(RefusalKind, String),
}

impl LockRequest {
    /// Finds the node, or starts one.
    pub(super) fn new(
        lock: LockName,
        wait: Wait,
        permits: Option<u32>,
        node: &Where,
        who: ClientLabel,
    ) -> anyhow::Result<Self> {
        let place = match node.find() {
            Ok(place) if place.as_socket().is_some_and(embedded::is_embedded) => None,
            Ok(place) => Some(place),
            Err(error) if place::is_none(&error) => None,
            Err(error) => return Err(error),
        };
        let mut request = LockRequest { lock, wait, permits, who, place, remote: None, since: now() };
        request.remote = Some(request.connect()?);
        Ok(request)
    }

    fn connect(&self) -> anyhow::Result<Connection> {
        match &self.place {
            Some(place) => Ok(place.connect_for_children(&self.who)?),
            None => embedded::connect(&self.who),
        }
    }

    /// Waits until there is an answer. A node of this user's own that goes away meanwhile is replaced.
    pub(super) fn wait(&mut self, watch: &Watch) -> anyhow::Result<Waited> {
        loop {
            let remote = match self.remote.take() {
                Some(remote) => remote,
                None => self.connect()?,
            };
            match self.wait_at(remote, watch) {
                Ok(Some(waited)) => return Ok(waited),
                Ok(None) if self.place.is_none() => {}
                Ok(None) => return Ok(Waited::NodeLeaves),
                Err(error) if self.place.is_none() && is_gone(&error) => {}
                Err(error) => return Err(error),
            }
        }
    }

    /// Waits at one node; nothing if it goes away in order.
    fn wait_at(&self, mut remote: Connection, watch: &Watch) -> anyhow::Result<Option<Waited>> {
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
            match watch.wait(Some(remote.as_fd()), tell_at)? {
                Woken::Time => {
                    tell_at = None;
                    let (question, lock) = (remote.tag(), self.lock.clone());
                    remote.send(&ToNode::Queue { tag: question, lock })?;
                }
                Woken::Signal(signal) if ends_waiting(signal) => {
                    return Ok(Some(Waited::Interrupted(signal)));
                }
                Woken::Signal(_) => {}
                Woken::Node => match self.read(&mut remote, tag)? {
                    None => {}
                    Some(Heard::Granted(grant)) => {
                        return Ok(Some(Waited::Granted(Held { remote, tag, grant })));
                    }
                    Some(Heard::NotInTime) => return Ok(Some(Waited::NotInTime)),
                    Some(Heard::Refused(kind, _)) if is_leaving(kind, &mut remote)? => return Ok(None),
                    Some(Heard::Refused(_, why)) => return Ok(Some(Waited::Refused(why))),
                },
            }
        }
    }

    /// Reads what the node has said, up to an answer.
    fn read(&self, remote: &mut Connection, tag: Tag) -> Result<Option<Heard>, ConnectionError> {
        let mut next = remote.receive(Some(AT_ONCE))?;
        while let Some(message) = next {
            if let ToClient::Queue { queue, .. } = &message {
                self.tell(queue);
            }
            if message.tag() == Some(tag)
                && let Some(heard) = answer(message, remote)
            {
                return Ok(Some(heard));
            }
            next = remote.received()?;
        }
        Ok(None)
    }

    /// Tells the person at the terminal who is in front.
    fn tell(&self, queue: &LockQueue) {
        let line = line(&queue.sites, &queue.missing, queue.permits);
        let ours =
            line.iter().find(|waiting| waiting.waiter.label.as_ref().is_some_and(|label| self.is_us(label)));
        if let Some(waiting) = ours {
            tell(format!("waiting for '{}' {}", self.lock, waiting.why));
        }
    }

    /// Whether others know us by this: our own words, and perhaps what our certificate says behind them.
    fn is_us(&self, label: &ClientLabel) -> bool {
        let rest = label.as_str().strip_prefix(self.who.as_str());
        rest.is_some_and(|rest| rest.is_empty() || rest.starts_with(", client "))
    }

    /// Why there is no lock, for people.
    pub(super) fn why_not(&self) -> String {
        match self.wait {
            Wait::Within(span) => {
                format!("did not get the lock '{}' within {} ms", self.lock, span.micros() / 1000)
            }
            Wait::Try | Wait::Forever => format!("someone else has the lock '{}'", self.lock),
        }
    }
}

/// What the node's word on our request means.
fn answer(message: ToClient, remote: &Connection) -> Option<Heard> {
    if let ToClient::Granted { fence, slot, lease_end, margin, .. } = message {
        let lease_end = remote.local(lease_end);
        return Some(Heard::Granted(Grant { fence, slot, lease_end, margin }));
    }
    if let ToClient::Refused { kind, why, .. } = message {
        return Some(Heard::Refused(kind, why));
    }
    matches!(message, ToClient::TimedOut(_) | ToClient::Busy(_)).then_some(Heard::NotInTime)
}

/// What a signal does to someone who waits: what it does to any program that has not said otherwise.
fn ends_waiting(signal: Signal) -> bool {
    let harmless = [Signal::CHILD, Signal::CONT, Signal::WINCH, Signal::URG];
    let stops = [Signal::TSTP, Signal::TTIN, Signal::TTOU];
    if stops.contains(&signal) {
        let _ = kill_process(getpid(), Signal::STOP);
        return false;
    }
    !harmless.contains(&signal)
}

/// Whether the node refuses because it goes away. One of version 2 does not say so, and is asked.
fn is_leaving(kind: RefusalKind, remote: &mut Connection) -> Result<bool, ConnectionError> {
    if kind != RefusalKind::Other {
        return Ok(kind == RefusalKind::Leaving);
    }
    match remote.ask(ANSWER_WITHIN, |tag| ToNode::Status { tag }) {
        Ok(answer) => Ok(matches!(answer, ToClient::Status { status, .. } if status.leaving)),
        // Whoever may know nothing of the site was refused for another reason.
        Err(ConnectionError::Refused { .. }) => Ok(false),
        Err(error) => Err(error),
    }
}

/// Whether the node has ended, in order or not.
fn is_gone(error: &anyhow::Error) -> bool {
    matches!(error.downcast_ref(), Some(ConnectionError::Closed(_)))
}
