//! The lab: a page on this machine that shows any algorithm run, lets one step it, break it and compare it.
//!
//! A run is a pure value: what it starts from ([`setup`]) and what a person does to it ([`act`]). The [`stage`] plays it in
//! virtual time over the same in-memory world that tests and checker use, which judges every step; [`run`] keeps what the page
//! asks for. So the address bar carries everything, stepping back returns to the same state by construction, and a fork is
//! another list of acts.
//!
//! [`live`] is a running cluster, as its sites tell of it in the trace format.
//!
//! [`server`] is the thin shell around it: loopback only, assets embedded, no network of its own.

pub mod act;
pub mod columns;
pub mod compare;
pub mod gallery;
pub mod import;
pub mod lamps;
pub mod live;
pub mod moment;
pub mod run;
pub mod server;
pub mod setup;
pub mod stage;
pub mod state;
pub mod workbench;
