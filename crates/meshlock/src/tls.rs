//! Certificates of the cluster's own authority.

use std::path::Path;

use meshlock_tls::{Files, Identity, IdentityError};

/// Who this program is, and whom it believes: a certificate of the cluster's own authority (`meshlock ca issue`) with its key, and
/// the authority's certificate.
#[derive(Clone, Debug)]
pub struct Tls(Identity);

/// Why certificates cannot be used: which one, and what is wrong with it.
#[derive(Debug, thiserror::Error)]
#[error(transparent)]
pub struct TlsError(#[from] IdentityError);

impl Tls {
    /// From three files.
    pub fn from_files(
        authority: impl AsRef<Path>,
        certificate: impl AsRef<Path>,
        key: impl AsRef<Path>,
    ) -> Result<Self, TlsError> {
        let files = Files {
            authority: authority.as_ref().to_owned(),
            certificate: certificate.as_ref().to_owned(),
            key: key.as_ref().to_owned(),
        };
        Ok(Tls(Identity::load(&files)?))
    }

    /// From a directory as `meshlock ca issue` writes it: `ca.pem`, `cert.pem` and `key.pem`.
    pub fn from_dir(dir: impl AsRef<Path>) -> Result<Self, TlsError> {
        Ok(Tls(Identity::load(&Files::in_directory(dir.as_ref()))?))
    }

    /// From memory: the same three in PEM.
    pub fn from_pem(authority: &[u8], certificate: &[u8], key: &[u8]) -> Result<Self, TlsError> {
        Ok(Tls(Identity::from_pem(authority, certificate, key)?))
    }

    pub(crate) fn identity(&self) -> &Identity {
        &self.0
    }
}
