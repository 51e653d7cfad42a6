//! How connections are protected: not at all, or by certificates.

use meshlock_cluster::names::SiteName;
use rustls::Connection;

use super::error::TlsError;
use super::identity::Identity;

/// How connections between sites, and those of clients, are protected.
#[derive(Clone, Debug, Default)]
pub enum Security {
    /// Not at all: whoever reaches the port can say that it is any site. Only where the network itself is trusted.
    #[default]
    Plain,
    /// By certificates of the cluster's own authority.
    Tls(Identity),
}

impl Security {
    /// For a connection that came in.
    pub fn accepting(&self) -> Result<Option<Connection>, TlsError> {
        match self {
            Security::Plain => Ok(None),
            Security::Tls(identity) => identity.answer().map(Some),
        }
    }

    /// For a connection to whichever site is there.
    pub fn dialling_any(&self) -> Result<Option<Connection>, TlsError> {
        match self {
            Security::Plain => Ok(None),
            Security::Tls(identity) => identity.call_any_site().map(Some),
        }
    }

    /// For a connection to `site`.
    pub fn dialling(&self, site: &SiteName) -> Result<Option<Connection>, TlsError> {
        match self {
            Security::Plain => Ok(None),
            Security::Tls(identity) => identity.call(site).map(Some),
        }
    }
}
