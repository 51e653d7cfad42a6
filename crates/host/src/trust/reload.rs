//! Replacing the certificate, its key and the authorities while the node runs.

use std::collections::BTreeSet;
use std::path::PathBuf;

use meshlock_tls::{Bearer, Expiry, FileStamps, Identity, IdentityError, Security};

use super::Trust;

/// Why certificates were not replaced. The old ones stay in use.
#[derive(Debug, thiserror::Error)]
pub enum ReloadError {
    #[error(transparent)]
    Identity(#[from] IdentityError),
    /// The certificate of another site.
    #[error("{}: it is the certificate of {found}, and this is {expected}; give it its own", file.display())]
    OtherBearer { file: PathBuf, found: Bearer, expected: Bearer },
    #[error("the certificates came from memory, so there are no files to read; give the node new ones")]
    NoFiles,
    #[error("this site runs without TLS, which cannot change while it runs; restart it to change that")]
    Plain,
}

/// What was replaced, for the log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reloaded {
    /// How many authorities are trusted now.
    pub authorities: usize,
    /// When the new certificate ends, and its authority's.
    pub expiries: [Expiry; 2],
    /// Peers that are connected and could not connect now, because the authority of their certificates is not trusted any more.
    pub left: BTreeSet<Bearer>,
}

/// What was last seen of the files.
#[derive(Debug, Default)]
pub(super) struct FileWatch {
    /// Files that differ from those in use, as of the last look.
    seen: Option<FileStamps>,
    /// Files that could not be used, which the log has already said.
    complained: Option<FileStamps>,
}

impl Trust {
    /// Reads the files again and uses what they have from now on. If they cannot be used, everything stays as it was.
    pub fn reload(&self) -> Result<Reloaded, ReloadError> {
        let mut watch = self.files();
        let reloaded = self.read_files()?;
        watch.complained = None;
        Ok(reloaded)
    }

    /// Uses another certificate of the same site from now on, with its key and its authorities.
    pub fn replace_identity(&self, identity: &Identity) -> Result<Reloaded, ReloadError> {
        let mut watch = self.files();
        let reloaded = self.check_and_install(identity)?;
        *watch = FileWatch::default();
        Ok(reloaded)
    }

    /// Reads the files if they have changed, and returns what became of that. A change is believed at the second look, because several files
    /// are replaced one after the other; one that cannot be used is tried again at every look, and returned once.
    pub(super) fn look_at_files(&self) -> Option<Result<Reloaded, ReloadError>> {
        let mut watch = self.files();
        let Security::Tls(identity) = self.security() else { return None };
        let found = identity.files()?.stamps();
        if identity.stamps() == Some(found) {
            *watch = FileWatch::default();
            return None;
        }
        if watch.seen.replace(found) != Some(found) {
            return None;
        }
        match self.read_files() {
            Ok(reloaded) => {
                *watch = FileWatch::default();
                Some(Ok(reloaded))
            }
            Err(error) => (watch.complained.replace(found) != Some(found)).then_some(Err(error)),
        }
    }

    fn read_files(&self) -> Result<Reloaded, ReloadError> {
        let Security::Tls(current) = self.security() else { return Err(ReloadError::Plain) };
        let identity = Identity::load(current.files().ok_or(ReloadError::NoFiles)?)?;
        self.check_and_install(&identity)
    }

    fn check_and_install(&self, identity: &Identity) -> Result<Reloaded, ReloadError> {
        let Security::Tls(current) = self.security() else { return Err(ReloadError::Plain) };
        let expiries = identity.expiries();
        if identity.bearer() != current.bearer() {
            return Err(ReloadError::OtherBearer {
                file: expiries[0].file.clone(),
                found: identity.bearer().clone(),
                expected: current.bearer().clone(),
            });
        }
        let left = self.install(identity);
        let reloaded = Reloaded { authorities: identity.authorities(), expiries, left };
        reloaded.log();
        Ok(reloaded)
    }
}
