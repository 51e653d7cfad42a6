//! How a client is connected, and what follows from that: who it is, when it has gone, and for how long it may still rely on what it
//! was granted.
//!
//! A client of this machine has gone when no process has its connection open any more, or if it has promised to stay in touch and does
//! not: then it was stopped. A client over a network announces its end (TLS has a message for that) or falls silent; then its session
//! lasts for as long as the client may still rely on it.

use std::io;
use std::net::SocketAddr;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use meshlock_cluster::access::Principal;
use meshlock_cluster::names::ClientLabel;
use meshlock_cluster::time::{Span, Time};
use meshlock_system::{ProcessOwner, ProcessTree, now};
use meshlock_tls::TlsError;
use meshlock_wire::clients::RefusalKind;

use super::accept::{ConnectionSlot, Connections};
use super::connected_client::{ConnectedClient, Greeted};
use super::guarded::until_gone;
use super::keep_alive::KeepAlives;
use crate::channel::ClosedBy;
use crate::gate::{Caller, CallerOrigin, Connected};
use crate::pending::{Evicted, PendingSlot};
use crate::trust::Trust;

/// How long a client over a network may take in total to identify itself.
const GREET_WITHIN: Span = Span::from_millis(5000);

/// Maximum length of a greeting.
const MAX_HELLO_BYTES: u32 = 1024;

/// How a client is connected.
pub(super) enum Door {
    /// On this machine. The connection of a user whom the rules bind is counted.
    Local {
        peer: ProcessOwner,
        principal: Principal,
        keep_alives: Arc<KeepAlives>,
        _counted: Option<Connected>,
    },
    /// Over a network. The session ends after this much silence.
    Network { address: SocketAddr, silence: Span, newcomer: Newcomer, trust: Trust },
}

/// The place of a client over a network until it has identified itself.
pub(super) struct Newcomer {
    place: Mutex<Option<PendingSlot>>,
    evicted: Option<Evicted>,
    /// Where it is counted then.
    connections: Arc<Connections>,
}

impl Newcomer {
    pub(super) fn new(place: PendingSlot, connections: Arc<Connections>) -> Self {
        let evicted = Some(place.evicted());
        Newcomer { place: Mutex::new(Some(place)), evicted, connections }
    }

    /// A client of a test, which nobody else can crowd out.
    #[cfg(test)]
    pub(super) fn alone() -> Self {
        Newcomer { place: Mutex::default(), evicted: None, connections: Connections::new(|_| {}) }
    }

    /// Counts a client that has identified itself, unless too many are connected. Its place is free for another.
    pub(super) fn settle(&self) -> Option<ConnectionSlot> {
        let connection = self.connections.enter_from_network()?;
        drop(self.place.lock().unwrap_or_else(PoisonError::into_inner).take());
        Some(connection)
    }
}

/// How a connection ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Gone {
    /// The client has gone: no process has the connection open any more, or the client announced its end.
    Ended,
    /// This node has cut it off, or the cause is unknown. The client may still rely on what it was granted.
    CutOff,
}

impl ConnectedClient {
    /// Returns for how long a client that was cut off, and may still run, can rely on what it was granted.
    pub(super) fn relies_for(&self) -> Duration {
        let Some(Greeted { silence, .. }) = self.greeted.get() else { return Duration::ZERO };
        let left = match &self.door {
            Door::Local { .. } if !self.stays_in_touch.load(Ordering::Relaxed) => {
                self.front.lease_end().map_or(Span::ZERO, |end| end.since(now()))
            }
            Door::Local { .. } | Door::Network { .. } => {
                let last = Time::from_micros(self.last_message.load(Ordering::Relaxed));
                (last + self.front.drift().stretch(*silence)).since(now())
            }
        };
        Duration::from_micros(left.micros())
    }

    /// Returns after how much silence the session ends. For a client of this machine that stays in touch this is the length of a lease:
    /// so long it may rely on what it holds if the whole site is stopped.
    pub(super) fn silence(&self) -> Span {
        match &self.door {
            Door::Local { .. } => self.front.lease_length(),
            Door::Network { silence, .. } => *silence,
        }
    }

    /// Returns how long to wait for the next message; `None` (forever) for a client of this machine that has not promised to stay in touch,
    /// unless it belongs to another user and has not said what it wants.
    pub(super) fn waits_for(&self) -> Option<Duration> {
        let is_greeted = self.greeted.get().is_some();
        match &self.door {
            Door::Local { .. } if self.stays_in_touch.load(Ordering::Relaxed) => Some(self.relies_for()),
            Door::Local { principal: Principal::Local, .. } => None,
            Door::Local { .. } if is_greeted || self.keep_alive.get().is_some() => None,
            Door::Local { .. } | Door::Network { .. } if !is_greeted => {
                let left = (self.opened + GREET_WITHIN).since(now());
                Some(Duration::from_micros(left.micros()))
            }
            Door::Local { .. } | Door::Network { .. } => Some(self.relies_for()),
        }
    }

    /// Waits until a client that has not identified itself must make room for another one.
    pub(super) async fn until_evicted(&self) {
        if let Door::Network { newcomer: Newcomer { evicted: Some(evicted), .. }, .. } = &self.door {
            evicted.notified().await;
            if self.greeted.get().is_none() {
                return;
            }
        }
        std::future::pending::<()>().await;
    }

    /// Determines from the end of the connection whether the client has gone.
    pub(super) fn how_gone(&self, read: &io::Result<bool>) -> Gone {
        let has_gone = match (&self.door, self.channel.closed_by(), read) {
            // If this side closed the connection, the read looks as if the client had.
            (_, Some(ClosedBy::Us), _) => false,
            // On this machine: no process has the other end any more. Over a network the connection may have been cut.
            (door, Some(ClosedBy::Peer), _) => matches!(door, Door::Local { .. }),
            (Door::Local { .. }, None, Ok(_)) => true,
            // The kernel reports a reset if the other side closed without reading everything.
            (Door::Local { .. }, None, Err(error)) => error.kind() == io::ErrorKind::ConnectionReset,
            (Door::Network { .. }, None, Ok(_)) => self.channel.was_ended_by_peer(),
            // TLS was ended properly, and data followed it.
            (Door::Network { .. }, None, Err(error)) => {
                error.kind() == io::ErrorKind::UnexpectedEof && self.channel.was_ended_by_peer()
            }
        };
        if has_gone { Gone::Ended } else { Gone::CutOff }
    }

    /// Logs why the connection of a client over a network ended. Nothing is logged for clients of this machine.
    pub(super) fn log_end(&self, error: Option<io::Error>) {
        let Door::Network { address, .. } = &self.door else { return };
        let greeted = self.greeted.get().is_some();
        let has_said_nothing =
            !greeted && error.as_ref().is_none_or(|error| error.kind() == io::ErrorKind::TimedOut);
        if has_said_nothing {
            // Whoever opens connections and says nothing must not fill the log.
            return tracing::debug!(%address, "a connection ended without a word");
        }
        match error {
            Some(error) if error.kind() == io::ErrorKind::TimedOut => {
                tracing::warn!(%address, greeted, "a client is silent: its session ends");
            }
            Some(error) => {
                let error = if greeted { error.to_string() } else { TlsError::of(error).to_string() };
                tracing::warn!(%address, greeted, %error, "a client's connection broke: its session ends once the client cannot rely on it any more");
            }
            None => {
                tracing::warn!(%address, greeted, "a client's connection was cut: its session ends once the client cannot rely on it any more");
            }
        }
    }

    /// Determines the principal: by the client's certificate, by its user, or without both by where the client comes from.
    pub(super) fn principal(&self) -> Result<Principal, TlsError> {
        match (self.channel.peer_client(), &self.door) {
            (Some(client), _) => client.map(Principal::Named),
            (None, Door::Local { principal, .. }) => Ok(principal.clone()),
            (None, Door::Network { address, .. }) if address.ip().to_canonical().is_loopback() => {
                Ok(Principal::Local)
            }
            (None, Door::Network { .. }) => Ok(Principal::Anyone),
        }
    }

    /// Returns the client's origin for the gate.
    pub(super) fn origin(&self) -> CallerOrigin {
        match &self.door {
            Door::Local { peer, .. } => CallerOrigin::Socket { user: peer.user },
            Door::Network { address, .. } => CallerOrigin::Network(*address),
        }
    }

    /// Makes the connection one that only keeps the sessions of its process open. Returns whether that is possible.
    pub(super) fn keep_alive(&self) -> bool {
        match &self.door {
            Door::Local { peer, keep_alives, .. } if peer.process.is_some() => {
                self.keep_alive.set(keep_alives.add(*peer)).is_ok()
            }
            Door::Local { .. } | Door::Network { .. } => false,
        }
    }

    /// Waits until the client's processes have ended or closed what they inherited, as far as the client has named them.
    pub(super) async fn until_processes_gone(&self) {
        // A copy, so that the processes can still be killed if the lock is lost meanwhile.
        let tree = *self.tree.lock().unwrap_or_else(PoisonError::into_inner);
        let (Some(tree), Door::Local { peer, keep_alives, .. }) = (tree, &self.door) else { return };
        until_gone(tree).await;
        keep_alives.until_closed(*peer).await;
    }

    /// Takes charge of a client's processes. The first that it names, before it asks for a lock, is the one above all others; what it
    /// names later must be below that. So nobody can use a session to have other processes ended.
    pub(super) fn guard(&self, process: i32) {
        let mut tree = self.tree.lock().unwrap_or_else(PoisonError::into_inner);
        let guarded = match (&self.door, &mut *tree) {
            (Door::Network { .. }, _) => Err(io::Error::other(
                "processes of another machine cannot be ended from here; `meshlock run --node` does it there",
            )),
            (Door::Local { .. }, Some(tree)) => tree.add_group(process),
            (Door::Local { .. }, None) if self.has_asked.load(Ordering::Relaxed) => {
                Err(io::Error::other("a client names its processes before it asks for a lock"))
            }
            (Door::Local { peer, .. }, none) => {
                ProcessTree::below(process, *peer).map(|tree| *none = Some(tree))
            }
        };
        drop(tree);
        if let Err(error) = guarded {
            self.refuse(0, RefusalKind::BadRequest, error);
        }
    }
}

/// Returns the label that others see: what the client has proved, and the label that it gives itself. A client of this machine has proved
/// which user it belongs to.
pub(super) fn proved_label(caller: &Caller, given: &ClientLabel) -> ClientLabel {
    match caller.origin {
        CallerOrigin::Socket { user } => ClientLabel::proved(&Principal::User(user), given),
        CallerOrigin::Network(_) | CallerOrigin::Process => ClientLabel::proved(&caller.principal, given),
    }
}

/// Whether these can be the first bytes of a greeting. A client that speaks another protocol is cut off at once.
pub(super) fn is_maybe_hello(bytes: &[u8]) -> bool {
    bytes.first_chunk::<4>().is_none_or(|length| u32::from_le_bytes(*length) <= MAX_HELLO_BYTES)
}
