//! Holding the lock while CMD runs; and if it is lost, ending CMD before anyone else can have it.
//!
//! ```text
//!             margin                    reserve
//!  ───────────┬────────────────────────┬────────┬──────▶ our clock
//!   extended  │ SIGTERM                │SIGKILL │ lease's end: someone else may hold it
//! ```
//!
//! The node tells when the lock is lost. If it says nothing (it is stopped, or killed) our own clock does. What was heard
//! last is what counts: a node that is gone extends nothing.

use std::os::fd::{AsFd, OwnedFd};
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

use meshlock_cluster::time::{Span, Time};
use meshlock_system::now;
use meshlock_wire::clients::{LossKind, Tag, ToClient, ToNode};
use rustix::process::Signal;

use super::child::Child;
use super::waiting::Held;
use super::watch::{Watch, Woken};
use super::{EXIT_LOST, tell};
use crate::output::Outcome;
use meshlock_client::{Connection, ConnectionError};

/// How long before someone else can have the lock CMD is killed at the latest: the kernel needs a moment to end it.
const RESERVE: Span = Span::from_millis(150);

/// How often to look whether the last process of CMD's group is gone: nobody tells.
const LOOK_EVERY: Span = Span::from_millis(10);

/// How long to read what has come already.
const AT_ONCE: Duration = Duration::from_millis(1);

/// How long to wait for more where much had not been read: whoever could not say it then says it now. Meanwhile the node, or who
/// keeps the session with it, ends CMD if it must.
const MORE_WITHIN: Duration = Duration::from_millis(50);

/// How long to wait at the end until a node on another machine knows that CMD has ended.
const END_WITHIN: Duration = Duration::from_millis(500);

/// How long to wait at the end for those who read what we say.
const SAY_WITHIN: Duration = Duration::from_secs(1);

/// A lock in use.
pub(super) struct Holding {
    /// The session, which the child has too; none once the node is gone.
    remote: Option<Connection>,
    /// The connection to a node on another machine: open as long as we are, whoever else has gone.
    line: Option<OwnedFd>,
    tag: Tag,
    lease_end: Time,
    margin: Span,
    grace: Option<Span>,
    child: Child,
    /// Set once the lock is lost.
    ending: Option<Ending>,
    /// Tells when the last thing that was said has been written.
    said: Option<Receiver<()>>,
}

/// CMD has been told to stop.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Ending {
    /// When it is killed.
    kill_at: Time,
    /// When someone else may have the lock.
    act_by: Time,
}

impl Holding {
    pub(super) fn new(held: Held, child: Child, grace: Option<Span>) -> Self {
        let Held { mut remote, tag, grant } = held;
        let line = remote.take_line();
        Holding {
            remote: Some(remote),
            line,
            tag,
            lease_end: grant.lease_end,
            margin: grant.margin,
            grace,
            child,
            ending: None,
            said: None,
        }
    }

    /// Until CMD has ended, one way or the other.
    pub(super) fn hold(mut self, watch: &Watch) -> anyhow::Result<Outcome> {
        self.ask_for_guard();
        // What came together with the grant.
        self.on_node(Connection::received);
        let code = loop {
            if self.is_over() {
                break EXIT_LOST;
            }
            match watch.wait(self.remote.as_ref().map(AsFd::as_fd), Some(self.next_look()))? {
                Woken::Time => self.on_time(),
                Woken::Signal(Signal::CHILD) => match self.child.look()? {
                    // What it left behind still has the lock, and the node watches over it.
                    Some(code) if self.ending.is_none() => break code,
                    Some(_) | None => {}
                },
                Woken::Signal(signal) => self.child.pass_on(signal),
                Woken::Node => self.on_node(|remote| remote.receive(Some(AT_ONCE))),
            }
        };
        self.child.give_terminal_back();
        if let Some(remote) = self.remote.take_if(|_| self.child.is_gone()) {
            // Whoever comes after us finds the lock free.
            remote.end(END_WITHIN);
        }
        drop(self.line);
        if let Some(said) = self.said {
            let _ = said.recv_timeout(SAY_WITHIN);
        }
        Ok(Outcome::Exit(code))
    }

    /// The node ends CMD if the lock is lost and we are not there to do it.
    fn ask_for_guard(&mut self) {
        let group = self.child.group();
        if let Some(remote) = &mut self.remote
            && let Err(error) = remote.send(&ToNode::Guard { group })
        {
            self.on_node_gone(&error);
        }
    }

    /// Reads what the node has said; `first` gets the first of it.
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
            self.tell_aside(format!("the node cannot end CMD should this process be killed: {why}"));
        }
    }

    /// Reads all that the node has said: while this process was stopped nobody did, and the lease may have been extended all the
    /// time.
    fn catch_up(&mut self) {
        let mut within = AT_ONCE;
        while let Some(remote) = &mut self.remote {
            match remote.receive(Some(within)) {
                Ok(Some(message)) => {
                    self.on_message(&message);
                    if self.ending.is_some() || now() < self.next_look() {
                        return;
                    }
                    within = MORE_WITHIN;
                }
                Ok(None) => return,
                Err(error) => self.on_node_gone(&error),
            }
        }
    }

    /// Nothing more is extended.
    fn on_node_gone(&mut self, error: &ConnectionError) {
        self.remote = None;
        self.lose(&error.to_string(), self.lease_end);
    }

    /// The lock is lost: nobody else has it before `act_by`, and by then CMD must be gone.
    fn lose(&mut self, why: &str, act_by: Time) {
        if self.ending.is_some() {
            return;
        }
        self.ending = Some(Ending::new(now(), act_by, self.grace));
        self.child.ask_to_end();
        self.tell_aside(format!("the lock is lost ({why}); ending CMD"));
    }

    fn next_look(&self) -> Time {
        let soon = now() + LOOK_EVERY;
        match self.ending {
            None => self.lease_end.before(self.margin),
            Some(ending) if now() < ending.kill_at => ending.kill_at.min(soon),
            Some(_) => soon,
        }
    }

    fn on_time(&mut self) {
        if self.ending.is_none() {
            self.catch_up();
        }
        match self.ending {
            None if now() < self.next_look() => {}
            None => self.lose("the node does not extend its lease", self.lease_end),
            // Again and again: a process that was just being started when the others were killed is killed now.
            Some(ending) if now() >= ending.kill_at => self.child.kill(),
            Some(_) => {}
        }
    }

    /// Whether the lock is lost, and there is nothing more to do about it.
    fn is_over(&mut self) -> bool {
        let Some(ending) = self.ending else { return false };
        if self.child.is_gone() {
            return true;
        }
        let too_late = now() >= ending.act_by;
        if too_late {
            self.child.kill();
            self.tell_aside("not all of CMD's processes could be ended in time; look for them".to_owned());
        }
        too_late
    }

    /// Tells, but does not wait for it: a terminal that is held (Ctrl-S) or a full pipe must not keep CMD alive.
    fn tell_aside(&mut self, what: String) {
        let (sender, said) = channel();
        std::thread::spawn(move || {
            tell(what);
            sender.send(())
        });
        self.said = Some(said);
    }
}

/// Why the node says that the lock is lost.
fn told(why: LossKind) -> &'static str {
    match why {
        LossKind::Unknown => "the node has lost it, or someone broke it",
        LossKind::LeaseEnd => "the node could not renew its lease",
        LossKind::Broken => "someone broke it",
        LossKind::Excluded => "the node was excluded from its cluster",
        LossKind::Leaving => "the node leaves its cluster",
        LossKind::Failed => "the node has failed because of a bug",
    }
}

impl Ending {
    /// As long as the grace that was asked for, or as is safe: the reserve is kept, or half of what is left if that is less.
    fn new(now: Time, act_by: Time, grace: Option<Span>) -> Self {
        let left = act_by.since(now);
        let latest = act_by.before(RESERVE.min(left.part(2)));
        let kill_at = grace.map_or(latest, |grace| latest.min(now + grace));
        Ending { kill_at, act_by }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn killed_after(left: u64, grace: Option<u64>) -> u64 {
        let now = Time::from_micros(1_000_000);
        let ending = Ending::new(now, now + Span::from_millis(left), grace.map(Span::from_millis));
        ending.kill_at.since(now).micros() / 1000
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
