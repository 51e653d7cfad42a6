//! TLS records without a socket: encrypted bytes in, plain bytes out, and back.

use std::io;

use rustls::Connection;

/// Decrypts received bytes and appends them to `plain`. Returns what TLS itself has to answer.
pub fn open_tls(tls: &mut Connection, mut sealed: &[u8], plain: &mut Vec<u8>) -> io::Result<Vec<u8>> {
    while !sealed.is_empty() {
        if tls.read_tls(&mut sealed)? == 0 {
            // The peer has announced that nothing follows.
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        let state =
            tls.process_new_packets().map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error))?;
        let start = plain.len();
        plain.resize(start + state.plaintext_bytes_to_read(), 0);
        io::Read::read_exact(&mut tls.reader(), &mut plain[start..])?;
    }
    let mut answers = Vec::new();
    drain_tls(tls, &mut answers)?;
    Ok(answers)
}

/// Appends what TLS wants to send to `wire`.
pub fn drain_tls(tls: &mut Connection, wire: &mut Vec<u8>) -> io::Result<()> {
    while tls.wants_write() {
        tls.write_tls(wire)?;
    }
    Ok(())
}
