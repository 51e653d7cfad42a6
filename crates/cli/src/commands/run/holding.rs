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

use std::os::fd::OwnedFd;
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

use meshlock_cluster::time::{Span, Time};
use meshlock_supervisor::{code_of_signal, tell};
use meshlock_system::now;
use meshlock_wire::clients::LossKind;
use rustix::process::Signal;

use super::EXIT_LOST;
use super::child::{Child, ChildEvent};
use super::events::{EventSource, WakeReason};
use crate::output::CommandOutcome;
use meshlock_client::{ConnectionError, Loss, PolledRequest, RequestState};

/// CMD is killed at the latest this long before someone else can get the lock: the kernel needs a moment to end it.
const RESERVE: Span = Span::from_millis(150);

/// How often to check whether the last process of CMD is gone.
const LOOK_EVERY: Span = Span::from_millis(10);

/// How long to wait at the end until a node on another machine knows that CMD has ended.
const END_WITHIN: Duration = Duration::from_millis(500);

/// How long to wait at the end until the last message to the user is written.
const SAY_WITHIN: Duration = Duration::from_secs(1);

/// A lock that is held while CMD runs.
pub(super) struct Holding {
    /// The request, whose session CMD shares.
    request: PolledRequest,
    /// The connection to a node on another machine, which stays open as long as this process runs.
    line: Option<OwnedFd>,
    grace: Option<Span>,
    child: Child,
    /// Set once the lock is lost and CMD has been told to stop.
    deadlines: Option<Deadlines>,
    /// Whether CMD and all processes that it started have ended by themselves.
    is_alone: bool,
    /// Whether the user wants to know what the node cannot do.
    is_verbose: bool,
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
    pub(super) fn new(
        mut request: PolledRequest,
        child: Child,
        grace: Option<Span>,
        is_verbose: bool,
    ) -> Self {
        let line = request.take_line();
        Holding { request, line, grace, child, deadlines: None, is_alone: false, is_verbose, said: None }
    }

    /// Holds the lock until CMD has ended by itself or was ended.
    pub(super) fn hold(mut self, events: &EventSource) -> anyhow::Result<CommandOutcome> {
        // If this process and the supervisor are gone when the lock is lost, the node ends this group; unless it has refused the
        // supervisor, as a node of another user does. Then it would refuse this, too.
        let asked = match self.request.take_guard_refusal() {
            Some(why) => {
                self.tell_guard_refusal(&why);
                Ok(())
            }
            None => self.request.guard(self.child.group()),
        };
        if !self.child.has_ended() {
            self.on_session(asked);
        }
        let code = loop {
            if self.is_over() {
                break EXIT_LOST;
            }
            // If CMD has ended while this process was stopped, its end counts, and not what has become of the lock since then.
            let until = (self.deadlines.is_some() || !self.child.has_ended()).then(|| self.next_look());
            match events.wait(self.request.descriptor(), self.child.descriptor(), until)? {
                WakeReason::Time => self.on_time(),
                WakeReason::Child => match self.child.look()? {
                    // Processes that CMD left behind still hold the lock, and their supervisor and the node watch over them.
                    Some(ChildEvent::Ended { code, is_last }) if self.deadlines.is_none() => {
                        self.is_alone = is_last;
                        if self.line.is_some() && is_last {
                            // So that the session's keeper need not wait for it.
                            self.child.wait_for_end()?;
                        }
                        break code;
                    }
                    Some(ChildEvent::SupervisorKilled) if self.deadlines.is_none() => {
                        break self.end_orphans(events)?;
                    }
                    Some(ChildEvent::Ended { .. } | ChildEvent::SupervisorKilled) | None => {}
                },
                WakeReason::Signal(Signal::CHILD) => {}
                WakeReason::Signal(signal) => self.child.pass_on(signal),
                WakeReason::Node => {
                    let read = self.request.on_readable();
                    self.on_session(read);
                }
            }
        };
        self.child.give_terminal_back();
        if self.is_alone {
            // So that the lock is free when this command has returned: no process is left that could need it.
            self.request.release(END_WITHIN);
        } else if self.child.is_gone() {
            self.request.end(END_WITHIN);
        }
        drop(self.line);
        if let Some(said) = self.said {
            let _ = said.recv_timeout(SAY_WITHIN);
        }
        Ok(CommandOutcome::Exit(code))
    }

    /// Kills all processes of CMD, because the supervisor was killed and nobody would hold the lock for those that CMD leaves behind.
    fn end_orphans(&mut self, events: &EventSource) -> anyhow::Result<u8> {
        self.tell_aside("the supervisor of CMD was killed; ending CMD".to_owned());
        let until = self.request.due().unwrap_or_else(now);
        while !self.child.is_gone() && now() < until {
            self.child.kill();
            events.wait(None, None, Some(now() + LOOK_EVERY))?;
        }
        Ok(code_of_signal(Signal::KILL.as_raw()))
    }

    /// Says what the node cannot do if Meshlock's own processes are killed, to users who want to know: at a node of another user it is so
    /// for every command.
    fn tell_guard_refusal(&mut self, why: &str) {
        if self.is_verbose {
            self.tell_aside(format!(
                "if this process and the supervisor of CMD are killed, the node cannot end CMD: {why}"
            ));
        }
    }

    /// Handles what has happened to the session. `done` is what the call that found out returned: an error if the session is over.
    fn on_session(&mut self, done: Result<(), ConnectionError>) {
        if let Some(why) = self.request.take_guard_refusal() {
            self.tell_guard_refusal(&why);
        }
        let (act_by, why) = match *self.request.state() {
            RequestState::Held { .. } => return,
            RequestState::Lost { act_by, why } => (act_by, why),
            RequestState::Waiting | RequestState::Ended(_) => (now(), Loss::Told(LossKind::Unknown)),
        };
        let dismissal = self.request.dismissal().map(str::to_owned);
        match (why, done, dismissal) {
            (Loss::Disconnected, _, Some(why)) => self.lose(&why, act_by),
            (Loss::Disconnected, Err(error), None) => self.lose(&error.to_string(), act_by),
            (why, ..) => self.lose(reason(why), act_by),
        }
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
            None => self.request.due().unwrap_or(soon),
            Some(deadlines) if now() < deadlines.kill_at => deadlines.kill_at.min(soon),
            Some(_) => soon,
        }
    }

    fn on_time(&mut self) {
        if self.deadlines.is_none() {
            let caught_up = self.request.catch_up();
            self.on_session(caught_up);
        }
        match self.deadlines {
            None => {
                self.request.lose_if_due(now());
                self.on_session(Ok(()));
            }
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

/// Describes why the lock is lost.
fn reason(why: Loss) -> &'static str {
    match why {
        Loss::NodeSilent => "the node does not extend its lease",
        Loss::Disconnected => "the connection to the node has ended",
        Loss::Told(LossKind::Unknown) => "the node has lost it, or someone broke it",
        Loss::Told(LossKind::LeaseEnd) => "the node could not renew its lease",
        Loss::Told(LossKind::Broken) => "someone broke it",
        Loss::Told(LossKind::Excluded) => "the node was excluded from the cluster",
        Loss::Told(LossKind::Leaving) => "the node leaves the cluster",
        Loss::Told(LossKind::Failed) => "the node has failed because of a bug",
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
