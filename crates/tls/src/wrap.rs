//! Bytes as the wire has them and back, for whoever has a socket of its own and not the node's runtime.

use std::io;

use meshlock_cluster::names::SiteName;
use rustls::Connection;

use super::connect::site_of;
use super::error::TlsError;
use super::identity::Identity;
use super::records::{drain_tls, open_tls};

/// One side of a connection to a site: protected, or as it is.
#[derive(Debug)]
pub struct Wrap(Option<Box<Connection>>);

impl Wrap {
    /// Nothing is protected.
    pub fn plain() -> Self {
        Wrap(None)
    }

    /// Protected, to whichever site of the cluster is at the other end. Appends what is to be sent first to `wire`.
    pub fn call(identity: &Identity, wire: &mut Vec<u8>) -> Result<Self, TlsError> {
        let mut tls = Box::new(identity.call_any_site()?);
        // What waits before the handshake is over is the caller's to bound.
        tls.set_buffer_limit(None);
        drain_tls(&mut tls, wire).map_err(TlsError::of)?;
        Ok(Wrap(Some(tls)))
    }

    /// Appends what stands for `plain` on the wire.
    pub fn seal(&mut self, plain: &[u8], wire: &mut Vec<u8>) -> Result<(), TlsError> {
        let Some(tls) = &mut self.0 else {
            wire.extend_from_slice(plain);
            return Ok(());
        };
        let sealed = io::Write::write_all(&mut tls.writer(), plain).and_then(|()| drain_tls(tls, wire));
        sealed.map_err(TlsError::of)
    }

    /// Opens what came and appends it to `plain`; what has to be answered to it is appended to `wire`, also where it is an
    /// error: that says why.
    pub fn open(&mut self, came: &[u8], plain: &mut Vec<u8>, wire: &mut Vec<u8>) -> Result<(), TlsError> {
        let Some(tls) = &mut self.0 else {
            plain.extend_from_slice(came);
            return Ok(());
        };
        let opened = open_tls(tls, came, plain).map(|answers| wire.extend(answers));
        if opened.is_err() {
            // The error is what matters.
            let _ = drain_tls(tls, wire);
        }
        opened.map_err(TlsError::of)
    }

    /// Appends what says that nothing follows. Without it the other side cannot tell an end from a cut.
    pub fn end(&mut self, wire: &mut Vec<u8>) -> Result<(), TlsError> {
        let Some(tls) = &mut self.0 else { return Ok(()) };
        tls.send_close_notify();
        drain_tls(tls, wire).map_err(TlsError::of)
    }

    /// The site at the other end, if the connection says so by itself: once the handshake is over.
    pub fn site(&self) -> Option<Result<SiteName, TlsError>> {
        self.0.as_ref().filter(|tls| !tls.is_handshaking()).map(|tls| site_of(tls))
    }
}
