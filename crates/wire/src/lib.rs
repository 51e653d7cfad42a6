//! Every byte format of Meshlock: what sites say to each other ([`sites`]), what clients and nodes say ([`clients`]), and what a
//! disk keeps ([`disk`]), in every version that is still read.
//!
//! Values come in and bytes go out, or the other way round. Nothing here waits, opens a socket or knows a runtime.

#![allow(
    missing_docs,
    reason = "an internal crate: `xtask tidy` asks for documents of types and functions, not of fields"
)]

pub mod clients;
pub mod disk;
#[cfg(feature = "fuzz")]
pub mod fuzz;
pub mod sites;
