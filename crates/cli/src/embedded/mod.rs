//! The embedded node: this user's own node for locks on one machine. It is found or started without configuration, and ends when
//! its last client has gone.
//!
//! ```text
//!  STATE/meshlock/embedded/HOST/   mode 0700: durable state (fences continue after a restart), and
//!    start         lock file, held by the process that starts the node and by a node that stops
//!    socket        path of the node's socket: programs with another /tmp (a service's) find the same node
//!    log           the node's log
//!  RUNTIME/meshlock/embedded.sock
//! ```
//!
//! Processes of one user with different environments find one node all the same: see [`register`].
//!
//! The node is a cluster of one site, so all guarantees of leases hold: if it is killed, the next one waits until the holders of
//! locks have stopped. A node that stops normally leaves its view first, and the next one need not wait.

mod node;
mod register;

use std::env;
use std::ffi::{OsStr, OsString};
use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, BufRead, BufReader};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::mpsc::channel;
use std::time::Duration;

use meshlock_cluster::names::{ClientLabel, SiteName};

use crate::location::kept_for_children;
use crate::settings::places::{self, PlaceError};
use meshlock_client::{Connection, ConnectionError, NodeEndpoint};
pub(crate) use node::{Arguments, NAME, run};
use register::Register;

/// How long another process may take to start the node, or the previous node to stop.
const START_WITHIN: Duration = Duration::from_secs(20);

/// How often in a row a node may stop just when a client connects.
const MAX_TRIES: usize = 5;

/// Size at which the log is emptied.
const MAX_LOG_BYTES: u64 = 1 << 20;

/// Why the embedded node cannot be used.
#[derive(Debug, thiserror::Error)]
pub(crate) enum EmbeddedError {
    /// One of its files cannot be used.
    #[error("cannot start a node for this user: {}: {error}", path.display())]
    Files { path: PathBuf, error: io::Error },
    /// The node reported an error when it started.
    #[error("cannot start a node for this user: {why}")]
    Start { why: String },
    /// Another process has held the lock file for too long.
    #[error(
        "another process has been starting or stopping this user's node for {} s; end the process that has {} open",
        START_WITHIN.as_secs(),
        .0.display()
    )]
    Busy(PathBuf),
    /// The node stopped each time a client connected.
    #[error("this user's node stops again and again; its log says why: {}", .0.display())]
    KeepsStopping(PathBuf),
}

/// The directory of the node's files.
struct Home(PathBuf);

impl Home {
    fn find() -> Result<Self, PlaceError> {
        // XDG_STATE_HOME is used for root, too: /var/lib belongs to the machine's configured nodes.
        let chosen = env::var_os("XDG_STATE_HOME").map(PathBuf::from).filter(|state| state.is_absolute());
        let data = match chosen {
            Some(state) => state.join("meshlock").join(site().as_str()),
            None => places::data_of(&site(), "name a node that runs, with --socket or --node")?,
        };
        // Several machines may share a home directory; each has a node of its own.
        let system = rustix::system::uname();
        let host = Path::new(OsStr::from_bytes(system.nodename().to_bytes())).file_name();
        Ok(Home(data.join(host.unwrap_or(OsStr::new("localhost")))))
    }

    fn file(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }

    /// Locks the right to start or stop the node; waits while another process has it.
    fn lock(&self) -> Result<File, EmbeddedError> {
        let failed = |error| EmbeddedError::Files { path: self.0.clone(), error };
        DirBuilder::new().recursive(true).mode(0o700).create(&self.0).map_err(failed)?;
        lock_file(&self.file("start"))
    }

    /// Returns the socket of the node, if one has been started before.
    fn socket(&self) -> Option<PathBuf> {
        let path = fs::read(self.file("socket")).ok().filter(|path| !path.is_empty())?;
        Some(OsString::from_vec(path).into())
    }

    fn log(&self) -> Result<File, EmbeddedError> {
        let path = self.file("log");
        let failed = |error| EmbeddedError::Files { path: path.clone(), error };
        let file = OpenOptions::new().append(true).create(true).mode(0o600).open(&path).map_err(failed)?;
        if file.metadata().is_ok_and(|metadata| metadata.len() > MAX_LOG_BYTES) {
            file.set_len(0).map_err(failed)?;
        }
        Ok(file)
    }
}

/// Locks a file; waits while another process has it locked.
fn lock_file(path: &Path) -> Result<File, EmbeddedError> {
    let failed = |error| EmbeddedError::Files { path: path.to_owned(), error };
    let mut options = OpenOptions::new();
    let file = options.write(true).create(true).truncate(false).mode(0o600).open(path).map_err(failed)?;
    // A thread waits for the lock, so that the wait can be given up; that thread ends with the process.
    let (sender, locked) = channel();
    std::thread::spawn(move || sender.send(file.lock().map(|()| file)));
    match locked.recv_timeout(START_WITHIN) {
        Ok(locked) => locked.map_err(failed),
        Err(_) => Err(EmbeddedError::Busy(path.to_owned())),
    }
}

/// Returns the name of the embedded node's site.
fn site() -> SiteName {
    "embedded".parse().expect("a name")
}

/// Returns the socket of the embedded node with the state of this environment, if it runs.
pub(crate) fn running() -> Option<PathBuf> {
    let socket = Home::find().ok()?.socket()?;
    UnixStream::connect(&socket).is_ok().then_some(socket)
}

/// Returns the socket of this user's embedded node, if it runs, wherever that is.
pub(crate) fn socket() -> Option<PathBuf> {
    let home = Home::find().ok();
    sockets(home.as_ref()).find(|socket| UnixStream::connect(socket).is_ok())
}

/// Returns where the socket of this user's embedded node can be.
fn sockets(home: Option<&Home>) -> impl Iterator<Item = PathBuf> {
    let dirs = places::runtime_directories().into_iter().filter(|dir| places::is_own(dir, 0o077));
    dirs.map(|dir| dir.join(register::socket_name())).chain(home.and_then(Home::socket))
}

/// Returns whether this is the socket of the embedded node.
pub(crate) fn is_embedded(socket: &Path) -> bool {
    let name = register::socket_name();
    places::runtime_directories().iter().any(|dir| socket == dir.join(&name))
        || Home::find().ok().and_then(|home| home.socket()).is_some_and(|own| own == socket)
}

/// Connects to the embedded node, and starts it if it does not run.
pub(crate) fn connect(who: &ClientLabel) -> anyhow::Result<Connection> {
    let own = Home::find().ok();
    let mut log = None;
    for _ in 0..MAX_TRIES {
        if let Some(remote) = try_connect(own.as_ref(), who)? {
            return Ok(remote);
        }
        // That there is nowhere to keep its state matters only if a node is to be started.
        if register::unfinished().is_none() {
            Home::find()?;
        }
        let register = Register::open()?;
        let _locks = register.lock()?;
        let home = match register::unfinished() {
            Some(home) => home,
            None => Home::find()?,
        };
        let _lock = home.lock()?;
        // Another process may have started it meanwhile.
        if let Some(remote) = try_connect(Some(&home), who)? {
            return Ok(remote);
        }
        register.remove_links()?;
        start(&home)?;
        log = Some(home.file("log"));
    }
    Err(EmbeddedError::KeepsStopping(log.unwrap_or_default()).into())
}

/// Connects if the node runs, wherever its socket is. Returns `None` if it does not, or stops at this moment.
fn try_connect(home: Option<&Home>, who: &ClientLabel) -> Result<Option<Connection>, ConnectionError> {
    for socket in sockets(home) {
        match Connection::connect(&NodeEndpoint::Socket(socket), who, &kept_for_children(None)) {
            Ok(remote) => return Ok(Some(remote)),
            Err(ConnectionError::Nobody { .. } | ConnectionError::Closed(_)) => {}
            Err(error) => return Err(error),
        }
    }
    Ok(None)
}

/// Starts the node, and waits until it serves clients. The caller holds the lock files.
fn start(home: &Home) -> Result<(), EmbeddedError> {
    let socket =
        places::socket_of(&site()).map_err(|error| EmbeddedError::Start { why: error.to_string() })?;
    let mut process = Command::new("/proc/self/exe");
    process.arg(NAME).arg("--home").arg(&home.0).arg("--socket").arg(&socket).current_dir("/");
    process.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(home.log()?);
    let failed = |error| EmbeddedError::Files { path: home.0.clone(), error };
    let mut node = process.spawn().map_err(failed)?;
    let mut said = String::new();
    if let Some(stdout) = node.stdout.take() {
        BufReader::new(stdout).read_line(&mut said).map_err(failed)?;
    }
    match said.trim() {
        node::READY => Ok(()),
        "" => Err(EmbeddedError::Start {
            why: format!("it ended at once; its log says why: {}", home.file("log").display()),
        }),
        why => Err(EmbeddedError::Start { why: why.to_owned() }),
    }
}
