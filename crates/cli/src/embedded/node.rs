//! The process of the embedded node.

use std::fs::{self, File, OpenOptions};
use std::io::Write;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::pin::pin;
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::Duration;

use clap::Args;
use meshlock::Node;
use meshlock_cluster::fence_floor::{self, Epoch};
use meshlock_host::door::{PRIVATE, listen, serve};
use meshlock_supervisor::let_signals_through;
use meshlock_tls::wall_clock;

use super::register::{Register, write_whole};
use super::{Home, site};
use crate::output::CommandOutcome;

/// Name of the hidden command.
pub(crate) const NAME: &str = "embedded-node";

/// The line that the process prints once it serves clients.
pub(super) const READY: &str = "ready";

/// How long the node stays without clients, so that clients which come one after the other use the same node.
const LINGER: Duration = Duration::from_secs(1);

/// How long the node stays without clients if its views have come faster than the clock counts.
///
/// Each start and each end of the node is a view. A command that cron runs every minute would make 2880 a day, where the clock counts 360
/// ([`fence_floor`]): if the node's state were lost then, a new one would give fences that were given before, for days. And epochs would be used up
/// in eight years. So a node that is ahead stays for as long as the clock takes for three epochs: whoever comes earlier uses the same node, and
/// whoever comes later costs two epochs while the clock counts at least two and a half.
const LINGER_AHEAD: Duration = Duration::from_mins(10);

/// Number of epochs by which the node may be ahead before it stays for longer. A node that was just founded is ahead by one, and each
/// end and start makes it two more.
const MAX_AHEAD: u32 = 8;

/// Returns how long a node in this epoch stays without clients, at this time in seconds since 1970.
fn linger(epoch: Epoch, seconds: u64) -> Duration {
    // A clock that cannot be right says nothing.
    let is_ahead = fence_floor::ahead(epoch, seconds).is_some_and(|ahead| ahead > MAX_AHEAD);
    if is_ahead { LINGER_AHEAD } else { LINGER }
}

/// How long leaving the view may take: it takes one write to the disk.
const LEAVE_WITHIN: Duration = Duration::from_secs(5);

/// Arguments of the hidden command.
#[derive(Debug, Args)]
pub(crate) struct Arguments {
    /// Directory of the node's files
    #[arg(long)]
    home: PathBuf,
    /// Socket on which the node serves clients
    #[arg(long)]
    socket: PathBuf,
}

pub(crate) fn run(arguments: &Arguments, out: &mut dyn Write) -> anyhow::Result<CommandOutcome> {
    // A session of its own: signals from the terminal or to the parent's process group do not reach the node.
    rustix::process::setsid()?;
    let_signals_through()?;
    tracing_subscriber::fmt().with_writer(std::io::stderr).with_target(false).with_ansi(false).init();
    let home = Home(arguments.home.clone());
    let node = match EmbeddedNode::start(&home, arguments) {
        Ok(node) => node,
        Err(error) => {
            writeln!(out, "{error:#}")?;
            return Ok(CommandOutcome::Refuted);
        }
    };
    writeln!(out, "{READY}")?;
    out.flush()?;
    // Closes the pipe: the parent, and whoever reads the parent's output to its end, need not wait for this process.
    rustix::stdio::dup2_stdout(OpenOptions::new().write(true).open("/dev/null")?)?;
    node.until_nobody_is_left(&home)
}

/// A running node, and the number of its clients whenever that changes.
struct EmbeddedNode {
    node: Node,
    counts: Receiver<usize>,
    socket: PathBuf,
}

impl EmbeddedNode {
    fn start(home: &Home, arguments: &Arguments) -> anyhow::Result<Self> {
        let node = Node::builder().site(site().to_string()).data(home.file("data")).start()?;
        let listener = listen(&arguments.socket, PRIVATE)?;
        let (sender, counts) = channel();
        serve(node.front(), listener, move |count| {
            // Once the node stops, nobody receives the counts any more.
            let _ = sender.send(count);
        });
        write_whole(&home.file("socket"), arguments.socket.as_os_str().as_bytes())?;
        Register::open()?.enter(home, &arguments.socket)?;
        Ok(EmbeddedNode { node, counts, socket: arguments.socket.clone() })
    }

    /// Returns how long it stays without clients.
    fn linger(&self) -> Duration {
        let epoch = Epoch::new(self.node.front().epoch()).unwrap_or_default();
        linger(epoch, wall_clock().as_secs())
    }

    /// Serves until there has been no client for a while, and leaves.
    fn until_nobody_is_left(self, home: &Home) -> anyhow::Result<CommandOutcome> {
        let aside = self.socket.with_extension("leaving");
        let mut count = 0;
        loop {
            count = match self.counts.recv_timeout(self.linger()) {
                Ok(count) => count,
                Err(RecvTimeoutError::Timeout) if count == 0 => {
                    // Held until this process has ended, so that no other node starts before.
                    let register = Register::open()?;
                    let mut locks = register.lock()?;
                    locks.push(home.lock()?);
                    fs::rename(&self.socket, &aside)?;
                    count = self.counts.try_iter().last().unwrap_or(0);
                    if count == 0 {
                        return self.leave(&register, locks, &aside);
                    }
                    // A client connected at the last moment.
                    fs::rename(&aside, &self.socket)?;
                    count
                }
                Err(RecvTimeoutError::Timeout) => count,
                Err(RecvTimeoutError::Disconnected) => anyhow::bail!("the node has stopped serving clients"),
            };
        }
    }

    /// Leaves the view, so that the next node need not wait. A client that connected at the very last moment is refused, and asks
    /// the next node; or it was granted a lock just before, and the node waits until it releases that.
    fn leave(self, register: &Register, locks: Vec<File>, aside: &Path) -> anyhow::Result<CommandOutcome> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build()?;
        let mut count = 0;
        let left = runtime.block_on(async {
            let mut leaving = pin!(self.node.leave());
            loop {
                if let Ok(left) = tokio::time::timeout(LEAVE_WITHIN, leaving.as_mut()).await {
                    return left;
                }
                count = self.counts.try_iter().last().unwrap_or(count);
                if count == 0 {
                    return false;
                }
            }
        });
        drop(self.node);
        fs::remove_file(aside)?;
        if left {
            register.leave()?;
        }
        drop(locks);
        if !left {
            anyhow::bail!(
                "could not leave its view in time; this user's next node waits until the lease has expired"
            );
        }
        Ok(CommandOutcome::Done)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const DAY: u64 = 86_400;

    /// Uses the node every so many seconds for so many days, from its founding on. Returns the most epochs by which it was ahead of the
    /// clock, and the number of its starts.
    fn used_every(interval: u64, days: u64) -> (u32, u64) {
        let founded = fence_floor::ZERO + 300 * DAY;
        let mut epoch = fence_floor::by_clock(founded).unwrap().number();
        let (mut most, mut starts) = (0, 1);
        for now in (founded..founded + days * DAY).step_by(usize::try_from(interval).unwrap()) {
            let here = Epoch::new(epoch).unwrap();
            most = most.max(fence_floor::ahead(here, now).unwrap());
            if linger(here, now).as_secs() < interval {
                // It has left before the next use, and another one starts.
                epoch += 2;
                starts += 1;
            }
        }
        (most, starts)
    }

    #[test]
    fn a_node_that_is_used_again_and_again_is_never_far_ahead_of_the_clock() {
        for interval in [2, 7, 60, 239, 300, 599, 601, 900, 3600] {
            let (most, _) = used_every(interval, 30);
            assert!(most <= MAX_AHEAD + 2, "every {interval} s: {most}");
        }
        let (_, starts) = used_every(3600, 30);
        assert_eq!(starts, 30 * 24 + 1, "who comes rarely has a node only while it works");
        let (_, starts) = used_every(60, 30);
        assert!(
            2 * starts <= 30 * 360 + 16,
            "cron's nodes make no more views than the clock counts: {starts}"
        );
    }

    #[test]
    fn a_clock_that_cannot_be_right_keeps_no_node() {
        assert_eq!(linger(Epoch::new(9).unwrap(), 0), LINGER);
    }
}
