//! Talks to a running node, over the Unix socket of its machine or over TCP with TLS.
//!
//! - [`Client`]: locks for the callers of a program, over one session that is opened again when its node is gone.
//! - [`Connection`]: one blocking connection, which is one session; what it says and hears are messages of [`meshlock_wire`].
//! - [`relay`]: what stands between a client and a node on another machine, so that to the client it looks like a node of its own.
//! - [`LeaseEstimate`]: until when a client that a network can cut off may rely on what it holds.

#![allow(
    missing_docs,
    reason = "an internal crate: `xtask tidy` asks for documents of types and functions, not of fields"
)]

mod client;
mod connection;
mod endpoint;
mod error;
mod estimate;
mod keeper;
pub mod relay;
mod request;
mod session;

pub use client::{Client, HeldLock};
pub use connection::Connection;
pub use endpoint::Endpoint;
pub use error::ConnectionError;
pub use estimate::LeaseEstimate;
pub use keeper::Keeping;
pub use request::{LockRequest, Loss, NotGranted, RequestState};
