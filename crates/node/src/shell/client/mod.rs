//! Clients in other processes: what they say to a node and hear from it, and who serves them.
//!
//! A session is a connection. It dies with it, and with it everything that the client waits for or holds: a program that
//! crashes frees its locks at once, because its kernel closes what it had open.

mod group;
pub mod protocol;
mod serve;
mod words;

pub use serve::{ServeError, Serving, listen, serve};
