//! Keeps a session with a node on another machine: by a thread, or by a process of its own.

use std::io::{self, Write};
use std::net::{TcpStream, ToSocketAddrs};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::thread::JoinHandle;
use std::time::Duration;

use meshlock_cluster::address::Address;
use meshlock_tls::Security;
use meshlock_wire::clients::{ToNode, put_to_node};
use rustix::event::{PollFd, PollFlags, poll};
use rustix::process::{Pid, PidfdFlags, pidfd_open};
use rustix::time::Timespec;

use super::node_endpoint::NodeEndpoint;
use super::relay::Relay;

/// A connection is closed after this long without a TCP acknowledgement, in milliseconds. Sessions end sooner.
const UNACKNOWLEDGED: u32 = 30_000;

/// Whether a session has to outlive the program that opened it.
pub enum Keeping {
    /// It does not: a thread of this program keeps it.
    Thread,
    /// It does, because processes that the program starts rely on it. For a node on another machine (the one at this index of these, which
    /// the session can move to) this command is started, with the
    /// client's socket as its standard input, the connection to the node as its standard output and the other end of the keep-alive as its
    /// standard error, and calls [`Relay::run`](super::relay::Relay::run).
    Process(Box<KeeperCommand>),
}

/// Returns the command of a keeper, for a session with the node at this index of these.
pub type KeeperCommand = dyn Fn(&[NodeEndpoint], usize) -> Command;

/// The thread or process that keeps a session.
#[derive(Debug)]
pub(super) enum Keeper {
    Thread(Option<JoinHandle<()>>),
    Process(Child),
}

/// A session with a node on another machine: the client's socket, the connection itself, its keeper, and what keeps it alive.
pub(super) struct Kept {
    pub(super) stream: UnixStream,
    pub(super) line: OwnedFd,
    pub(super) keeper: Keeper,
    pub(super) keep_alive: Option<OwnedFd>,
}

/// Connects to a node over TCP, with this timeout for each address of its name.
pub(super) fn connect(address: &Address, within: Duration) -> io::Result<TcpStream> {
    let mut refused = io::Error::other("the name has no address");
    for address in address.as_str().to_socket_addrs()? {
        match TcpStream::connect_timeout(&address, within) {
            Ok(stream) => {
                stream.set_nodelay(true)?;
                rustix::net::sockopt::set_tcp_user_timeout(&stream, UNACKNOWLEDGED)?;
                return Ok(stream);
            }
            Err(error) => refused = error,
        }
    }
    Err(refused)
}

/// Passes a connection to a new keeper. It is one to the node at index `at` of `places`, between which the session can move.
pub(super) fn keep(
    node: TcpStream,
    security: &Security,
    (places, at): (&[NodeEndpoint], usize),
    keeping: &Keeping,
) -> io::Result<Kept> {
    let (stream, other) = UnixStream::pair()?;
    let line = node.as_fd().try_clone_to_owned()?;
    let mut keep_alive = None;
    let keeper = match keeping {
        Keeping::Thread => {
            let relay = Relay::new(other, node, security)?.among(places.to_vec(), at);
            // The client sees the end of its socket; the error has no other reader.
            Keeper::Thread(Some(std::thread::spawn(move || drop(relay.run()))))
        }
        Keeping::Process(start) => {
            let mut command = start(places, at);
            command.stdin(Stdio::from(OwnedFd::from(other))).stdout(Stdio::from(OwnedFd::from(node)));
            let (kept, end) = UnixStream::pair()?;
            keep_alive = Some(OwnedFd::from(kept));
            Keeper::Process(command.stderr(Stdio::from(OwnedFd::from(end))).spawn()?)
        }
    };
    Ok(Kept { stream, line, keeper, keep_alive })
}

/// Opens a connection to the node at this socket that only keeps the sessions of this process open.
pub(super) fn keep_alive(path: &Path) -> io::Result<OwnedFd> {
    let mut stream = UnixStream::connect(path)?;
    let mut bytes = Vec::new();
    put_to_node(&ToNode::KeepAlive, &mut bytes);
    stream.write_all(&bytes)?;
    Ok(stream.into())
}

impl Keeper {
    /// Waits until the session has ended and the node knows it, at most for `within`. The client's socket must be closed.
    pub(super) fn wait(&mut self, within: Duration) {
        match self {
            Keeper::Thread(thread) => drop(thread.take().map(JoinHandle::join)),
            Keeper::Process(process) => {
                let Ok(descriptor) = pidfd_open(Pid::from_child(process), PidfdFlags::empty()) else {
                    return;
                };
                let seconds = i64::try_from(within.as_secs()).unwrap_or(i64::MAX);
                let within = Timespec { tv_sec: seconds, tv_nsec: i64::from(within.subsec_nanos()) };
                let _ = poll(&mut [PollFd::new(&descriptor, PollFlags::IN)], Some(&within));
            }
        }
    }
}
