//! Encrypts and decrypts the bytes of a connection, for callers with their own socket that do not use the node's runtime.

use std::io;

use rustls::Connection;

use super::error::TlsError;
use super::identity::Identity;
use super::records::{drain_tls, open_tls};

/// The dialling side of a connection to a site, with or without TLS.
#[derive(Debug)]
pub struct Wrap(Option<Box<Connection>>);

impl Wrap {
    /// Creates a connection without TLS.
    pub fn plain() -> Self {
        Wrap(None)
    }

    /// Creates a TLS connection to any site of the cluster. Appends the first bytes to send to `wire`.
    pub fn call(identity: &Identity, wire: &mut Vec<u8>) -> Result<Self, TlsError> {
        let mut tls = Box::new(identity.call_any_site()?);
        // The caller limits what waits for the end of the handshake.
        tls.set_buffer_limit(None);
        drain_tls(&mut tls, wire).map_err(TlsError::of)?;
        Ok(Wrap(Some(tls)))
    }

    /// Encrypts `plain` and appends the result to `wire`.
    pub fn seal(&mut self, plain: &[u8], wire: &mut Vec<u8>) -> Result<(), TlsError> {
        let Some(tls) = &mut self.0 else {
            wire.extend_from_slice(plain);
            return Ok(());
        };
        let sealed = io::Write::write_all(&mut tls.writer(), plain).and_then(|()| drain_tls(tls, wire));
        sealed.map_err(TlsError::of)
    }

    /// Decrypts received bytes and appends them to `plain`. What TLS has to answer is appended to `wire`, also after an error, when it is
    /// the alert that says why.
    pub fn open(&mut self, came: &[u8], plain: &mut Vec<u8>, wire: &mut Vec<u8>) -> Result<(), TlsError> {
        let Some(tls) = &mut self.0 else {
            plain.extend_from_slice(came);
            return Ok(());
        };
        let opened = open_tls(tls, came, plain).map(|answers| wire.extend(answers));
        if opened.is_err() {
            // If this fails too, the first error is the one to return.
            let _ = drain_tls(tls, wire);
        }
        opened.map_err(TlsError::of)
    }

    /// Appends the announcement that nothing follows. Without it the other side cannot distinguish an end from a cut connection.
    pub fn end(&mut self, wire: &mut Vec<u8>) -> Result<(), TlsError> {
        let Some(tls) = &mut self.0 else { return Ok(()) };
        tls.send_close_notify();
        drain_tls(tls, wire).map_err(TlsError::of)
    }
}
