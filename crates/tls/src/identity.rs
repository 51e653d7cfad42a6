//! The identity of this process and the authority it trusts, read from three files and checked before any connection.

use std::fs::File;
use std::io::{self, Read};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, UnixTime};
use rustls::sign::{CertifiedKey, SingleCertAndKey};

use super::clock::wall_clock;
use super::error::{CertificateFault, IdentityError};
use super::expiry::{ExpiringPart, Expiry};
use super::name::{Bearer, BearerError};
use super::revoked::Revoked;
use super::verify::{Accepted, Authority, AuthorityError, ShownBy};

/// Maximum size of a file; a chain of certificates has a few thousand bytes.
const MAX_BYTES: u64 = 1 << 18;

/// Paths of the three files.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Files {
    /// The certificate of the cluster's authority; two while one replaces another.
    pub authority: PathBuf,
    /// The certificate of this process, followed by intermediate certificates if there are any.
    pub certificate: PathBuf,
    pub key: PathBuf,
}

impl Files {
    /// Returns the paths in a directory written by `meshlock ca issue`.
    pub fn in_directory(dir: &Path) -> Self {
        Files { authority: dir.join("ca.pem"), certificate: dir.join("cert.pem"), key: dir.join("key.pem") }
    }

    /// Returns what tells these files apart from changed ones, without reading them.
    pub fn stamps(&self) -> FileStamps {
        FileStamps([&self.authority, &self.certificate, &self.key].map(|file| {
            let found = std::fs::metadata(file).ok()?;
            Some(Stamp {
                place: (found.dev(), found.ino()),
                size: found.size(),
                written: (found.mtime(), found.mtime_nsec()),
                changed: (found.ctime(), found.ctime_nsec()),
            })
        }))
    }
}

/// What tells files apart from changed ones: where each is on the disk, its length and when it was changed. `None` for a missing file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FileStamps([Option<Stamp>; 3]);

/// What tells one file apart from a changed one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Stamp {
    /// The device, and its number there.
    place: (u64, u64),
    size: u64,
    /// In seconds and nanoseconds.
    written: (i64, i64),
    changed: (i64, i64),
}

/// The identity of this process, and the authority it trusts.
#[derive(Clone, Debug)]
pub struct Identity {
    about: Arc<About>,
    pub(super) authority: Arc<Authority>,
    pub(super) shown: Arc<SingleCertAndKey>,
}

/// Where an identity comes from, and how others see it.
#[derive(Debug)]
struct About {
    own: Accepted,
    /// Where it was read from, or what to call it in messages.
    files: Files,
    /// What the files were before they were read; `None` for an identity from memory.
    stamps: Option<FileStamps>,
}

impl Identity {
    /// Reads the files, and checks that they belong together and are valid now.
    pub fn load(files: &Files) -> Result<Self, IdentityError> {
        // Before they are read: whatever is changed from now on is seen as a change.
        let stamps = files.stamps();
        let authority = read(&files.authority)?;
        let certificate = read(&files.certificate)?;
        let key = read_secret(&files.key)?;
        Identity::new((files, Some(stamps)), &authority, &certificate, &key)
    }

    /// Creates an identity from PEM texts in memory.
    pub fn from_pem(authority: &[u8], certificate: &[u8], key: &[u8]) -> Result<Self, IdentityError> {
        let named = |what: &str| PathBuf::from(format!("the {what} in memory"));
        let files =
            Files { authority: named("authority"), certificate: named("certificate"), key: named("key") };
        Identity::new((&files, None), authority, certificate, key)
    }

    fn new(
        (files, stamps): (&Files, Option<FileStamps>),
        authority: &[u8],
        certificate: &[u8],
        key: &[u8],
    ) -> Result<Self, IdentityError> {
        let authority = authority_in(&files.authority, authority)?;
        let chain = certificates_in(&files.certificate, certificate)?;
        let key = PrivateKeyDer::from_pem_slice(key)
            .map_err(|_| IdentityError::Content { file: files.key.clone(), what: "private key" })?;
        let mismatch = |error: rustls::Error| IdentityError::Key {
            key: files.key.clone(),
            certificate: files.certificate.clone(),
            why: error.to_string(),
        };
        let shown = CertifiedKey::from_der(chain.clone(), key, &authority.provider).map_err(mismatch)?;
        let own = authority.judge(&chain[0], &chain[1..], ShownBy::Caller, wall_clock());
        let own =
            own.map_err(|fault| IdentityError::Certificate { file: files.certificate.clone(), fault })?;
        Ok(Identity {
            about: Arc::new(About { own, files: files.clone(), stamps }),
            authority: Arc::new(authority),
            shown: Arc::new(SingleCertAndKey::from(shown)),
        })
    }

    /// Returns the identity that its files have now, for a client that connects again: if they have changed, can be used and name the
    /// same bearer. Otherwise returns this one.
    #[must_use]
    pub fn renewed(&self) -> Self {
        let changed = self.files().filter(|files| Some(files.stamps()) != self.stamps());
        let renewed = changed.and_then(|files| Identity::load(files).ok());
        renewed.filter(|renewed| renewed.bearer() == self.bearer()).unwrap_or_else(|| self.clone())
    }

    /// Returns the same identity, which refuses the peers on this list.
    #[must_use]
    pub fn refusing(&self, revoked: Arc<Revoked>) -> Self {
        Identity { authority: Arc::new(self.authority.refusing(revoked)), ..self.clone() }
    }

    /// Returns whom the certificate names.
    pub fn bearer(&self) -> &Bearer {
        &self.about.own.bearer
    }

    /// Returns the certificate of this process as others see it.
    pub fn own(&self) -> &Accepted {
        &self.about.own
    }

    /// Returns the files that it was read from; `None` for one from memory.
    pub fn files(&self) -> Option<&Files> {
        self.about.stamps.is_some().then_some(&self.about.files)
    }

    /// Returns what the files were before they were read; `None` for an identity from memory.
    pub fn stamps(&self) -> Option<FileStamps> {
        self.about.stamps
    }

    /// Returns how many authorities it trusts: more than one while one replaces another.
    pub fn authorities(&self) -> usize {
        self.authority.count()
    }

    /// Returns whether both trust the same authorities.
    pub fn trusts_the_same(&self, other: &Identity) -> bool {
        self.authority.is_same(&other.authority)
    }

    /// Returns when its certificate ends, and when the authority's does.
    pub fn expiries(&self) -> [Expiry; 2] {
        let Files { authority, certificate, .. } = self.about.files.clone();
        let Accepted { ends, authority_ends, .. } = self.about.own;
        [
            Expiry { of: ExpiringPart::Own, file: certificate, at: ends },
            Expiry { of: ExpiringPart::Authority, file: authority, at: authority_ends },
        ]
    }

    /// Judges a peer's certificates, the peer's own first, by the time `now`. Connections were judged in their handshake; this is for
    /// those that last.
    pub fn judge(
        &self,
        chain: &[CertificateDer<'_>],
        shown_by: ShownBy,
        now: UnixTime,
    ) -> Result<Accepted, CertificateFault> {
        let none = CertificateFault::Name(BearerError::Nameless);
        let (certificate, between) = chain.split_first().ok_or(none)?;
        self.authority.judge(certificate, between, shown_by, now)
    }
}

pub(super) fn authority_in(file: &Path, bytes: &[u8]) -> Result<Authority, IdentityError> {
    let wrong =
        |error: AuthorityError| IdentityError::Authority { file: file.to_owned(), why: error.to_string() };
    Authority::new(&certificates_in(file, bytes)?).map_err(wrong)
}

/// Returns the certificates in a file, at least one.
#[cfg(feature = "authority")]
pub(super) fn certificates(file: &Path) -> Result<Vec<CertificateDer<'static>>, IdentityError> {
    certificates_in(file, &read(file)?)
}

fn certificates_in(file: &Path, bytes: &[u8]) -> Result<Vec<CertificateDer<'static>>, IdentityError> {
    let found: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(bytes).collect();
    let missing = || IdentityError::Content { file: file.to_owned(), what: "certificate" };
    found.ok().filter(|found| !found.is_empty()).ok_or_else(missing)
}

/// Reads a file that no other user may read or write.
///
/// A group may read a key that belongs to root: that is how a package or an orchestrator gives a key to a service which runs as a user of
/// its own (`root:meshlock`, mode 0640).
pub(super) fn read_secret(file: &Path) -> Result<Vec<u8>, IdentityError> {
    let opened = File::open(file).map_err(|error| unreadable(file, error))?;
    // The metadata of what is read, not of what the path may lead to a moment later.
    let metadata = opened.metadata().map_err(|error| unreadable(file, error))?;
    match exposure(metadata.mode(), metadata.uid()) {
        Some(who) => Err(IdentityError::Open { file: file.to_owned(), who }),
        None => read_from(file, opened),
    }
}

/// Returns who else can use a key with this mode and owner, if anyone can.
fn exposure(mode: u32, owner: u32) -> Option<&'static str> {
    match mode {
        _ if mode & 0o002 != 0 => Some("everyone on this machine can replace"),
        _ if mode & 0o005 != 0 => Some("everyone on this machine can read"),
        _ if mode & 0o020 != 0 => Some("the group of the file can replace"),
        _ if mode & 0o040 != 0 && owner != 0 => Some("the group of the file can read"),
        _ => None,
    }
}

fn read(file: &Path) -> Result<Vec<u8>, IdentityError> {
    read_from(file, File::open(file).map_err(|error| unreadable(file, error))?)
}

fn read_from(file: &Path, from: File) -> Result<Vec<u8>, IdentityError> {
    let mut bytes = Vec::new();
    let read = from.take(MAX_BYTES + 1).read_to_end(&mut bytes);
    read.map_err(|error| unreadable(file, error))?;
    if bytes.len() as u64 > MAX_BYTES {
        return Err(unreadable(file, io::Error::other(format!("more than {MAX_BYTES} bytes"))));
    }
    Ok(bytes)
}

fn unreadable(file: &Path, error: io::Error) -> IdentityError {
    IdentityError::File { file: file.to_owned(), error }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_that_others_can_use_is_refused_and_says_who_can() {
        for (mode, owner, who) in [
            (0o600, 1000, None),
            (0o400, 1000, None),
            (0o640, 0, None),
            (0o440, 0, None),
            (0o640, 1000, Some("the group of the file can read")),
            (0o660, 1000, Some("the group of the file can replace")),
            (0o620, 0, Some("the group of the file can replace")),
            (0o604, 0, Some("everyone on this machine can read")),
            (0o666, 1000, Some("everyone on this machine can replace")),
        ] {
            assert_eq!(exposure(mode, owner), who, "{mode:o} of {owner}");
        }
    }
}
