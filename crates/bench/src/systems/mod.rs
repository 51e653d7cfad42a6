//! Our own lock services: Meshlock in this process, Meshlock as the processes of a cluster, and a minimal central lock server.

pub(super) mod central;
pub(super) mod daemons;
pub(super) mod library;
