//! What `meshlock run` waits for: a signal, the node, a moment.

use std::io;
use std::os::fd::BorrowedFd;

use meshlock_cluster::time::Time;
use meshlock_system::now;
use nix::sys::signal::{SigSet, Signal as Named};
use nix::sys::signalfd::{SfdFlags, SignalFd};
use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::Errno;
use rustix::process::Signal;

use meshlock_system::ClockAlarm;

/// What can be passed on: everything that can be caught and is not a fault of our own.
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

/// What happened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Woken {
    /// The moment has come.
    Time,
    /// A signal.
    Signal(Signal),
    /// The node has said something, or has gone.
    Node,
}

/// Takes the process's signals as events: they do nothing by themselves any more.
pub(super) struct Watch {
    signals: SignalFd,
    alarm: ClockAlarm,
}

impl Watch {
    /// From now on signals wait until they are looked at. Those that whoever started us wants ignored (`nohup`) stay so.
    pub(super) fn begin() -> io::Result<Self> {
        let ignored = ignored_signals();
        if has(ignored, Named::SIGCHLD) {
            let why = "whoever started this ignores SIGCHLD, so the end of CMD could not be seen; start it without that";
            return Err(io::Error::other(why));
        }
        let wanted: SigSet = PASSED_ON.into_iter().filter(|signal| !has(ignored, *signal)).collect();
        wanted.thread_block()?;
        let signals = SignalFd::with_flags(&wanted, SfdFlags::SFD_CLOEXEC | SfdFlags::SFD_NONBLOCK)?;
        Ok(Watch { signals, alarm: ClockAlarm::new()? })
    }

    /// Waits until something happens. A moment that has come goes before everything else.
    pub(super) fn wait(&self, node: Option<BorrowedFd<'_>>, until: Option<Time>) -> io::Result<Woken> {
        self.alarm.set(until)?;
        loop {
            if until.is_some_and(|until| until <= now()) {
                return Ok(Woken::Time);
            }
            if let Some(signal) = self.next_signal()? {
                return Ok(Woken::Signal(signal));
            }
            let mut fds =
                vec![PollFd::new(&self.signals, PollFlags::IN), PollFd::new(&self.alarm, PollFlags::IN)];
            fds.extend(node.map(|node| PollFd::from_borrowed_fd(node, PollFlags::IN)));
            match poll(&mut fds, None) {
                Ok(_) | Err(Errno::INTR) => {}
                Err(error) => return Err(error.into()),
            }
            let quiet = fds[0].revents().is_empty() && fds[1].revents().is_empty();
            if quiet && fds.get(2).is_some_and(|node| !node.revents().is_empty()) {
                return Ok(Woken::Node);
            }
        }
    }

    fn next_signal(&self) -> io::Result<Option<Signal>> {
        let info = self.signals.read_signal()?;
        Ok(info.and_then(|info| Signal::from_named_raw(i32::try_from(info.ssi_signo).unwrap_or(0))))
    }
}

/// Lets signals through to whatever this process becomes: a mask outlives `exec`.
pub(crate) fn let_signals_through() -> io::Result<()> {
    Ok(SigSet::from_iter(PASSED_ON).thread_unblock()?)
}

/// The kernel's word on what this process ignores, a bit for each signal; nothing if it does not say.
fn ignored_signals() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    line.and_then(|bits| u64::from_str_radix(bits.trim(), 16).ok()).unwrap_or(0)
}

fn has(bits: u64, signal: Named) -> bool {
    bits >> (signal as i32 - 1) & 1 == 1
}
