//! How connections are protected: not at all, or by certificates.

use meshlock_cluster::names::SiteName;
use rustls::Connection;

use super::error::TlsError;
use super::identity::Identity;

/// How connections between sites, and those of clients, are protected.
#[derive(Clone, Debug, Default)]
pub enum Security {
    /// Not at all: anyone who reaches the port can pass for any site. Only for networks that are trusted.
    #[default]
    Plain,
    /// By TLS with certificates of the cluster's own authority.
    Tls(Identity),
}

impl Security {
    /// Returns the TLS state of an incoming connection; `None` without TLS.
    pub fn accepting(&self) -> Result<Option<Connection>, TlsError> {
        match self {
            Security::Plain => Ok(None),
            Security::Tls(identity) => identity.answer().map(Some),
        }
    }

    /// Returns the TLS state of an outgoing connection to any site; `None` without TLS.
    pub fn dialling_any(&self) -> Result<Option<Connection>, TlsError> {
        match self {
            Security::Plain => Ok(None),
            Security::Tls(identity) => identity.call_any_site().map(Some),
        }
    }

    /// Returns the TLS state of an outgoing connection to `site`; `None` without TLS.
    pub fn dialling(&self, site: &SiteName) -> Result<Option<Connection>, TlsError> {
        match self {
            Security::Plain => Ok(None),
            Security::Tls(identity) => identity.call(site).map(Some),
        }
    }
}
