//! The paths where a user's nodes and the machine's node are by default: sockets, data, client certificates and configurations.

use std::env;
use std::fs::{self, DirBuilder};
use std::io;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, symlink};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};

use meshlock_cluster::names::SiteName;
use rustix::io::Errno;
use rustix::process::{Pid, test_kill_process};

/// Environment variable with a directory that takes the place of `/` in all fixed paths below, so that a test has a machine of its own.
/// Whoever sets it could as well name a node; a program that runs with another user's rights does not look at it.
const ROOT_VARIABLE: &str = "MESHLOCK_ROOT";

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
    #[error(
        "neither XDG_STATE_HOME nor HOME says where a node keeps its state; set one of them, or {instead}"
    )]
    NoStateDirectory {
        /// What else the user can do.
        instead: &'static str,
    },
    /// No node is configured and none runs; the paths were searched.
    #[error(
        "no node is configured or runs (there is nothing of the kind in {}); start one with `meshlock node`, or a whole \
         cluster with `meshlock up`, or name one with --socket or --node",
        list(.0)
    )]
    NoNode(Vec<PathBuf>),
    /// Several nodes run for this user.
    #[error("several nodes run for this user; name one with --socket: {}", list(.0))]
    Several(Vec<PathBuf>),
}

fn list(paths: &[PathBuf]) -> String {
    paths.iter().map(|path| path.display().to_string()).collect::<Vec<_>>().join(", ")
}

/// Returns a fixed path of the machine.
fn machine(path: &str) -> PathBuf {
    use rustix::process::{getegid, geteuid, getgid, getuid};
    let is_own = getuid() == geteuid() && getgid() == getegid();
    let root = env::var_os(ROOT_VARIABLE).map(PathBuf::from).filter(|root| is_own && root.is_absolute());
    root.unwrap_or_else(|| PathBuf::from("/")).join(path)
}

/// Returns the socket of the machine's node, which the packages configure.
pub(crate) fn machine_socket() -> PathBuf {
    machine("run/meshlock/node.sock")
}

/// Returns the file whose presence says that this machine has a node: the configuration of its node, or else the node's socket. A file
/// of which the system does not say whether it exists counts as present: no command may act as if the machine had no node.
pub(crate) fn machine_node() -> Option<PathBuf> {
    let is_absent = |path: &PathBuf| {
        let absent = [io::ErrorKind::NotFound, io::ErrorKind::NotADirectory];
        fs::symlink_metadata(path).is_err_and(|error| absent.contains(&error.kind()))
    };
    [machine("etc/meshlock/node.toml"), machine_socket()].into_iter().find(|path| !is_absent(path))
}

/// Returns the `client.toml` of this user, if the environment says where configurations are, and that of the machine.
pub(crate) fn client_files() -> impl Iterator<Item = PathBuf> {
    let own = user_configuration().map(|dir| dir.join("client.toml"));
    own.into_iter().chain([machine("etc/meshlock/client.toml")])
}

/// Returns the directories in which the sockets of this user's nodes can be; they need not exist. Nodes are started in the first one. The
/// others are looked at too: a node that was started by cron is found after a login, and the other way round.
pub(crate) fn runtime_directories() -> Vec<PathBuf> {
    let given = env::var_os("XDG_RUNTIME_DIR").map(PathBuf::from).filter(|dir| dir.is_absolute());
    let given = given.map(|dir| dir.join("meshlock"));
    let mut dirs: Vec<PathBuf> =
        given.into_iter().chain(login_directory()).chain([temporary_directory()]).collect();
    dirs.dedup();
    dirs
}

/// Returns the directory for the sockets of this user's nodes while the user is logged in: what XDG_RUNTIME_DIR says then.
fn login_directory() -> Option<PathBuf> {
    let dir = machine(&format!("run/user/{}", rustix::process::getuid().as_raw()));
    is_own(&dir, 0o077).then(|| dir.join("meshlock"))
}

/// Returns the directory for the sockets of this user's nodes where nothing else is known.
fn temporary_directory() -> PathBuf {
    machine(&format!("tmp/meshlock-{}", rustix::process::getuid().as_raw()))
}

/// Returns the directories that do not depend on the environment, for what all processes of this user must agree on. They are made if
/// need be. Those that another user could use are left out: in /tmp anybody can create one of that name. It is an error if none is left.
pub(crate) fn fixed_directories() -> Result<Vec<PathBuf>, PlaceError> {
    let (mut usable, mut refused) = (Vec::new(), None);
    // Only the machine of a test can be without one; what is wrong with it is said below.
    let _ = fs::create_dir_all(machine("tmp"));
    for dir in [temporary_directory()].into_iter().chain(login_directory()) {
        match make_private(&dir) {
            Ok(()) => usable.push(dir),
            Err(error) => refused = refused.or(Some(error)),
        }
    }
    match refused {
        Some(error) if usable.is_empty() => Err(error),
        Some(_) | None => Ok(usable),
    }
}

/// Returns whether this is a directory of this user (not a link to one) for which nobody else has any of these permissions.
pub(crate) fn is_own(path: &Path, others: u32) -> bool {
    fs::symlink_metadata(path).is_ok_and(|metadata| {
        metadata.is_dir()
            && metadata.uid() == rustix::process::getuid().as_raw()
            && metadata.mode() & others == 0
    })
}

/// Returns the directory for the sockets of this user's nodes, which need not exist.
pub(crate) fn runtime_directory() -> PathBuf {
    runtime_directories().swap_remove(0)
}

/// Creates the directory for sockets if it does not exist, and checks that no other user can use it.
fn make_runtime_directory() -> Result<PathBuf, PlaceError> {
    let path = runtime_directory();
    make_private(&path).map(|()| path)
}

/// Creates a directory if it does not exist, and checks that no other user can use it.
fn make_private(path: &Path) -> Result<(), PlaceError> {
    match DirBuilder::new().mode(0o700).create(path) {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => {
            Err(PlaceError::Io { path: path.to_owned(), error })
        }
        Ok(()) | Err(_) => check_runtime_directory(path),
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

/// Returns the default directory for the durable state of `site`. The error says what the user can do `instead` of setting a variable.
pub(crate) fn data_of(site: &SiteName, instead: &'static str) -> Result<PathBuf, PlaceError> {
    let absolute = |name| env::var_os(name).map(PathBuf::from).filter(|dir| dir.is_absolute());
    let state = match absolute("XDG_STATE_HOME") {
        Some(state) => Some(state),
        None if rustix::process::getuid().is_root() => Some("/var/lib".into()),
        None => absolute("HOME").map(|home| home.join(".local/state")),
    };
    Ok(state.ok_or(PlaceError::NoStateDirectory { instead })?.join("meshlock").join(site.as_str()))
}

/// Returns the default directory of the client's certificate, which need not exist.
pub(crate) fn client_certificate() -> Option<PathBuf> {
    user_configuration().map(|dir| dir.join("client"))
}

/// Returns the directory of this user's configuration of Meshlock, which need not exist.
fn user_configuration() -> Option<PathBuf> {
    let absolute = |name| env::var_os(name).map(PathBuf::from).filter(|dir| dir.is_absolute());
    let config = absolute("XDG_CONFIG_HOME").or_else(|| absolute("HOME").map(|home| home.join(".config")));
    config.map(|config| config.join("meshlock"))
}

/// Nodes of this user that form one choice: a single one, or those of a `meshlock up`, which are one cluster.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum UserNodes {
    One(PathBuf),
    Up { dir: PathBuf, sockets: Vec<PathBuf> },
}

impl UserNodes {
    /// Returns the socket that commands use.
    pub(crate) fn socket(&self) -> Option<&PathBuf> {
        match self {
            UserNodes::One(socket) => Some(socket),
            UserNodes::Up { sockets, .. } => sockets.first(),
        }
    }
}

/// Returns this user's running nodes. A directory that others can use is an error if this user's nodes would be started there, and ignored
/// otherwise: in /tmp anybody can create one of that name.
pub(crate) fn user_nodes() -> Result<Vec<UserNodes>, PlaceError> {
    let (mut found, mut is_first) = (Vec::new(), true);
    for dir in runtime_directories() {
        match running_in(&dir) {
            Ok(sockets) => {
                found.extend(sockets.into_iter().map(UserNodes::One));
                found.extend(clusters_in(&dir.join(UP)));
            }
            Err(error) if is_first => return Err(error),
            Err(_) => {}
        }
        is_first = false;
    }
    Ok(found)
}

/// The directory beside the sockets with a link for each running `meshlock up`, which is called as its process and leads to its files.
const UP: &str = "up";

/// Returns the running clusters of `meshlock up` that are linked in this directory.
fn clusters_in(links: &Path) -> Vec<UserNodes> {
    let links = fs::read_dir(links).into_iter().flatten().filter_map(|entry| entry.ok());
    let mut dirs: Vec<PathBuf> = links.filter_map(|link| fs::read_link(link.path()).ok()).collect();
    dirs.sort();
    let cluster = |dir: PathBuf| {
        let mut sockets = if is_own(&dir, 0o022) { served_in(&dir) } else { Vec::new() };
        // site-2 comes before site-10.
        sockets.sort_by_key(|path| (path.as_os_str().len(), path.clone()));
        (!sockets.is_empty()).then_some(UserNodes::Up { dir, sockets })
    };
    dirs.into_iter().filter_map(cluster).collect()
}

/// A link by which this user's commands find the nodes of a `meshlock up`, until it is dropped.
pub(crate) struct UpLink(PathBuf);

impl UpLink {
    /// Makes the link for this process and removes those of processes that have ended.
    pub(crate) fn new(dir: &Path) -> Result<Self, PlaceError> {
        // Where every command of this user looks, whatever its environment is.
        let fixed = fixed_directories()?.into_iter().next();
        let links = fixed.map_or_else(make_runtime_directory, Ok)?.join(UP);
        let failed = |error| PlaceError::Io { path: links.clone(), error };
        match DirBuilder::new().mode(0o700).create(&links) {
            Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(failed(error)),
            Ok(()) | Err(_) => {}
        }
        for link in fs::read_dir(&links).map_err(failed)?.filter_map(|entry| entry.ok()) {
            let process = link.file_name().to_str().and_then(|name| name.parse().ok());
            let ends = process.and_then(Pid::from_raw).map(test_kill_process);
            if ends == Some(Err(Errno::SRCH)) {
                let _ = fs::remove_file(link.path());
            }
        }
        let link = links.join(std::process::id().to_string());
        // One that an earlier process with the same number has left behind.
        let _ = fs::remove_file(&link);
        symlink(dir, &link).map_err(failed)?;
        Ok(UpLink(link))
    }
}

impl Drop for UpLink {
    fn drop(&mut self) {
        // It is fine if the file is already gone.
        let _ = fs::remove_file(&self.0);
    }
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
    use std::os::unix::fs::PermissionsExt;
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
