//! Finds `meshlock-supervisor`, which starts faster than `meshlock` itself, beside the program of this process.
//!
//! It must be no program that whoever started `meshlock` would not run anyway. So neither `PATH` nor anything else of the environment says
//! where it is, and it is used only where whoever can put a file beside `meshlock` could as well replace `meshlock`. Whatever is not as
//! it should be costs nothing but time: `meshlock` then starts itself. Whether the two are of the same version, the supervisor
//! [finds out](meshlock_supervisor).

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use meshlock_supervisor::{OURSELVES, PROGRAM};

/// The bit of a directory in which only the owner of a file can replace it, such as `/tmp`.
const STICKY: u32 = 0o1000;

/// The bits of a file that others than its owner may write.
const WRITABLE_BY_OTHERS: u32 = 0o022;

/// Returns the program that is the supervisor: the small one if it can be used, otherwise the program of this process.
pub(super) fn supervisor() -> PathBuf {
    small_program(Path::new(OURSELVES)).unwrap_or_else(|| OURSELVES.into())
}

/// Returns the small program beside the program to which this link of the kernel leads.
fn small_program(link: &Path) -> Option<PathBuf> {
    let program = fs::read_link(link).ok()?;
    let ours = fs::metadata(link).ok()?;
    // The name that the kernel shows can lead elsewhere: if the file was replaced or deleted, or in another file system tree.
    let named = fs::symlink_metadata(&program).ok()?;
    if (named.dev(), named.ino()) != (ours.dev(), ours.ino()) {
        return None;
    }
    let directory = program.parent()?;
    if fs::metadata(directory).ok()?.mode() & STICKY != 0 {
        return None;
    }
    let beside = directory.join(PROGRAM);
    let found = fs::symlink_metadata(&beside).ok()?;
    is_as_safe(&found, &ours).then_some(beside)
}

/// Returns whether nobody can change the file `found` who cannot change our program.
fn is_as_safe(found: &fs::Metadata, ours: &fs::Metadata) -> bool {
    found.is_file()
        && found.uid() == ours.uid()
        && found.gid() == ours.gid()
        && found.mode() & !ours.mode() & WRITABLE_BY_OTHERS == 0
}

#[cfg(test)]
mod tests {
    use std::fs::Permissions;
    use std::os::unix::fs::{PermissionsExt, symlink};

    use super::*;

    /// A directory with a program, a link to it as the kernel's would be, and a small program beside it.
    struct Installed {
        dir: tempfile::TempDir,
        link: PathBuf,
        program: PathBuf,
        small: PathBuf,
    }

    fn installed() -> Installed {
        let dir = tempfile::tempdir().unwrap();
        let [link, program, small] =
            ["exe", "bin/meshlock", "bin/meshlock-supervisor"].map(|name| dir.path().join(name));
        fs::create_dir(dir.path().join("bin")).unwrap();
        for file in [&program, &small] {
            fs::write(file, "").unwrap();
            set_mode(file, 0o755);
        }
        symlink(&program, &link).unwrap();
        Installed { dir, link, program, small }
    }

    fn set_mode(path: &Path, mode: u32) {
        fs::set_permissions(path, Permissions::from_mode(mode)).unwrap();
    }

    #[test]
    fn the_small_program_is_found_beside_the_program() {
        let Installed { dir: _dir, link, program, small } = installed();
        assert_eq!(small_program(&link), Some(small.clone()));
        // Both belong to the same group of people.
        set_mode(&program, 0o775);
        set_mode(&small, 0o775);
        assert_eq!(small_program(&link), Some(small));
    }

    #[test]
    fn a_small_program_that_others_could_have_put_there_is_not_used() {
        let Installed { dir, link, small, .. } = installed();
        for mode in [0o775, 0o757] {
            set_mode(&small, mode);
            assert_eq!(small_program(&link), None, "{mode:o}");
        }
        set_mode(&small, 0o755);
        set_mode(&dir.path().join("bin"), 0o1777);
        assert_eq!(small_program(&link), None, "as in /tmp");
        set_mode(&dir.path().join("bin"), 0o755);
        let elsewhere = dir.path().join("elsewhere");
        fs::rename(&small, &elsewhere).unwrap();
        assert_eq!(small_program(&link), None, "none is there");
        symlink(&elsewhere, &small).unwrap();
        assert_eq!(small_program(&link), None, "a link to anywhere");
    }

    #[test]
    fn a_program_that_was_replaced_has_no_small_program() {
        let Installed { dir, link, program, .. } = installed();
        let running = dir.path().join("running");
        fs::rename(&program, &running).unwrap();
        assert_eq!(small_program(&link), None, "it was deleted");
        // The kernel's link leads to the file, whatever its text says; this one leads to another file by then.
        fs::write(&program, "").unwrap();
        fs::remove_file(&link).unwrap();
        symlink(dir.path().join("bin/../bin/link"), &link).unwrap();
        symlink(&running, dir.path().join("bin/link")).unwrap();
        assert_eq!(small_program(&link), None, "the name leads to a link, which is not what runs");
    }
}
