//! The lab: a local web page that shows runs of any algorithm, and lets a person step through them, inject faults and compare.
//!
//! A run is a pure value: what it starts from ([`setup`]) and what a person does to it (`act`). `playback` plays it in
//! virtual time over the same in-memory world that tests and checker use, which judges every step; [`run`] keeps what the page
//! asks for. So the address bar carries everything, stepping back returns to the same state by construction, and a fork is
//! another list of acts.
//!
//! [`live`] shows a running cluster from the trace lines of its sites.
//!
//! [`server`] is the thin shell around it: loopback only, assets embedded, no network of its own.

#![allow(
    missing_docs,
    reason = "an internal crate: `xtask tidy` asks for documents of types and functions, not of fields"
)]

mod act;
mod columns;
pub mod compare;
pub mod gallery;
pub mod import;
pub mod induction;
pub mod lamps;
pub mod live;
mod moment;
mod playback;
pub mod run;
pub mod server;
pub mod setup;
mod state;
mod workbench;
