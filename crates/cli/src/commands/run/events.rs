//! Waits for the events of `meshlock run`: a signal, a message of the node, a point in time.

use std::io;
use std::os::fd::{AsFd, BorrowedFd};

use meshlock_cluster::time::Time;
use meshlock_system::now;
use nix::sys::signal::{SigSet, Signal as Named};
use nix::sys::signalfd::{SfdFlags, SignalFd};
use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::Errno;
use rustix::process::Signal;

use meshlock_system::ClockAlarm;

/// The signals that are passed on: all that can be caught, except those that report a fault of this process.
const PASSED_ON: [Named; 20] = [
    Named::SIGHUP,
    Named::SIGINT,
    Named::SIGQUIT,
    Named::SIGUSR1,
    Named::SIGUSR2,
    Named::SIGALRM,
    Named::SIGTERM,
    Named::SIGCHLD,
    Named::SIGCONT,
    Named::SIGTSTP,
    Named::SIGTTIN,
    Named::SIGTTOU,
    Named::SIGURG,
    Named::SIGXCPU,
    Named::SIGXFSZ,
    Named::SIGVTALRM,
    Named::SIGPROF,
    Named::SIGWINCH,
    Named::SIGIO,
    Named::SIGPWR,
];

/// Why a wait ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum WakeReason {
    /// The given time has come.
    Time,
    /// This process received a signal.
    Signal(Signal),
    /// The node has sent a message, or closed the connection.
    Node,
    /// Something has happened to CMD.
    Child,
}

/// Waits for events. It turns the signals of the process into events, so that they have no other effect.
pub(super) struct EventSource {
    signals: BlockedSignals,
    alarm: ClockAlarm,
}

/// Signals that are blocked, so that they wait until they are read.
pub(super) struct BlockedSignals(SignalFd);

impl BlockedSignals {
    /// Reads the next signal that waits, if there is one.
    fn take(&self) -> io::Result<Option<Signal>> {
        let info = self.0.read_signal()?;
        Ok(info.and_then(|info| Signal::from_named_raw(i32::try_from(info.ssi_signo).unwrap_or(0))))
    }

    /// Reads all signals that wait, without effect.
    pub(super) fn take_all(&self) -> io::Result<()> {
        while self.take()?.is_some() {}
        Ok(())
    }
}

impl AsFd for BlockedSignals {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

impl EventSource {
    /// Blocks the signals, so that they wait until they are read. Signals that were ignored when this process started (`nohup`) stay
    /// ignored.
    pub(super) fn begin() -> io::Result<Self> {
        let ignored = ignored_signals();
        if has(ignored, Named::SIGCHLD) {
            let why = "SIGCHLD is ignored, so the end of CMD could not be noticed; start `meshlock run` with the default action for SIGCHLD";
            return Err(io::Error::other(why));
        }
        let wanted = PASSED_ON.into_iter().filter(|signal| !has(ignored, *signal));
        Ok(EventSource { signals: block(wanted)?, alarm: ClockAlarm::new()? })
    }

    /// Waits for the next event. If the time `until` has come, that takes precedence over all other events, and what has happened to CMD
    /// over messages of the node.
    pub(super) fn wait(
        &self,
        node: Option<BorrowedFd<'_>>,
        child: Option<BorrowedFd<'_>>,
        until: Option<Time>,
    ) -> io::Result<WakeReason> {
        self.alarm.set(until)?;
        loop {
            if until.is_some_and(|until| until <= now()) {
                return Ok(WakeReason::Time);
            }
            if let Some(signal) = self.signals.take()? {
                return Ok(WakeReason::Signal(signal));
            }
            let mut fds =
                vec![PollFd::new(&self.signals, PollFlags::IN), PollFd::new(&self.alarm, PollFlags::IN)];
            let sources = [(WakeReason::Child, child), (WakeReason::Node, node)];
            let sources = sources.into_iter().filter_map(|(why, source)| Some((why, source?)));
            let (reasons, sources): (Vec<_>, Vec<_>) = sources.unzip();
            fds.extend(sources.into_iter().map(|source| PollFd::from_borrowed_fd(source, PollFlags::IN)));
            match poll(&mut fds, None) {
                Ok(_) | Err(Errno::INTR) => {}
                Err(error) => return Err(error.into()),
            }
            let quiet = fds[0].revents().is_empty() && fds[1].revents().is_empty();
            let ready = fds[2..].iter().position(|source| !source.revents().is_empty());
            if let (true, Some(at)) = (quiet, ready) {
                return Ok(reasons[at]);
            }
        }
    }
}

/// Blocks all signals that can be caught, except those that report a fault of this process.
pub(super) fn block_signals() -> io::Result<BlockedSignals> {
    block(PASSED_ON.into_iter())
}

fn block(signals: impl Iterator<Item = Named>) -> io::Result<BlockedSignals> {
    let signals: SigSet = signals.collect();
    signals.thread_block()?;
    let flags = SfdFlags::SFD_CLOEXEC | SfdFlags::SFD_NONBLOCK;
    Ok(BlockedSignals(SignalFd::with_flags(&signals, flags)?))
}

/// Unblocks the signals for the program that this process becomes: a signal mask survives `exec`.
pub(crate) fn let_signals_through() -> io::Result<()> {
    Ok(SigSet::from_iter(PASSED_ON).thread_unblock()?)
}

/// Blocks the signal by which the kernel stops a process that changes the terminal from the background.
pub(super) fn block_terminal_output_stop() -> io::Result<()> {
    Ok(SigSet::from_iter([Named::SIGTTOU]).thread_block()?)
}

/// Returns the signals that this process ignores, one bit each; none if the kernel does not tell.
fn ignored_signals() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    line.and_then(|bits| u64::from_str_radix(bits.trim(), 16).ok()).unwrap_or(0)
}

fn has(bits: u64, signal: Named) -> bool {
    bits >> (signal as i32 - 1) & 1 == 1
}
