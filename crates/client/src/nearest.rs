//! Asks all nodes of a list at once, and tells in which order they are preferred.
//!
//! Each node is asked by a thread, because the system resolves names only in calls that block. A thread connects and greets, and ends the
//! connection in order: a node logs every connection that is cut. When the order is known, threads that are still connecting end at once, and
//! those that are connected when their node has answered, after a second at the latest. Only a name that the system takes long to resolve keeps
//! its thread for longer.

use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream, ToSocketAddrs};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::sync::mpsc::{Sender, channel};
use std::time::Duration;

use meshlock_cluster::names::ClientLabel;
use meshlock_cluster::time::Time;
use meshlock_system::now;
use meshlock_tls::{Security, Wrap};
use meshlock_wire::clients::{REFUSAL_BY_V2, ToClient, ToNode, VERSIONS, put_to_node, take_to_client};
use nix::sys::signal::{SigSet, SigmaskHow};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketAddrAny, SocketAddrUnix, SocketFlags, SocketType, sockopt};

use crate::node_endpoint::NodeEndpoint;
use crate::race::{ANSWER_WITHIN, Race};

/// Maximum number of bytes of one read.
const READ_BYTES: usize = 4 << 10;

/// An answer: the index of the node, whether it can be used, and when that was known.
type NodeAnswer = (usize, bool, Time);

/// Which of several nodes is connected to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum NodeChoice {
    /// The nearest: all are asked at once.
    #[default]
    Nearest,
    /// The same, with the one at this index, which has just ended, after all others.
    NearestAfter(usize),
    /// The first that answers in the order of the list, beginning with the one at this index.
    FirstFrom(usize),
}

impl NodeChoice {
    /// Returns the indices of these nodes in the order in which they are to be tried.
    pub(super) fn order(self, endpoints: &[NodeEndpoint], who: &ClientLabel) -> Vec<usize> {
        match self {
            NodeChoice::Nearest => order(endpoints, who),
            NodeChoice::NearestAfter(gone) => {
                let mut order = order(endpoints, who);
                order.sort_by_key(|at| *at == gone);
                order
            }
            NodeChoice::FirstFrom(first) => {
                (0..endpoints.len()).map(|step| (first + step) % endpoints.len()).collect()
            }
        }
    }
}

/// Returns the indices of these nodes in the order in which they are preferred: the nearest first ([`Race`]). A single one is not asked.
fn order(endpoints: &[NodeEndpoint], who: &ClientLabel) -> Vec<usize> {
    let mut race = Race::new(endpoints.len(), now());
    if endpoints.len() < 2 {
        return (0..endpoints.len()).collect();
    }
    let (sender, answers) = channel();
    let asking: Vec<UnixStream> = without_signals(|| {
        let begin = |(at, one)| ask(at, one, who, sender.clone()).ok();
        endpoints.iter().enumerate().filter_map(begin).collect()
    });
    drop(sender);
    while let Some(until) = race.waits_until() {
        let left = Duration::from_micros(until.since(now()).micros());
        match answers.recv_timeout(left) {
            Ok((at, true, when)) => race.on_serves(at, when),
            Ok((at, false, _)) => race.on_fails(at),
            // The time is over, or threads could not be started.
            Err(_) => break,
        }
    }
    // Threads that are connecting see the end of it.
    drop(asking);
    race.order()
}

/// Starts threads that do not take the program's signals, which may be meant for another one: `meshlock run` passes them on.
fn without_signals<T>(start: impl FnOnce() -> T) -> T {
    let before = SigSet::all().thread_swap_mask(SigmaskHow::SIG_BLOCK);
    let started = start();
    if let Ok(before) = before {
        let restored = before.thread_set_mask();
        debug_assert!(restored.is_ok(), "a mask that was in force is valid");
    }
    started
}

/// Begins to ask one node. It is not connected to any more when the returned stream is closed.
fn ask(
    at: usize,
    endpoint: &NodeEndpoint,
    who: &ClientLabel,
    says: Sender<NodeAnswer>,
) -> io::Result<UnixStream> {
    let (over, is_over) = UnixStream::pair()?;
    let (endpoint, hello) = (endpoint.clone(), ToNode::Hello { version: VERSIONS.1, who: who.clone() });
    let limit = Limit { until: now() + ANSWER_WITHIN, is_over };
    std::thread::Builder::new().name("meshlock asks".to_owned()).spawn(move || {
        let greeted = greet(&endpoint, &hello, &limit);
        let is_usable = greeted.as_ref().is_ok_and(|(said, _)| is_welcome(said));
        // If nobody waits for it any more, another node is nearer.
        let _ = says.send((at, is_usable, now()));
        if let Ok((_, mut line)) = greeted {
            // A node that cannot be told notices.
            let _ = line.end(&limit);
        }
    })?;
    Ok(over)
}

/// Whether a node that says this serves clients. One of version 2 is greeted again in its version.
fn is_welcome(said: &ToClient) -> bool {
    if let ToClient::Refused { why, .. } | ToClient::RefusedV2 { why, .. } = said {
        return why.starts_with(REFUSAL_BY_V2);
    }
    matches!(said, ToClient::Welcome { .. })
}

/// A stream that does not block.
trait Stream: Read + Write + AsFd {}

impl Stream for UnixStream {}
impl Stream for TcpStream {}

/// How long a question may take.
struct Limit {
    until: Time,
    /// Readable when the answer is not needed any more.
    is_over: UnixStream,
}

/// A connection to a node.
struct AskingLine {
    stream: Box<dyn Stream>,
    wrap: Wrap,
    to_node: Vec<u8>,
}

/// Connects to a node and greets it. Returns its answer and the connection.
fn greet(endpoint: &NodeEndpoint, hello: &ToNode, limit: &Limit) -> io::Result<(ToClient, AskingLine)> {
    let (address, security) = match endpoint {
        NodeEndpoint::Socket(path) => {
            let stream = Box::new(UnixStream::from(connect_to_socket(path)?));
            return AskingLine { stream, wrap: Wrap::plain(), to_node: Vec::new() }.greet(hello, limit);
        }
        NodeEndpoint::Tcp { address, security } => (address, security),
    };
    let mut failed = io::Error::other("the name has no address");
    for address in address.as_str().to_socket_addrs()? {
        let mut to_node = Vec::new();
        let wrap = match security {
            Security::Tls(identity) => {
                Wrap::call(&identity.renewed(), &mut to_node).map_err(io::Error::other)?
            }
            Security::Plain => Wrap::plain(),
        };
        let answered = connect_to(address, limit).and_then(|socket| {
            AskingLine { stream: Box::new(TcpStream::from(socket)), wrap, to_node }.greet(hello, limit)
        });
        match answered {
            Ok(greeted) => return Ok(greeted),
            Err(error) if error.kind() == io::ErrorKind::TimedOut => return Err(error),
            Err(error) => failed = error,
        }
    }
    Err(failed)
}

fn connect_to_socket(path: &Path) -> io::Result<OwnedFd> {
    let socket = socket(AddressFamily::UNIX)?;
    // A socket whose queue is full is not waited for.
    rustix::net::connect(&socket, &SocketAddrUnix::new(path)?)?;
    Ok(socket)
}

fn connect_to(address: SocketAddr, limit: &Limit) -> io::Result<OwnedFd> {
    let family = if address.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 };
    let socket = socket(family)?;
    match rustix::net::connect(&socket, &SocketAddrAny::from(address)) {
        Ok(()) => {}
        Err(Errno::INPROGRESS) => {
            wait(&socket, PollFlags::OUT, limit, Some(&limit.is_over))?;
            sockopt::socket_error(&socket)??;
        }
        Err(error) => return Err(error.into()),
    }
    Ok(socket)
}

fn socket(family: AddressFamily) -> io::Result<OwnedFd> {
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    Ok(rustix::net::socket_with(family, SocketType::STREAM, flags, None)?)
}

impl AskingLine {
    /// Sends the greeting and returns the answer.
    fn greet(mut self, hello: &ToNode, limit: &Limit) -> io::Result<(ToClient, Self)> {
        let (mut plain, mut from_node) = (Vec::new(), Vec::new());
        put_to_node(hello, &mut plain);
        self.wrap.seal(&plain, &mut self.to_node).map_err(io::Error::other)?;
        loop {
            self.write(limit)?;
            let mut scratch = [0; READ_BYTES];
            let count = self.read(&mut scratch, limit)?;
            if count == 0 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
            let opened = self.wrap.open(&scratch[..count], &mut from_node, &mut self.to_node);
            opened.map_err(io::Error::other)?;
            if let Some((said, _)) = take_to_client(&from_node).map_err(io::Error::other)? {
                return Ok((said, self));
            }
        }
    }

    /// Ends the connection in order, so that the node does not take it for one that was cut.
    fn end(&mut self, limit: &Limit) -> io::Result<()> {
        self.wrap.end(&mut self.to_node).map_err(io::Error::other)?;
        self.write(limit)?;
        rustix::net::shutdown(&self.stream, rustix::net::Shutdown::Write)?;
        while self.read(&mut [0; READ_BYTES], limit)? > 0 {}
        Ok(())
    }

    fn write(&mut self, limit: &Limit) -> io::Result<()> {
        while !self.to_node.is_empty() {
            wait(&self.stream, PollFlags::OUT, limit, None)?;
            let count = self.stream.write(&self.to_node)?;
            self.to_node.drain(..count);
        }
        Ok(())
    }

    fn read(&mut self, into: &mut [u8], limit: &Limit) -> io::Result<usize> {
        wait(&self.stream, PollFlags::IN, limit, None)?;
        self.stream.read(into)
    }
}

/// Waits until something can be done with a stream. The error is `TimedOut` if the time is over, or `is_over` becomes readable.
fn wait(stream: &impl AsFd, what: PollFlags, limit: &Limit, is_over: Option<&UnixStream>) -> io::Result<()> {
    loop {
        let left = Duration::from_micros(limit.until.since(now()).micros());
        if left.is_zero() {
            return Err(io::ErrorKind::TimedOut.into());
        }
        let left = Timespec::try_from(left).map_err(io::Error::other)?;
        let mut waits = vec![PollFd::new(stream, what)];
        waits.extend(is_over.map(|is_over| PollFd::new(is_over, PollFlags::IN)));
        match poll(&mut waits, Some(&left)) {
            Ok(_) if !waits[0].revents().is_empty() => return Ok(()),
            Ok(1..) => return Err(io::ErrorKind::TimedOut.into()),
            Ok(_) | Err(Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
    }
}

#[cfg(test)]
mod tests;
