//! A client's connection to its node, which may be killed, stopped or disconnected at any moment.

use std::io::{self, ErrorKind, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::{Duration, Instant};

use meshlock_cluster::rules::RulesText;
use meshlock_cluster::table::Wait;
use meshlock_cluster::time::{Span, Time};
use meshlock_system::now;
use meshlock_testing::Deadline;
use meshlock_wire::clients::{Status, Tag, ToClient, ToNode, VERSIONS, put_to_node, take_to_client};

/// How often a client that waits for its node checks whether the test is over.
const LOOK_EVERY: Duration = Duration::from_millis(100);

/// A lock that the client holds.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Grant {
    pub(crate) tag: Tag,
    pub(crate) fence: i64,
    /// The end of the lease on the client's clock: nobody else has the lock before.
    pub(crate) until: Time,
    pub(crate) margin: Span,
}

/// Returns a function that returns true once a wait for a node has taken too long.
pub(crate) fn deadline() -> impl FnMut() -> bool {
    let end = Deadline::default();
    move || end.is_over()
}

/// A connection to a node.
pub(crate) struct Session {
    stream: UnixStream,
    bytes: Vec<u8>,
    last_tag: Tag,
    /// A time on this clock, and what the node's clock showed then or later.
    clocks: (Time, Time),
}

impl Session {
    /// Connects. Fails if nobody listens, or once `over` returns true.
    pub(crate) fn connect(socket: &Path, who: &str, over: &mut dyn FnMut() -> bool) -> io::Result<Self> {
        let stream = UnixStream::connect(socket)?;
        stream.set_read_timeout(Some(LOOK_EVERY))?;
        let asked = now();
        let mut session = Session { stream, bytes: Vec::new(), last_tag: 0, clocks: (asked, asked) };
        session.say(&ToNode::Hello { version: VERSIONS.1, who: who.parse().expect("a label") })?;
        let answer = session.receive(over)?;
        let ToClient::Welcome { time, .. } = answer else {
            return Err(io::Error::other(format!("not a welcome: {answer:?}")));
        };
        session.clocks = (asked, time);
        Ok(session)
    }

    fn say(&mut self, message: &ToNode) -> io::Result<()> {
        let mut bytes = Vec::new();
        put_to_node(message, &mut bytes);
        self.stream.write_all(&bytes)
    }

    /// Returns the next message of the node. Fails if the node is gone, or once `over` returns true.
    pub(crate) fn receive(&mut self, over: &mut dyn FnMut() -> bool) -> io::Result<ToClient> {
        loop {
            if let Some((message, length)) = take_to_client(&self.bytes).map_err(io::Error::other)? {
                self.bytes.drain(..length);
                return Ok(message);
            }
            if over() {
                return Err(ErrorKind::TimedOut.into());
            }
            let mut scratch = [0; 4096];
            match self.stream.read(&mut scratch) {
                Ok(0) => return Err(ErrorKind::UnexpectedEof.into()),
                Ok(count) => self.bytes.extend_from_slice(&scratch[..count]),
                Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) => {}
                Err(error) => return Err(error),
            }
        }
    }

    /// Compares the clocks again. A client whose last comparison was answered late, because it or its node was stopped, believes that
    /// every lease ends too early, and would never use one.
    pub(crate) fn compare_clocks(&mut self, over: &mut dyn FnMut() -> bool) -> io::Result<()> {
        self.last_tag += 1;
        let (ping, asked) = (self.last_tag, now());
        self.say(&ToNode::Ping(ping))?;
        loop {
            if let ToClient::Pong { tag, time } = self.receive(over)?
                && tag == ping
            {
                self.clocks = (asked, time);
                return Ok(());
            }
        }
    }

    /// Requests a lock without a time limit.
    pub(crate) fn want(&mut self, lock: &str) -> io::Result<Tag> {
        self.last_tag += 1;
        let (tag, lock) = (self.last_tag, lock.parse().expect("a name"));
        self.say(&ToNode::Acquire { tag, lock, wait: Wait::Forever, permits: None })?;
        Ok(tag)
    }

    /// Waits until the request is granted.
    pub(crate) fn granted(&mut self, request: Tag, over: &mut dyn FnMut() -> bool) -> io::Result<Grant> {
        loop {
            let said = self.receive(over)?;
            if let ToClient::Granted { tag, fence, lease_end, margin, .. } = said
                && tag == request
            {
                return Ok(Grant { tag, fence, until: self.local(lease_end), margin });
            }
            if let ToClient::Refused { why, .. } = said {
                return Err(io::Error::other(why));
            }
        }
    }

    /// Releases a lock, and waits until the node confirms that it is released or was lost.
    pub(crate) fn release(&mut self, request: Tag, over: &mut dyn FnMut() -> bool) -> io::Result<()> {
        self.say(&ToNode::Release(request))?;
        loop {
            if let ToClient::Released(tag) | ToClient::Refused { tag, .. } = self.receive(over)?
                && tag == request
            {
                return Ok(());
            }
        }
    }

    /// Requests new rules, and does not wait for the answer.
    pub(crate) fn set_rules(&mut self, rules: RulesText) -> io::Result<()> {
        self.last_tag += 1;
        self.say(&ToNode::SetRules { tag: self.last_tag, rules })
    }

    /// Returns the status of the site.
    pub(crate) fn status(&mut self, within: Duration) -> io::Result<Status> {
        self.last_tag += 1;
        let (asked, end) = (self.last_tag, Instant::now() + within);
        self.say(&ToNode::Status { tag: asked })?;
        let mut is_over = || Instant::now() >= end;
        loop {
            if let ToClient::Status { tag, status } = self.receive(&mut is_over)?
                && tag == asked
            {
                return Ok(*status);
            }
        }
    }

    /// Returns the latest time on this clock that is certainly not after `node_time` on the node's clock.
    pub(crate) fn local(&self, node_time: Time) -> Time {
        let (here, there) = self.clocks;
        if node_time >= there { here + node_time.since(there) } else { here.before(there.since(node_time)) }
    }
}
