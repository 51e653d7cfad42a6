//! This user's own node, for locks on one machine: found or started without configuration, gone with its last user.
//!
//! ```text
//!  STATE/meshlock/embedded/HOST/   0700: what the node must not forget (fences go on where they were), and
//!    start         held by whoever starts the node, and by the node while it goes away: never two at once
//!    socket        where it serves clients: programs with another environment (cron) find the same one
//!    log           what it says
//!  RUNTIME/meshlock/embedded.sock
//! ```
//!
//! The node is a site that is a cluster of its own, so all promises of leases hold: if it is killed, the next one waits until
//! those who held locks have stopped. When it goes away in order it leaves its view first, and the next one need not wait.

mod node;

use std::env;
use std::ffi::{OsStr, OsString};
use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, BufRead, BufReader};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::mpsc::channel;
use std::time::Duration;

use meshlock_cluster::names::{ClientLabel, SiteName};

use crate::settings::places::{self, PlaceError};
use meshlock_client::{Connection, ConnectionError, Keeping, NodeEndpoint};
pub(crate) use node::{Arguments, NAME, run};

/// How long another process may take to start the node, or the last one to go away.
const START_WITHIN: Duration = Duration::from_secs(20);

/// How often a node that is just going away may be met in a row.
const MAX_TRIES: usize = 5;

/// How long a log grows before it is begun anew.
const MAX_LOG_BYTES: u64 = 1 << 20;

/// Why there is no node of this user.
#[derive(Debug, thiserror::Error)]
pub(crate) enum EmbeddedError {
    /// Its files.
    #[error("cannot start a node for this user: {}: {error}", path.display())]
    Files {
        /// Which.
        path: PathBuf,
        /// What the system says.
        error: io::Error,
    },
    /// It says itself.
    #[error("cannot start a node for this user: {why}")]
    Start {
        /// Why not.
        why: String,
    },
    /// Someone else has been starting it for too long.
    #[error(
        "another process has been starting or stopping this user's node for {} s; end whoever has {} open",
        START_WITHIN.as_secs(),
        .0.display()
    )]
    Busy(PathBuf),
    /// It goes away whenever it is asked.
    #[error("this user's node does not stay; look at {}", .0.display())]
    Unsteady(PathBuf),
}

/// Where the node keeps its files.
struct Home(PathBuf);

impl Home {
    fn find() -> Result<Self, PlaceError> {
        // Also for the administrator: what is under /var belongs to the machine's own nodes, where there is a choice.
        let chosen = env::var_os("XDG_STATE_HOME").map(PathBuf::from).filter(|state| state.is_absolute());
        let data = match chosen {
            Some(state) => state.join("meshlock").join(site().as_str()),
            None => places::data_of(&site())?,
        };
        // A home may be shared by several machines, each with a node of its own.
        let system = rustix::system::uname();
        let host = Path::new(OsStr::from_bytes(system.nodename().to_bytes())).file_name();
        Ok(Home(data.join(host.unwrap_or(OsStr::new("localhost")))))
    }

    fn file(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }

    /// The right to start the node, or to let it go; waits for whoever has it.
    fn lock(&self) -> Result<File, EmbeddedError> {
        let path = self.file("start");
        let failed = |error| EmbeddedError::Files { path: path.clone(), error };
        DirBuilder::new().recursive(true).mode(0o700).create(&self.0).map_err(failed)?;
        let mut options = OpenOptions::new();
        let file =
            options.write(true).create(true).truncate(false).mode(0o600).open(&path).map_err(failed)?;
        // Another thread waits, so that it can be given up: it ends with the process then.
        let (sender, locked) = channel();
        std::thread::spawn(move || sender.send(file.lock().map(|()| file)));
        match locked.recv_timeout(START_WITHIN) {
            Ok(locked) => locked.map_err(failed),
            Err(_) => Err(EmbeddedError::Busy(path)),
        }
    }

    /// Where the node serves clients, if it has said so.
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

/// What the site is called.
fn site() -> SiteName {
    "embedded".parse().expect("a name")
}

/// Whether this is the socket of such a node.
pub(crate) fn is_embedded(socket: &Path) -> bool {
    socket == places::runtime_directory().join(format!("{}.sock", site()))
        || Home::find().ok().and_then(|home| home.socket()).is_some_and(|own| own == socket)
}

/// Connects to this user's node, and starts it if it does not run.
pub(crate) fn connect(who: &ClientLabel) -> anyhow::Result<Connection> {
    let home = Home::find()?;
    for _ in 0..MAX_TRIES {
        if let Some(remote) = try_connect(&home, who)? {
            return Ok(remote);
        }
        let lock = home.lock()?;
        // Another may have started it meanwhile.
        if let Some(remote) = try_connect(&home, who)? {
            return Ok(remote);
        }
        start(&home)?;
        drop(lock);
    }
    Err(EmbeddedError::Unsteady(home.file("log")).into())
}

/// Connects, if a node is there and stays.
fn try_connect(home: &Home, who: &ClientLabel) -> Result<Option<Connection>, ConnectionError> {
    let Some(socket) = home.socket() else { return Ok(None) };
    match Connection::connect(&NodeEndpoint::Socket(socket), who, &Keeping::Thread) {
        Ok(remote) => Ok(Some(remote)),
        Err(ConnectionError::Nobody(_) | ConnectionError::Closed(_)) => Ok(None),
        Err(error) => Err(error),
    }
}

/// Starts the node, and waits until it serves clients. Whoever calls has the lock.
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
        "" => Err(EmbeddedError::Start { why: format!("it ended; look at {}", home.file("log").display()) }),
        why => Err(EmbeddedError::Start { why: why.to_owned() }),
    }
}
