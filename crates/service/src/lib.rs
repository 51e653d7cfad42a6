//! Meshlock's wire APIs: what other programs and other languages speak to a node.
//!
//! One listener ([`Serving`]) speaks gRPC and HTTP/JSON on one port: `meshlock.v1`, our own API (`docs/api.md`), and what clients of
//! etcd (`docs/etcd.md`) and of Consul (`docs/consul.md`) use for locks. It asks the node through its [`Front`](meshlock_host::front::Front),
//! as every door does, and decides nothing about who holds a lock.
//!
//! - `registry`: leases (sessions), keys (one client's place at one lock) and limits. Pure.
//! - `sessions`: the registry, the node and time together: all that the APIs call.
//! - `own`, `etcd`, `consul`: the APIs.
//! - `correlation`, `metrics`: for those who watch.
//! - `server`: the port, TLS, who is at the other end, and what each call takes. Every call carries its caller from there.

#![allow(
    missing_docs,
    reason = "an internal crate: `xtask tidy` asks for documents of types and functions, not of fields"
)]

mod caller;
mod consul;
mod correlation;
mod escape;
mod etcd;
mod metrics;
mod own;
mod proto;
mod server;
mod sessions;
mod slow;

pub use server::{ServeError, Serving, Setup, listen};
pub use sessions::registry::{EachClient, Limits};
