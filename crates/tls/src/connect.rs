//! Secured connections, without a socket: bytes in, bytes out, for whoever has one.

use std::sync::Arc;

use rustls::client::Resumption;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::server::NoServerSessionStorage;
use rustls::version::TLS13;
use rustls::{ClientConfig, ClientConnection, Connection, ServerConfig, ServerConnection};

use super::error::{Fault, TlsError};
use super::identity::Identity;
use super::name::{Bearer, ClientName};
use super::verify::{ExpectBearer, ExpectSite};
use meshlock_cluster::names::SiteName;

impl Identity {
    /// A connection that this side has opened, to `site`: whoever else is there is refused.
    pub fn call(&self, site: &SiteName) -> Result<Connection, TlsError> {
        begin_call(Arc::new(self.calling(Some(site))))
    }

    /// A connection that this side has opened, to whichever site of the cluster is there: [`site_of`] says which, once the
    /// handshake is over.
    pub fn call_any_site(&self) -> Result<Connection, TlsError> {
        begin_call(Arc::new(self.calling(None)))
    }

    /// A connection that another site or a client has opened; [`bearer_of`] says who, once the handshake is over.
    pub fn answer(&self) -> Result<Connection, TlsError> {
        begin_answer(Arc::new(self.called()))
    }

    /// For whoever serves clients that agree on one of these protocols ([`bearer_of_chain`] says who they are). Those who show no
    /// certificate are let in only if `anonymous`: whoever serves them asks who they are in another way.
    pub fn serving(&self, protocols: &[&[u8]], anonymous: bool) -> ServerConfig {
        let mut config = self.called_by(anonymous);
        config.alpn_protocols = protocols.iter().map(|name| name.to_vec()).collect();
        config
    }

    /// Nothing is remembered from one connection for the next, on both sides: connections last long, and a certificate that
    /// has expired since would come back in through the memory of the one before.
    pub(super) fn calling(&self, site: Option<&SiteName>) -> ClientConfig {
        let expected = ExpectSite { authority: self.authority.clone(), site: site.cloned() };
        let mut config = ClientConfig::builder_with_provider(self.authority.provider.clone())
            .with_protocol_versions(&[&TLS13])
            .expect("the provider has the cipher suites of TLS 1.3")
            .dangerous()
            .with_custom_certificate_verifier(Arc::new(expected))
            .with_client_cert_resolver(self.shown.clone());
        config.resumption = Resumption::disabled();
        config.enable_sni = false;
        config
    }

    pub(super) fn called(&self) -> ServerConfig {
        self.called_by(false)
    }

    fn called_by(&self, anonymous: bool) -> ServerConfig {
        let expected = ExpectBearer { authority: self.authority.clone(), anonymous };
        let mut config = ServerConfig::builder_with_provider(self.authority.provider.clone())
            .with_protocol_versions(&[&TLS13])
            .expect("the provider has the cipher suites of TLS 1.3")
            .with_client_cert_verifier(Arc::new(expected))
            .with_cert_resolver(self.shown.clone());
        config.session_storage = Arc::new(NoServerSessionStorage {});
        config.send_tls13_tickets = 0;
        config
    }
}

pub(super) fn begin_call(config: Arc<ClientConfig>) -> Result<Connection, TlsError> {
    // The name that counts is the one in the certificate. This one is neither sent nor looked at.
    let unused = ServerName::try_from("meshlock.invalid").expect("it is a DNS name");
    Ok(ClientConnection::new(config, unused).map_err(TlsError::of_rustls)?.into())
}

pub(super) fn begin_answer(config: Arc<ServerConfig>) -> Result<Connection, TlsError> {
    Ok(ServerConnection::new(config).map_err(TlsError::of_rustls)?.into())
}

/// Who is at the other end, once the handshake is over.
pub fn bearer_of(connection: &Connection) -> Result<Bearer, TlsError> {
    bearer_of_chain(connection.peer_certificates())
}

/// Who shows these certificates, once the handshake is over.
pub fn bearer_of_chain(chain: Option<&[CertificateDer<'_>]>) -> Result<Bearer, TlsError> {
    let certificate = chain.and_then(<[_]>::first);
    let bearer = Bearer::of(certificate.ok_or(TlsError::Anonymous)?);
    bearer.map_err(|error| TlsError::Peer(Fault::Name(error)))
}

/// The site at the other end, once the handshake is over. A client is refused.
pub fn site_of(connection: &Connection) -> Result<SiteName, TlsError> {
    match bearer_of(connection)? {
        Bearer::Site(site) => Ok(site),
        Bearer::Client(client) => Err(TlsError::NotASite { client }),
    }
}

/// The client at the other end, once the handshake is over. A site is refused: what it may do it does on the port for sites.
pub fn client_of(connection: &Connection) -> Result<ClientName, TlsError> {
    match bearer_of(connection)? {
        Bearer::Client(client) => Ok(client),
        Bearer::Site(site) => Err(TlsError::NotAClient { site }),
    }
}
