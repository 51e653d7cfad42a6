//! Clients in other processes: what they say to a node and hear from it, and who serves them.
//!
//! A session is a connection. It dies with it, and with it everything that the client waits for or holds: a program that
//! crashes frees its locks at once, because its kernel closes what it had open. Over a network a connection can also be cut, or
//! lead nowhere; the client counts its lease so that it has stopped before anyone else has what it held.

mod accept;
mod asked;
mod client;
mod convert;
mod group;
mod presence;
mod watching;

pub use accept::{ServeError, Serving, listen, serve, serve_network};
