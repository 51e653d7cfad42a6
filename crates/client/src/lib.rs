//! Talks to a running node, over the Unix socket of its machine or over TCP with TLS.
//!
//! - [`Connection`]: one blocking connection, which is one session; what it says and hears are messages of [`meshlock_wire`].
//! - [`relay`]: what stands between a client and a node on another machine, so that to the client it looks like a node of its own.
//! - [`LeaseEstimate`]: until when a client that a network can cut off may rely on what it holds.

mod connection;
mod endpoint;
mod estimate;
mod keeper;
pub mod relay;

pub use connection::{Connection, ConnectionError};
pub use endpoint::Endpoint;
pub use estimate::LeaseEstimate;
pub use keeper::Keeping;
