//! Talks to a running node, over the Unix socket of its machine or over TCP with TLS.
//!
//! - [`NodeClient`]: locks for all callers of a program, over one session that is reopened with another node when its node is gone.
//! - [`PolledRequest`]: one request over a session of its own, for a program that has its own event loop: `meshlock run`.
//! - [`OpenRequests`]: what a node's messages mean for the requests of a session. The other two are I/O around it.
//! - [`Connection`]: one blocking connection, which is one session; it sends and receives messages of [`meshlock_wire`].
//! - [`relay`]: connects a client to a node on another machine, so that to the client it looks like a node of its own machine.
//!
//! The module `estimate` computes until when a client that a network can cut off may rely on what it holds.

#![allow(
    missing_docs,
    reason = "an internal crate: `xtask tidy` asks for documents of types and functions, not of fields"
)]

mod catch_up;
mod connection;
mod error;
mod estimate;
mod keeper;
mod nearest;
mod node_client;
mod node_endpoint;
mod open_requests;
mod polled_request;
mod race;
pub mod relay;
mod remote_request;
mod request_state;
mod session;
mod touch;

pub use connection::Connection;
pub use error::ConnectionError;
pub use keeper::{KeeperCommand, Keeping};
pub use nearest::NodeChoice;
pub use node_client::{HeldLock, NodeClient, NotAcquired};
pub use node_endpoint::NodeEndpoint;
pub use open_requests::OpenRequests;
pub use polled_request::PolledRequest;
pub use remote_request::RemoteRequest;
pub use request_state::{Loss, NotGranted, RequestState};
