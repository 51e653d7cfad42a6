//! Certificates of the cluster's own authority.

use std::io;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

#[cfg(feature = "node")]
use meshlock_host::ReloadError;
use meshlock_tls::{CertificateFault, Files, Identity, IdentityError, wall_clock};

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

/// Why certificates cannot be used: which one, and what is wrong with it. The file of one that came from memory is called `the certificate in
/// memory`, and so on.
///
/// ```
/// use meshlock::{Tls, TlsError};
///
/// match Tls::from_dir("/nowhere") {
///     Ok(_tls) => {}
///     Err(TlsError::Unreadable { file, source, .. }) => {
///         assert_eq!(source.kind(), std::io::ErrorKind::NotFound);
///         eprintln!("make {} with `meshlock ca issue`", file.display());
///     }
///     Err(TlsError::Certificate { cause: meshlock::CertificateCause::Expired, .. }) => eprintln!("issue a new one"),
///     Err(error) => eprintln!("{error}"),
/// }
/// ```
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TlsError {
    /// A file cannot be read.
    #[error("{why}")]
    #[non_exhaustive]
    Unreadable {
        /// Which one.
        file: PathBuf,
        /// The same for people.
        why: String,
        /// The error of the operating system.
        source: io::Error,
    },
    /// Other users of this machine can read or replace the key.
    #[error("{why}")]
    #[non_exhaustive]
    KeyIsOpen {
        /// The file of the key.
        file: PathBuf,
        /// The same for people.
        why: String,
    },
    /// No certificate or no key in PEM form is in it.
    #[error("{why}")]
    #[non_exhaustive]
    NotPem {
        /// Which one.
        file: PathBuf,
        /// The same for people.
        why: String,
    },
    /// It cannot be the certificate of an authority.
    #[error("{why}")]
    #[non_exhaustive]
    Authority {
        /// Which one.
        file: PathBuf,
        /// The same for people.
        why: String,
    },
    /// The certificate of this program is not valid.
    #[error("{why}")]
    #[non_exhaustive]
    Certificate {
        /// Which one.
        file: PathBuf,
        /// The reason, for programs.
        cause: CertificateCause,
        /// The reason and the remedy, for people.
        why: String,
    },
    /// A running site cannot use it: it is the certificate of another site, or the site runs without TLS, or its certificates came from
    /// memory and cannot be read again.
    #[error("{why}")]
    #[non_exhaustive]
    Replacement {
        /// The reason and the remedy, for people.
        why: String,
    },
    /// The key belongs to another certificate, or is of a kind that is not supported.
    #[error("{why}")]
    #[non_exhaustive]
    Key {
        /// The file of the key.
        file: PathBuf,
        /// The same for people.
        why: String,
    },
}

/// Why a certificate is not valid; part of [`TlsError::Certificate`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum CertificateCause {
    /// It has expired.
    Expired,
    /// It is not valid yet: the clocks of two machines differ.
    NotYet,
    /// Another authority has signed it, or none.
    OtherAuthority,
    /// The authority that signed it has expired.
    AuthorityExpired,
    /// It is on the list of the revoked.
    Revoked,
    /// It was made for another use.
    Use,
    /// The name in it is missing or malformed.
    Name,
    /// Another reason; the text says which.
    Other,
}

impl TlsError {
    #[cfg(feature = "node")]
    pub(crate) fn of_reload(error: ReloadError) -> Self {
        match error {
            ReloadError::Identity(error) => TlsError::of(error),
            other @ (ReloadError::OtherBearer { .. } | ReloadError::NoFiles | ReloadError::Plain) => {
                TlsError::Replacement { why: other.to_string() }
            }
        }
    }

    fn of(error: IdentityError) -> Self {
        let why = error.to_string();
        match error {
            IdentityError::File { file, error } => TlsError::Unreadable { file, why, source: error },
            IdentityError::Open { file, .. } => TlsError::KeyIsOpen { file, why },
            IdentityError::Content { file, .. } => TlsError::NotPem { file, why },
            IdentityError::Authority { file, .. } => TlsError::Authority { file, why },
            IdentityError::Key { key, .. } => TlsError::Key { file: key, why },
            IdentityError::Certificate { file, fault } => {
                let cause = match fault {
                    CertificateFault::Expired { .. } => CertificateCause::Expired,
                    CertificateFault::NotYet { .. } => CertificateCause::NotYet,
                    CertificateFault::OtherAuthority => CertificateCause::OtherAuthority,
                    CertificateFault::AuthorityExpired { .. } => CertificateCause::AuthorityExpired,
                    CertificateFault::Revoked { .. } => CertificateCause::Revoked,
                    CertificateFault::Use => CertificateCause::Use,
                    CertificateFault::Name(_) => CertificateCause::Name,
                    CertificateFault::Other(_) => CertificateCause::Other,
                };
                TlsError::Certificate { file, cause, why }
            }
        }
    }
}

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
        Identity::load(&files).map(Tls).map_err(TlsError::of)
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
        Identity::load(&Files::in_directory(dir.as_ref())).map(Tls).map_err(TlsError::of)
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
        Identity::from_pem(authority, certificate, key).map(Tls).map_err(TlsError::of)
    }

    /// Returns when it cannot be used any more: when its certificate ends, or the authority's.
    ///
    /// ```no_run
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let ends = meshlock::Tls::from_dir("site-db-1")?.expires();
    /// # Ok(())
    /// # }
    /// ```
    pub fn expires(&self) -> SystemTime {
        SystemTime::UNIX_EPOCH + Duration::from_secs(self.0.own().until().as_secs())
    }

    /// Returns a warning for each certificate that ends within 30 days, which says what to do.
    ///
    /// ```no_run
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// for warning in meshlock::Tls::from_dir("site-db-1")?.warnings() {
    ///     eprintln!("{warning}");
    /// }
    /// # Ok(())
    /// # }
    /// ```
    pub fn warnings(&self) -> Vec<String> {
        let (bearer, now) = (self.0.bearer(), wall_clock());
        let expiries = self.0.expiries();
        expiries.iter().filter_map(|expiry| Some(expiry.warning(bearer, now)?.to_string())).collect()
    }

    pub(crate) fn identity(&self) -> &Identity {
        &self.0
    }
}
