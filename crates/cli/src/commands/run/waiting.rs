//! Requests the lock and waits for it.

use std::ffi::OsString;
use std::io::IsTerminal;
use std::time::Duration;

use meshlock_cluster::names::{ClientLabel, LockName};
use meshlock_cluster::node::LockQueue;
use meshlock_cluster::node::{Age, line};
use meshlock_cluster::report::Party;
use meshlock_cluster::table::Wait;
use meshlock_cluster::time::{Span, Time};
use meshlock_supervisor::tell;
use meshlock_system::now;
use rustix::process::{Signal, getpid, kill_process};

use super::child::WaitingSupervisor;
use super::events::{EventSource, WakeReason};
use super::{label, nesting};
use crate::embedded;
use crate::location::{self, FoundBy, NodeFlags, NodeLocation};
use crate::output::UsageError;
use meshlock_wire::clients::ToNode;

use meshlock_client::{Connection, ConnectionError, NodeChoice, NotGranted, PolledRequest, RequestState};
use meshlock_wire::clients::{HAS_LISTINGS, RefusalKind};

/// After this time, a user at a terminal is told who holds the lock.
const TELL_AFTER: Span = Span::from_millis(1000);

/// How long the node may take to say who has the lock that was not granted.
const NAME_WITHIN: Duration = Duration::from_secs(2);

/// A request of `meshlock run` for a lock.
pub(super) struct RunRequest {
    lock: LockName,
    wait: Wait,
    permits: Option<u32>,
    who: ClientLabel,
    /// The node; `None` for the embedded node, which is started again if it ends.
    location: Option<NodeLocation>,
    /// Where several nodes are named: the index of the one that is used, and which one is used next.
    used: usize,
    choice: NodeChoice,
    /// A connection that has not been used yet.
    connection: Option<Connection>,
    supervisor: WaitingSupervisor,
    /// Who waits for one thing at a time: this command, and what runs below it.
    party: Party,
    since: Time,
}

/// A lock that was granted.
pub(super) struct GrantedLock {
    pub(super) request: PolledRequest,
    pub(super) fence: i64,
    pub(super) slot: Option<u32>,
}

/// How waiting for the lock ended.
pub(super) enum Waited {
    /// The lock is held, with time to spare.
    Granted(Box<GrantedLock>),
    /// The lock was granted and lost again, perhaps while this process was stopped.
    LostAgain,
    /// The lock was not granted in the given time, because of these holders and waiters, if they are known.
    NotInTime(Option<LockQueue>),
    /// The cluster could not serve the request, for this reason.
    Unavailable(String),
    /// The request was the youngest one of a deadlock, as the node explains.
    Deadlock(String),
    /// The node refused the request, for this reason.
    Refused(String),
    /// The node leaves its cluster, and no other may be used.
    NodeLeaves,
    /// This signal ended the wait.
    Interrupted(Signal),
}

impl RunRequest {
    /// Finds the node, or starts the embedded one, starts the supervisor of CMD, and connects.
    pub(super) fn new(
        lock: LockName,
        wait: Wait,
        permits: Option<u32>,
        node: &NodeFlags,
        command: &[OsString],
    ) -> anyhow::Result<Self> {
        let location = match node.find() {
            Ok(location) if location.as_socket().is_some_and(embedded::is_embedded) => None,
            Ok(location) => Some(location),
            Err(error) if location::is_none(&error) => None,
            Err(error) => return Err(error),
        };
        let who = label(&command[0]);
        // Started first: it takes longer than all that follows, and the node must know it before it grants the lock. If this command is
        // refused, the supervisor ends with it.
        let party = nesting::party();
        let supervisor = WaitingSupervisor::start(&nesting::words(location.as_ref()), &lock, party, command)?;
        nesting::refuse_own_lock(location.as_ref(), &lock, permits, &who)?;
        let since = now();
        let mut request = RunRequest {
            lock,
            wait,
            permits,
            who,
            location,
            used: 0,
            choice: NodeChoice::Nearest,
            connection: None,
            supervisor,
            party,
            since,
        };
        request.connection = Some(request.connect()?);
        Ok(request)
    }

    /// Connects to the node, or to the nearest that answers where several are named. The embedded node is started if it does not run.
    fn connect(&mut self) -> anyhow::Result<Connection> {
        let connected = match &self.location {
            Some(location) => {
                location.connect_for_children(self.choice, &self.who).map(|(connection, at)| {
                    self.used = at;
                    self.choice = NodeChoice::NearestAfter(at);
                    connection
                })
            }
            None => embedded::connect(&self.who),
        };
        connected.map_err(|error| match error.downcast_ref() {
            // The same exit code as for a client that may acquire other locks, but not this one.
            Some(ConnectionError::Refused { kind: RefusalKind::Denied, .. }) => {
                UsageError::new(error.to_string()).into()
            }
            _ => error,
        })
    }

    /// Returns how many nodes are named.
    fn named(&self) -> usize {
        self.location.as_ref().map_or(1, |location| location.endpoints().len())
    }

    /// Returns which node is used, and why.
    pub(super) fn chosen_node(&self) -> String {
        let endpoint = self.connection.as_ref().map(|connection| connection.endpoint().to_string());
        let found_by = self.location.as_ref().map_or(&FoundBy::Embedded, |location| &location.found_by);
        format!("uses the node at {}: {found_by}", endpoint.unwrap_or_default())
    }

    /// Returns the supervisor, to start CMD with.
    pub(super) fn into_supervisor(self) -> WaitingSupervisor {
        self.supervisor
    }

    /// Waits for the answer. If the node ends or leaves meanwhile, another one is asked where several are named; the embedded node is
    /// started again.
    pub(super) fn wait(&mut self, events: &EventSource) -> anyhow::Result<Waited> {
        // Number of nodes in a row that leave their cluster, or are cut off from it: each is asked once before this command gives up.
        let mut declined = 0;
        let named = self.named();
        loop {
            let connection = match self.connection.take() {
                Some(connection) => connection,
                None => self.connect()?,
            };
            match self.wait_at(connection, events) {
                Ok(None | Some(Waited::Unavailable(_))) if declined + 1 < named => {
                    declined += 1;
                    self.choice = NodeChoice::FirstFrom(self.used + 1);
                }
                Ok(Some(waited)) => return Ok(waited),
                Ok(None) if self.location.is_none() => {}
                Ok(None) => return Ok(Waited::NodeLeaves),
                Err(error) if is_gone(&error) && (self.location.is_none() || named > 1) => {
                    declined = 0;
                }
                Err(error) => return Err(error),
            }
        }
    }

    /// Waits for the answer of one node. Returns `None` if the node leaves its cluster.
    fn wait_at(
        &mut self,
        mut connection: Connection,
        events: &EventSource,
    ) -> anyhow::Result<Option<Waited>> {
        // If this process is gone when the lock is lost, the node ends what is below the supervisor.
        connection.send(&ToNode::Guard { group: self.supervisor.id() })?;
        if connection.version() >= HAS_LISTINGS {
            connection.send(&ToNode::Party { party: self.party })?;
        }
        let wait = self.wait.after(now().since(self.since));
        let mut request = PolledRequest::send(connection, self.lock.clone(), wait, self.permits)?;
        // By now all processes that this one needs are there, and the node has something to do.
        self.supervisor.note_own_processes()?;
        let mut tell_at = std::io::stderr().is_terminal().then(|| self.since + TELL_AFTER);
        while *request.state() == RequestState::Waiting {
            match events.wait(request.descriptor(), None, tell_at)? {
                WakeReason::Time => {
                    tell_at = None;
                    request.ask_queue()?;
                }
                WakeReason::Signal(signal) if ends_waiting(signal) => {
                    return Ok(Some(Waited::Interrupted(signal)));
                }
                WakeReason::Signal(_) | WakeReason::Child => {}
                WakeReason::Node => {
                    request.on_readable()?;
                    if let Some(queue) = request.take_queue() {
                        self.tell(&queue);
                    }
                }
            }
        }
        decided(request)
    }

    /// Tells the user at the terminal for whom the request waits.
    fn tell(&self, queue: &LockQueue) {
        let line = line(&queue.sites, &queue.missing, queue.permits);
        let ours = line
            .iter()
            .find(|waiting| waiting.waiter.label.as_ref().is_some_and(|label| label.is_of(&self.who)));
        if let Some(waiting) = ours {
            tell(format!("waiting for '{}' {}", self.lock, waiting.why));
        }
    }

    /// Explains to the user why the lock was not granted in time, and who has it.
    pub(super) fn why_not(&self, queue: Option<&LockQueue>) -> String {
        let holder = queue.and_then(oldest_holder).map(|holder| format!(": {holder}")).unwrap_or_default();
        match self.wait {
            Wait::Within(span) => {
                format!("did not get the lock '{}' within {} ms{holder}", self.lock, span.micros() / 1000)
            }
            Wait::Try | Wait::Forever => format!("someone else has the lock '{}'{holder}", self.lock),
        }
    }
}

/// Describes the client that has held the lock longest; `None` if nobody holds it any more.
fn oldest_holder(queue: &LockQueue) -> Option<String> {
    let holders =
        queue.sites.iter().flat_map(|site| site.lock.holders.iter().map(|holder| (&site.site, holder)));
    let (site, holder) = holders.max_by_key(|(_, holder)| holder.age)?;
    let who = holder.label.as_ref().map_or("a client", ClientLabel::as_str);
    let (age, fence) = (Age(holder.age), holder.fence.value());
    Some(format!("{who} of {site} has held it for {age} (fence {fence})"))
}

/// Returns how waiting for a request that does not wait any more has ended; `None` if the node leaves its cluster.
fn decided(mut request: PolledRequest) -> anyhow::Result<Option<Waited>> {
    let why = match request.state().clone() {
        RequestState::Held { fence, slot, .. } if request.is_still_held() => {
            return Ok(Some(Waited::Granted(Box::new(GrantedLock { request, fence, slot }))));
        }
        RequestState::Held { .. } | RequestState::Lost { .. } => return Ok(Some(Waited::LostAgain)),
        RequestState::Ended(why) => Some(why),
        RequestState::Waiting => None,
    };
    match why {
        Some(NotGranted::Busy | NotGranted::TimedOut) => {
            Ok(Some(Waited::NotInTime(request.queue_within(NAME_WITHIN))))
        }
        Some(NotGranted::Refused { kind: RefusalKind::Unavailable | RefusalKind::Failed, why }) => {
            Ok(Some(Waited::Unavailable(why)))
        }
        Some(NotGranted::Refused { kind: RefusalKind::Deadlock, why }) => Ok(Some(Waited::Deadlock(why))),
        Some(NotGranted::Refused { kind, .. }) if request.is_leaving(kind)? => Ok(None),
        Some(NotGranted::Refused { why, .. }) => Ok(Some(Waited::Refused(why))),
        // The node has forgotten the request, which it does only with the session.
        Some(NotGranted::Cancelled | NotGranted::Disconnected) | None => {
            Err(ConnectionError::Closed(request.endpoint().clone()).into())
        }
    }
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

/// Returns whether the node has closed the connection.
fn is_gone(error: &anyhow::Error) -> bool {
    matches!(error.downcast_ref(), Some(ConnectionError::Closed(_)))
}
