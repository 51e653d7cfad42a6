//! Who keeps a session with a node on another machine: a thread for a question, a process of its own for a lock.

use std::io::{self, Write};
use std::net::{TcpStream, ToSocketAddrs};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread::JoinHandle;
use std::time::Duration;

use anyhow::Context;
use clap::Args;
use nix::sys::signal::{SigSet, Signal};
use rustix::event::{PollFd, PollFlags, poll};
use rustix::process::{Pid, PidfdFlags, pidfd_open};
use rustix::time::Timespec;

use super::place::Network;
use super::relay::Relay;
use crate::output::Outcome;

/// What the hidden command is called.
pub(crate) const NAME: &str = "keep-session";

/// How long each address of a name may take to answer.
const CONNECT_WITHIN: Duration = Duration::from_secs(5);

/// After how long without an acknowledgement a connection is given up; sessions end sooner.
const UNACKNOWLEDGED: u32 = 30_000;

/// Arguments of the hidden command. Its standard input is the client's socket, its standard output the connection to the node.
#[derive(Debug, Args)]
pub(crate) struct Arguments {
    /// The directory of the client's certificate
    #[arg(long)]
    certificate: Option<PathBuf>,
}

/// Whether a session has to outlive the program that opened it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Keeping {
    /// No: it holds nothing.
    Here,
    /// Yes: processes that it starts rely on it.
    Apart,
}

/// Who keeps a session.
#[derive(Debug)]
pub(super) enum Keeper {
    Thread(Option<JoinHandle<()>>),
    Process(Child),
}

/// A session with a node on another machine: what the client talks to, the connection itself, and who keeps it.
pub(super) struct Kept {
    pub(super) stream: UnixStream,
    pub(super) line: OwnedFd,
    pub(super) keeper: Keeper,
}

/// Connects to a node.
pub(super) fn connect(network: &Network) -> io::Result<TcpStream> {
    let mut refused = io::Error::other("the name has no address");
    for address in network.address.as_str().to_socket_addrs()? {
        match TcpStream::connect_timeout(&address, CONNECT_WITHIN) {
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

/// Gives a connection into someone's hands.
pub(super) fn keep(node: TcpStream, network: &Network, keeping: Keeping) -> anyhow::Result<Kept> {
    let (stream, other) = UnixStream::pair()?;
    let line = node.as_fd().try_clone_to_owned()?;
    let certificate = network.certificate.as_deref();
    let keeper = match keeping {
        Keeping::Here => {
            let relay = Relay::new(other, node, certificate)?;
            // Whoever asked sees that the connection has ended.
            Keeper::Thread(Some(std::thread::spawn(move || drop(relay.run()))))
        }
        Keeping::Apart => Keeper::Process(start(other, node, certificate)?),
    };
    Ok(Kept { stream, line, keeper })
}

fn start(client: UnixStream, node: TcpStream, certificate: Option<&Path>) -> anyhow::Result<Child> {
    let mut process = Command::new("/proc/self/exe");
    process.arg(NAME).stdin(Stdio::from(OwnedFd::from(client))).stdout(Stdio::from(OwnedFd::from(node)));
    if let Some(dir) = certificate {
        process.arg("--certificate").arg(dir);
    }
    process.stderr(Stdio::null()).spawn().context("cannot start the process that keeps the session")
}

/// The keeper's own process.
pub(crate) fn run(arguments: &Arguments, _out: &mut dyn Write) -> anyhow::Result<Outcome> {
    // Neither the terminal nor whoever ends all processes of a group concerns it: it ends with its session.
    rustix::process::setsid()?;
    SigSet::from_iter([Signal::SIGTERM, Signal::SIGINT, Signal::SIGHUP, Signal::SIGPIPE]).thread_block()?;
    let client = UnixStream::from(io::stdin().as_fd().try_clone_to_owned()?);
    let node = TcpStream::from(io::stdout().as_fd().try_clone_to_owned()?);
    Relay::new(client, node, arguments.certificate.as_deref())?.run()?;
    Ok(Outcome::Done)
}

impl Keeper {
    /// Waits until the session is over and the node knows it, but not longer than this. The client's socket must be closed.
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
