//! Finds the other programs of Meshlock beside the program of this process: `meshlock-supervisor`, which starts faster than `meshlock`
//! itself, and [for the launcher](crate::launcher) the program with all commands.
//!
//! It must be no program that whoever started this one would not run anyway. So neither `PATH` nor anything else of the environment says
//! where it is, and it is used only where whoever can put a file beside this program could as well replace this program. Whatever is not
//! as it should be with `meshlock-supervisor` costs nothing but time: this program then starts itself. Whether the two are of the same
//! version, the supervisor [finds out](meshlock_supervisor).

use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use meshlock_supervisor::{OURSELVES, PROGRAM};

/// The bit of a directory in which only the owner of a file can replace it, such as `/tmp`.
const STICKY: u32 = 0o1000;

/// The bits of a file that others than its owner may write.
const WRITABLE_BY_OTHERS: u32 = 0o022;

/// Names of the launcher and of the program with all commands as they are built, and of the latter where the launcher is installed as
/// `meshlock`.
const LAUNCHER: &str = "meshlock-launcher";
const WHOLE: &str = "meshlock";
const INSTALLED_WHOLE: &str = "meshlock-full";

/// What the kernel appends to the name of a program whose file was replaced or deleted.
const DELETED: &[u8] = b" (deleted)";

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
    safe_beside(&program, &ours, PROGRAM)
}

/// Returns the program with all commands beside the launcher to which this link of the kernel leads. The error is what is needed there.
///
/// A launcher that was replaced while it ran, by a newer version, uses the program of that version.
pub(crate) fn whole_program(link: &Path) -> Result<PathBuf, PathBuf> {
    let shown = fs::read_link(link).map_err(|_| PathBuf::from(INSTALLED_WHOLE))?;
    let bytes = shown.as_os_str().as_bytes();
    let launcher = Path::new(OsStr::from_bytes(bytes.strip_suffix(DELETED).unwrap_or(bytes)));
    let name = match launcher.file_name() {
        Some(name) if name == LAUNCHER => WHOLE,
        // Nobody goes on from here: two files that are both launchers would start each other for ever.
        Some(name) if name == INSTALLED_WHOLE => return Err(launcher.to_owned()),
        Some(_) | None => INSTALLED_WHOLE,
    };
    let found = fs::metadata(link).ok().and_then(|ours| safe_beside(launcher, &ours, name));
    found.ok_or_else(|| launcher.with_file_name(name))
}

/// Returns the file of this name beside `program`, whose file is `ours`, if nobody can have put it there who cannot replace `program`.
fn safe_beside(program: &Path, ours: &fs::Metadata, name: &str) -> Option<PathBuf> {
    let directory = program.parent()?;
    if fs::metadata(directory).ok()?.mode() & STICKY != 0 {
        return None;
    }
    let beside = directory.join(name);
    let found = fs::symlink_metadata(&beside).ok()?;
    is_as_safe(&found, ours).then_some(beside)
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
    fn each_program_leads_to_the_next_one_and_the_last_one_nowhere() {
        let Installed { dir, link, program, .. } = installed();
        let bin = dir.path().join("bin");
        for name in ["meshlock-launcher", "another-name", "meshlock-full"] {
            fs::copy(&program, bin.join(name)).unwrap();
        }
        for (own, found) in [
            ("meshlock-launcher", Ok("meshlock")),
            ("meshlock", Ok("meshlock-full")),
            ("another-name", Ok("meshlock-full")),
            ("meshlock-full", Err("meshlock-full")),
        ] {
            fs::remove_file(&link).unwrap();
            symlink(bin.join(own), &link).unwrap();
            let found = found.map(|name| bin.join(name)).map_err(|name| bin.join(name));
            assert_eq!(whole_program(&link), found, "{own}");
        }
    }

    #[test]
    fn a_whole_program_that_others_could_have_put_there_is_not_used() {
        let Installed { dir, link, program, .. } = installed();
        let whole = dir.path().join("bin/meshlock-full");
        assert_eq!(whole_program(&link), Err(whole.clone()), "none is there");
        fs::copy(&program, &whole).unwrap();
        set_mode(&whole, 0o775);
        assert_eq!(whole_program(&link), Err(whole.clone()));
        set_mode(&whole, 0o755);
        set_mode(&dir.path().join("bin"), 0o1777);
        assert_eq!(whole_program(&link), Err(whole.clone()), "as in /tmp");
        set_mode(&dir.path().join("bin"), 0o755);
        assert_eq!(whole_program(&link), Ok(whole));
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
