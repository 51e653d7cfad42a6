//! Posts one document to a collector over HTTP.

use std::io::{self, Read, Write};
use std::net::{TcpStream, ToSocketAddrs};
use std::time::Duration;

use super::Collector;

/// Timeout for connecting, and for each read and write.
const SEND_TIMEOUT: Duration = Duration::from_secs(2);

/// How many bytes of the answer are read.
const MAX_READ: u64 = 4096;

/// Posts a document. Returns an error if the collector does not accept it.
pub(super) fn post(collector: &Collector, body: &str) -> io::Result<()> {
    let Collector { authority, path } = collector;
    let address = authority.to_socket_addrs()?.next();
    let address = address.ok_or_else(|| io::Error::other("the host name has no address"))?;
    let mut stream = TcpStream::connect_timeout(&address, SEND_TIMEOUT)?;
    stream.set_read_timeout(Some(SEND_TIMEOUT))?;
    stream.set_write_timeout(Some(SEND_TIMEOUT))?;
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
