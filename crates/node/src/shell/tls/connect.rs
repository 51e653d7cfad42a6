//! Securing a connection with the usual streams, for tests: the sites themselves write to sockets in their own way ([`net`](super::super::net)).

use std::sync::Arc;

use rustls::pki_types::ServerName;
use rustls::{ClientConfig, ServerConfig};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio_rustls::{client, server};

use super::error::{Fault, TlsError};
use super::identity::Identity;
use super::name::Bearer;
use crate::names::SiteName;

/// Calls one site. Made once, used for every connection to it.
#[derive(Clone)]
pub(super) struct Connector(pub(super) tokio_rustls::TlsConnector);

impl Connector {
    /// For calls to `site`.
    pub(super) fn new(identity: &Identity, site: &SiteName) -> Self {
        let config: Arc<ClientConfig> = identity.calling(site);
        Connector(config.into())
    }

    /// Secures a connection that this side has opened: whoever is at its other end is that site, or there is an error. How
    /// long that may take is for the caller to bound.
    pub(super) async fn connect<S>(&self, stream: S) -> Result<client::TlsStream<S>, TlsError>
    where
        S: AsyncRead + AsyncWrite + Unpin,
    {
        // The name that counts is the one in the certificate. This one is neither sent nor looked at.
        let unused = ServerName::try_from("meshlock.invalid").expect("it is a DNS name");
        self.0.connect(unused, stream).await.map_err(TlsError::of)
    }
}

/// Is called, by sites and by clients.
#[derive(Clone)]
pub(super) struct Acceptor(pub(super) tokio_rustls::TlsAcceptor);

impl Acceptor {
    /// For whoever the identity's authority has given a name.
    pub(super) fn new(identity: &Identity) -> Self {
        let config: Arc<ServerConfig> = identity.called();
        Acceptor(config.into())
    }

    /// Secures a connection that the other side has opened, and says who that is. How long that may take is for the caller
    /// to bound.
    pub(super) async fn accept<S>(&self, stream: S) -> Result<(server::TlsStream<S>, Bearer), TlsError>
    where
        S: AsyncRead + AsyncWrite + Unpin,
    {
        let stream = self.0.accept(stream).await.map_err(TlsError::of)?;
        let (_, connection) = stream.get_ref();
        let certificate = connection.peer_certificates().and_then(<[_]>::first);
        let bearer = Bearer::of(certificate.ok_or(TlsError::Anonymous)?);
        let bearer = bearer.map_err(|error| TlsError::Peer(Fault::Name(error)))?;
        Ok((stream, bearer))
    }
}
