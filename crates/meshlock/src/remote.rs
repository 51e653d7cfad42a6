//! The client's side of the clients' protocol: one blocking connection to a node of this machine.

use std::io::{self, Read, Write};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use meshlock_node::names::{ClientLabel, SiteName};
use meshlock_node::shell::client::protocol::{ProtocolError, Tag, ToClient, ToNode, VERSION, put, take};
use meshlock_node::shell::now;
use meshlock_node::time::Time;

/// How long a node may take to greet; it does so without asking anyone.
const WELCOME_WITHIN: Duration = Duration::from_secs(5);

/// How much is read at once.
const READ_BYTES: usize = 16 << 10;

/// Why there is no talking with a node.
#[derive(Debug, thiserror::Error)]
pub(crate) enum RemoteError {
    /// Nobody serves there.
    #[error("no node serves clients at {}; start one with `meshlock node`, or name another with --socket", .0.display())]
    Nobody(PathBuf),
    /// The system does not let us.
    #[error("cannot talk to the node at {}: {error}", path.display())]
    Io {
        /// Its socket.
        path: PathBuf,
        /// What the system says.
        error: io::Error,
    },
    /// It has gone, or has cut us off.
    #[error("the node at {} has closed the connection; look at its log", .0.display())]
    Closed(PathBuf),
    /// It does not answer.
    #[error("the node at {} does not answer within {} s; look whether it is stopped or overloaded", path.display(), within.as_secs())]
    Silent {
        /// Its socket.
        path: PathBuf,
        /// How long was waited.
        within: Duration,
    },
    /// It does not want us.
    #[error("the node at {} refuses: {why}", path.display())]
    Refused {
        /// Its socket.
        path: PathBuf,
        /// In its words.
        why: String,
    },
    /// It says what no node says.
    #[error("the node at {} is not understood: {error}", path.display())]
    Protocol {
        /// Its socket.
        path: PathBuf,
        /// What is wrong.
        error: ProtocolError,
    },
}

impl RemoteError {
    /// Whether there is no node that answers, in contrast to one that refuses something.
    pub(crate) fn is_unreachable(&self) -> bool {
        !matches!(self, RemoteError::Refused { .. })
    }
}

/// A connection to a node: a session, which ends when this is dropped and no other process has the descriptor.
#[derive(Debug)]
pub(crate) struct Remote {
    path: PathBuf,
    stream: UnixStream,
    site: SiteName,
    /// What has come and not been looked at.
    bytes: Vec<u8>,
    /// Some moment here, and what the node's clock showed then or later.
    clocks: (Time, Time),
    last_tag: Tag,
}

impl Remote {
    /// Connects to the node that serves clients at `path`, as `who`.
    pub(crate) fn connect(path: &Path, who: ClientLabel) -> Result<Self, RemoteError> {
        let stream = UnixStream::connect(path).map_err(|error| {
            if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::ConnectionRefused) {
                RemoteError::Nobody(path.to_owned())
            } else {
                RemoteError::Io { path: path.to_owned(), error }
            }
        })?;
        let asked = now();
        let nobody = "unknown".parse().expect("a name");
        let clocks = (asked, asked);
        let mut remote =
            Remote { path: path.to_owned(), stream, site: nobody, bytes: Vec::new(), clocks, last_tag: 0 };
        remote.say(&ToNode::Hello { version: VERSION, who })?;
        match remote.hear(Some(WELCOME_WITHIN))? {
            Some(ToClient::Welcome { site, time, .. }) => {
                remote.site = site;
                remote.clocks = (asked, time);
                Ok(remote)
            }
            Some(ToClient::Refused { why, .. }) => Err(RemoteError::Refused { path: path.to_owned(), why }),
            Some(_) => Err(RemoteError::Closed(path.to_owned())),
            None => Err(remote.silent(WELCOME_WITHIN)),
        }
    }

    /// Its socket.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Which site the node is.
    pub(crate) fn site(&self) -> &SiteName {
        &self.site
    }

    /// A number for a wish or question that was not used before.
    pub(crate) fn tag(&mut self) -> Tag {
        self.last_tag += 1;
        self.last_tag
    }

    /// Says something.
    pub(crate) fn say(&mut self, message: &ToNode) -> Result<(), RemoteError> {
        let mut bytes = Vec::new();
        put(message, &mut bytes);
        let said = self.stream.write_all(&bytes);
        said.map_err(|error| self.failed(error))
    }

    /// Waits for what the node says next, for ever or so long; nothing if it has said nothing until then.
    pub(crate) fn hear(&mut self, within: Option<Duration>) -> Result<Option<ToClient>, RemoteError> {
        let until = within.map(|within| Instant::now() + within);
        loop {
            if let Some(message) = self.heard()? {
                return Ok(Some(message));
            }
            let left = until.map(|until| until.saturating_duration_since(Instant::now()));
            if left.is_some_and(|left| left.is_zero()) {
                return Ok(None);
            }
            self.stream.set_read_timeout(left).map_err(|error| self.failed(error))?;
            self.read()?;
        }
    }

    /// What has been read already and not been looked at, without waiting. Whoever polls the descriptor must empty this
    /// first.
    pub(crate) fn heard(&mut self) -> Result<Option<ToClient>, RemoteError> {
        let taken = take(&self.bytes);
        let taken = taken.map_err(|error| RemoteError::Protocol { path: self.path.clone(), error })?;
        Ok(taken.map(|(message, length)| {
            self.bytes.drain(..length);
            message
        }))
    }

    /// Asks one question, and waits for its answer. What else is said meanwhile concerns locks that this session does not
    /// have.
    pub(crate) fn ask(
        &mut self,
        within: Duration,
        question: impl FnOnce(Tag) -> ToNode,
    ) -> Result<ToClient, RemoteError> {
        let tag = self.tag();
        self.say(&question(tag))?;
        let until = Instant::now() + within;
        loop {
            let left = until.saturating_duration_since(Instant::now());
            match self.hear(Some(left))? {
                Some(ToClient::Refused { tag: of, why }) if of == tag => {
                    return Err(RemoteError::Refused { path: self.path.clone(), why });
                }
                Some(answer) if answer.tag() == Some(tag) => return Ok(answer),
                Some(_) => {}
                None => return Err(self.silent(within)),
            }
        }
    }

    /// The latest moment here that is certainly not after `node_time` there.
    pub(crate) fn local(&self, node_time: Time) -> Time {
        let (here, there) = self.clocks;
        if node_time >= there { here + node_time.since(there) } else { here.before(there.since(node_time)) }
    }

    /// Reads once, at most as long as the stream's timeout says.
    fn read(&mut self) -> Result<(), RemoteError> {
        let mut scratch = [0; READ_BYTES];
        match self.stream.read(&mut scratch) {
            Ok(0) => Err(RemoteError::Closed(self.path.clone())),
            Ok(count) => {
                self.bytes.extend_from_slice(&scratch[..count]);
                Ok(())
            }
            // Time is up, or a signal came: whoever reads looks again.
            Err(error)
                if matches!(
                    error.kind(),
                    io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut | io::ErrorKind::Interrupted
                ) =>
            {
                Ok(())
            }
            Err(error) => Err(self.failed(error)),
        }
    }

    fn failed(&self, error: io::Error) -> RemoteError {
        let path = self.path.clone();
        if matches!(error.kind(), io::ErrorKind::BrokenPipe | io::ErrorKind::ConnectionReset) {
            RemoteError::Closed(path)
        } else {
            RemoteError::Io { path, error }
        }
    }

    fn silent(&self, within: Duration) -> RemoteError {
        RemoteError::Silent { path: self.path.clone(), within }
    }
}

impl AsFd for Remote {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.stream.as_fd()
    }
}
