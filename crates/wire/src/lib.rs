//! Every byte format of Meshlock: between sites (`sites`), between clients and nodes ([`clients`]), and on the disk
//! ([`disk`]), in every version that can still be read.
//!
//! Values are turned into bytes, and bytes into values. Nothing here waits, opens a socket or depends on a runtime.

#![allow(
    missing_docs,
    reason = "an internal crate: `xtask tidy` asks for documents of types and functions, not of fields"
)]

pub mod clients;
pub mod diagnosis;
pub mod disk;
#[cfg(feature = "sites")]
pub mod dns;
#[cfg(feature = "fuzz")]
pub mod fuzz;
#[cfg(feature = "sites")]
pub mod sites;
