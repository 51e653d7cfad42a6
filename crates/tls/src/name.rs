//! The name in a certificate: the site or client that it belongs to.
//!
//! A certificate carries one name, as a URI among its subject alternative names: `meshlock://site/NAME` or
//! `meshlock://client/NAME`. It is not a DNS name: those allow neither '_' nor upper case, and would not distinguish a client from a
//! site of the same name.

use std::fmt;

use rustls::pki_types::CertificateDer;
use webpki::EndEntityCert;

pub use meshlock_cluster::access::{ClientName, ClientNameError};
use meshlock_cluster::names::SiteName;

const SCHEME: &str = "meshlock://";

/// The site or client that a certificate belongs to. A client is never a site, whatever its name.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Bearer {
    Site(SiteName),
    /// A client, whose rights are given by the site's rules ([`access`](meshlock_cluster::access)).
    Client(ClientName),
}

/// Why a certificate has no usable name.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BearerError {
    #[error("it cannot be read as an X.509 certificate")]
    Unreadable,
    /// It was not issued for Meshlock.
    #[error("it has no name such as {SCHEME}site/NAME; make it with `meshlock ca issue`")]
    Nameless,
    /// It names more than one site or client.
    #[error("it has more than one {SCHEME} name; make it with `meshlock ca issue`")]
    Several,
    /// The name does not have the right form.
    #[error("'{0}' is neither {SCHEME}site/NAME nor {SCHEME}client/NAME")]
    Malformed(String),
}

impl Bearer {
    /// Reads the name in a certificate. It does not check who signed the certificate.
    pub(crate) fn of(certificate: &CertificateDer<'_>) -> Result<Self, BearerError> {
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

    /// Returns the name as a URI, as in a certificate.
    pub fn uri(&self) -> String {
        format!("{SCHEME}{}/{}", self.kind(), self.name())
    }

    /// Returns `site` or `client`.
    pub fn kind(&self) -> &'static str {
        match self {
            Bearer::Site(_) => "site",
            Bearer::Client(_) => "client",
        }
    }

    /// Returns the name without its kind.
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
