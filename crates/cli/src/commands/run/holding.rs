//! Holds the lock while CMD runs. If the lock is lost, ends CMD before anyone else can get the lock.
//!
//! ```text
//!             margin                    reserve
//!  ───────────┬────────────────────────┬────────┬──────▶ our clock
//!   extended  │ SIGTERM                │SIGKILL │ end of the lease: someone else may hold the lock
//! ```
//!
//! The node reports when the lock is lost. If it is silent (stopped, or killed), this process goes by its own clock and the last
//! end of the lease that it received: a node that is gone extends nothing.

use std::os::fd::{AsFd, OwnedFd};
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

use meshlock_cluster::time::{Span, Time};
use meshlock_system::now;
use meshlock_wire::clients::{LossKind, Tag, ToClient, ToNode};
use rustix::process::Signal;

use super::child::Child;
use super::events::{EventSource, WakeReason};
use super::waiting::GrantedLock;
use super::{EXIT_LOST, tell};
use crate::output::CommandOutcome;
use meshlock_client::{Connection, ConnectionError};

/// CMD is killed at the latest this long before someone else can get the lock: the kernel needs a moment to end it.
const RESERVE: Span = Span::from_millis(150);

/// How often to check whether the last process of CMD's group is gone: the kernel does not report it.
const LOOK_EVERY: Span = Span::from_millis(10);

/// How long to wait for messages that should have arrived already.
const AT_ONCE: Duration = Duration::from_millis(1);

/// How long to wait for more after messages were left unread for some time: a sender that was blocked sends them now. Meanwhile the
/// node, or the process that keeps the session with it, ends CMD if necessary.
const MORE_WITHIN: Duration = Duration::from_millis(50);

/// How long to wait at the end until a node on another machine knows that CMD has ended.
const END_WITHIN: Duration = Duration::from_millis(500);

/// How long to wait at the end until the last message to the user is written.
const SAY_WITHIN: Duration = Duration::from_secs(1);

/// A lock that is held while CMD runs.
pub(super) struct Holding {
    /// The session, which CMD shares; `None` once the node is gone.
    remote: Option<Connection>,
    /// The connection to a node on another machine, which stays open as long as this process runs.
    line: Option<OwnedFd>,
    tag: Tag,
    lease_end: Time,
    margin: Span,
    grace: Option<Span>,
    child: Child,
    /// Set once the lock is lost and CMD has been told to stop.
    deadlines: Option<Deadlines>,
    /// Receives a value when the last message to the user has been written.
    said: Option<Receiver<()>>,
}

/// When CMD is killed after the lock was lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Deadlines {
    kill_at: Time,
    /// When someone else may get the lock.
    act_by: Time,
}

impl Holding {
    pub(super) fn new(held: GrantedLock, child: Child, grace: Option<Span>) -> Self {
        let GrantedLock { mut remote, tag, grant } = held;
        let line = remote.take_line();
        Holding {
            remote: Some(remote),
            line,
            tag,
            lease_end: grant.lease_end,
            margin: grant.margin,
            grace,
            child,
            deadlines: None,
            said: None,
        }
    }

    /// Holds the lock until CMD has ended by itself or was ended.
    pub(super) fn hold(mut self, events: &EventSource) -> anyhow::Result<CommandOutcome> {
        self.ask_for_guard();
        // Messages that arrived together with the grant.
        self.on_node(Connection::received);
        let code = loop {
            if self.is_over() {
                break EXIT_LOST;
            }
            match events.wait(self.remote.as_ref().map(AsFd::as_fd), Some(self.next_look()))? {
                WakeReason::Time => self.on_time(),
                WakeReason::Signal(Signal::CHILD) => match self.child.look()? {
                    // Processes that CMD left behind still hold the lock, and the node watches over them.
                    Some(code) if self.deadlines.is_none() => break code,
                    Some(_) | None => {}
                },
                WakeReason::Signal(signal) => self.child.pass_on(signal),
                WakeReason::Node => self.on_node(|remote| remote.receive(Some(AT_ONCE))),
            }
        };
        self.child.give_terminal_back();
        if let Some(remote) = self.remote.take_if(|_| self.child.is_gone()) {
            // So that the lock is free when this command has returned.
            remote.end(END_WITHIN);
        }
        drop(self.line);
        if let Some(said) = self.said {
            let _ = said.recv_timeout(SAY_WITHIN);
        }
        Ok(CommandOutcome::Exit(code))
    }

    /// Asks the node to end CMD if the lock is lost and this process is gone.
    fn ask_for_guard(&mut self) {
        let group = self.child.group();
        if let Some(remote) = &mut self.remote
            && let Err(error) = remote.send(&ToNode::Guard { group })
        {
            self.on_node_gone(&error);
        }
    }

    /// Handles all messages of the node; `first` receives the first one.
    fn on_node(&mut self, first: impl FnOnce(&mut Connection) -> Result<Option<ToClient>, ConnectionError>) {
        let Some(remote) = &mut self.remote else { return };
        let mut next = first(remote);
        while let Ok(Some(message)) = next {
            self.on_message(&message);
            let Some(remote) = &mut self.remote else { return };
            next = remote.received();
        }
        if let Err(error) = next {
            self.on_node_gone(&error);
        }
    }

    fn on_message(&mut self, message: &ToClient) {
        let local = |time| self.remote.as_ref().map_or(Time::ZERO, |remote| remote.local(time));
        if let ToClient::Extended { lease_end } = message {
            self.lease_end = self.lease_end.max(local(*lease_end));
        }
        if let ToClient::Lost { tag, act_by, why } = message
            && *tag == self.tag
        {
            let act_by = local(*act_by);
            self.lose(told(*why), act_by);
        }
        if let ToClient::Refused { tag: 0, why, .. } = message {
            self.tell_aside(format!("if this process is killed, the node cannot end CMD: {why}"));
        }
    }

    /// Handles all messages that are waiting. If this process was stopped, nobody has read them, and they may have extended the
    /// lease.
    fn catch_up(&mut self) {
        let mut within = AT_ONCE;
        while let Some(remote) = &mut self.remote {
            match remote.receive(Some(within)) {
                Ok(Some(message)) => {
                    self.on_message(&message);
                    if self.deadlines.is_some() || now() < self.next_look() {
                        return;
                    }
                    within = MORE_WITHIN;
                }
                Ok(None) => return,
                Err(error) => self.on_node_gone(&error),
            }
        }
    }

    /// The node is gone and extends the lease no more.
    fn on_node_gone(&mut self, error: &ConnectionError) {
        self.remote = None;
        self.lose(&error.to_string(), self.lease_end);
    }

    /// Ends CMD because the lock is lost. Nobody else gets the lock before `act_by`, and by then CMD must be gone.
    fn lose(&mut self, why: &str, act_by: Time) {
        if self.deadlines.is_some() {
            return;
        }
        self.deadlines = Some(Deadlines::new(now(), act_by, self.grace));
        self.child.ask_to_end();
        self.tell_aside(format!("the lock is lost ({why}); ending CMD"));
    }

    fn next_look(&self) -> Time {
        let soon = now() + LOOK_EVERY;
        match self.deadlines {
            None => self.lease_end.before(self.margin),
            Some(deadlines) if now() < deadlines.kill_at => deadlines.kill_at.min(soon),
            Some(_) => soon,
        }
    }

    fn on_time(&mut self) {
        if self.deadlines.is_none() {
            self.catch_up();
        }
        match self.deadlines {
            None if now() < self.next_look() => {}
            None => self.lose("the node does not extend its lease", self.lease_end),
            // Repeatedly: a process that was being started when the others were killed is killed now.
            Some(deadlines) if now() >= deadlines.kill_at => self.child.kill(),
            Some(_) => {}
        }
    }

    /// Returns whether the lock is lost and CMD is gone, or the time for ending it is over.
    fn is_over(&mut self) -> bool {
        let Some(deadlines) = self.deadlines else { return false };
        if self.child.is_gone() {
            return true;
        }
        let too_late = now() >= deadlines.act_by;
        if too_late {
            self.child.kill();
            self.tell_aside(
                "not all processes of CMD could be ended in time; look for them and end them".to_owned(),
            );
        }
        too_late
    }

    /// Tells the user something from another thread: a terminal that is paused (Ctrl-S) or a full pipe must not delay the end of CMD.
    fn tell_aside(&mut self, what: String) {
        let (sender, said) = channel();
        std::thread::spawn(move || {
            tell(what);
            sender.send(())
        });
        self.said = Some(said);
    }
}

/// Describes the node's reason for the loss of the lock.
fn told(why: LossKind) -> &'static str {
    match why {
        LossKind::Unknown => "the node has lost it, or someone broke it",
        LossKind::LeaseEnd => "the node could not renew its lease",
        LossKind::Broken => "someone broke it",
        LossKind::Excluded => "the node was excluded from the cluster",
        LossKind::Leaving => "the node leaves the cluster",
        LossKind::Failed => "the node has failed because of a bug",
    }
}

impl Deadlines {
    /// Computes when to kill CMD: after `grace`, or as late as is safe. That is [`RESERVE`] before `act_by`, or half of the remaining
    /// time before it if that is shorter.
    fn new(now: Time, act_by: Time, grace: Option<Span>) -> Self {
        let left = act_by.since(now);
        let latest = act_by.before(RESERVE.min(left.part(2)));
        let kill_at = grace.map_or(latest, |grace| latest.min(now + grace));
        Deadlines { kill_at, act_by }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn killed_after(left: u64, grace: Option<u64>) -> u64 {
        let now = Time::from_micros(1_000_000);
        let deadlines = Deadlines::new(now, now + Span::from_millis(left), grace.map(Span::from_millis));
        deadlines.kill_at.since(now).micros() / 1000
    }

    #[test]
    fn the_grace_never_reaches_into_the_time_that_the_kernel_needs() {
        assert_eq!(killed_after(500, None), 350);
        assert_eq!(killed_after(500, Some(100)), 100);
        assert_eq!(killed_after(500, Some(10_000)), 350);
        assert_eq!(killed_after(200, None), 100);
        assert_eq!(killed_after(0, Some(10)), 0);
    }
}
