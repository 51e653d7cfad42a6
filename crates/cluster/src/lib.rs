//! Meshlock's node as pure state machines: what makes the algorithms safe where things fail.
//!
//! Each machine is a plain value. Its driver passes in time, messages and completed writes, and carries out the outputs
//! that the machine returns.
//!
//! - [`names`], [`address`], [`time`], [`view`], [`rules`]: the types that all of them share.
//! - [`cause`], [`histogram`]: data for logs and metrics; no decision depends on them.
//! - [`claim`]: proofs of locks, with which clients keep them when their site is gone.
//! - [`fence_floor`]: with which epoch a cluster begins, so that fences rise although everything was lost.
//! - `founding`: the identity of a cluster.
//! - [`lease`]: why a member that is cut off has stopped before anyone acts as if it had.
//! - [`links`]: exactly-once, in-order delivery between two incarnations of two sites.
//! - `membership`: the voters agree on views, by Raft.
//! - [`table`]: the waiters and holders of every lock, and the algorithm's machines that decide between them.
//! - [`access`]: access rules, principals and tokens.
//! - `node`: all of these in one machine.
//! - [`report`]: what it reports to clients.
//!
//! Without the feature `node` there are only the types that clients need, and neither `founding`, `membership` nor `node`.

#![allow(
    missing_docs,
    reason = "an internal crate: `xtask tidy` asks for documents of types and functions, not of fields"
)]
#![cfg_attr(not(feature = "node"), allow(dead_code, unused_imports, reason = "what only a node uses"))]

pub mod access;
pub mod address;
pub mod cause;
pub mod claim;
pub mod fence_floor;
#[cfg(feature = "node")]
pub mod founding;
pub mod histogram;
pub mod lease;
pub mod links;
#[cfg(feature = "node")]
pub mod membership;
pub mod mutant;
pub mod names;
#[cfg(feature = "node")]
pub mod node;
pub mod printable;
pub mod report;
pub mod rules;
pub mod table;
pub mod time;
pub mod view;
