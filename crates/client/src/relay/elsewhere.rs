//! Moves a session to another node, with what it holds, when its node is gone or leaves.
//!
//! The nodes are tried in the client's order of preference, beginning after the one that is gone. A thread connects and greets, because that waits;
//! the relay meanwhile makes sure that none of the client's processes outlives what it holds. The client's messages wait.

use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

use meshlock_cluster::time::{Span, Time};
use meshlock_system::now;
use meshlock_wire::clients::{ToClient, ToNode};
use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::Errno;

use super::session::MoveState;
use super::{Line, READ_BYTES, RESERVE, Relay, read_some, write_some};
use crate::keeper;
use crate::node_endpoint::NodeEndpoint;

/// Timeout for connecting to one node and for its greeting, and for its answers to the claims.
const ANSWER_WITHIN: Span = Span::from_millis(1000);

/// A node that has answered the greeting.
struct GreetedNode {
    line: Line,
    /// When the greeting was said, on this machine's clock.
    said: Time,
    welcome: ToClient,
}

/// An attempt to reach a node, by a thread.
struct Attempt {
    greeted: Receiver<io::Result<GreetedNode>>,
    /// Becomes readable when the thread has ended.
    ended: UnixStream,
}

impl Relay {
    /// Moves the session to another node, if it has something to claim there; `leaves` says that its node is still there and leaves.
    /// Returns whether the session goes on.
    pub(super) fn moves(&mut self, leaves: bool) -> io::Result<bool> {
        if !self.session.has_something_to_claim() {
            return Ok(leaves);
        }
        let Some(hello) = self.session.begin_move(leaves) else { return Ok(leaves) };
        // A node that was restarted may be the only one that answers, so the one that is gone comes last.
        for step in 1..=self.places.len() {
            let at = (self.at + step) % self.places.len();
            if leaves && at == self.at {
                break;
            }
            let Some(greeted) = self.reach(at, &hello)? else { continue };
            if self.claim_at(greeted, leaves)? {
                self.at = at;
                return Ok(true);
            }
        }
        self.session.stay();
        Ok(leaves)
    }

    /// Returns until when an attempt may take: what is held must be safe for long enough to end the client's processes after it.
    fn attempt_ends(&self) -> Option<Time> {
        let end = self.session.end()?.before(RESERVE);
        (end > now()).then(|| end.min(now() + ANSWER_WITHIN))
    }

    /// Connects to the node at this index. Returns `None` if it cannot be used, or the time is up.
    fn reach(&mut self, at: usize, hello: &ToNode) -> io::Result<Option<GreetedNode>> {
        let NodeEndpoint::Tcp { .. } = self.places[at] else { return Ok(None) };
        let Some(until) = self.attempt_ends() else { return Ok(None) };
        let attempt = Attempt::begin(self.places[at].clone(), hello.clone(), until)?;
        while now() < until {
            self.pause(&attempt.ended, until)?;
            match attempt.greeted.try_recv() {
                Ok(greeted) => return Ok(greeted.ok()),
                Err(std::sync::mpsc::TryRecvError::Empty) => {}
                Err(std::sync::mpsc::TryRecvError::Disconnected) => return Ok(None),
            }
        }
        Ok(None)
    }

    /// Claims at another node what the session holds. If the node accepts it, the session is there from now on. Returns whether it is.
    fn claim_at(&mut self, greeted: GreetedNode, leaves: bool) -> io::Result<bool> {
        let GreetedNode { line, said, welcome } = greeted;
        let Some(says) = self.session.on_welcome(&welcome, said, now()) else { return Ok(false) };
        let mut former = std::mem::replace(&mut self.line, line);
        for said in says {
            self.line.say(&said)?;
        }
        let accepted = self.until_answered()?;
        if !accepted {
            self.line = former;
            return Ok(false);
        }
        if let ToClient::Welcome { version, site, .. } = welcome {
            self.tell(&ToClient::Welcome { version, site, time: now(), contact: None });
        }
        for told in self.session.finish_move() {
            self.tell(&told);
        }
        if leaves {
            // It waits for its clients to go. If it cannot be told, it notices.
            let _ = former.end();
        }
        Ok(true)
    }

    /// Waits until the node has answered all claims. Returns whether the session can stay there.
    fn until_answered(&mut self) -> io::Result<bool> {
        let Some(until) = self.attempt_ends() else { return Ok(false) };
        loop {
            match self.session.move_state() {
                MoveState::Done => return Ok(true),
                MoveState::Rejected => return Ok(false),
                MoveState::Waiting if now() >= until => return Ok(false),
                MoveState::Waiting => {}
            }
            let Line { node, wrap, from_node, to_node } = &mut self.line;
            let mut came = Vec::new();
            let is_open = write_some(node, to_node).is_ok() && matches!(read_some(node, &mut came), Ok(true));
            if !is_open || wrap.open(&came, from_node, to_node).is_err() {
                return Ok(false);
            }
            let mut handled = false;
            loop {
                match self.line.take() {
                    Ok(Some(said)) => self.on_node(said),
                    Ok(None) => break,
                    Err(_) => return Ok(false),
                }
                handled = true;
            }
            if !handled && came.is_empty() {
                let node = self.line.node.try_clone()?;
                self.pause(&node, until)?;
            }
        }
    }

    /// Waits until a descriptor is readable or the time is up, and meanwhile ends the client's processes if that is due.
    fn pause(&mut self, readable: &impl AsFd, until: Time) -> io::Result<()> {
        let due = self.kill_at().map_or(until, |kill_at| kill_at.min(until));
        self.alarm.set(Some(due))?;
        let mut waits = [PollFd::new(&self.alarm, PollFlags::IN), PollFd::new(readable, PollFlags::IN)];
        match poll(&mut waits, None) {
            Ok(_) | Err(Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
        self.kill_tree_if_due(now());
        Ok(())
    }
}

impl Attempt {
    /// Begins to connect to a node.
    fn begin(place: NodeEndpoint, hello: ToNode, until: Time) -> io::Result<Self> {
        let (ended, end) = UnixStream::pair()?;
        let (sender, greeted) = channel();
        std::thread::Builder::new().name("meshlock moves".to_owned()).spawn(move || {
            let _ = sender.send(greet(&place, &hello, until));
            drop(end);
        })?;
        Ok(Attempt { greeted, ended })
    }
}

/// Connects to a node and greets it.
fn greet(place: &NodeEndpoint, hello: &ToNode, until: Time) -> io::Result<GreetedNode> {
    let NodeEndpoint::Tcp { address, security } = place else {
        return Err(io::Error::other("a session does not move to a socket of this machine"));
    };
    let left = Duration::from_micros(until.since(now()).micros());
    let deadline = Instant::now() + left;
    let node = keeper::connect(address, left)?;
    let mut line = Line::new(node, security)?;
    let said = now();
    line.say(hello)?;
    loop {
        if let Some(welcome) = line.take().map_err(io::Error::other)? {
            line.node.set_nonblocking(true)?;
            return Ok(GreetedNode { line, said, welcome });
        }
        exchange(&mut line, deadline)?;
    }
}

/// Writes what is to be written and reads once, with a timeout.
fn exchange(line: &mut Line, deadline: Instant) -> io::Result<()> {
    let left = deadline.saturating_duration_since(Instant::now());
    if left.is_zero() {
        return Err(io::ErrorKind::TimedOut.into());
    }
    let Line { node, wrap, from_node, to_node } = line;
    set_timeouts(node, left)?;
    node.write_all(to_node)?;
    to_node.clear();
    let mut scratch = [0; READ_BYTES];
    let count = node.read(&mut scratch)?;
    if count == 0 {
        return Err(io::ErrorKind::UnexpectedEof.into());
    }
    wrap.open(&scratch[..count], from_node, to_node).map_err(io::Error::other)
}

fn set_timeouts(node: &TcpStream, within: Duration) -> io::Result<()> {
    node.set_read_timeout(Some(within))?;
    node.set_write_timeout(Some(within))
}
