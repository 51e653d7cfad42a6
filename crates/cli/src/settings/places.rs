//! The default paths of a user's nodes: sockets, data and client certificates.

use std::env;
use std::fs::{self, DirBuilder};
use std::io;
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};

use meshlock_cluster::names::SiteName;

/// Environment variable with the socket of the node to use if `--socket` is not given.
pub(crate) const SOCKET_VARIABLE: &str = "MESHLOCK_SOCKET";

/// Why a path cannot be used, or no node was found.
#[derive(Debug, thiserror::Error)]
pub(crate) enum PlaceError {
    /// Another user could read or replace what is in the directory.
    #[error("{} {why}; remove it, or name a socket elsewhere with --socket", path.display())]
    Unsafe { path: PathBuf, why: &'static str },
    /// The operating system refused access to the directory.
    #[error("{}: cannot be used: {error}; name a socket elsewhere with --socket", path.display())]
    Io { path: PathBuf, error: io::Error },
    /// No environment variable says where state is kept.
    #[error("neither XDG_STATE_HOME nor HOME is set; set one of them, or run `meshlock node --data DIR`")]
    NoStateDirectory,
    /// No node runs for this user; the path is the directory that was searched.
    #[error(
        "no node runs for this user (no socket in {}); start one with `meshlock node`, or a whole cluster with \
         `meshlock up`, or name a socket with --socket",
        .0.display()
    )]
    NoNode(PathBuf),
    /// Several nodes run for this user.
    #[error("several nodes run for this user; name one with --socket: {}", list(.0))]
    Several(Vec<PathBuf>),
}

fn list(paths: &[PathBuf]) -> String {
    paths.iter().map(|path| path.display().to_string()).collect::<Vec<_>>().join(", ")
}

/// Returns the directory for the sockets of this user's nodes, which need not exist.
pub(crate) fn runtime_directory() -> PathBuf {
    let own = rustix::process::getuid().as_raw();
    let given = env::var_os("XDG_RUNTIME_DIR").map(PathBuf::from).filter(|dir| dir.is_absolute());
    given.map_or_else(|| PathBuf::from(format!("/tmp/meshlock-{own}")), |dir| dir.join("meshlock"))
}

/// Creates the directory for sockets if it does not exist, and checks that no other user can use it.
fn make_runtime_directory() -> Result<PathBuf, PlaceError> {
    let path = runtime_directory();
    match DirBuilder::new().mode(0o700).create(&path) {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => Err(PlaceError::Io { path, error }),
        Ok(()) | Err(_) => check_runtime_directory(&path).map(|()| path),
    }
}

/// Checks that no other user can have put anything into this directory.
fn check_runtime_directory(path: &Path) -> Result<(), PlaceError> {
    // A symbolic link is not followed: in /tmp anybody can create one.
    let metadata =
        fs::symlink_metadata(path).map_err(|error| PlaceError::Io { path: path.to_owned(), error })?;
    let refuse = |why| Err(PlaceError::Unsafe { path: path.to_owned(), why });
    if !metadata.is_dir() {
        return refuse("is not a directory");
    }
    if metadata.uid() != rustix::process::getuid().as_raw() {
        return refuse("belongs to another user");
    }
    if metadata.mode() & 0o077 != 0 {
        return refuse("can be used by other users");
    }
    Ok(())
}

/// Returns the default socket of `site`, and creates its directory.
pub(crate) fn socket_of(site: &SiteName) -> Result<PathBuf, PlaceError> {
    Ok(make_runtime_directory()?.join(format!("{site}.sock")))
}

/// Returns the default directory for the durable state of `site`.
pub(crate) fn data_of(site: &SiteName) -> Result<PathBuf, PlaceError> {
    let absolute = |name| env::var_os(name).map(PathBuf::from).filter(|dir| dir.is_absolute());
    let state = match absolute("XDG_STATE_HOME") {
        Some(state) => Some(state),
        None if rustix::process::getuid().is_root() => Some("/var/lib".into()),
        None => absolute("HOME").map(|home| home.join(".local/state")),
    };
    Ok(state.ok_or(PlaceError::NoStateDirectory)?.join("meshlock").join(site.as_str()))
}

/// Returns the default directory of the client's certificate, which need not exist.
pub(crate) fn client_certificate() -> Option<PathBuf> {
    let absolute = |name| env::var_os(name).map(PathBuf::from).filter(|dir| dir.is_absolute());
    let config = absolute("XDG_CONFIG_HOME").or_else(|| absolute("HOME").map(|home| home.join(".config")));
    config.map(|config| config.join("meshlock").join("client"))
}

/// Returns the socket that a client uses: the one given, the one that the environment names, or that of the only running node.
pub(crate) fn find_socket(given: Option<&Path>) -> Result<PathBuf, PlaceError> {
    if let Some(path) = given {
        return Ok(path.to_owned());
    }
    if let Some(path) = env::var_os(SOCKET_VARIABLE).filter(|path| !path.is_empty()) {
        return Ok(path.into());
    }
    let dir = runtime_directory();
    let mut running = running_in(&dir)?;
    match running.len() {
        0 => Err(PlaceError::NoNode(dir)),
        1 => Ok(running.remove(0)),
        _ => Err(PlaceError::Several(running)),
    }
}

/// Returns the sockets of this user's running nodes: those in the runtime directory, or else those of a `meshlock up`. The list
/// is empty if there are none, or if several `meshlock up` run.
pub(crate) fn cluster_sockets() -> Vec<PathBuf> {
    let own = running_in(&runtime_directory()).unwrap_or_default();
    if !own.is_empty() {
        return own;
    }
    let dirs = fs::read_dir(env::temp_dir()).into_iter().flatten().filter_map(|entry| entry.ok());
    let of_up = dirs.filter(|entry| entry.file_name().to_string_lossy().starts_with("meshlock-up-"));
    // In /tmp anybody can create a directory of that name.
    let is_ours = |path: &PathBuf| {
        fs::symlink_metadata(path).is_ok_and(|metadata| {
            metadata.is_dir()
                && metadata.uid() == rustix::process::getuid().as_raw()
                && metadata.mode() & 0o022 == 0
        })
    };
    let mut clusters = of_up.map(|entry| entry.path()).filter(is_ours).map(|dir| served_in(&dir));
    let mut found = clusters.by_ref().filter(|sockets| !sockets.is_empty());
    found.next().filter(|_| found.next().is_none()).unwrap_or_default()
}

/// Returns the sockets in this user's directory that a node serves, sorted by name.
fn running_in(dir: &Path) -> Result<Vec<PathBuf>, PlaceError> {
    match fs::metadata(dir) {
        Ok(_) => {}
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(PlaceError::Io { path: dir.to_owned(), error }),
    }
    check_runtime_directory(dir)?;
    Ok(served_in(dir))
}

/// Returns the sockets in any directory that a node serves, sorted by name. The owner of the directory is not checked.
pub(crate) fn served_in(dir: &Path) -> Vec<PathBuf> {
    let paths =
        fs::read_dir(dir).into_iter().flatten().filter_map(|entry| entry.ok().map(|entry| entry.path()));
    let is_socket = |path: &PathBuf| path.extension().is_some_and(|extension| extension == "sock");
    let mut running: Vec<PathBuf> =
        paths.filter(is_socket).filter(|path| UnixStream::connect(path).is_ok()).collect();
    running.sort();
    running
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{PermissionsExt, symlink};
    use std::os::unix::net::UnixListener;

    use super::*;

    #[test]
    fn only_sockets_that_are_served_are_found() {
        let temporary = tempfile::tempdir().unwrap();
        let dir = temporary.path().join("meshlock");
        assert_eq!(running_in(&dir).unwrap(), Vec::<PathBuf>::new());
        DirBuilder::new().mode(0o700).create(&dir).unwrap();
        let alive = UnixListener::bind(dir.join("b.sock")).unwrap();
        drop(UnixListener::bind(dir.join("a.sock")).unwrap());
        fs::write(dir.join("c.log"), "").unwrap();
        assert_eq!(running_in(&dir).unwrap(), [dir.join("b.sock")]);
        drop(alive);
        assert_eq!(running_in(&dir).unwrap(), Vec::<PathBuf>::new());
    }

    #[test]
    fn a_directory_that_others_can_use_is_refused() {
        let dir = tempfile::tempdir().unwrap();
        let open = dir.path().join("open");
        fs::create_dir(&open).unwrap();
        fs::set_permissions(&open, fs::Permissions::from_mode(0o755)).unwrap();
        let error = check_runtime_directory(&open).unwrap_err().to_string();
        assert!(error.contains("can be used by other users; remove it"), "{error}");
        fs::set_permissions(&open, fs::Permissions::from_mode(0o700)).unwrap();
        check_runtime_directory(&open).unwrap();
        let link = dir.path().join("link");
        symlink(&open, &link).unwrap();
        let error = check_runtime_directory(&link).unwrap_err().to_string();
        assert!(error.contains("is not a directory"), "{error}");
    }
}
