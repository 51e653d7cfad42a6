//! TLS connections without a socket: the caller moves the bytes.

use std::sync::Arc;

use rustls::client::Resumption;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::server::NoServerSessionStorage;
use rustls::version::TLS13;
use rustls::{ClientConfig, ClientConnection, Connection, ServerConfig, ServerConnection};

use super::clock::WallClock;
use super::error::{CertificateFault, TlsError};
use super::identity::Identity;
use super::name::{Bearer, ClientName};
use super::verify::{ExpectBearer, ExpectSite};
use super::x509::{Serial, particulars};
use meshlock_cluster::names::SiteName;

impl Identity {
    /// Begins an outgoing connection to `site`. Any other peer is refused.
    pub fn call(&self, site: &SiteName) -> Result<Connection, TlsError> {
        begin_call(Arc::new(self.calling(Some(site))))
    }

    /// Begins an outgoing connection to any site of the cluster. [`site_of`] says which one, after the handshake.
    pub(crate) fn call_any_site(&self) -> Result<Connection, TlsError> {
        begin_call(Arc::new(self.calling(None)))
    }

    /// Begins an incoming connection of a site or client. [`site_of`] or [`client_of`] says who it is, after the handshake.
    pub fn answer(&self) -> Result<Connection, TlsError> {
        begin_answer(Arc::new(self.called()))
    }

    /// Returns the configuration of a server for clients that negotiate one of these protocols. [`bearer_of_chain`] says who they are.
    /// Clients without a certificate are accepted only if `anonymous`; the server then has to identify them in another way.
    pub fn serving(&self, protocols: &[&[u8]], anonymous: bool) -> ServerConfig {
        let mut config = self.called_by(anonymous);
        config.alpn_protocols = protocols.iter().map(|name| name.to_vec()).collect();
        config
    }

    /// Returns the configuration of the dialling side. Neither side resumes earlier TLS sessions: connections last long, and resumption
    /// would accept a certificate that has expired since.
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
        config.time_provider = Arc::new(WallClock);
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
        config.time_provider = Arc::new(WallClock);
        config
    }
}

pub(super) fn begin_call(config: Arc<ClientConfig>) -> Result<Connection, TlsError> {
    // The name in the certificate is what counts. This one is neither sent nor checked.
    let unused = ServerName::try_from("meshlock.invalid").expect("it is a DNS name");
    Ok(ClientConnection::new(config, unused).map_err(TlsError::of_rustls)?.into())
}

pub(super) fn begin_answer(config: Arc<ServerConfig>) -> Result<Connection, TlsError> {
    Ok(ServerConnection::new(config).map_err(TlsError::of_rustls)?.into())
}

/// Returns who is at the other end, after the handshake.
pub(super) fn bearer_of(connection: &Connection) -> Result<Bearer, TlsError> {
    bearer_of_chain(connection.peer_certificates())
}

/// Returns who showed these certificates, after the handshake.
pub fn bearer_of_chain(chain: Option<&[CertificateDer<'_>]>) -> Result<Bearer, TlsError> {
    let certificate = chain.and_then(<[_]>::first);
    let bearer = Bearer::of(certificate.ok_or(TlsError::Anonymous)?);
    bearer.map_err(|error| TlsError::Peer(CertificateFault::Name(error)))
}

/// Returns the serial number of the certificate that was shown, if there was one.
pub fn serial_of_chain(chain: Option<&[CertificateDer<'_>]>) -> Option<Serial> {
    particulars(chain?.first()?).map(|found| found.serial)
}

/// Returns the site at the other end, after the handshake. A client is refused.
pub fn site_of(connection: &Connection) -> Result<SiteName, TlsError> {
    match bearer_of(connection)? {
        Bearer::Site(site) => Ok(site),
        Bearer::Client(client) => Err(TlsError::NotASite { client }),
    }
}

/// Returns the client at the other end, after the handshake. A site is refused, because it uses the port for sites.
pub fn client_of(connection: &Connection) -> Result<ClientName, TlsError> {
    match bearer_of(connection)? {
        Bearer::Client(client) => Ok(client),
        Bearer::Site(site) => Err(TlsError::NotAClient { site }),
    }
}
