//! The client's side of the clients' protocol: one blocking connection to a node of this machine, or through a
//! [relay](relay) to one on another.

pub(crate) mod keeper;
pub(crate) mod place;
mod relay;

use std::io::{self, Read, Write};
use std::net::Shutdown;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::{Duration, Instant};

use meshlock_node::names::{ClientLabel, SiteName};
use meshlock_node::shell::client::protocol::{ProtocolError, Tag, ToClient, ToNode, VERSION, put, take};
use meshlock_node::shell::now;
use meshlock_node::time::{Span, Time};

use keeper::{Keeper, Keeping, Kept};
use place::{Network, Place};

/// How long a node may take to greet; it does so without asking anyone.
const WELCOME_WITHIN: Duration = Duration::from_secs(5);

/// A greeting that takes longer than this says too little about the node's clock, and it is asked again, so often.
const GREETED_SOON: Span = Span::from_millis(20);
const CLOCK_LOOKS: usize = 3;

/// How much is read at once.
const READ_BYTES: usize = 16 << 10;

/// Why there is no talking with a node.
#[derive(Debug, thiserror::Error)]
pub(crate) enum RemoteError {
    /// Nobody serves there.
    #[error(
        "no node serves clients at {0}; start one with `meshlock node`, or name another with --socket or --node"
    )]
    Nobody(Place),
    /// The system does not let us.
    #[error("cannot talk to the node at {place}: {error}")]
    Io {
        /// Where.
        place: Place,
        /// What the system says.
        error: io::Error,
    },
    /// It has gone, or has cut us off.
    #[error("the node at {0} has closed the connection; look at its log")]
    Closed(Place),
    /// It does not let us in, or we do not trust it.
    #[error("cannot use the node at {place}: {why}")]
    Untrusted {
        /// Where.
        place: Place,
        /// Why.
        why: String,
    },
    /// It does not answer.
    #[error("the node at {place} does not answer within {} s; look whether it is stopped or overloaded", within.as_secs())]
    Silent {
        /// Where.
        place: Place,
        /// How long was waited.
        within: Duration,
    },
    /// It does not want us.
    #[error("the node at {place} refuses: {why}")]
    Refused {
        /// Where.
        place: Place,
        /// In its words.
        why: String,
    },
    /// It says what no node says.
    #[error("the node at {place} is not understood: {error}")]
    Protocol {
        /// Where.
        place: Place,
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
    place: Place,
    stream: UnixStream,
    /// The connection to a node on another machine, and who keeps it.
    line: Option<OwnedFd>,
    keeper: Option<Keeper>,
    site: SiteName,
    /// What has come and not been looked at.
    bytes: Vec<u8>,
    /// Some moment here, and what the node's clock showed then or later.
    clocks: (Time, Time),
    last_tag: Tag,
}

impl Remote {
    /// Connects to the node that serves clients at `place`, as `who`.
    pub(crate) fn connect(place: &Place, who: ClientLabel, keeping: Keeping) -> anyhow::Result<Self> {
        match place {
            Place::Socket(path) => Ok(Remote::connect_to_socket(path, who)?),
            Place::Network(network) => Remote::connect_over_network(network, who, keeping),
        }
    }

    /// Connects to a node of this machine.
    pub(crate) fn connect_to_socket(path: &Path, who: ClientLabel) -> Result<Self, RemoteError> {
        let place = Place::Socket(path.to_owned());
        let stream = UnixStream::connect(path).map_err(|error| unreachable(&place, error))?;
        Remote::new(place, stream).greet(who)
    }

    fn connect_over_network(network: &Network, who: ClientLabel, keeping: Keeping) -> anyhow::Result<Self> {
        let place = Place::Network(network.clone());
        let node = keeper::connect(network).map_err(|error| unreachable(&place, error))?;
        let Kept { stream, line, keeper } = keeper::keep(node, network, keeping)?;
        let mut remote = Remote::new(place, stream);
        (remote.line, remote.keeper) = (Some(line), Some(keeper));
        let greeted = remote.greet(who);
        // The relay says so, or the node: in words of certificates mostly.
        if let Err(RemoteError::Refused { place, why }) = greeted {
            return Err(RemoteError::Untrusted { place, why }.into());
        }
        Ok(greeted?)
    }

    fn new(place: Place, stream: UnixStream) -> Self {
        let site = "unknown".parse().expect("a name");
        let clocks = (now(), now());
        Remote { place, stream, line: None, keeper: None, site, bytes: Vec::new(), clocks, last_tag: 0 }
    }

    fn greet(mut self, who: ClientLabel) -> Result<Self, RemoteError> {
        let asked = now();
        self.say(&ToNode::Hello { version: VERSION, who })?;
        match self.hear(Some(WELCOME_WITHIN))? {
            Some(ToClient::Welcome { site, time, .. }) => {
                self.site = site;
                // What comes through a relay says moments of our own clock.
                self.clocks = if self.keeper.is_some() { (asked, asked) } else { (asked, time) };
                self.compare_clocks()?;
                Ok(self)
            }
            Some(ToClient::Refused { why, .. }) => {
                Err(RemoteError::Refused { place: self.place.clone(), why })
            }
            Some(_) => Err(RemoteError::Closed(self.place.clone())),
            None => Err(self.silent(WELCOME_WITHIN)),
        }
    }

    /// Asks what time it is there, should the greeting have taken long: so much would be taken off every lease.
    fn compare_clocks(&mut self) -> Result<(), RemoteError> {
        for _ in 0..CLOCK_LOOKS {
            let (here, asked) = (self.clocks.0, now());
            if self.keeper.is_some() || asked.since(here) < GREETED_SOON {
                return Ok(());
            }
            if let ToClient::Pong { time, .. } = self.ask(WELCOME_WITHIN, ToNode::Ping)?
                && self.local(time) < asked
            {
                self.clocks = (asked, time);
            }
            if now().since(asked) < GREETED_SOON {
                return Ok(());
            }
        }
        Ok(())
    }

    /// Where it is.
    pub(crate) fn place(&self) -> &Place {
        &self.place
    }

    /// Which site it is.
    pub(crate) fn site(&self) -> &SiteName {
        &self.site
    }

    /// What keeps the session's locks as long as some process has it open: its socket, and the connection to a node on another
    /// machine.
    pub(crate) fn descriptors(&self) -> impl Iterator<Item = BorrowedFd<'_>> {
        std::iter::once(self.stream.as_fd()).chain(self.line.as_ref().map(AsFd::as_fd))
    }

    /// The connection to a node on another machine. As long as it is open somewhere the node knows that the client may still be
    /// there, whoever else has gone.
    pub(crate) fn take_line(&mut self) -> Option<OwnedFd> {
        self.line.take()
    }

    /// Ends the session, and waits until the node knows it, but not longer than this.
    pub(crate) fn end(mut self, within: Duration) {
        let keeper = self.keeper.take();
        drop(self);
        if let Some(mut keeper) = keeper {
            keeper.wait(within);
        }
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
        let taken = taken.map_err(|error| RemoteError::Protocol { place: self.place.clone(), error })?;
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
                    return Err(RemoteError::Refused { place: self.place.clone(), why });
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
            Ok(0) => Err(RemoteError::Closed(self.place.clone())),
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
        let place = self.place.clone();
        if matches!(error.kind(), io::ErrorKind::BrokenPipe | io::ErrorKind::ConnectionReset) {
            RemoteError::Closed(place)
        } else {
            RemoteError::Io { place, error }
        }
    }

    fn silent(&self, within: Duration) -> RemoteError {
        RemoteError::Silent { place: self.place.clone(), within }
    }
}

/// Nobody is there, or the system does not let us.
fn unreachable(place: &Place, error: io::Error) -> RemoteError {
    let place = place.clone();
    if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::ConnectionRefused) {
        RemoteError::Nobody(place)
    } else {
        RemoteError::Io { place, error }
    }
}

impl Drop for Remote {
    fn drop(&mut self) {
        // A thread that is not waited for would be gone before it has said that the session is over.
        if let Some(keeper @ Keeper::Thread(_)) = &mut self.keeper {
            let _ = self.stream.shutdown(Shutdown::Both);
            keeper.wait(WELCOME_WITHIN);
        }
    }
}

impl AsFd for Remote {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.stream.as_fd()
    }
}
