//! Meshlock's node: what makes the algorithms safe where things fail.
//!
//! Pure machines, each a value that whoever drives it gives time and messages to:
//!
//! - [`view`], [`rules`], [`names`], [`address`], [`time`]: the words that all of them share.
//! - [`cause`], [`histogram`]: for whoever watches. Nothing is decided by them.
//! - [`founding`]: what makes a cluster this one and no other.
//! - [`lease`]: a member that is cut off has stopped before anyone acts as if it had.
//! - [`links`]: exactly-once, in-order delivery between two lives of two sites.
//! - [`membership`]: voters agree on views, by Raft.
//! - [`table`]: who waits for what and holds what, and the machines that decide it.
//! - [`access`]: who may do what, for every door of a node.
//! - [`node`]: all of them in one machine.
//!
//! And [`shell`], which is not pure: it gives that machine a network, a disk, a clock and clients.

pub mod access;
pub mod address;
pub mod cause;
pub mod cluster_sim;
pub mod founding;
#[cfg(feature = "fuzz")]
pub mod fuzz;
pub mod histogram;
pub mod lease;
pub mod links;
pub mod membership;
mod mutant;
pub mod names;
pub mod node;
pub mod rules;
pub mod shell;
pub mod table;
pub mod time;
pub mod view;
