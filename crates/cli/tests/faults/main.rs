//! Clusters of real processes under real faults, judged by what a resource saw that the lock guards.
//!
//! | file | subject |
//! |---|---|
//! | `counter.rs` | the guarded counter: a resource that refuses old fences, and notes who was inside beside whom |
//! | `judge.rs` | what its notes must show; each rule with notes that break it |
//! | `herd.rs`, `runner.rs`, `over.rs` | clients: processes of twenty, and commands under `meshlock run`, until it is over |
//! | `insider.rs` | a client that stays inside for as long as a test wants |
//! | `session.rs` | how a client talks to its node |
//! | `network.rs` | sites on the loopback network, or each in a network namespace with links that can be cut one way |
//! | `cluster.rs` | the sites: started, killed, stopped, asked |
//! | `trial.rs` | one run: calm, faults, healing, and the bound until everyone has been served |
//! | `crashes.rs`, `pauses.rs`, `partitions.rs`, `disk.rs` | the schedules of faults |
//! | `storm.rs` | a schedule drawn from a seed |
//! | `takeover.rs` | who gets a lock, and when, after its holder's client or site was killed |
//!
//! Nothing here sleeps for a guessed time: a fault lasts until the cluster shows that it has noticed.
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
