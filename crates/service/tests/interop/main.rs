//! Clients that nobody here wrote, each scenario against Meshlock and against a real etcd or Consul: what a user sees must be the same.
//!
//! `docs/etcd.md` and `docs/consul.md` list what is meant to differ.
#![allow(clippy::unwrap_used, reason = "these are tests, helpers included: what fails must stop them")]

mod backend;
mod consul;
mod etcdctl;
mod gateway;
mod metrics;
mod node_js;
mod other_sites;
mod programs;
mod promql;
mod python;
mod python_client;
