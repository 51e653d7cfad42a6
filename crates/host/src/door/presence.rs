//! Which way a client came in, and what follows from it: who it is, when it has gone, and for how long it may still rely on what it
//! was granted.
//!
//! A client of this machine is gone when no process has its connection open any more. One that comes over a network says
//! so (TLS has a message for it), or falls silent; then its session lasts as long as it can still rely on it.

use std::io;
use std::net::SocketAddr;
use std::sync::atomic::Ordering;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use meshlock_cluster::access::Principal;
use meshlock_cluster::names::ClientLabel;
use meshlock_cluster::time::{Drift, Span, Time};
use meshlock_system::{Group, now};
use meshlock_tls::TlsError;
use meshlock_wire::clients::RefusalKind;

use super::client::Client;
use crate::channel::ClosedBy;
use crate::gate::Origin;
use crate::pending::PendingSlot;

/// How long a client over a network may take to say who it is, all in all.
const GREET_WITHIN: Span = Span::from_millis(5000);

/// How long a greeting may be.
const MAX_HELLO_BYTES: u32 = 1024;

/// Which way a client came in.
pub(super) enum Door {
    /// On this machine, as this user.
    Local { owner: Option<u32> },
    /// Over a network. Its session ends after so much silence.
    Network { address: SocketAddr, silence: Span, slot: Mutex<Option<PendingSlot>> },
}

/// How a connection ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Gone {
    /// The client has gone: no process has the connection open any more, or it said so.
    Ended,
    /// This node has cut it off, or nobody knows; the client may still rely on what it was granted.
    CutOff,
}

impl Client {
    /// For how long a client that was cut off, and may still run, can rely on what it was granted.
    pub(super) fn relies_for(&self) -> Duration {
        let left = match &self.door {
            _ if self.greeted.get().is_none() => Span::ZERO,
            Door::Local { .. } => self.front.lease_end().map_or(Span::ZERO, |end| end.since(now())),
            Door::Network { silence, .. } => {
                let heard = Time::from_micros(self.last_heard.load(Ordering::Relaxed));
                (heard + self.drift().stretch(*silence)).since(now())
            }
        };
        Duration::from_micros(left.micros())
    }

    /// By how much clocks may differ, as the cluster has agreed.
    pub(super) fn drift(&self) -> Drift {
        self.front.node().look(|node| node.lease().terms().drift)
    }

    /// How long to wait for the next message; for ever from a client of this machine.
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

    /// What the end of the connection says about the client.
    pub(super) fn how_gone(&self, read: &io::Result<bool>) -> Gone {
        let has_gone = match (&self.door, self.channel.closed_by(), read) {
            // What ended here reads as if the client had ended it.
            (_, Some(ClosedBy::Us), _) => false,
            // No process of this machine has the other end any more; over a network it may have been cut.
            (door, Some(ClosedBy::Peer), _) => matches!(door, Door::Local { .. }),
            (Door::Local { .. }, None, Ok(_)) => true,
            // So it is said where the other side is gone altogether and had not read everything.
            (Door::Local { .. }, None, Err(error)) => error.kind() == io::ErrorKind::ConnectionReset,
            (Door::Network { .. }, None, Ok(_)) => self.channel.was_ended_by_peer(),
            // TLS has ended, and something came behind it.
            (Door::Network { .. }, None, Err(error)) => {
                error.kind() == io::ErrorKind::UnexpectedEof && self.channel.was_ended_by_peer()
            }
        };
        if has_gone { Gone::Ended } else { Gone::CutOff }
    }

    /// Logs why a client over a network is not listened to any more; what clients of this machine do is their own affair.
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

    /// Who a client is: by its certificate, or, where there are none, by where it comes from.
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

    /// Which way it came.
    pub(super) fn origin(&self) -> Origin {
        match &self.door {
            Door::Local { owner } => Origin::Socket { user: *owner },
            Door::Network { address, .. } => Origin::Network(*address),
        }
    }

    pub(super) fn guard(&self, group: i32) {
        let group = match &self.door {
            Door::Local { owner } => Group::of(group, *owner),
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

/// Who a client is to others: what it says, and behind that what its certificate says.
pub(super) fn certified(who: ClientLabel, principal: &Principal) -> ClientLabel {
    let Principal::Named(client) = principal else { return who };
    let short = || format!("client {client}").parse().unwrap_or_else(|_| who.clone());
    format!("{who}, client {client}").parse().unwrap_or_else(|_| short())
}

/// Whether a connection may begin like this. Whoever speaks something else need not be waited for.
pub(super) fn is_maybe_hello(bytes: &[u8]) -> bool {
    bytes.first_chunk::<4>().is_none_or(|length| u32::from_le_bytes(*length) <= MAX_HELLO_BYTES)
}
