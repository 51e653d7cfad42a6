//! A relay between a client and a node on another machine. To the client it looks like a node of its own machine.
//!
//! ```text
//!  meshlock run ══ a pair of Unix sockets ══ relay ══ TCP, TLS ══ node
//!       │ starts                               │
//!   supervisor, which has both sockets open    └ pings; estimates until when the lock is safe; kills CMD's processes if it must
//! ```
//!
//! So `meshlock run` works the same wherever the node is. For `run` the relay is a process of its own (the *keeper*), because it has the
//! TLS state: if `meshlock` is killed, the session goes on until CMD's whole process tree has ended, and if the lock is lost meanwhile
//! the keeper kills that tree in time. If the keeper is killed, `meshlock` ends CMD in time; the connection itself is also open in
//! CMD's supervisor, so the node does not take the keeper's end for the client's. If both are killed, the supervisor kills CMD. Other commands hold no locks; for them the relay is a thread.
//!
//! If the client has named several nodes, its session moves to another one when its node is gone or leaves, and what it holds comes
//! along (`elsewhere.rs`).

mod elsewhere;
mod session;

use std::io::{self, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

use meshlock_cluster::time::{Span, Time};
use meshlock_system::{ClockAlarm, ProcessOwner, ProcessTree, now};
use meshlock_tls::{Security, Wrap};
use meshlock_wire::clients::{
    ProtocolError, RefusalKind, ToClient, ToNode, VERSIONS, put_to_client, put_to_node, take_to_client,
    take_to_node,
};
use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::Errno;
use rustix::process::{Pid, getppid};

use crate::node_endpoint::NodeEndpoint;
use session::{RelayedSession, Said};

/// While this many bytes wait for one side, nothing more is read from the client.
const MAX_WAITING: usize = 1 << 20;

/// Maximum number of bytes of one read.
const READ_BYTES: usize = 16 << 10;

/// Interval for checking whether the last of the client's processes has ended.
const LOOK_EVERY: Span = Span::from_millis(20);

/// How long before another client can have the lock the client's processes are killed: earlier if `meshlock`, which would have ended them
/// first, no longer runs.
const RESERVE: Span = Span::from_millis(100);
const RESERVE_ALONE: Span = Span::from_millis(300);

/// Timeout for telling the node that the session has ended.
const END_WITHIN: Duration = Duration::from_secs(2);

/// A relay between one client and one node at a time.
pub struct Relay {
    client: UnixStream,
    line: Line,
    /// The nodes that the session can move to, and the index of the one that it is at.
    places: Vec<NodeEndpoint>,
    at: usize,
    alarm: ClockAlarm,
    session: RelayedSession,
    tree: Option<ProcessTree>,
    /// The other end of what keeps the session while any process has it open.
    keep_alive: Option<UnixStream>,
    /// The process that started this one.
    parent: Option<Pid>,
    /// When the processes were last killed, so that they are not killed more often than needed.
    last_kill: Time,
    /// Number of trace lines that the client has lost because it did not read, and was not told of yet.
    untold: u64,
    /// Whether the client has not been told of the last extension.
    owes_extension: bool,
    /// Bytes of an incomplete message of the client, and bytes still to be written to it.
    from_client: Vec<u8>,
    to_client: Vec<u8>,
}

/// The connection to a node.
struct Line {
    node: TcpStream,
    wrap: Wrap,
    /// Bytes of an incomplete message, and bytes still to be written.
    from_node: Vec<u8>,
    to_node: Vec<u8>,
}

impl Line {
    /// Begins to talk over a new connection.
    fn new(node: TcpStream, security: &Security) -> io::Result<Self> {
        let mut to_node = Vec::new();
        let wrap = match security {
            // A program that runs for long may have been given another certificate since it started.
            Security::Tls(identity) => {
                Wrap::call(&identity.renewed(), &mut to_node).map_err(io::Error::other)?
            }
            Security::Plain => Wrap::plain(),
        };
        Ok(Line { node, wrap, from_node: Vec::new(), to_node })
    }

    /// Queues a message for the node.
    fn say(&mut self, said: &ToNode) -> io::Result<()> {
        let mut plain = Vec::new();
        put_to_node(said, &mut plain);
        self.wrap.seal(&plain, &mut self.to_node).map_err(io::Error::other)
    }

    /// Takes the next message of the node, if it has arrived whole.
    fn take(&mut self) -> Result<Option<ToClient>, ProtocolError> {
        let taken = take_to_client(&self.from_node)?;
        Ok(taken.map(|(said, length)| {
            self.from_node.drain(..length);
            said
        }))
    }

    /// Tells the node that the session has ended, and waits until the node confirms it by closing the connection.
    fn end(&mut self) -> io::Result<()> {
        let until = Instant::now() + END_WITHIN;
        self.wrap.end(&mut self.to_node).map_err(io::Error::other)?;
        self.node.set_nonblocking(false)?;
        self.node.set_write_timeout(Some(END_WITHIN))?;
        self.node.write_all(&self.to_node)?;
        self.node.shutdown(Shutdown::Write)?;
        // Closing a socket with unread data would look like a failure to the other side, so everything is read first.
        let mut scratch = [0; READ_BYTES];
        loop {
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Ok(());
            }
            self.node.set_read_timeout(Some(left))?;
            if self.node.read(&mut scratch)? == 0 {
                return Ok(());
            }
        }
    }
}

/// Which side has gone.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Gone {
    /// No process has the client's socket open any more.
    Client,
    /// The node or the connection to it, and why if that is known.
    Node(Option<String>),
}

impl Relay {
    /// Creates a relay between these two; `security` protects the connection to the node.
    pub fn new(client: UnixStream, node: TcpStream, security: &Security) -> io::Result<Self> {
        client.set_nonblocking(true)?;
        node.set_nonblocking(true)?;
        Ok(Relay {
            client,
            line: Line::new(node, security)?,
            places: Vec::new(),
            at: 0,
            alarm: ClockAlarm::new()?,
            session: RelayedSession::default(),
            tree: None,
            keep_alive: None,
            parent: getppid(),
            last_kill: Time::ZERO,
            untold: 0,
            owes_extension: false,
            from_client: Vec::new(),
            to_client: Vec::new(),
        })
    }

    /// Lets the session move to these nodes of one cluster, of which the one at index `at` is connected. Sockets of this machine are
    /// not moved to.
    pub fn among(mut self, places: Vec<NodeEndpoint>, at: usize) -> Self {
        if places.len() > 1 {
            self.session = RelayedSession::that_can_move();
            (self.places, self.at) = (places, at);
        }
        self
    }

    /// Keeps the session until no process has the other end of `keep_alive` open any more, or one has written to it.
    pub fn kept_by(mut self, keep_alive: UnixStream) -> io::Result<Self> {
        keep_alive.set_nonblocking(true)?;
        self.keep_alive = Some(keep_alive);
        Ok(self)
    }

    /// Runs until one side has gone and everything that follows from that is done.
    pub fn run(mut self) -> io::Result<()> {
        let gone = loop {
            self.wait(true)?;
            match self.turn()? {
                Some(Gone::Node(_)) if self.moves(false)? => {}
                Some(gone) => break gone,
                None => {}
            }
        };
        match gone {
            Gone::Client => self.outlast_tree(),
            Gone::Node(why) => self.outlive_node(why.as_deref()),
        }
    }

    /// Waits until something can be done.
    fn wait(&mut self, with_client: bool) -> io::Result<()> {
        let looks = (!with_client).then(|| now() + LOOK_EVERY);
        let due = [self.session.next_ping(), self.kill_at(), looks].into_iter().flatten().min();
        self.alarm.set(due)?;
        if due.is_some_and(|due| due <= now()) {
            return Ok(());
        }
        let flags = |read: bool, write: bool| {
            let flags = if read { PollFlags::IN } else { PollFlags::empty() };
            if write { flags | PollFlags::OUT } else { flags }
        };
        let room = self.to_client.len() < MAX_WAITING && self.line.to_node.len() < MAX_WAITING;
        let mut waits = vec![
            PollFd::new(&self.alarm, PollFlags::IN),
            PollFd::new(&self.line.node, flags(true, !self.line.to_node.is_empty())),
        ];
        if with_client {
            waits.push(PollFd::new(&self.client, flags(room, !self.to_client.is_empty())));
        }
        match poll(&mut waits, None) {
            Ok(_) | Err(Errno::INTR) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }

    /// Does everything that can be done now. Returns which side has gone, if one has.
    fn turn(&mut self) -> io::Result<Option<Gone>> {
        if let Some(gone) = self.keep_session()? {
            return Ok(Some(gone));
        }
        if self.to_client.len() < MAX_WAITING && self.line.to_node.len() < MAX_WAITING {
            match read_some(&mut self.client, &mut self.from_client) {
                Ok(true) => {}
                // A reset, below, means the same: the client closed without reading everything.
                Ok(false) => return Ok(Some(Gone::Client)),
                Err(error) if error.kind() == io::ErrorKind::ConnectionReset => {
                    return Ok(Some(Gone::Client));
                }
                Err(error) => return Err(error),
            }
        }
        while let Some((said, length)) = take_to_node(&self.from_client).map_err(io::Error::other)? {
            self.from_client.drain(..length);
            self.on_client(said);
        }
        // A client that does not read must not delay the relay, which has to keep the session.
        let written = write_some(&mut self.client, &mut self.to_client);
        if matches!(&written, Err(error) if error.kind() != io::ErrorKind::BrokenPipe) {
            written?;
        }
        self.send_extension();
        Ok(write_some(&mut self.line.node, &mut self.line.to_node)
            .err()
            .map(|error| Gone::Node(Some(error.to_string()))))
    }

    /// Serves the node's side: handles its messages, sends pings, and kills the processes when that is due.
    fn keep_session(&mut self) -> io::Result<Option<Gone>> {
        let mut came = Vec::new();
        match read_some(&mut self.line.node, &mut came) {
            Ok(true) => {}
            Ok(false) => return Ok(Some(Gone::Node(None))),
            Err(error) => return Ok(Some(Gone::Node(Some(error.to_string())))),
        }
        let Line { wrap, from_node, to_node, .. } = &mut self.line;
        let opened = wrap.open(&came, from_node, to_node);
        loop {
            match self.line.take() {
                Ok(Some(said)) => self.on_node(said),
                Ok(None) => break,
                Err(error) => return Ok(Some(Gone::Node(Some(error.to_string())))),
            }
        }
        if let Err(error) = opened {
            // Sends the alert that says why, if the node is still there.
            let _ = write_some(&mut self.line.node, &mut self.line.to_node);
            return Ok(Some(Gone::Node(Some(error.to_string()))));
        }
        if self.session.takes_leave() {
            self.moves(true)?;
        }
        let at = now();
        for said in self.session.take_owed().into_iter().chain(self.session.ping(at)) {
            self.line.say(&said)?;
        }
        self.kill_tree_if_due(at);
        Ok(None)
    }

    fn on_client(&mut self, said: ToNode) {
        match self.session.on_client(said, now()) {
            // What cannot be sealed is not sent, and the session ends in time.
            Said::Pass(said) => drop(self.line.say(&said)),
            Said::Answer(answer) => self.tell(&answer),
            Said::Guard(process) => {
                if let Err(error) = self.guard(process) {
                    self.refuse(RefusalKind::BadRequest, error.to_string());
                }
            }
        }
    }

    /// Takes charge of the client's processes, as a node of its own machine does.
    fn guard(&mut self, process: i32) -> io::Result<()> {
        if let Some(tree) = &mut self.tree {
            return tree.add_group(process);
        }
        if self.session.has_asked() {
            return Err(io::Error::other("a client names its processes before it asks for a lock"));
        }
        let parent = self.parent.map(|parent| parent.as_raw_nonzero().get());
        let client = ProcessOwner { process: parent, user: rustix::process::getuid().as_raw() };
        self.tree = Some(ProcessTree::below(process, client)?);
        Ok(())
    }

    fn on_node(&mut self, said: ToClient) {
        let Some(mut said) = self.session.on_node(said, now()) else { return };
        if let ToClient::Traced { lines, lost, .. } = &mut said {
            // As at the node: lines that are not read in time are counted, not kept.
            *lost += std::mem::take(&mut self.untold);
            if self.to_client.len() >= MAX_WAITING {
                self.untold = *lost + lines.len() as u64;
                return;
            }
        }
        // A client that has not read earlier messages needs no further extension now: it is told later.
        let is_news = !matches!(said, ToClient::Extended { .. });
        if is_news || self.to_client.is_empty() {
            self.tell(&said);
        } else {
            self.owes_extension = true;
        }
    }

    /// Sends the postponed extension to a client that has read everything before it.
    fn send_extension(&mut self) {
        if self.owes_extension && self.to_client.is_empty() {
            self.owes_extension = false;
            if let Some(extended) = self.session.extended() {
                self.tell(&extended);
            }
        }
    }

    /// Queues a message for the client, which is the same version of the program.
    fn tell(&mut self, message: &ToClient) {
        put_to_client(message, VERSIONS.1, &mut self.to_client);
    }

    fn refuse(&mut self, kind: RefusalKind, why: String) {
        self.tell(&ToClient::Refused { tag: 0, kind, why });
    }

    /// Returns when the client's processes are killed, if it named any. They are killed again later, in case one was just being started.
    fn kill_at(&self) -> Option<Time> {
        let reserve = if getppid() == self.parent { RESERVE } else { RESERVE_ALONE };
        let end = self.session.end().filter(|_| self.tree.is_some())?;
        Some(end.before(reserve).max(self.last_kill + LOOK_EVERY))
    }

    fn kill_tree_if_due(&mut self, at: Time) {
        if self.kill_at().is_some_and(|kill_at| kill_at <= at)
            && let Some(tree) = self.tree
        {
            tree.kill();
            self.last_kill = at;
        }
    }

    /// Keeps the session of a client that has gone as long as its processes run, which may have closed the socket.
    fn outlast_tree(mut self) -> io::Result<()> {
        while self.tree.is_some_and(|tree| !tree.is_gone()) || self.is_kept() {
            self.wait(false)?;
            let gone = self.keep_session()?.is_some();
            let is_cut = gone || write_some(&mut self.line.node, &mut self.line.to_node).is_err();
            if is_cut && !self.moves(false)? {
                return self.guard_alone();
            }
        }
        self.line.end()
    }

    /// Whether a process keeps the session. Nothing can be asked over what it has open, and whoever writes to it is not counted any more.
    fn is_kept(&mut self) -> bool {
        let read = self.keep_alive.as_mut().map(|keep_alive| keep_alive.read(&mut [0]));
        let is_kept = matches!(read, Some(Err(error)) if is_for_later(&error));
        if !is_kept {
            self.keep_alive = None;
        }
        is_kept
    }

    /// Handles the end of the node: the client sees the same as if a node of its own machine had ended.
    fn outlive_node(mut self, why: Option<&str>) -> io::Result<()> {
        if !self.session.is_welcome() {
            let why = why.unwrap_or(
                "it ended the connection without a word; is one side set to TLS and the other not, or has it too many connections?",
            );
            self.refuse(RefusalKind::Other, why.to_owned());
        }
        let _ = write_some(&mut self.client, &mut self.to_client);
        // The client can still read what was sent before.
        let _ = self.client.shutdown(Shutdown::Write);
        self.guard_alone()
    }

    /// Without a node nothing is extended: makes sure that none of the client's processes is left when the lease ends.
    fn guard_alone(mut self) -> io::Result<()> {
        let Some(tree) = self.tree.filter(|_| self.session.end().is_some()) else { return Ok(()) };
        while !tree.is_gone() {
            self.kill_tree_if_due(now());
            self.alarm.set(Some(now() + LOOK_EVERY))?;
            match poll(&mut [PollFd::new(&self.alarm, PollFlags::IN)], None) {
                Ok(_) | Err(Errno::INTR) => {}
                Err(error) => return Err(error.into()),
            }
        }
        Ok(())
    }
}

/// Reads what is there without waiting. Returns false at the end of the stream.
fn read_some(from: &mut impl Read, into: &mut Vec<u8>) -> io::Result<bool> {
    let mut scratch = [0; READ_BYTES];
    match from.read(&mut scratch) {
        Ok(0) => Ok(false),
        Ok(count) => {
            into.extend_from_slice(&scratch[..count]);
            Ok(true)
        }
        Err(error) if is_for_later(&error) => Ok(true),
        Err(error) => Err(error),
    }
}

/// Writes as much as possible without waiting.
fn write_some(to: &mut impl Write, bytes: &mut Vec<u8>) -> io::Result<()> {
    let mut at = 0;
    let written = loop {
        if at == bytes.len() {
            break Ok(());
        }
        match to.write(&bytes[at..]) {
            Ok(0) => break Err(io::ErrorKind::WriteZero.into()),
            Ok(count) => at += count,
            Err(error) if is_for_later(&error) => break Ok(()),
            Err(error) => break Err(error),
        }
    };
    bytes.drain(..at);
    written
}

fn is_for_later(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted)
}
