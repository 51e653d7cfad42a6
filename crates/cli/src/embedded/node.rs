//! The process of this user's own node.

use std::fs::{self, File, OpenOptions};
use std::io::Write;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::pin::pin;
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::Duration;

use clap::Args;
use meshlock::Node;
use meshlock_host::door::{listen, serve};

use super::{Home, site};
use crate::commands::run::let_signals_through;
use crate::output::Outcome;

/// What the hidden command is called.
pub(crate) const NAME: &str = "embedded-node";

/// What it says once it serves clients.
pub(super) const READY: &str = "ready";

/// How long it stays without clients, for those who come one after the other.
const LINGER: Duration = Duration::from_secs(1);

/// How long leaving the view may take: nothing but a write to the disk.
const LEAVE_WITHIN: Duration = Duration::from_secs(5);

/// Arguments of the hidden command.
#[derive(Debug, Args)]
pub(crate) struct Arguments {
    /// Where it keeps its files
    #[arg(long)]
    home: PathBuf,
    /// Where it serves clients
    #[arg(long)]
    socket: PathBuf,
}

pub(crate) fn run(arguments: &Arguments, out: &mut dyn Write) -> anyhow::Result<Outcome> {
    // Neither the terminal nor whoever started it concerns it any more.
    rustix::process::setsid()?;
    let_signals_through()?;
    tracing_subscriber::fmt().with_writer(std::io::stderr).with_target(false).with_ansi(false).init();
    let home = Home(arguments.home.clone());
    let served = match Served::start(&home, arguments) {
        Ok(served) => served,
        Err(error) => {
            writeln!(out, "{error:#}")?;
            return Ok(Outcome::Refuted);
        }
    };
    writeln!(out, "{READY}")?;
    out.flush()?;
    // Whoever started it may go on, and so may those who wait for the end of its output.
    rustix::stdio::dup2_stdout(OpenOptions::new().write(true).open("/dev/null")?)?;
    served.until_nobody_is_left(&home)
}

/// A node and how many clients it has.
struct Served {
    node: Node,
    counts: Receiver<usize>,
    socket: PathBuf,
}

impl Served {
    fn start(home: &Home, arguments: &Arguments) -> anyhow::Result<Self> {
        let node = Node::builder().site(site().to_string()).data(home.file("data")).start()?;
        let listener = listen(&arguments.socket)?;
        let (sender, counts) = channel();
        serve(node.front(), listener, move |count| {
            // Nobody listens any more once it goes away.
            let _ = sender.send(count);
        });
        write_whole(home, "socket", arguments.socket.as_os_str().as_bytes())?;
        Ok(Served { node, counts, socket: arguments.socket.clone() })
    }

    /// Serves until there has been nobody for a while, and leaves.
    fn until_nobody_is_left(self, home: &Home) -> anyhow::Result<Outcome> {
        let aside = self.socket.with_extension("leaving");
        let mut count = 0;
        loop {
            count = match self.counts.recv_timeout(LINGER) {
                Ok(count) => count,
                Err(RecvTimeoutError::Timeout) if count == 0 => {
                    // Held until this process has ended: nobody starts another before.
                    let lock = home.lock()?;
                    fs::rename(&self.socket, &aside)?;
                    count = self.counts.try_iter().last().unwrap_or(0);
                    if count == 0 {
                        return self.leave(lock, &aside);
                    }
                    // Somebody came at the last moment.
                    fs::rename(&aside, &self.socket)?;
                    count
                }
                Err(RecvTimeoutError::Timeout) => count,
                Err(RecvTimeoutError::Disconnected) => anyhow::bail!("the node has stopped serving clients"),
            };
        }
    }

    /// Leaves the view, so that the next one need not wait. Whoever connected at the very last moment is refused, and asks
    /// the next one; or has been given something just before, and is waited for.
    fn leave(self, lock: File, aside: &Path) -> anyhow::Result<Outcome> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build()?;
        let mut count = 0;
        let left = runtime.block_on(async {
            let mut leaving = pin!(self.node.leave());
            loop {
                if tokio::time::timeout(LEAVE_WITHIN, leaving.as_mut()).await.is_ok() {
                    return true;
                }
                count = self.counts.try_iter().last().unwrap_or(count);
                if count == 0 {
                    return false;
                }
            }
        });
        drop(self.node);
        fs::remove_file(aside)?;
        drop(lock);
        if !left {
            anyhow::bail!("did not leave in order; the next node of this user waits for the lease's end");
        }
        Ok(Outcome::Done)
    }
}

/// Puts a file in place whole.
fn write_whole(home: &Home, name: &str, bytes: &[u8]) -> std::io::Result<()> {
    let new = home.file(&format!("{name}.new"));
    fs::write(&new, bytes)?;
    fs::rename(new, home.file(name))
}
