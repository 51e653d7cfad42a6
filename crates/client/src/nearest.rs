//! Asks all nodes of a list at once, and tells in which order they are preferred.
//!
//! Each node is asked by a thread, because the system resolves names only in calls that block. A thread connects and greets, and ends the
//! connection; when the order is known, those that still wait for an answer end at once. Only a name that the system takes long to resolve
//! keeps its thread for longer.

use std::io::{self, Read, Write};
use std::net::{SocketAddr, ToSocketAddrs};
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
use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketAddrAny, SocketAddrUnix, SocketFlags, SocketType, sockopt};

use crate::node_endpoint::NodeEndpoint;
use crate::race::Race;

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
    let asking: Vec<UnixStream> =
        endpoints.iter().enumerate().filter_map(|(at, one)| ask(at, one, who, sender.clone()).ok()).collect();
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
    // The threads see the end of it.
    drop(asking);
    race.order()
}

/// Begins to ask one node. It is asked until it has answered or the returned stream is closed.
fn ask(
    at: usize,
    endpoint: &NodeEndpoint,
    who: &ClientLabel,
    says: Sender<NodeAnswer>,
) -> io::Result<UnixStream> {
    let (over, is_over) = UnixStream::pair()?;
    let (endpoint, hello) = (endpoint.clone(), ToNode::Hello { version: VERSIONS.1, who: who.clone() });
    std::thread::Builder::new().name("meshlock asks".to_owned()).spawn(move || {
        let is_usable = greet(&endpoint, &hello, &is_over).is_ok_and(|said| is_welcome(&said));
        // If nobody waits for it any more, another node is nearer.
        let _ = says.send((at, is_usable, now()));
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

/// Connects to a node and returns its answer to the greeting.
fn greet(endpoint: &NodeEndpoint, hello: &ToNode, is_over: &UnixStream) -> io::Result<ToClient> {
    match endpoint {
        NodeEndpoint::Socket(path) => {
            let mut stream = UnixStream::from(connect_to_socket(path)?);
            exchange(&mut stream, Wrap::plain(), Vec::new(), hello, is_over)
        }
        NodeEndpoint::Tcp { address, security } => {
            let mut failed = io::Error::other("the name has no address");
            for address in address.as_str().to_socket_addrs()? {
                let mut to_node = Vec::new();
                let wrap = match security {
                    Security::Tls(identity) => {
                        Wrap::call(&identity.renewed(), &mut to_node).map_err(io::Error::other)?
                    }
                    Security::Plain => Wrap::plain(),
                };
                let answered = connect_to(address, is_over).and_then(|socket| {
                    exchange(&mut std::net::TcpStream::from(socket), wrap, to_node, hello, is_over)
                });
                match answered {
                    Ok(said) => return Ok(said),
                    Err(error) if error.kind() == io::ErrorKind::Interrupted => return Err(error),
                    Err(error) => failed = error,
                }
            }
            Err(failed)
        }
    }
}

fn connect_to_socket(path: &Path) -> io::Result<OwnedFd> {
    let socket = socket(AddressFamily::UNIX)?;
    // A socket whose queue is full is not waited for.
    rustix::net::connect(&socket, &SocketAddrUnix::new(path)?)?;
    Ok(socket)
}

fn connect_to(address: SocketAddr, is_over: &UnixStream) -> io::Result<OwnedFd> {
    let family = if address.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 };
    let socket = socket(family)?;
    match rustix::net::connect(&socket, &SocketAddrAny::from(address)) {
        Ok(()) => {}
        Err(Errno::INPROGRESS) => {
            wait(&socket, PollFlags::OUT, is_over)?;
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

/// Sends the greeting, returns the answer, and ends the connection in order.
fn exchange(
    stream: &mut (impl Read + Write + AsFd),
    mut wrap: Wrap,
    mut to_node: Vec<u8>,
    hello: &ToNode,
    is_over: &UnixStream,
) -> io::Result<ToClient> {
    let (mut plain, mut from_node) = (Vec::new(), Vec::new());
    put_to_node(hello, &mut plain);
    wrap.seal(&plain, &mut to_node).map_err(io::Error::other)?;
    loop {
        while !to_node.is_empty() {
            wait(stream, PollFlags::OUT, is_over)?;
            let count = stream.write(&to_node)?;
            to_node.drain(..count);
        }
        wait(stream, PollFlags::IN, is_over)?;
        let mut scratch = [0; READ_BYTES];
        let count = stream.read(&mut scratch)?;
        if count == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        wrap.open(&scratch[..count], &mut from_node, &mut to_node).map_err(io::Error::other)?;
        if let Some((said, _)) = take_to_client(&from_node).map_err(io::Error::other)? {
            // If the node cannot be told, it sees the end of the connection.
            let _ = wrap.end(&mut to_node).map(|()| stream.write(&to_node));
            return Ok(said);
        }
    }
}

/// Waits until something can be done with a stream. The error is `Interrupted` if it is not needed any more.
fn wait(stream: &impl AsFd, what: PollFlags, is_over: &UnixStream) -> io::Result<()> {
    loop {
        let mut waits = [PollFd::new(stream, what), PollFd::new(is_over, PollFlags::IN)];
        match poll(&mut waits, None) {
            Ok(_) if !waits[1].revents().is_empty() => return Err(io::ErrorKind::Interrupted.into()),
            Ok(_) if !waits[0].revents().is_empty() => return Ok(()),
            Ok(_) | Err(Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
    }
}

#[cfg(test)]
mod tests;
