//! Clusters of real processes under real faults, checked by the records of a resource that the lock protects.
//!
//! | file | subject |
//! |---|---|
//! | `counter.rs` | the guarded counter: a resource that refuses old fences, and records who was inside at the same time |
//! | `judge.rs` | the properties that its records must have; each with records that violate it |
//! | `herd.rs`, `runner.rs`, `over.rs` | clients: processes of twenty, and commands under `meshlock run`, until the test is over |
//! | `insider.rs` | a client that holds the lock until the test ends it |
//! | `session.rs` | how a client talks to its node |
//! | `network.rs` | sites on the loopback network, or each in a network namespace with links that can be cut one way |
//! | `cluster.rs` | the sites: started, killed, stopped, asked |
//! | `trial.rs` | one run: start, faults, repair, and the time limit for serving every client |
//! | `crashes.rs`, `pauses.rs`, `partitions.rs`, `disk.rs` | the schedules of faults |
//! | `storm.rs` | a schedule drawn from a seed |
//! | `takeover.rs` | who gets a lock, and when, after its holder's client or site was killed |
//!
//! Nothing here sleeps for a guessed time: a fault lasts until the cluster shows that it has reacted to it.
#![allow(clippy::unwrap_used, reason = "the helpers of tests end a test that cannot go on, as tests do")]

mod cluster;
mod counter;
mod crashes;
mod disk;
mod herd;
mod insider;
mod judge;
mod network;
mod over;
mod partitions;
mod pauses;
mod runner;
mod session;
#[allow(dead_code, reason = "shared with the tests of the node; each uses a part of it")]
#[path = "../node/site.rs"]
mod site;
mod storm;
mod takeover;
mod trial;
