//! Waits for the events of `meshlock run`: a signal, a message of the node, a point in time.

use std::io;
use std::os::fd::BorrowedFd;

use meshlock_cluster::time::Time;
use meshlock_supervisor::BlockedSignals;
use meshlock_system::{ClockAlarm, now};
use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::Errno;
use rustix::process::Signal;

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

impl EventSource {
    /// Blocks the signals, so that they wait until they are read. Signals that were ignored when this process started (`nohup`) stay
    /// ignored.
    pub(super) fn begin() -> io::Result<Self> {
        Ok(EventSource { signals: BlockedSignals::not_ignored()?, alarm: ClockAlarm::new()? })
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
