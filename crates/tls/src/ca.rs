//! The cluster's certificate authority: created once, kept safe, and used to issue a certificate to every site and remote client.
//!
//! ```text
//! DIR/                 0700
//!   ca.pem             what every site and client needs
//!   ca-key.pem         0600; who has this key can pass for any site
//!   site-NAME/         0700; all that the site NAME needs: copy it there
//!     ca.pem cert.pem key.pem
//!   client-NAME/       the same for a client
//! ```
//!
//! Nothing is ever overwritten: to replace a certificate, an operator moves the old one away first.

use std::fs::{self, DirBuilder, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use rcgen::{
    BasicConstraints, CertificateParams, DistinguishedName, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer,
    KeyPair, KeyUsagePurpose, SanType,
};

use super::error::IdentityError;
use super::identity::{Files, Identity, certificates, read_secret};
use super::name::Bearer;

/// Default validity of an authority: ten years.
pub const AUTHORITY_DAYS: u32 = 3650;
/// Default validity of a certificate: two years.
pub const BEARER_DAYS: u32 = 730;
/// Maximum validity.
pub const MAX_DAYS: u32 = 36_500;

/// The name of all authorities; their keys distinguish them.
const SUBJECT: &str = "meshlock cluster CA";

/// A certificate is valid from this long before its creation, because the clocks of a cluster may differ.
const HEAD_START: Duration = Duration::from_hours(1);

/// Why an authority or a certificate could not be created. Existing files are unchanged.
#[derive(Debug, thiserror::Error)]
pub enum CaError {
    /// An existing file would be overwritten.
    #[error("{} exists, and is never overwritten; move it away to make a new one", path.display())]
    Exists { path: PathBuf },
    /// There is no authority.
    #[error("{}: there is no authority here; make one with `meshlock ca init`", dir.display())]
    Missing { dir: PathBuf },
    /// The authority's files, or the new certificate, cannot be used.
    #[error(transparent)]
    Identity(#[from] IdentityError),
    /// A file cannot be written.
    #[error("{}: cannot be written: {error}", path.display())]
    Write { path: PathBuf, error: io::Error },
    /// The key cannot be used, or the time is out of range.
    #[error("cannot make the certificate: {0}")]
    Make(#[from] rcgen::Error),
}

/// An authority's files.
#[derive(Clone, Debug)]
pub struct AuthorityFiles {
    pub certificate: PathBuf,
    /// The secret key.
    pub key: PathBuf,
}

impl AuthorityFiles {
    /// Returns the paths in an authority's directory.
    pub fn in_directory(dir: &Path) -> Self {
        AuthorityFiles { certificate: dir.join("ca.pem"), key: dir.join("ca-key.pem") }
    }
}

/// Creates an authority in `dir`, which is created if it is missing.
pub fn init(dir: &Path, days: u32) -> Result<AuthorityFiles, CaError> {
    let files = AuthorityFiles::in_directory(dir);
    for path in [&files.certificate, &files.key] {
        if path.try_exists().map_err(|error| write_error(path, error))? {
            return Err(CaError::Exists { path: path.clone() });
        }
    }
    let key = KeyPair::generate()?;
    let mut params = authority();
    (params.not_before, params.not_after) = validity(days);
    let certificate = params.self_signed(&key)?;
    let made = DirBuilder::new().recursive(true).mode(0o700).create(dir);
    made.map_err(|error| write_error(dir, error))?;
    write_new(&files.key, &key.serialize_pem(), 0o600)?;
    if let Err(error) = write_new(&files.certificate, &certificate.pem(), 0o644) {
        // A key without its certificate would only prevent the next attempt.
        let _ = fs::remove_file(&files.key);
        return Err(error);
    }
    Ok(files)
}

/// Issues a certificate to `bearer`, in a directory of its own inside the authority's.
pub fn issue(dir: &Path, bearer: &Bearer, days: u32) -> Result<Files, CaError> {
    issue_for(dir, bearer, &[], days)
}

/// Issues a certificate that also contains these host names and addresses, for programs that know nothing of site names.
pub fn issue_for(dir: &Path, bearer: &Bearer, hosts: &[String], days: u32) -> Result<Files, CaError> {
    let authority_files = AuthorityFiles::in_directory(dir);
    if !authority_files.certificate.try_exists().unwrap_or(true) {
        return Err(CaError::Missing { dir: dir.to_owned() });
    }
    certificates(&authority_files.certificate)?;
    let authority_pem = fs::read_to_string(&authority_files.certificate)
        .map_err(|error| IdentityError::File { file: authority_files.certificate.clone(), error })?;
    let secret = read_secret(&authority_files.key)?;
    let no_key = || IdentityError::Content { file: authority_files.key.clone(), what: "private key" };
    let authority_key = std::str::from_utf8(&secret).ok().and_then(|pem| KeyPair::from_pem(pem).ok());
    let issuer = Issuer::new(authority(), authority_key.ok_or_else(no_key)?);
    let key = KeyPair::generate()?;
    let certificate = params_for(bearer, hosts, days)?.signed_by(&key, &issuer)?;

    // The kind comes first in the name of the directory: `..` is a name that a site can have.
    let target = dir.join(format!("{}-{}", bearer.kind(), bearer.name()));
    match DirBuilder::new().mode(0o700).create(&target) {
        Ok(()) => {}
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
            return Err(CaError::Exists { path: target });
        }
        Err(error) => return Err(write_error(&target, error)),
    }
    let files = Files::in_directory(&target);
    let written = write_new(&files.key, &key.serialize_pem(), 0o600)
        .and_then(|()| write_new(&files.certificate, &certificate.pem(), 0o644))
        .and_then(|()| write_new(&files.authority, &authority_pem, 0o644))
        // Loading the identity detects problems early, such as the key of another authority.
        .and_then(|()| Ok(Identity::load(&files).map(drop)?));
    if let Err(error) = written {
        let _ = fs::remove_dir_all(&target);
        return Err(error);
    }
    Ok(files)
}

/// Returns the authority's certificate parameters, which certificates refer to.
fn authority() -> CertificateParams {
    let mut params = CertificateParams::default();
    params.distinguished_name.push(DnType::CommonName, SUBJECT);
    params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
    params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
    params
}

fn params_for(bearer: &Bearer, hosts: &[String], days: u32) -> Result<CertificateParams, rcgen::Error> {
    let mut params = CertificateParams::new(hosts)?;
    params.distinguished_name = DistinguishedName::new();
    params.distinguished_name.push(DnType::CommonName, bearer.name());
    params.subject_alt_names.push(SanType::URI(bearer.uri().try_into()?));
    params.is_ca = IsCa::ExplicitNoCa;
    params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
    // A client's certificate cannot be used by a server: a second protection besides its name.
    params.extended_key_usages = match bearer {
        Bearer::Site(_) => vec![ExtendedKeyUsagePurpose::ServerAuth, ExtendedKeyUsagePurpose::ClientAuth],
        Bearer::Client(_) => vec![ExtendedKeyUsagePurpose::ClientAuth],
    };
    params.use_authority_key_identifier_extension = true;
    (params.not_before, params.not_after) = validity(days);
    Ok(params)
}

/// Returns the validity period: from a little before now, for this many days.
fn validity<T: From<SystemTime>>(days: u32) -> (T, T) {
    let now = SystemTime::now();
    let length = Duration::from_secs(u64::from(days.min(MAX_DAYS)) * 24 * 3600);
    ((now - HEAD_START).into(), (now + length).into())
}

/// Writes a file that must not exist yet.
fn write_new(path: &Path, text: &str, mode: u32) -> Result<(), CaError> {
    let mut file = match OpenOptions::new().write(true).create_new(true).mode(mode).open(path) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
            return Err(CaError::Exists { path: path.to_owned() });
        }
        Err(error) => return Err(write_error(path, error)),
    };
    let written = file.write_all(text.as_bytes()).and_then(|()| file.sync_all());
    written.map_err(|error| {
        // This function created the file, and an incomplete one is useless.
        let _ = fs::remove_file(path);
        write_error(path, error)
    })
}

fn write_error(path: &Path, error: io::Error) -> CaError {
    CaError::Write { path: path.to_owned(), error }
}
