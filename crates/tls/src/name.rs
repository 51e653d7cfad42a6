//! Who a certificate speaks for.
//!
//! A certificate carries one name, as a URI among its subject alternative names: `meshlock://site/NAME` or
//! `meshlock://client/NAME`. Not a DNS name: those know no '_' and no upper case, and nothing in them would tell a client that
//! is called as a site is from the site.

use std::fmt;

use rustls::pki_types::CertificateDer;
use webpki::EndEntityCert;

pub use meshlock_cluster::access::{ClientName, ClientNameError};
use meshlock_cluster::names::SiteName;

const SCHEME: &str = "meshlock://";

/// Who a certificate speaks for. A client is never a site, whatever its name.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Bearer {
    /// A site of the cluster.
    Site(SiteName),
    /// A client, which may do what the site's rules give it ([`access`](meshlock_cluster::access)).
    Client(ClientName),
}

/// Why a certificate speaks for nobody.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BearerError {
    /// It is no certificate.
    #[error("it cannot be read as an X.509 certificate")]
    Unreadable,
    /// It was made for something else.
    #[error("it has no name such as {SCHEME}site/NAME; make it with `meshlock ca issue`")]
    Nameless,
    /// It could pass for two.
    #[error("it has more than one {SCHEME} name; make it with `meshlock ca issue`")]
    Several,
    /// The name is none.
    #[error("'{0}' is neither {SCHEME}site/NAME nor {SCHEME}client/NAME")]
    Malformed(String),
}

impl Bearer {
    /// Reads the name in a certificate, which says nothing about who signed it.
    pub fn of(certificate: &CertificateDer<'_>) -> Result<Self, BearerError> {
        let certificate = EndEntityCert::try_from(certificate).map_err(|_| BearerError::Unreadable)?;
        Bearer::named_in(&certificate)
    }

    pub(super) fn named_in(certificate: &EndEntityCert<'_>) -> Result<Self, BearerError> {
        let mut names = certificate.valid_uri_names().filter_map(|uri| uri.strip_prefix(SCHEME));
        let name = names.next().ok_or(BearerError::Nameless)?;
        if names.next().is_some() {
            return Err(BearerError::Several);
        }
        let bearer = match name.split_once('/') {
            Some(("site", name)) => name.parse().ok().map(Bearer::Site),
            Some(("client", name)) => name.parse().ok().map(Bearer::Client),
            Some(_) | None => None,
        };
        bearer.ok_or_else(|| BearerError::Malformed(name.chars().take(80).collect()))
    }

    /// As a certificate has it.
    pub fn uri(&self) -> String {
        format!("{SCHEME}{}/{}", self.kind(), self.name())
    }

    /// `site` or `client`.
    pub fn kind(&self) -> &'static str {
        match self {
            Bearer::Site(_) => "site",
            Bearer::Client(_) => "client",
        }
    }

    /// The name alone.
    pub fn name(&self) -> &str {
        match self {
            Bearer::Site(name) => name.as_str(),
            Bearer::Client(name) => name.as_str(),
        }
    }
}

impl fmt::Display for Bearer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the {} '{}'", self.kind(), self.name())
    }
}
