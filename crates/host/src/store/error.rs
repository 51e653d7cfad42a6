//! What can be wrong with a site's directory, and what to do about it.

use std::io;
use std::path::{Path, PathBuf};

use meshlock_cluster::names::SiteName;

/// Why a site's directory cannot be used, or a batch was not written.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// The operating system refuses something.
    #[error("{}: {what}: {error}", path.display())]
    Io {
        /// The file or directory.
        path: PathBuf,
        /// What was tried.
        what: &'static str,
        /// What the system says.
        error: io::Error,
    },
    /// Another process lives there.
    #[error(
        "{} is in use by {}; stop that one first, or give this site a directory of its own",
        dir.display(),
        Process(*by)
    )]
    InUse {
        /// The directory.
        dir: PathBuf,
        /// The process, if it could write its number down.
        by: Option<u32>,
    },
    /// The file was made by something else.
    #[error("{}: not made by meshlock: {why}; move it away, or choose another directory", file.display())]
    Foreign {
        /// The file.
        file: PathBuf,
        /// How one sees it.
        why: &'static str,
    },
    /// The file was made by a later version.
    #[error(
        "{}: written in format {found}, by a newer meshlock; this one knows formats up to {known}: run the newer one",
        file.display()
    )]
    Newer {
        /// The file.
        file: PathBuf,
        /// The format of the file, or of something in it.
        found: u8,
        /// The last one that this program knows.
        known: u8,
    },
    /// The directory is another site's.
    #[error(
        "{} belongs to the site '{found}', not to '{wanted}'; give each site a directory of its own",
        dir.display()
    )]
    OtherSite {
        /// The directory.
        dir: PathBuf,
        /// Whose it is.
        found: String,
        /// Who wanted it.
        wanted: SiteName,
    },
    /// The file is not as it was written.
    #[error(
        "{} is damaged: {what}; never start this site with an empty directory or an older copy, because it would forget \
         what it voted for: move the directory away and let a site with a new name take its place",
        file.display()
    )]
    Damaged {
        /// The file.
        file: PathBuf,
        /// How one sees it.
        what: String,
    },
    /// There is no room. Nothing of what was written before is lost, and the same batch may be written again.
    #[error("{}: no room on the disk ({error}); make some, the write is then done again", file.display())]
    Full {
        /// The file.
        file: PathBuf,
        /// What the system says.
        error: io::Error,
    },
    /// A write failed before, and it is not known what of it is on the disk.
    #[error("{}: an earlier write failed; look at the disk, then start the site again", file.display())]
    Closed {
        /// The file.
        file: PathBuf,
    },
}

impl StoreError {
    /// Whether the same batch may be written again on the same [`Store`](super::Store).
    pub fn is_passing(&self) -> bool {
        matches!(self, StoreError::Full { .. })
    }

    /// For the errors of files and directories.
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

    /// For the errors of the database in `file`.
    #[expect(
        clippy::wildcard_enum_match_arm,
        reason = "whatever else can be wrong with a database is damage to us"
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

struct Process(Option<u32>);

impl std::fmt::Display for Process {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.0 {
            Some(number) => write!(f, "process {number}"),
            None => f.write_str("another process"),
        }
    }
}
