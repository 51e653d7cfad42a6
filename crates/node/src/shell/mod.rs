//! What drives the node in the real world: the disk under it, the certificates by which sites know each other.
#![allow(
    clippy::disallowed_types,
    clippy::disallowed_methods,
    reason = "the shell owns time, threads and the disk"
)]

pub mod store;
pub mod tls;
