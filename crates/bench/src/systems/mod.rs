//! Our own lock services: Meshlock in this process, Meshlock as the processes of a cluster, by its sockets and by its etcd API, and a
//! minimal central lock server.

pub(super) mod central;
pub(super) mod daemons;
pub(super) mod etcd_api;
pub(super) mod library;
mod node_processes;
