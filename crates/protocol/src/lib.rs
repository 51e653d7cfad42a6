//! Distributed mutual exclusion as pure state machines.
//!
//! One site's part in one algorithm, for one lock, is a plain value that implements [`Site`]. It reads no
//! clock, draws no random number and does no I/O: a call is one atomic transition from (state, input) to
//! (state, effects). The simulator, the checker, the node and the lab drive this same code.
//!
//! - [`Site`], [`Outbox`], [`Effect`]: the boundary between an algorithm and its host.
//! - [`choice`]: what a paper leaves open, as an input from the host.
//! - [`Algorithm`]: what a host needs beyond the boundary: how to start, what to check, what is known.
//! - [`algorithms`]: one file per algorithm.
//! - [`registry`]: algorithms and their options by name.
//! - [`quorum`]: quorum systems, how to build and how to judge them.
//! - [`information`]: information structures, of which quorum systems are a special case.
//! - [`demand`]: what a process asks for: a mode, in which it may share the critical section, and a priority.
//! - [`fence`]: the host's Lamport clock that gives every grant its fencing token.
//! - [`lookup`]: a hash map without iteration.
//! - [`modelled`]: a site's state in the terms of a model, for `crates/proof`.
//! - [`mutant`]: deliberate bugs for the checker's own tests.
//! - [`relative`]: numbers that only grow, and how they become relative to each other.
//! - [`view`]: what a picture of a site shows.
//! - [`world`]: a small in-memory host for scenario tests, demonstrations and exploration.

#![allow(
    missing_docs,
    reason = "an internal crate: `xtask tidy` asks for documents of types and functions, not of fields"
)]

pub mod algorithms;
pub mod choice;
pub mod clock;
pub mod count;
pub mod demand;
pub mod fence;
pub mod information;
pub mod lookup;
pub mod modelled;
pub mod mutant;
#[cfg(feature = "serde")]
mod numbered;
pub mod outbox;
pub mod quorum;
pub mod registry;
pub mod relative;
pub mod shared;
pub mod site;
pub mod site_id;
pub mod site_set;
pub mod start;
pub mod view;
pub mod world;

pub use choice::Chooser;
pub use clock::{Clock, Timestamp};
pub use count::Count;
pub(crate) use count::SiteCounts;
pub use demand::{Demand, Mode, Priority};
pub use fence::{CLOCK_BITS, Epoch, Fence, FenceClock};
pub use lookup::LookupMap;
pub use modelled::{ModelFacts, Modelled};
#[cfg(feature = "serde")]
pub use numbered::{Numbered, are_unique};
pub use outbox::{Effect, NOT_A_PEER, Outbox, Slot};
pub use registry::info::Info;
pub use registry::spec::Spec;
pub use relative::{Family, Numbers};
pub use shared::Shared;
pub use site::{Algorithm, Described, Message, Phase, Site};
pub use site_id::SiteId;
pub use site_set::SiteSet;
pub use start::{Cluster, Holders, PlanError};
pub use view::View;

/// For what [`numbered!`] writes.
#[cfg(feature = "serde")]
#[doc(hidden)]
pub use serde;
