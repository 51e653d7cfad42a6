//! How a client is connected, and what follows from that: who it is, when it has gone, and for how long it may still rely on what it
//! was granted.
//!
//! A client of this machine has gone when no process has its connection open any more. A client over a network announces its end (TLS
//! has a message for that) or falls silent; then its session lasts for as long as the client may still rely on it.

use std::io;
use std::net::SocketAddr;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use meshlock_cluster::access::Principal;
use meshlock_cluster::names::ClientLabel;
use meshlock_cluster::time::{Span, Time};
use meshlock_system::{ProcessGroup, now};
use meshlock_tls::TlsError;
use meshlock_wire::clients::RefusalKind;

use super::accept::{ConnectionSlot, Connections};
use super::connected_client::ConnectedClient;
use crate::channel::ClosedBy;
use crate::gate::CallerOrigin;
use crate::pending::{Evicted, PendingSlot};

/// How long a client over a network may take in total to identify itself.
const GREET_WITHIN: Span = Span::from_millis(5000);

/// Maximum length of a greeting.
const MAX_HELLO_BYTES: u32 = 1024;

/// How a client is connected.
pub(super) enum Door {
    /// On this machine, as this user.
    Local { owner: Option<u32> },
    /// Over a network. The session ends after this much silence.
    Network { address: SocketAddr, silence: Span, newcomer: Newcomer },
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
        let connection = self.connections.enter()?;
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
        let left = match &self.door {
            _ if self.greeted.get().is_none() => Span::ZERO,
            Door::Local { .. } => self.front.lease_end().map_or(Span::ZERO, |end| end.since(now())),
            Door::Network { silence, .. } => {
                let last = Time::from_micros(self.last_message.load(Ordering::Relaxed));
                (last + self.front.drift().stretch(*silence)).since(now())
            }
        };
        Duration::from_micros(left.micros())
    }

    /// Returns how long to wait for the next message; `None` (forever) for a client of this machine.
    pub(super) fn waits_for(&self) -> Option<Duration> {
        match &self.door {
            Door::Local { .. } => None,
            Door::Network { .. } if self.greeted.get().is_none() => {
                let left = (self.opened + GREET_WITHIN).since(now());
                Some(Duration::from_micros(left.micros()))
            }
            Door::Network { .. } => Some(self.relies_for()),
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

    /// Determines the principal: by the client's certificate, or without TLS by where the client comes from.
    pub(super) fn principal(&self) -> Result<Principal, TlsError> {
        match (self.channel.peer_client(), &self.door) {
            (Some(client), _) => client.map(Principal::Named),
            (None, Door::Local { .. }) => Ok(Principal::Local),
            (None, Door::Network { address, .. }) if address.ip().to_canonical().is_loopback() => {
                Ok(Principal::Local)
            }
            (None, Door::Network { .. }) => Ok(Principal::Anyone),
        }
    }

    /// Returns the client's origin for the gate.
    pub(super) fn origin(&self) -> CallerOrigin {
        match &self.door {
            Door::Local { owner } => CallerOrigin::Socket { user: *owner },
            Door::Network { address, .. } => CallerOrigin::Network(*address),
        }
    }

    pub(super) fn guard(&self, group: i32) {
        let group = match &self.door {
            Door::Local { owner } => ProcessGroup::of(group, *owner),
            Door::Network { .. } => Err(io::Error::other(
                "a process group of another machine cannot be ended from here; `meshlock run --node` does it there",
            )),
        };
        match group {
            Ok(group) => *self.group.lock().unwrap_or_else(PoisonError::into_inner) = Some(group),
            Err(error) => self.refuse(0, RefusalKind::BadRequest, error),
        }
    }
}

/// Returns the label that others see: the client's own label, followed by the name in its certificate.
pub(super) fn certified(who: ClientLabel, principal: &Principal) -> ClientLabel {
    let Principal::Named(client) = principal else { return who };
    let short = || format!("client {client}").parse().unwrap_or_else(|_| who.clone());
    format!("{who}, client {client}").parse().unwrap_or_else(|_| short())
}

/// Whether these can be the first bytes of a greeting. A client that speaks another protocol is cut off at once.
pub(super) fn is_maybe_hello(bytes: &[u8]) -> bool {
    bytes.first_chunk::<4>().is_none_or(|length| u32::from_le_bytes(*length) <= MAX_HELLO_BYTES)
}
