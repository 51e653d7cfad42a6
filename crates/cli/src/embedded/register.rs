//! Where this user's embedded node is, whatever the environment of the process that looks for it.
//!
//! Two commands of one user can have different runtime, state and home directories, such as a login, a job of cron and the script of a
//! test. If each of them used only its own, two nodes could run at once and grant the same lock twice. So whatever decides whether
//! a node is started is in [directories](places::fixed_directories) that depend on the user only:
//!
//! ```text
//!  /tmp/meshlock-UID/, and /run/user/UID/meshlock/ while the user is logged in
//!    start           lock file, held by whoever starts the node and by a node that stops: never two nodes at once
//!    embedded.sock   the node's socket, or a link to it
//!    embedded.home   the directory of the node's state, until the node has left its view
//! ```
//!
//! A node that was killed leaves `embedded.home` behind. The next one continues with that state, because only there is written for how
//! long it has to wait until the holders of locks have stopped.

use std::ffi::OsString;
use std::fs::{self, File};
use std::io;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use super::{EmbeddedError, Home, lock_file, site};
use crate::settings::places::{self, PlaceError};

/// Name of the file with the directory of the node's state.
const HOME_FILE: &str = "embedded.home";

/// The directories that all processes of this user agree on.
pub(super) struct Register(Vec<PathBuf>);

impl Register {
    /// Makes the directories that do not exist.
    pub(super) fn open() -> Result<Self, PlaceError> {
        Ok(Register(places::fixed_directories()?))
    }

    /// Locks the right to start or stop the node; waits while another process has it.
    pub(super) fn lock(&self) -> Result<Vec<File>, EmbeddedError> {
        // All of them, always in the same order: one may appear or become unusable between the starts of two processes.
        self.0.iter().map(|dir| lock_file(&dir.join("start"))).collect()
    }

    /// Removes links to the socket of a node that does not run any more. The caller holds the locks.
    pub(super) fn remove_links(&self) -> Result<(), EmbeddedError> {
        for link in self.0.iter().map(|dir| dir.join(socket_name())) {
            if fs::symlink_metadata(&link).is_ok_and(|metadata| metadata.is_symlink()) {
                fs::remove_file(&link).map_err(|error| EmbeddedError::Files { path: link, error })?;
            }
        }
        Ok(())
    }

    /// Lets all processes of this user find a node. The process that started it holds the locks.
    pub(super) fn enter(&self, home: &Home, socket: &Path) -> io::Result<()> {
        for dir in &self.0 {
            write_whole(&dir.join(HOME_FILE), home.0.as_os_str().as_bytes())?;
            let link = dir.join(socket_name());
            if fs::canonicalize(&link).ok() == fs::canonicalize(socket).ok() {
                continue;
            }
            let new = dir.join("embedded.link");
            // One that a process has left behind that was killed here.
            let _ = fs::remove_file(&new);
            symlink(socket, &new)?;
            fs::rename(new, link)?;
        }
        Ok(())
    }

    /// Forgets the state of a node that has left its view. The node holds the locks.
    pub(super) fn leave(&self) -> Result<(), EmbeddedError> {
        for dir in &self.0 {
            // It is fine if the file is already gone.
            let _ = fs::remove_file(dir.join(HOME_FILE));
        }
        self.remove_links()
    }
}

/// Returns the name of the node's socket in every directory.
pub(super) fn socket_name() -> String {
    format!("{}.sock", site())
}

/// Returns the state of a node that runs or was killed, if it still exists.
pub(super) fn unfinished() -> Option<Home> {
    let read = |dir: PathBuf| fs::read(dir.join(HOME_FILE)).ok();
    let homes = places::runtime_directories().into_iter().filter(|dir| places::is_own(dir, 0o077));
    let mut homes = homes.filter_map(read).map(|path| PathBuf::from(OsString::from_vec(path)));
    homes.find(|home| home.is_absolute() && home.is_dir()).map(Home)
}

/// Writes a file atomically: readers see the old contents or the new ones.
pub(super) fn write_whole(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let mut new = path.as_os_str().to_owned();
    new.push(".new");
    fs::write(&new, bytes)?;
    fs::rename(new, path)
}
