//! Signals that are blocked, so that they wait until they are read.

use std::io;
use std::os::fd::{AsFd, BorrowedFd};

use nix::sys::signal::{SigSet, Signal as Named};
use nix::sys::signalfd::{SfdFlags, SignalFd};
use rustix::process::Signal;

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

/// Signals that are blocked, so that they wait until they are read.
pub struct BlockedSignals(SignalFd);

impl BlockedSignals {
    /// Blocks all signals that can be caught, except those that report a fault of this process.
    pub fn all() -> io::Result<Self> {
        block(PASSED_ON.into_iter())
    }

    /// Blocks the signals that are passed on to CMD. Those that were ignored when this process started (`nohup`) stay ignored.
    pub fn not_ignored() -> io::Result<Self> {
        let ignored = ignored_signals();
        if has(ignored, Named::SIGCHLD) {
            let why = "SIGCHLD is ignored, so the end of CMD could not be noticed; start `meshlock run` with the default action for SIGCHLD";
            return Err(io::Error::other(why));
        }
        block(PASSED_ON.into_iter().filter(|signal| !has(ignored, *signal)))
    }

    /// Reads the next signal that waits, if there is one.
    pub fn take(&self) -> io::Result<Option<Signal>> {
        let info = self.0.read_signal()?;
        Ok(info.and_then(|info| Signal::from_named_raw(i32::try_from(info.ssi_signo).unwrap_or(0))))
    }

    /// Reads all signals that wait, without effect.
    pub(crate) fn take_all(&self) -> io::Result<()> {
        while self.take()?.is_some() {}
        Ok(())
    }
}

impl AsFd for BlockedSignals {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

fn block(signals: impl Iterator<Item = Named>) -> io::Result<BlockedSignals> {
    let signals: SigSet = signals.collect();
    signals.thread_block()?;
    let flags = SfdFlags::SFD_CLOEXEC | SfdFlags::SFD_NONBLOCK;
    Ok(BlockedSignals(SignalFd::with_flags(&signals, flags)?))
}

/// Unblocks the signals for the program that this process becomes: a signal mask survives `exec`.
pub fn let_signals_through() -> io::Result<()> {
    Ok(SigSet::from_iter(PASSED_ON).thread_unblock()?)
}

/// Blocks the signal by which the kernel stops a process that changes the terminal from the background.
pub(crate) fn block_terminal_output_stop() -> io::Result<()> {
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
