//! The shell: what the pure machines are not. Sockets, TLS, the disk, threads, the clock; nothing here decides anything.
//!
//! An [`Engine`] drives one [`Node`](crate::node::Node). Whoever has something for it (a client's call, a packet, a
//! completed write, time) takes the engine's lock, lets the node handle it, and carries out what the node wants done, all on
//! its own thread:
//!
//! ```text
//!  caller ─▶ lock ─▶ node.handle ─▶ answers to listeners, packets to queues, writes to the disk's thread ─▶ unlock ─▶ write to sockets
//! ```
//!
//! So a lock whose token is here is taken without waking another thread, and what a release sends to another site is on the
//! wire before the release returns.
#![allow(
    clippy::disallowed_types,
    clippy::disallowed_methods,
    reason = "the shell is the half of this crate that owns time, threads and the disk"
)]

mod alarm;
mod channel;
pub mod client;
mod clock;
mod core;
mod disk;
mod engine;
mod failed;
pub mod gate;
mod lobby;
mod log;
mod meter;
pub(crate) mod net;
mod permits;
pub mod store;
mod thread;
pub mod tls;

pub use clock::now;
pub use engine::{Engine, Handle, Listener, Setup, Stand, StartError};
pub use meter::{Readings, SessionEnd, Via};
pub use net::{
    IntroduceError, Introduction, ListenError, Security, Traffic, Versions, learn_of_cluster, listen, tune,
};
pub use permits::{PermitsError, agree_on_permits, agree_on_permits_within, needs_rule};
