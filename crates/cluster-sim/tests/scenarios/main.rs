//! Directed runs of whole clusters: what is sent, lost and delayed is said step by step, where the seeds of `meshlock dst` draw it.
//!
//! All of them are one program: each of them alone would compile the whole cluster's code again.

mod access;
mod backlog;
mod claims;
mod cluster;
mod detours;
mod hostile;
mod joining;
mod leaving;
mod memory;
mod power;
mod second_process;
mod slow_network;
mod voters;
