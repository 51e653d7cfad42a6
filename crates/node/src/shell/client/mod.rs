//! Clients in other processes: what they say to a node and hear from it, and who serves them.
//!
//! A session is a connection. It dies with it, and with it everything that the client waits for or holds: a program that
//! crashes frees its locks at once, because its kernel closes what it had open. Over a network a connection can also be cut, or
//! lead nowhere; [`Belief`] is why its client has stopped before anyone else has what it held.

mod accept;
mod belief;
mod door;
mod frames;
mod group;
pub mod protocol;
mod rights;
mod serve;
mod watch;
mod words;

pub use accept::{ServeError, Serving, listen, serve, serve_network};
pub use belief::Belief;
pub use group::Group;
