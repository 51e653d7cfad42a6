//! The keeper: a hidden command that keeps the session of `meshlock run` with a node on another machine.

use std::fs::OpenOptions;
use std::io::{self, Write};
use std::net::TcpStream;
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::process::Command;

use clap::Args;
use meshlock_client::NodeEndpoint;
use meshlock_client::relay::Relay;
use meshlock_cluster::address::Address;
use meshlock_tls::Security;
use nix::sys::signal::{SigSet, Signal};

use crate::location::identity;
use crate::output::CommandOutcome;

/// Name of the hidden command.
pub(crate) const NAME: &str = "keep-session";

/// Arguments of the hidden command. Its standard input is the client's socket, its standard output the connection to the node, and its
/// standard error the other end of what keeps the session alive.
#[derive(Debug, Args)]
pub(crate) struct Arguments {
    /// The directory of the client's certificate
    #[arg(long)]
    certificate: Option<PathBuf>,
    /// The addresses of the nodes that the session can move to
    #[arg(long, value_delimiter = ',')]
    places: Vec<Address>,
    /// The index of the one that is connected
    #[arg(long, default_value_t = 0)]
    at: usize,
}

/// Returns the command that starts a keeper, with this certificate or without TLS, for a session that can move between these nodes, of
/// which the one at index `at` is connected.
pub(crate) fn command(certificate: Option<PathBuf>, places: &[NodeEndpoint], at: usize) -> Command {
    let mut command = Command::new("/proc/self/exe");
    command.arg(NAME);
    if let Some(dir) = certificate {
        command.arg("--certificate").arg(dir);
    }
    if places.len() > 1 {
        let places: Vec<String> = places.iter().map(ToString::to_string).collect();
        command.arg("--places").arg(places.join(",")).arg("--at").arg(at.to_string());
    }
    command
}

/// Runs the keeper in its own process.
pub(crate) fn run(arguments: &Arguments, _out: &mut dyn Write) -> anyhow::Result<CommandOutcome> {
    // Signals from the terminal or to a process group must not end the keeper: it ends with its session.
    rustix::process::setsid()?;
    SigSet::from_iter([Signal::SIGTERM, Signal::SIGINT, Signal::SIGHUP, Signal::SIGPIPE]).thread_block()?;
    let client = UnixStream::from(io::stdin().as_fd().try_clone_to_owned()?);
    let node = TcpStream::from(io::stdout().as_fd().try_clone_to_owned()?);
    let security = match &arguments.certificate {
        Some(dir) => Security::Tls(identity(dir)?),
        None => Security::Plain,
    };
    let keep_alive = UnixStream::from(io::stderr().as_fd().try_clone_to_owned()?);
    // What is written to standard error would count as a process that misuses its keep-alive.
    rustix::stdio::dup2_stderr(OpenOptions::new().write(true).open("/dev/null")?)?;
    let place = |address| NodeEndpoint::Tcp { address, security: security.clone() };
    let places = arguments.places.iter().cloned().map(place).collect();
    Relay::new(client, node, &security)?.among(places, arguments.at).kept_by(keep_alive)?.run()?;
    Ok(CommandOutcome::Done)
}
