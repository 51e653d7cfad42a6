//! One blocking connection to a node: directly on this machine, or through a [relay](crate::relay) to another one.

use std::io::{self, Read, Write};
use std::net::Shutdown;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

use meshlock_cluster::names::{ClientLabel, SiteName};
use meshlock_cluster::time::{Span, Time};
use meshlock_system::now;
use meshlock_wire::clients::{
    Contact, REFUSAL_BY_V2, Tag, ToClient, ToNode, VERSIONS, put_to_node, take_to_client,
};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;

use super::error::ConnectionError;
use super::estimate::LeaseEstimate;
use super::keeper::{self, Keeper, Keeping, Kept};
use super::nearest::NodeChoice;
use super::node_endpoint::NodeEndpoint;

/// Timeout for connecting and for the node's greeting, which needs no other site.
const WELCOME_WITHIN: Duration = Duration::from_secs(5);

/// The same while there are other nodes to try: a node that does not answer for so long is tried again only if no other one answers.
const WELCOME_AMONG_OTHERS: Duration = Duration::from_secs(1);

/// If the greeting takes longer than this, the offset of the node's clock is too uncertain; it is measured again, up to
/// `MAX_CLOCK_SAMPLES` times.
const GREETED_SOON: Span = Span::from_millis(20);
const MAX_CLOCK_SAMPLES: usize = 3;

/// Read timeout for data that has already arrived.
const AT_ONCE: Duration = Duration::from_millis(1);

/// Maximum number of bytes of one read.
const READ_BYTES: usize = 16 << 10;

/// A connection to a node. It is a session, which ends when this is dropped and no other process has the descriptor open.
#[derive(Debug)]
pub struct Connection {
    endpoint: NodeEndpoint,
    stream: UnixStream,
    /// The connection to a node on another machine, and its keeper.
    line: Option<OwnedFd>,
    keeper: Option<Keeper>,
    /// Keeps the session while any process has it open, and is good for nothing else.
    keep_alive: Option<OwnedFd>,
    site: SiteName,
    /// The version that both sides speak.
    version: u16,
    /// Received bytes that were not decoded yet.
    bytes: Vec<u8>,
    /// How the session can be kept in touch with a node of this machine, if the node says so.
    contact: Option<Contact>,
    /// A moment on this machine's clock, and a time that the node's clock showed then or later.
    clocks: (Time, Time),
    last_tag: Tag,
}

impl Connection {
    /// Connects as `who` to the node that serves clients at `endpoint`. `keeping` says how the session is kept if the node is on another
    /// machine.
    pub fn connect(
        endpoint: &NodeEndpoint,
        who: &ClientLabel,
        keeping: &Keeping,
    ) -> Result<Self, ConnectionError> {
        Connection::connect_within(WELCOME_WITHIN, (std::slice::from_ref(endpoint), 0), who, keeping)
    }

    /// Connects to one of these nodes that answers. Returns the connection and the node's index, or why the first that was tried could not
    /// be used.
    pub fn connect_to_any(
        endpoints: &[NodeEndpoint],
        choice: NodeChoice,
        who: &ClientLabel,
        keeping: &Keeping,
    ) -> Result<(Self, usize), ConnectionError> {
        let order = choice.order(endpoints, who);
        // The session moves in the same order.
        let ordered: Vec<NodeEndpoint> = order.iter().map(|at| endpoints[*at].clone()).collect();
        let rounds: &[Duration] =
            if endpoints.len() > 1 { &[WELCOME_AMONG_OTHERS, WELCOME_WITHIN] } else { &[WELCOME_WITHIN] };
        let mut failed = None;
        for within in rounds {
            for (place, at) in order.iter().enumerate() {
                match Connection::connect_within(*within, (&ordered, place), who, keeping) {
                    Ok(connection) => return Ok((connection, *at)),
                    Err(error) => failed = failed.or(Some(error)),
                }
            }
        }
        Err(failed.unwrap_or(ConnectionError::NoEndpoint))
    }

    /// Connects to the node at this index of these endpoints, between which the session can move.
    fn connect_within(
        within: Duration,
        among: (&[NodeEndpoint], usize),
        who: &ClientLabel,
        keeping: &Keeping,
    ) -> Result<Self, ConnectionError> {
        let (oldest, newest) = VERSIONS;
        match Connection::connect_in(newest, within, among, who, keeping) {
            // Nodes that speak version 2 refuse every other version.
            Err(ConnectionError::Refused { why, .. } | ConnectionError::Untrusted { why, .. })
                if why.starts_with(REFUSAL_BY_V2) =>
            {
                Connection::connect_in(oldest, within, among, who, keeping)
            }
            connected => connected,
        }
    }

    fn connect_in(
        version: u16,
        within: Duration,
        (endpoints, at): (&[NodeEndpoint], usize),
        who: &ClientLabel,
        keeping: &Keeping,
    ) -> Result<Self, ConnectionError> {
        let endpoint = &endpoints[at];
        let (address, security) = match endpoint {
            NodeEndpoint::Tcp { address, security } => (address, security),
            NodeEndpoint::Socket(path) => {
                let failed = |error| unreachable(endpoint, error);
                // Opened first, so that the node knows it before the session can end.
                let keep_alive = match keeping {
                    Keeping::Process(_) => Some(keeper::keep_alive(path).map_err(failed)?),
                    Keeping::Thread => None,
                };
                let stream = UnixStream::connect(path).map_err(failed)?;
                let mut connection = Connection::new(endpoint.clone(), stream);
                connection.keep_alive = keep_alive;
                return connection.greet(version, within, who);
            }
        };
        let node = keeper::connect(address, within).map_err(|error| unreachable(endpoint, error))?;
        let kept = keeper::keep(node, security, (endpoints, at), keeping);
        let Kept { stream, line, keeper, keep_alive } =
            kept.map_err(|error| ConnectionError::Io { endpoint: endpoint.clone(), error })?;
        let mut connection = Connection::new(endpoint.clone(), stream);
        (connection.line, connection.keeper) = (Some(line), Some(keeper));
        connection.keep_alive = keep_alive;
        let greeted = connection.greet(version, within, who);
        // The relay or the node refused, usually because of a certificate.
        if let Err(ConnectionError::Refused { endpoint, kind, why }) = greeted {
            return Err(ConnectionError::Untrusted { endpoint, kind, why });
        }
        greeted
    }

    pub(super) fn new(endpoint: NodeEndpoint, stream: UnixStream) -> Self {
        let site = "unknown".parse().expect("a name");
        let clocks = (now(), now());
        Connection {
            endpoint,
            stream,
            line: None,
            keeper: None,
            keep_alive: None,
            site,
            version: VERSIONS.0,
            bytes: Vec::new(),
            contact: None,
            clocks,
            last_tag: 0,
        }
    }

    fn greet(mut self, version: u16, within: Duration, who: &ClientLabel) -> Result<Self, ConnectionError> {
        let asked = now();
        self.send(&ToNode::Hello { version, who: who.clone() })?;
        match self.receive(Some(within))? {
            Some(ToClient::Welcome { version: theirs, .. }) if !(VERSIONS.0..=version).contains(&theirs) => {
                let (endpoint, ours) = (self.endpoint.clone(), (VERSIONS.0, version));
                Err(ConnectionError::Version { endpoint, theirs, ours })
            }
            Some(ToClient::Welcome { version, site, time, contact }) => {
                (self.site, self.contact, self.version) = (site, contact, version);
                // A relay has already converted all times to this machine's clock.
                self.clocks = if self.keeper.is_some() { (asked, asked) } else { (asked, time) };
                self.compare_clocks()?;
                Ok(self)
            }
            Some(ToClient::Refused { kind, why, .. }) => {
                Err(ConnectionError::Refused { endpoint: self.endpoint.clone(), kind, why })
            }
            Some(_) => Err(ConnectionError::Closed(self.endpoint.clone())),
            None => Err(self.silent(within)),
        }
    }

    /// Measures the node's clock again if the greeting took long, because that time would be subtracted from every lease.
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

    #[cfg(test)]
    pub(super) fn set_contact(&mut self, contact: Contact) {
        self.contact = Some(contact);
    }

    /// Returns an estimate of until when a node of this machine keeps the session if it is [kept in touch](ToNode::StayInTouch) with; `None`
    /// if the node does not ask for that, or a relay does it.
    pub(crate) fn estimate(&self) -> Option<LeaseEstimate> {
        let (said, there) = self.clocks;
        self.contact.map(|contact| LeaseEstimate::new(Some(contact), said, there))
    }

    /// Returns the endpoint of the node.
    pub fn endpoint(&self) -> &NodeEndpoint {
        &self.endpoint
    }

    /// Returns the name of the node's site.
    pub fn site(&self) -> &SiteName {
        &self.site
    }

    /// Returns the version of the protocol that both sides speak. A message that it does not have must not be sent: the node would end
    /// the session.
    pub fn version(&self) -> u16 {
        self.version
    }

    /// Returns the descriptors that keep the session's locks while any process has them open: the socket, and the connection to a node on
    /// another machine. Everything can be asked over them, so they are only for processes that are trusted with the session.
    pub fn descriptors(&self) -> impl Iterator<Item = BorrowedFd<'_>> {
        std::iter::once(self.stream.as_fd()).chain(self.line.as_ref().map(AsFd::as_fd))
    }

    /// Takes the descriptor that keeps the session while any process has it open, and over which nothing can be asked. There is one if the
    /// session was opened for other processes ([`Keeping::Process`]).
    pub fn take_keep_alive(&mut self) -> Option<OwnedFd> {
        self.keep_alive.take()
    }

    /// Takes the connection to a node on another machine. As long as any process has it open, the node assumes that the client may still
    /// run.
    pub fn take_line(&mut self) -> Option<OwnedFd> {
        self.line.take()
    }

    /// Ends the session and waits until the node knows it, at most for `within`.
    pub fn end(mut self, within: Duration) {
        let keeper = self.keeper.take();
        drop(self);
        if let Some(mut keeper) = keeper {
            keeper.wait(within);
        }
    }

    /// Returns a new tag for an acquisition or a question.
    pub fn tag(&mut self) -> Tag {
        self.last_tag += 1;
        self.last_tag
    }

    /// Sends a message.
    pub fn send(&mut self, message: &ToNode) -> Result<(), ConnectionError> {
        let mut bytes = Vec::new();
        put_to_node(message, &mut bytes);
        let said = self.stream.write_all(&bytes);
        said.map_err(|error| self.failed(error))
    }

    /// Waits for the next message of the node, forever or for `within`. Returns `None` if there was none in time.
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

    /// Returns the next message that has arrived, without waiting. (A read with the shortest timeout may wait for several milliseconds: the
    /// kernel counts in ticks.)
    pub(crate) fn receive_available(&mut self) -> Result<Option<ToClient>, ConnectionError> {
        loop {
            if let Some(message) = self.received()? {
                return Ok(Some(message));
            }
            let mut waits = [PollFd::new(&self.stream, PollFlags::IN)];
            match poll(&mut waits, Some(&Timespec::default())) {
                Ok(0) => return Ok(None),
                Ok(_) => self.read_available()?,
                Err(Errno::INTR) => {}
                Err(error) => return Err(self.failed(error.into())),
            }
        }
    }

    /// Returns the next message that has already been read, without waiting. A caller that polls the descriptor must take all of these
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

    /// Asks one question and waits for its answer. Other messages are ignored; they would concern locks, which this session does not
    /// hold.
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

    /// Converts a time of the node's clock to the latest time of this machine's clock that is certainly not after it.
    pub fn local(&self, node_time: Time) -> Time {
        let (here, there) = self.clocks;
        if node_time >= there { here + node_time.since(there) } else { here.before(there.since(node_time)) }
    }

    /// Reads what has arrived, almost without waiting. A caller that polls the descriptor calls this when it is readable.
    pub(crate) fn read_available(&mut self) -> Result<(), ConnectionError> {
        self.stream.set_read_timeout(Some(AT_ONCE)).map_err(|error| self.failed(error))?;
        self.read()
    }

    /// Reads once, with the stream's current timeout.
    fn read(&mut self) -> Result<(), ConnectionError> {
        let mut scratch = [0; READ_BYTES];
        match self.stream.read(&mut scratch) {
            Ok(0) => Err(ConnectionError::Closed(self.endpoint.clone())),
            Ok(count) => {
                self.bytes.extend_from_slice(&scratch[..count]);
                Ok(())
            }
            // The time is up or a signal came: the caller checks again.
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

/// Converts a failure to connect.
fn unreachable(endpoint: &NodeEndpoint, error: io::Error) -> ConnectionError {
    let endpoint = endpoint.clone();
    if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::ConnectionRefused) {
        ConnectionError::Nobody { endpoint, error }
    } else {
        ConnectionError::Io { endpoint, error }
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        // Without waiting, the process could end before the thread has told the node that the session is over.
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
