//! Meshlock's node as pure state machines: what makes the algorithms safe where things fail.
//!
//! Each machine is a value; whoever drives it gives it time, messages and completed writes, and carries out what it wants done.
//!
//! - [`names`], [`address`], [`time`], [`view`], [`rules`]: the types that all of them share.
//! - [`cause`], [`histogram`]: for logs and metrics; nothing is decided by them.
//! - [`founding`]: what makes a cluster this one and no other.
//! - [`lease`]: a member that is cut off has stopped before anyone acts as if it had.
//! - [`links`]: exactly-once, in-order delivery between two incarnations of two sites.
//! - [`membership`]: voters agree on views, by Raft.
//! - [`table`]: who waits for what and holds what, and the machines that decide it.
//! - [`access`]: who may do what.
//! - [`node`]: all of them in one machine.

#![allow(
    missing_docs,
    reason = "an internal crate: `xtask tidy` asks for documents of types and functions, not of fields"
)]

pub mod access;
pub mod address;
pub mod cause;
pub mod founding;
pub mod histogram;
pub mod lease;
pub mod links;
pub mod membership;
pub mod mutant;
pub mod names;
pub mod node;
pub mod rules;
pub mod table;
pub mod time;
pub mod view;
