//! What can be wrong with a site's directory, and what to do about it.

use std::io;
use std::path::{Path, PathBuf};

use meshlock_cluster::names::SiteName;

/// Why a site's directory cannot be used, or a batch was not written.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// An operation of the operating system failed.
    #[error("{}: {what}: {error}", path.display())]
    Io { path: PathBuf, what: &'static str, error: io::Error },
    /// Another process uses the directory.
    #[error(
        "{} is in use by {}; stop that one first, or give this site a directory of its own",
        dir.display(),
        OwnerProcess(*by)
    )]
    InUse {
        dir: PathBuf,
        /// The process, if its number could be read.
        by: Option<u32>,
    },
    /// The file was written by another program.
    #[error("{}: not made by meshlock: {why}; move it away, or choose another directory", file.display())]
    Foreign { file: PathBuf, why: &'static str },
    /// The file was written by a newer version.
    #[error(
        "{}: written in format {found}, by a newer meshlock; this one knows formats up to {known}: run the newer one",
        file.display()
    )]
    Newer {
        file: PathBuf,
        /// The format of the file, or of a record in it.
        found: u8,
        /// The newest format that this program knows.
        known: u8,
    },
    /// The directory belongs to another site.
    #[error(
        "{} belongs to the site '{found}', not to '{wanted}'; give each site a directory of its own",
        dir.display()
    )]
    OtherSite { dir: PathBuf, found: String, wanted: SiteName },
    /// The file's content is not what was written.
    #[error(
        "{} is damaged: {what}; look at the disk, and never put an older copy in its place, because the site would forget what it voted \
         for: move the directory away and start the site with an empty one, so that it becomes a member again, without its old vote. \
         If most voters have lost their disks, see `meshlock recover --help`",
        file.display()
    )]
    Damaged { file: PathBuf, what: String },
    /// The disk is full. Nothing that was written before is lost, and the same batch may be written again.
    #[error("{}: no room on the disk ({error}); make some, the write is then done again", file.display())]
    Full { file: PathBuf, error: io::Error },
    /// An earlier write failed, and it is unknown how much of it is on the disk.
    #[error("{}: an earlier write failed; look at the disk, then start the site again", file.display())]
    Closed { file: PathBuf },
}

impl StoreError {
    /// Whether the same batch may be written again on the same [`Store`](super::Store).
    pub(crate) fn is_passing(&self) -> bool {
        matches!(self, StoreError::Full { .. })
    }

    /// Converts an error of a file or directory.
    pub(super) fn io(path: &Path, what: &'static str) -> impl FnOnce(io::Error) -> StoreError {
        move |error| {
            let path = path.to_owned();
            if is_full(&error) {
                StoreError::Full { file: path, error }
            } else {
                StoreError::Io { path, what, error }
            }
        }
    }

    /// Converts an error of the database in `file`.
    #[expect(
        clippy::wildcard_enum_match_arm,
        reason = "every other error of the database means that the file is damaged"
    )]
    pub(super) fn database(file: &Path, what: &'static str) -> impl FnOnce(redb::Error) -> StoreError {
        move |error| {
            let file = file.to_owned();
            match error {
                redb::Error::Io(error) if error.kind() == io::ErrorKind::InvalidData => {
                    StoreError::Foreign { file, why: "it does not begin as a database does" }
                }
                redb::Error::Io(error) if error.kind() == io::ErrorKind::UnexpectedEof => {
                    StoreError::Damaged { file, what: "it ends too early".to_owned() }
                }
                redb::Error::Io(error) => StoreError::io(&file, what)(error),
                redb::Error::TableDoesNotExist(_)
                | redb::Error::TableTypeMismatch { .. }
                | redb::Error::TypeDefinitionChanged { .. }
                | redb::Error::TableIsMultimap(_)
                | redb::Error::UpgradeRequired(_) => {
                    StoreError::Foreign { file, why: "it is a database of another program" }
                }
                redb::Error::DatabaseAlreadyOpen => StoreError::InUse { dir: file, by: None },
                redb::Error::PreviousIo | redb::Error::DatabaseClosed => StoreError::Closed { file },
                other => StoreError::Damaged { file, what: other.to_string() },
            }
        }
    }
}

fn is_full(error: &io::Error) -> bool {
    use io::ErrorKind::{FileTooLarge, QuotaExceeded, StorageFull};
    matches!(error.kind(), StorageFull | QuotaExceeded | FileTooLarge)
}

/// Formats the process that uses a directory.
struct OwnerProcess(Option<u32>);

impl std::fmt::Display for OwnerProcess {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.0 {
            Some(number) => write!(f, "process {number}"),
            None => f.write_str("another process"),
        }
    }
}
