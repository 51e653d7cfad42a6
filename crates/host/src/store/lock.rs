//! A lock that lets only one process use a site's directory.

use std::fs::{File, OpenOptions, TryLockError};
use std::io::{Read, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use super::error::StoreError;

const NAME: &str = "lock";

/// The exclusive right to use a directory. It ends when this is dropped or the process ends, however it ends.
///
/// The lock is the kernel's (`flock`). Its file is not removed on release, because that could remove a lock that another process has just
/// taken. The file contains the process number, for people only.
#[derive(Debug)]
pub(super) struct DirectoryLock {
    _file: File,
}

impl DirectoryLock {
    pub(super) fn take(dir: &Path) -> Result<Self, StoreError> {
        let path = dir.join(NAME);
        let mut options = OpenOptions::new();
        options.read(true).write(true).create(true).truncate(false).mode(0o600);
        let mut file = options.open(&path).map_err(StoreError::io(&path, "cannot be opened"))?;
        match file.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => {
                return Err(StoreError::InUse { dir: dir.to_owned(), by: process_in(file) });
            }
            Err(TryLockError::Error(error)) => return Err(StoreError::io(&path, "cannot be locked")(error)),
        }
        // On a full disk only the number is missing.
        let _ = file.set_len(0).and_then(|()| writeln!(file, "{}", std::process::id()));
        Ok(DirectoryLock { _file: file })
    }
}

fn process_in(file: File) -> Option<u32> {
    let mut text = String::new();
    file.take(16).read_to_string(&mut text).ok()?;
    text.trim().parse().ok()
}
