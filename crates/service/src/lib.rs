//! Meshlock's wire APIs: gRPC and HTTP for programs in any language.
//!
//! One listener ([`Serving`]) speaks gRPC and HTTP/JSON on one port: `meshlock.v1`, our own API (`docs/api.md`), and
//! the parts of etcd's API (`docs/etcd.md`) and Consul's API (`docs/consul.md`) that lock clients use. It reaches the
//! node through its [`Front`](meshlock_host::front::Front), as all other client interfaces do, and makes no decision
//! about who holds a lock.
//!
//! - `sessions`: connects the APIs to the node and expires leases. `sessions::registry` is its pure part: leases (sessions), keys
//!   (one client's request for one lock, waiting or granted) and limits.
//! - `own`, `etcd`, `consul`: the APIs.
//! - `forward`: calls that come to another site than the one that has the session.
//! - `correlation`, `metrics`: ids of requests in logs, and `/metrics`.
//! - `server`: the port, TLS, authentication and the right that each call requires. It attaches the caller to every call.

#![allow(
    missing_docs,
    reason = "an internal crate: `xtask tidy` asks for documents of types and functions, not of fields"
)]

mod caller;
mod consul;
mod correlation;
mod escape;
mod etcd;
mod forward;
mod metrics;
mod own;
mod proto;
mod server;
mod sessions;
mod slow_reader;

pub use metrics::metrics_of;
pub use server::{ApiSetup, ServeError, Serving};
pub use sessions::registry::{ApiLimits, PrincipalLimits};
