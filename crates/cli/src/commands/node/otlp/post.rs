//! One request of HTTP to a collector.

use std::io::{self, Read, Write};
use std::net::{TcpStream, ToSocketAddrs};
use std::time::Duration;

use super::Endpoint;

/// How long a collector may take for each part of it.
const PATIENCE: Duration = Duration::from_secs(2);

/// How much of its answer is read.
const MAX_READ: u64 = 4096;

/// Sends a document; an error if the collector does not take it.
pub(super) fn post(endpoint: &Endpoint, body: &str) -> io::Result<()> {
    let Endpoint { authority, path } = endpoint;
    let address = authority.to_socket_addrs()?.next();
    let address = address.ok_or_else(|| io::Error::other("its name has no address"))?;
    let mut stream = TcpStream::connect_timeout(&address, PATIENCE)?;
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.set_write_timeout(Some(PATIENCE))?;
    let length = body.len();
    let head = format!(
        "POST {path} HTTP/1.1\r\nHost: {authority}\r\nContent-Type: application/json\r\nContent-Length: {length}\r\n\
         Connection: close\r\n\r\n"
    );
    stream.write_all(head.as_bytes())?;
    stream.write_all(body.as_bytes())?;
    let mut answer = Vec::new();
    stream.take(MAX_READ).read_to_end(&mut answer)?;
    let status = String::from_utf8_lossy(&answer);
    let code = status.strip_prefix("HTTP/1.").and_then(|rest| rest.split(' ').nth(1)).unwrap_or_default();
    if code.starts_with('2') {
        return Ok(());
    }
    Err(io::Error::other(format!("it answered: {}", status.lines().next().unwrap_or_default())))
}
