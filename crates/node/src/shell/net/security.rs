//! How connections between sites are protected.

use std::io;
use std::sync::Arc;

use rustls::pki_types::ServerName;
use rustls::{ClientConnection, Connection, ServerConfig, ServerConnection};

use super::super::tls::{Bearer, Identity, TlsError};
use crate::names::SiteName;

/// How connections between sites are protected.
#[derive(Clone, Debug, Default)]
pub enum Security {
    /// Not at all: whoever reaches the port can say that it is any site. Only where the network itself is trusted.
    #[default]
    Plain,
    /// By certificates of the cluster's own authority.
    Tls(Tls),
}

/// This site's certificate, and whom it believes.
#[derive(Clone, Debug)]
pub struct Tls {
    identity: Identity,
    called: Arc<ServerConfig>,
}

impl From<Identity> for Security {
    fn from(identity: Identity) -> Self {
        let called = identity.called();
        Security::Tls(Tls { identity, called })
    }
}

impl Security {
    /// For a connection that came in.
    pub(super) fn accepting(&self) -> Result<Option<Connection>, TlsError> {
        let Security::Tls(tls) = self else { return Ok(None) };
        let connection = ServerConnection::new(tls.called.clone()).map_err(refused)?;
        Ok(Some(connection.into()))
    }

    /// For a connection to `site`.
    pub(super) fn dialling(&self, site: &SiteName) -> Result<Option<Connection>, TlsError> {
        let Security::Tls(tls) = self else { return Ok(None) };
        // The name that counts is the one in the certificate. This one is neither sent nor looked at.
        let unused = ServerName::try_from("meshlock.invalid").expect("it is a DNS name");
        let connection = ClientConnection::new(tls.identity.calling(site), unused).map_err(refused)?;
        Ok(Some(connection.into()))
    }
}

/// The site that the other side's certificate names. A client's certificate names none.
pub(super) fn certified(tls: &Connection) -> Option<SiteName> {
    let certificate = tls.peer_certificates().and_then(<[_]>::first)?;
    match Bearer::of(certificate).ok()? {
        Bearer::Site(site) => Some(site),
        Bearer::Client(_) => None,
    }
}

fn refused(error: rustls::Error) -> TlsError {
    TlsError::of(io::Error::new(io::ErrorKind::InvalidData, error))
}
