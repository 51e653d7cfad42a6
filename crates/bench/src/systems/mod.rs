//! What is ours: Meshlock in this process, Meshlock as the processes of a cluster, and the smallest lock server there can be.

pub(super) mod central;
pub(super) mod daemons;
pub(super) mod library;
