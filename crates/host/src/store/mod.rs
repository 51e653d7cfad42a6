//! The disk of a site: a directory with a database (`redb`) in which every batch of [`DiskWrite`]s is one durable transaction.
//!
//! ```text
//! DIR/            0700
//!   lock          locked while a process uses the directory; contains its number, for people
//!   state.redb    0600: the site's name, the format, and what a voter must not forget
//! ```
//!
//! A voter must not forget what it has promised, or two leaders could be elected. So damage is never repaired by going back to an older
//! state: it is an error, and the message says what to do. Only a transaction that a crash interrupted is dropped; it was never reported
//! as written.

mod error;
mod lock;
mod recovery;
mod tables;
#[cfg(test)]
mod tests;

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};

use redb::Database;

pub use error::StoreError;
use lock::DirectoryLock;
use meshlock_cluster::membership::disk::{Disk, DiskWrite};
use meshlock_cluster::names::{ClusterName, SiteName};
pub use recovery::StoppedSite;
use tables::StoreReader;

const FILE: &str = "state.redb";
const NEW_FILE: &str = "state.redb.new";

/// Size of the database cache. The data is small; the default of one gigabyte is meant for other uses.
const CACHE_BYTES: usize = 1 << 20;

/// How the file is opened. Tests use a disk that fails.
type Opener = Box<dyn Fn(&Path) -> Result<Database, redb::Error> + Send>;

/// A site's directory that this process uses.
pub(crate) struct Store {
    dir: PathBuf,
    file: PathBuf,
    site: SiteName,
    open: Opener,
    condition: Condition,
    /// Released last, because fields are dropped in order.
    _lock: DirectoryLock,
}

/// Whether the database can be written to.
enum Condition {
    Open(Database),
    /// The disk was full: the database must be reopened before the next batch.
    WasFull,
    /// It is unknown what is on the disk.
    Failed,
}

/// Reads which cluster the directory of `site` belongs to: its name and its first voters. Returns `None` if nothing was founded there.
pub fn founding_in(dir: &Path, site: &SiteName) -> Result<Option<(ClusterName, Vec<SiteName>)>, StoreError> {
    let file = dir.join(FILE);
    if !file.try_exists().map_err(StoreError::io(&file, "cannot be looked at"))? {
        return Ok(None);
    }
    let (_, disk) = Store::open(dir, site)?;
    Ok(disk.founding().map(|founding| (founding.cluster().clone(), founding.voters().to_vec())))
}

impl Store {
    /// Locks the directory of `site`, creates it if it is missing, and reads its content.
    pub(crate) fn open(dir: &Path, site: &SiteName) -> Result<(Store, Disk), StoreError> {
        Store::open_with(dir, site, Box::new(open_file))
    }

    fn open_with(dir: &Path, site: &SiteName, open: Opener) -> Result<(Store, Disk), StoreError> {
        make_directory(dir)?;
        let lock = DirectoryLock::take(dir)?;
        let file = dir.join(FILE);
        let exists = file.try_exists().map_err(StoreError::io(&file, "cannot be looked at"))?;
        if !exists {
            put_in_place(dir, &file, site, &[])?;
        }
        let (database, disk) = read(dir, &file, site, &open)?;
        let condition = Condition::Open(database);
        let store = Store { dir: dir.to_owned(), file, site: site.clone(), open, condition, _lock: lock };
        Ok((store, disk))
    }

    /// Writes a batch and waits for the disk. After `Ok` the whole batch is durable. After an error either all of it or nothing is on the
    /// disk, and everything written before is.
    ///
    /// After an error that [is passing](StoreError::is_passing) the same batch may be written again, and must be before any
    /// other; writing it twice is harmless. After any other error every further write is refused.
    pub(crate) fn write(&mut self, batch: &[DiskWrite]) -> Result<(), StoreError> {
        if batch.is_empty() {
            return Ok(());
        }
        let database = match std::mem::replace(&mut self.condition, Condition::Failed) {
            Condition::Open(database) => Ok(database),
            Condition::WasFull => self.read_again(),
            Condition::Failed => return Err(StoreError::Closed { file: self.file.clone() }),
        };
        let written = database.and_then(|database| {
            guarded(&self.file, || {
                let done = tables::commit(&database, batch);
                done.map_err(StoreError::database(&self.file, "cannot be written"))?;
                Ok(database)
            })
        });
        match written {
            Ok(database) => {
                self.condition = Condition::Open(database);
                Ok(())
            }
            Err(error) => {
                if error.is_passing() {
                    self.condition = Condition::WasFull;
                }
                Err(error)
            }
        }
    }

    fn read_again(&self) -> Result<Database, StoreError> {
        let (database, _) = read(&self.dir, &self.file, &self.site, &self.open)?;
        Ok(database)
    }
}

/// Returns whether a site's directory contains the state of one.
pub fn has_state(dir: &Path) -> bool {
    dir.join(FILE).exists()
}

/// Creates the directory durably, accessible to its owner only.
fn make_directory(dir: &Path) -> Result<(), StoreError> {
    let missing: Vec<&Path> =
        dir.ancestors().take_while(|dir| !dir.as_os_str().is_empty() && !dir.exists()).collect();
    let made = DirBuilder::new().recursive(true).mode(0o700).create(dir);
    made.map_err(StoreError::io(dir, "cannot create the directory"))?;
    for dir in missing {
        sync_directory(parent(dir))?;
    }
    Ok(())
}

fn parent(path: &Path) -> &Path {
    path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

fn sync_directory(dir: &Path) -> Result<(), StoreError> {
    File::open(dir).and_then(|dir| dir.sync_all()).map_err(StoreError::io(dir, "cannot be made durable"))
}

/// Creates the file with these writes, under a temporary name first, so that under its final name it exists completely or not at all.
fn put_in_place(dir: &Path, file: &Path, site: &SiteName, writes: &[DiskWrite]) -> Result<(), StoreError> {
    let new = dir.join(NEW_FILE);
    match fs::remove_file(&new) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => {
            return Err(StoreError::io(&new, "is left over, and cannot be removed")(error));
        }
        Ok(()) | Err(_) => {}
    }
    let mut options = OpenOptions::new();
    options.read(true).write(true).create_new(true).mode(0o600);
    let handle = options.open(&new).map_err(StoreError::io(&new, "cannot be made"))?;
    let database = Database::builder()
        .set_cache_size(CACHE_BYTES)
        .create_file(handle)
        .map_err(|error| StoreError::database(&new, "cannot be made")(error.into()))?;
    let written = tables::found(&database, site).and_then(|()| tables::commit(&database, writes));
    written.map_err(StoreError::database(&new, "cannot be written"))?;
    drop(database);
    let synced = File::open(&new).and_then(|file| file.sync_all());
    synced.map_err(StoreError::io(&new, "cannot be made durable"))?;
    fs::rename(&new, file).map_err(StoreError::io(file, "cannot be put in place"))?;
    sync_directory(dir)
}

fn open_file(file: &Path) -> Result<Database, redb::Error> {
    Ok(Database::builder().set_cache_size(CACHE_BYTES).open(file)?)
}

/// Opens the file, and reads and checks all of it.
fn read(dir: &Path, file: &Path, site: &SiteName, open: &Opener) -> Result<(Database, Disk), StoreError> {
    guarded(file, || {
        let mut database = open(file).map_err(StoreError::database(file, "cannot be opened"))?;
        let checked = database.check_integrity();
        checked.map_err(|error| StoreError::database(file, "cannot be read")(error.into()))?;
        let reader = StoreReader::new(dir, file, &database)?;
        reader.check_identity(site)?;
        let disk = reader.disk()?;
        Ok((database, disk))
    })
}

/// Turns a panic of `redb` into an error. `redb` trusts a file that was closed cleanly, and panics on some files whose bits have changed
/// since. Its state is dropped with the panic, so nothing half done is visible.
fn guarded<T>(file: &Path, act: impl FnOnce() -> Result<T, StoreError>) -> Result<T, StoreError> {
    catch_unwind(AssertUnwindSafe(act)).unwrap_or_else(|panic| {
        let text = panic.downcast_ref::<String>().map(String::as_str);
        let text = text.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or("a panic");
        Err(StoreError::Damaged { file: file.to_owned(), what: format!("the database reports: {text}") })
    })
}
