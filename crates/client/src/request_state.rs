//! The state of one request for a lock, as its client knows it.

use meshlock_cluster::time::{Span, Time};
use meshlock_wire::clients::{LossKind, RefusalKind};

/// The state of a request.
///
/// ```text
///           granted           told, node silent, disconnected
///  Waiting ─────────▶ Held ──────────────────────────────────▶ Lost
///     │ busy, timed out, refused, cancelled, disconnected
///     └─────────────▶ Ended
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RequestState {
    Waiting,
    Held {
        /// The fencing token, to be passed to whatever the lock protects.
        fence: i64,
        /// The number of the permit, if permits are numbered.
        slot: Option<u32>,
        /// How long before another client can hold the lock its loss is reported.
        margin: Span,
    },
    /// It was held, and must not be used after `act_by`.
    Lost {
        act_by: Time,
        why: Loss,
    },
    Ended(NotGranted),
}

/// Why a lock that was held is lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Loss {
    /// The node reported it.
    Told(LossKind),
    /// The node has not extended the lease for too long: it is cut off, or has stopped running.
    NodeSilent,
    /// The connection to the node has ended.
    Disconnected,
}

/// Why a lock was not granted.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NotGranted {
    #[error("the lock is held by someone else")]
    Busy,
    #[error("the lock was not granted in time")]
    TimedOut,
    #[error("{why}")]
    Refused { kind: RefusalKind, why: String },
    #[error("the request was released before it was granted")]
    Cancelled,
    /// The connection ended while the request waited.
    #[error("the connection to the node has ended")]
    Disconnected,
}
