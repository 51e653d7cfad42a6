//! Serves clients in other processes over Meshlock's own protocol, on a Unix socket or a TCP port.
//!
//! A session is a connection. When the connection ends the session ends, and with it everything that the client waits for or holds: a
//! program that crashes releases its locks at once, because its kernel closes its connections. Over a network a connection can also
//! be cut without either side noticing; the client limits its lease so that it has stopped before anyone else has what it held.

mod accept;
mod asked;
mod connected_client;
mod convert;
mod guarded;
mod keep_alive;
mod presence;
#[cfg(test)]
mod tests;
mod watch;

pub use accept::{PRIVATE, ServeError, Serving, listen, serve, serve_network};
