//! Discrete-event simulation of the algorithms in virtual time, with costs, faults, metrics and the papers'
//! experiments.
//!
//! The simulator drives the very [`Site`](meshlock_protocol::Site) code that ships. Everything derives from one seed:
//! the same settings give the same run, to the byte, on every machine.
//!
//! - [`settings`]: what to simulate: network, load, critical sections, faults, length.
//! - [`engine`]: the event loop, with the checks that are always on.
//! - [`report`]: the measurements, with confidence intervals.

#![allow(
    missing_docs,
    reason = "an internal crate: `xtask tidy` asks for documents of types and functions, not of fields"
)]

pub mod draw;
pub mod engine;
pub mod experiments;
pub mod faults;
mod metrics;
pub mod network;
pub mod queue;
pub mod report;
pub mod settings;
mod statistics;
mod time;
pub mod trace;
pub mod violation;

pub use engine::{measure, measure_with, traced};
pub use report::Report;
pub use settings::Settings;
pub use time::Time;
