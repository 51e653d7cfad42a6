//! One blocking connection to a node: of this machine, or through a [relay](crate::relay) of another one.

use std::io::{self, Read, Write};
use std::net::Shutdown;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

use meshlock_cluster::names::{ClientLabel, SiteName};
use meshlock_cluster::time::{Span, Time};
use meshlock_system::now;
use meshlock_wire::clients::{REFUSAL_BY_V2, Tag, ToClient, ToNode, VERSIONS, put_to_node, take_to_client};

use super::endpoint::Endpoint;
use super::error::ConnectionError;
use super::keeper::{self, Keeper, Keeping, Kept};

/// How long a node may take to greet; it does so without asking anyone.
const WELCOME_WITHIN: Duration = Duration::from_secs(5);

/// If the greeting takes longer than this, the offset of the node's clock is too uncertain; retry up to `MAX_CLOCK_SAMPLES` times.
const GREETED_SOON: Span = Span::from_millis(20);
const MAX_CLOCK_SAMPLES: usize = 3;

/// How long to read what has come already.
const AT_ONCE: Duration = Duration::from_millis(1);

/// How much is read at once.
const READ_BYTES: usize = 16 << 10;

/// A connection to a node: a session, which ends when this is dropped and no other process has the descriptor.
#[derive(Debug)]
pub struct Connection {
    endpoint: Endpoint,
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

impl Connection {
    /// Connects to the node that serves clients at `endpoint`, as `who`. `keeping` says who keeps the session if a network is
    /// in between.
    pub fn connect(
        endpoint: &Endpoint,
        who: &ClientLabel,
        keeping: &Keeping,
    ) -> Result<Self, ConnectionError> {
        let (oldest, newest) = VERSIONS;
        match Connection::connect_in(newest, endpoint, who, keeping) {
            // Nodes of that time refuse every version but their own.
            Err(ConnectionError::Refused { why, .. } | ConnectionError::Untrusted { why, .. })
                if why.starts_with(REFUSAL_BY_V2) =>
            {
                Connection::connect_in(oldest, endpoint, who, keeping)
            }
            connected => connected,
        }
    }

    fn connect_in(
        version: u16,
        endpoint: &Endpoint,
        who: &ClientLabel,
        keeping: &Keeping,
    ) -> Result<Self, ConnectionError> {
        let (address, security) = match endpoint {
            Endpoint::Tcp { address, security } => (address, security),
            Endpoint::Socket(path) => {
                let stream = UnixStream::connect(path).map_err(|error| unreachable(endpoint, error))?;
                return Connection::new(endpoint.clone(), stream).greet(version, who);
            }
        };
        let node = keeper::connect(address).map_err(|error| unreachable(endpoint, error))?;
        let kept = keeper::keep(node, security, keeping);
        let Kept { stream, line, keeper } =
            kept.map_err(|error| ConnectionError::Io { endpoint: endpoint.clone(), error })?;
        let mut connection = Connection::new(endpoint.clone(), stream);
        (connection.line, connection.keeper) = (Some(line), Some(keeper));
        let greeted = connection.greet(version, who);
        // The relay or the node refuses, mostly because of a certificate.
        if let Err(ConnectionError::Refused { endpoint, why, .. }) = greeted {
            return Err(ConnectionError::Untrusted { endpoint, why });
        }
        greeted
    }

    fn new(endpoint: Endpoint, stream: UnixStream) -> Self {
        let site = "unknown".parse().expect("a name");
        let clocks = (now(), now());
        Connection {
            endpoint,
            stream,
            line: None,
            keeper: None,
            site,
            bytes: Vec::new(),
            clocks,
            last_tag: 0,
        }
    }

    fn greet(mut self, version: u16, who: &ClientLabel) -> Result<Self, ConnectionError> {
        let asked = now();
        self.send(&ToNode::Hello { version, who: who.clone() })?;
        match self.receive(Some(WELCOME_WITHIN))? {
            Some(ToClient::Welcome { site, time, .. }) => {
                self.site = site;
                // What comes through a relay says moments of our own clock.
                self.clocks = if self.keeper.is_some() { (asked, asked) } else { (asked, time) };
                self.compare_clocks()?;
                Ok(self)
            }
            Some(ToClient::Refused { kind, why, .. }) => {
                Err(ConnectionError::Refused { endpoint: self.endpoint.clone(), kind, why })
            }
            Some(_) => Err(ConnectionError::Closed(self.endpoint.clone())),
            None => Err(self.silent(WELCOME_WITHIN)),
        }
    }

    /// Asks what time it is there, should the greeting have taken long: so much would be taken off every lease.
    fn compare_clocks(&mut self) -> Result<(), ConnectionError> {
        for _ in 0..MAX_CLOCK_SAMPLES {
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
    pub fn endpoint(&self) -> &Endpoint {
        &self.endpoint
    }

    /// Which site it is.
    pub fn site(&self) -> &SiteName {
        &self.site
    }

    /// What keeps the session's locks as long as some process has it open: its socket, and the connection to a node on another
    /// machine.
    pub fn descriptors(&self) -> impl Iterator<Item = BorrowedFd<'_>> {
        std::iter::once(self.stream.as_fd()).chain(self.line.as_ref().map(AsFd::as_fd))
    }

    /// The connection to a node on another machine. As long as it is open somewhere the node knows that the client may still be
    /// there, whoever else has gone.
    pub fn take_line(&mut self) -> Option<OwnedFd> {
        self.line.take()
    }

    /// Ends the session, and waits until the node knows it, but not longer than this.
    pub fn end(mut self, within: Duration) {
        let keeper = self.keeper.take();
        drop(self);
        if let Some(mut keeper) = keeper {
            keeper.wait(within);
        }
    }

    /// A number for a wish or question that was not used before.
    pub fn tag(&mut self) -> Tag {
        self.last_tag += 1;
        self.last_tag
    }

    /// Says something.
    pub fn send(&mut self, message: &ToNode) -> Result<(), ConnectionError> {
        let mut bytes = Vec::new();
        put_to_node(message, &mut bytes);
        let said = self.stream.write_all(&bytes);
        said.map_err(|error| self.failed(error))
    }

    /// Waits for what the node says next, for ever or so long; nothing if it has said nothing until then.
    pub fn receive(&mut self, within: Option<Duration>) -> Result<Option<ToClient>, ConnectionError> {
        let until = within.map(|within| Instant::now() + within);
        loop {
            if let Some(message) = self.received()? {
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
    pub fn received(&mut self) -> Result<Option<ToClient>, ConnectionError> {
        let taken = take_to_client(&self.bytes);
        let taken =
            taken.map_err(|error| ConnectionError::Protocol { endpoint: self.endpoint.clone(), error })?;
        Ok(taken.map(|(message, length)| {
            self.bytes.drain(..length);
            message
        }))
    }

    /// Asks one question, and waits for its answer. What else is said meanwhile concerns locks that this session does not
    /// have.
    pub fn ask(
        &mut self,
        within: Duration,
        question: impl FnOnce(Tag) -> ToNode,
    ) -> Result<ToClient, ConnectionError> {
        let tag = self.tag();
        self.send(&question(tag))?;
        let until = Instant::now() + within;
        loop {
            let left = until.saturating_duration_since(Instant::now());
            match self.receive(Some(left))? {
                Some(ToClient::Refused { tag: of, kind, why }) if of == tag => {
                    return Err(ConnectionError::Refused { endpoint: self.endpoint.clone(), kind, why });
                }
                Some(answer) if answer.tag() == Some(tag) => return Ok(answer),
                Some(_) => {}
                None => return Err(self.silent(within)),
            }
        }
    }

    /// The latest moment here that is certainly not after `node_time` there.
    pub fn local(&self, node_time: Time) -> Time {
        let (here, there) = self.clocks;
        if node_time >= there { here + node_time.since(there) } else { here.before(there.since(node_time)) }
    }

    /// Reads what is there, without waiting for more than a moment. Whoever polls the descriptor calls it when it is readable.
    pub fn read_available(&mut self) -> Result<(), ConnectionError> {
        self.stream.set_read_timeout(Some(AT_ONCE)).map_err(|error| self.failed(error))?;
        self.read()
    }

    /// Reads once, at most as long as the stream's timeout says.
    fn read(&mut self) -> Result<(), ConnectionError> {
        let mut scratch = [0; READ_BYTES];
        match self.stream.read(&mut scratch) {
            Ok(0) => Err(ConnectionError::Closed(self.endpoint.clone())),
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

    fn failed(&self, error: io::Error) -> ConnectionError {
        let endpoint = self.endpoint.clone();
        if matches!(error.kind(), io::ErrorKind::BrokenPipe | io::ErrorKind::ConnectionReset) {
            ConnectionError::Closed(endpoint)
        } else {
            ConnectionError::Io { endpoint, error }
        }
    }

    fn silent(&self, within: Duration) -> ConnectionError {
        ConnectionError::Silent { endpoint: self.endpoint.clone(), within }
    }
}

/// Nobody is there, or the system does not let us.
fn unreachable(endpoint: &Endpoint, error: io::Error) -> ConnectionError {
    let endpoint = endpoint.clone();
    if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::ConnectionRefused) {
        ConnectionError::Nobody(endpoint)
    } else {
        ConnectionError::Io { endpoint, error }
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        // A thread that is not waited for would be gone before it has said that the session is over.
        if let Some(keeper @ Keeper::Thread(_)) = &mut self.keeper {
            let _ = self.stream.shutdown(Shutdown::Both);
            keeper.wait(WELCOME_WITHIN);
        }
    }
}

impl AsFd for Connection {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.stream.as_fd()
    }
}
