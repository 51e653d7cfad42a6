//! Third-party clients. Each scenario runs against Meshlock and against a real etcd or Consul, and what a user sees must be the same.
//!
//! `docs/etcd.md` and `docs/consul.md` list the intended differences.
#![allow(clippy::unwrap_used, reason = "these are tests, helpers included: what fails must stop them")]

mod any_site;
mod backend;
mod consul;
mod etcdctl;
mod gateway;
mod metrics;
mod mirror;
mod node_js;
mod other_sites;
mod programs;
mod promise;
mod promql;
mod python;
mod python_client;
