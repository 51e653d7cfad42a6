//! Certificates of the cluster's own authority.

use std::path::Path;

use meshlock_tls::{Files, Identity, IdentityError};

/// The identity of this program and the authority it trusts: a certificate of the cluster's own authority (`meshlock ca issue`) with its
/// key, and the authority's certificate.
///
/// ```no_run
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let tls = meshlock::Tls::from_dir("site-db-1")?;
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct Tls(Identity);

/// Why certificates cannot be used: which one, and what is wrong with it.
#[derive(Debug, thiserror::Error)]
#[error(transparent)]
pub struct TlsError(#[from] IdentityError);

impl Tls {
    /// Loads an identity from three PEM files.
    ///
    /// ```no_run
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let tls = meshlock::Tls::from_files("ca.pem", "cert.pem", "key.pem")?;
    /// # Ok(())
    /// # }
    /// ```
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

    /// Loads an identity from a directory written by `meshlock ca issue`: `ca.pem`, `cert.pem` and `key.pem`.
    ///
    /// ```no_run
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let tls = meshlock::Tls::from_dir("site-db-1")?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn from_dir(dir: impl AsRef<Path>) -> Result<Self, TlsError> {
        Ok(Tls(Identity::load(&Files::in_directory(dir.as_ref()))?))
    }

    /// Creates an identity from the same three PEM texts in memory.
    ///
    /// ```no_run
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let (authority, certificate, key) = (std::fs::read("ca.pem")?, std::fs::read("cert.pem")?, std::fs::read("key.pem")?);
    /// let tls = meshlock::Tls::from_pem(&authority, &certificate, &key)?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn from_pem(authority: &[u8], certificate: &[u8], key: &[u8]) -> Result<Self, TlsError> {
        Ok(Tls(Identity::from_pem(authority, certificate, key)?))
    }

    pub(crate) fn identity(&self) -> &Identity {
        &self.0
    }
}
