//! Runs one node: sockets, TLS, the disk, threads and the clock around the pure machine. Nothing here decides anything about a lock.
//!
//! An [`Engine`] drives one [`Node`](meshlock_cluster::node::Node). The thread that has an input for the node (a client's call, a packet,
//! a completed write, time) takes the engine's lock, lets the node handle the input, and carries out the node's outputs itself:
//!
//! ```text
//!  caller ─▶ lock ─▶ node.handle ─▶ answers to listeners, packets to queues, writes to the disk's thread ─▶ unlock ─▶ write to sockets
//! ```
//!
//! So a lock whose token is at this site is taken without waking another thread, and what a release sends to another site is on
//! the wire before the release returns.

#![allow(
    missing_docs,
    reason = "an internal crate: `xtask tidy` asks for documents of types and functions, not of fields"
)]

mod agreed_access;
mod alarm;
mod busy_poll;
mod calls;
mod channel;
mod core;
mod diagnosis;
mod disk;
mod disk_health;
pub mod door;
mod engine;
mod failed;
mod find;
pub mod front;
pub mod gate;
mod log;
mod meter;
mod net;
mod pending;
mod published;
mod renewals;
mod store;
mod thread;
mod trust;

pub use calls::CallListener;
#[cfg(any(test, feature = "count-locks"))]
pub use engine::locks_taken;
pub use engine::{Engine, EngineError, Handle, Listener, NodeSetup, NodeState};
pub use find::{JoinPlace, JoinPlaceError};
pub use meter::{Readings, SessionEnd, Via};
pub use net::{IntroduceError, ListenError, Traffic, ask_diagnosis, learn_of_cluster, listen, tune};
pub use pending::{
    Evicted, Evictions, PLACES, PendingConnections, PendingSlot, Port, Prefix, TooManyHandshakes,
};
pub use store::{StoppedSite, StoreError, founding_in, has_state};
pub use trust::{Ending, ReloadError, Reloaded, Trust, Untrusted, Watched, log_refusal};
