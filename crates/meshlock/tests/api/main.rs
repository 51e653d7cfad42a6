//! What the library promises to programs: it needs no runtime, its errors can be matched, its examples work.
#![allow(clippy::unwrap_used, reason = "these are tests")]

mod blocking;
mod errors;
mod examples;
mod loss;
#[cfg(feature = "api")]
mod metrics;
mod twins;
