//! Meshlock's wire APIs: what other programs and other languages speak to a node.
//!
//! One listener ([`Serving`]) speaks gRPC and HTTP/JSON on one port: `meshlock.v1`, our own API (`docs/api.md`), and what clients of
//! etcd (`docs/etcd.md`) and of Consul (`docs/consul.md`) use for locks. It drives a node as any client does, through [`Handle`](meshlock_host::Handle),
//! and decides nothing about who holds a lock.
//!
//! - `ledger`: leases (sessions), keys (one client's place at one lock) and limits. Pure.
//! - `desk`: the ledger, the node and time together: all that the APIs call.
//! - `own`, `etcd`, `consul`: the APIs.
//! - `correlation`, `metrics`: for those who watch.
//! - `server`: the port, TLS, who is at the other end, and what each call takes. Every call carries its caller from there.

mod caller;
mod consul;
mod correlation;
mod desk;
mod escape;
mod etcd;
mod ledger;
mod metrics;
mod own;
mod proto;
mod server;
mod slow;

pub use ledger::{EachClient, Limits};
pub use server::{ServeError, Serving, Setup, listen};
