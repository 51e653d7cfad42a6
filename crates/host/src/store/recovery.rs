//! A site's directory as `meshlock recover` uses it: read and replaced while no node runs.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use meshlock_cluster::membership::disk::{Disk, DiskWrite};
use meshlock_cluster::names::SiteName;

use super::{Condition, FILE, Store, StoreError, has_state, put_in_place, sync_directory};

/// The directory of a site that does not run. Nobody else uses it meanwhile.
pub struct StoppedSite {
    store: Store,
    disk: Disk,
}

impl StoppedSite {
    /// Locks the directory and reads it. It is an error if there is no state, and if a node uses it.
    pub fn open(dir: &Path, site: &SiteName) -> Result<Self, StoreError> {
        if !has_state(dir) {
            let error = io::Error::from(io::ErrorKind::NotFound);
            return Err(StoreError::io(&dir.join(FILE), "there is no state of a site in this directory")(
                error,
            ));
        }
        let (store, disk) = Store::open(dir, site)?;
        Ok(StoppedSite { store, disk })
    }

    /// Returns what is on the disk.
    pub fn disk(&self) -> &Disk {
        &self.disk
    }

    /// Replaces all of it by what these writes leave on an empty disk. The old file stays beside it, and its path is returned. A crash
    /// leaves the old state or the new one, and nothing in between.
    pub fn replace(mut self, writes: &[DiskWrite], stamp: u64) -> Result<PathBuf, StoreError> {
        // The copy is made of a file that nobody has open.
        self.store.condition = Condition::Failed;
        let Store { dir, file, site, .. } = &self.store;
        let kept = dir.join(format!("{FILE}.before-recovery-{stamp}"));
        copy(file, &kept)?;
        sync_directory(dir)?;
        put_in_place(dir, file, site, writes)?;
        Ok(kept)
    }
}

/// Copies a file durably, for its owner only. It is an error if the copy exists.
fn copy(from: &Path, to: &Path) -> Result<(), StoreError> {
    let mut source = File::open(from).map_err(StoreError::io(from, "cannot be opened"))?;
    let mut options = OpenOptions::new();
    options.write(true).create_new(true).mode(0o600);
    let mut copy = options.open(to).map_err(StoreError::io(to, "cannot be made"))?;
    let written = io::copy(&mut source, &mut copy).and_then(|_| copy.sync_all());
    written.map_err(|error| {
        // Half a copy helps nobody; the original is untouched.
        let _ = fs::remove_file(to);
        StoreError::io(to, "cannot be written")(error)
    })
}
