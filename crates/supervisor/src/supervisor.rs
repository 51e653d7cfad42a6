//! The supervisor: a process between `meshlock run` and CMD, below which all processes of CMD stay.
//!
//! ```text
//!  meshlock run ── control ── supervisor ── CMD ── …        the supervisor is a child subreaper: whatever CMD starts, and however
//!       │                        │           └─ …           often it forks, is a child of the supervisor once its parent has ended
//!       └──────── session ───────┘
//! ```
//!
//! It has the session open, so the lock is held until it ends, and it ends when the last process below it has ended. It tells
//! `meshlock run` what becomes of CMD. CMD itself inherits a connection that only keeps the session: it counts if everything else of
//! Meshlock was killed, and nothing can be asked over it. If `meshlock run` has gone and the session ends, nobody else is left to end CMD: it does.
//!
//! It is started before the lock is granted, so that the node knows it by then, and waits for the word to start CMD. This also takes
//! the time to start it off the time between the grant and CMD.

use std::ffi::OsString;
use std::fs::OpenOptions;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};

use meshlock_cluster::time::{Span, Time};
use meshlock_system::{Process, hang_up_stopped, kill_descendants, now, signal_descendants};
use meshlock_wire::clients::{ToClient, take_to_client};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::{Errno, FdFlags, fcntl_dupfd_cloexec, fcntl_setfd};
use rustix::net::{Shutdown, shutdown};
use rustix::process::{Pid, Signal, WaitOptions, set_child_subreaper, setpgid, setsid, wait};

use crate::control::{Control, FromSupervisor, StartOrder};
use crate::identity::identity;
use crate::signals::BlockedSignals;
use crate::{OURSELVES, START, code_of_signal, start, tell};

/// Number of arguments before the identity of `meshlock run`: the place of the node, the certificate for it, and the lock.
const BEFORE_IDENTITY: usize = 3;

/// Smallest number for the descriptor that CMD inherits. Scripts use small descriptors themselves (`exec 3<file`).
const MIN_DESCRIPTOR: i32 = 100;

/// The processes are killed this long before someone else can get the lock.
const RESERVE: Span = Span::from_millis(150);

/// How long to wait for processes that were killed before those are killed that were started meanwhile.
const KILL_AGAIN: Timespec = Timespec { tv_sec: 0, tv_nsec: 2_000_000 };

/// Returns whether the `meshlock run` that gives these arguments was built from the same sources.
pub(crate) fn is_for_this_program(arguments: &[OsString]) -> bool {
    arguments.get(BEFORE_IDENTITY).is_some_and(|theirs| theirs == identity())
}

/// Runs the supervisor of CMD in its own process. Its standard input is the connection to `meshlock run`.
pub(crate) fn run(arguments: &[OsString]) -> io::Result<()> {
    let command = arguments.get(BEFORE_IDENTITY + 1..).unwrap_or_default();
    let control = Control::of_stdin()?;
    let subreaper = set_child_subreaper(Some(rustix::process::getpid()));
    // `meshlock run` has not got the lock, or was killed: there is nothing to do.
    let Some((order, descriptors)) = control.receive_order()? else { return Ok(()) };
    if let Err(error) = subreaper {
        tell(format_args!(
            "processes that leave CMD's process group do not keep the lock: this system has no child subreapers ({error})"
        ));
    }
    let (cmd, session) = match spawn(command, &order, descriptors) {
        Ok(started) => started,
        Err(error) => {
            let program = command.first().map(|program| program.to_string_lossy()).unwrap_or_default();
            tell(format_args!("cannot run '{program}': {error}"));
            return control.say(FromSupervisor::Ended { code: start::code_of(&error), is_last: true });
        }
    };
    // From here on only SIGKILL ends this process before the last one below it.
    let signals = BlockedSignals::all();
    let mut supervisor =
        Supervisor { cmd, control: Some(control), session, bytes: Vec::new(), kill_at: None };
    supervisor.say(FromSupervisor::Started(cmd.as_raw_nonzero().get()));
    let supervised = signals.and_then(|signals| {
        let_go_of_the_callers_files()?;
        supervisor.run(&signals)
    });
    // Whatever has failed: nothing that runs may be left behind without a supervisor.
    supervised.or_else(|_| supervisor.end_all())
}

/// Starts CMD with the first descriptor as its standard input. Returns its process, and the descriptors that keep the session.
fn spawn(
    command: &[OsString],
    order: &StartOrder,
    mut descriptors: Vec<OwnedFd>,
) -> io::Result<(Pid, Vec<OwnedFd>)> {
    if descriptors.is_empty() {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    let stdin = descriptors.remove(0);
    let keep_alive = if order.keep_alive && !descriptors.is_empty() {
        Some(inheritable(&descriptors.remove(0))?)
    } else {
        None
    };
    let session = descriptors;
    let mut process = if order.foreground {
        let mut process = Command::new(OURSELVES);
        process.arg(START).args(command);
        process
    } else {
        let mut words = command.iter();
        let mut process = Command::new(words.next().ok_or(io::ErrorKind::InvalidInput)?);
        process.args(words);
        process
    };
    process.stdin(Stdio::from(stdin)).process_group(0);
    process.env("MESHLOCK_FENCE", &order.fence).env("MESHLOCK_SLOT", &order.slot);
    // No signal is blocked yet, which CMD would inherit.
    let spawned = process.spawn()?;
    // CMD and what it starts have it from here on, and nobody else.
    drop(keep_alive);
    Ok((Pid::from_child(&spawned), session))
}

/// Duplicates a descriptor, to be inherited by CMD and all that it starts.
fn inheritable(descriptor: &OwnedFd) -> io::Result<OwnedFd> {
    // If the limit on descriptors is lower, any number will do.
    let copy =
        fcntl_dupfd_cloexec(descriptor, MIN_DESCRIPTOR).or_else(|_| fcntl_dupfd_cloexec(descriptor, 0))?;
    fcntl_setfd(&copy, FdFlags::empty())?;
    Ok(copy)
}

/// Closes what this process has of the caller's: whoever waits for the end of the output waits for CMD's processes only.
fn let_go_of_the_callers_files() -> io::Result<()> {
    let nothing = OpenOptions::new().write(true).open("/dev/null")?;
    rustix::stdio::dup2_stdout(&nothing)?;
    rustix::stdio::dup2_stderr(&nothing)?;
    std::env::set_current_dir("/")
}

/// Returns whether the process that has started this one was stopped by a signal or a debugger.
fn is_parent_stopped() -> bool {
    rustix::process::getppid()
        .and_then(|parent| Process::find(parent.as_raw_nonzero().get()))
        .is_some_and(Process::is_stopped)
}

struct Supervisor {
    cmd: Pid,
    /// The connection to `meshlock run`; `None` once that has gone.
    control: Option<Control>,
    /// What keeps the session: the socket first.
    session: Vec<OwnedFd>,
    /// Bytes of an incomplete message of the node.
    bytes: Vec<u8>,
    /// When all processes are killed, once the lock is lost and `meshlock run` has gone.
    kill_at: Option<Time>,
}

fn timespec(span: Span) -> Timespec {
    let (seconds, micros) = (span.micros() / 1_000_000, span.micros() % 1_000_000);
    Timespec {
        tv_sec: i64::try_from(seconds).unwrap_or(i64::MAX),
        tv_nsec: i64::try_from(micros * 1000).unwrap_or(0),
    }
}

impl Supervisor {
    /// Runs until the last process below this one has ended.
    fn run(&mut self, signals: &BlockedSignals) -> io::Result<()> {
        loop {
            // Signals first: whoever ends after that wakes this process again.
            signals.take_all()?;
            if !self.has_children()? {
                return Ok(());
            }
            let left = self.kill_at.map(|kill_at| kill_at.since(now()));
            if left == Some(Span::ZERO) {
                return self.end_all();
            }
            let mut waits = vec![PollFd::new(signals, PollFlags::IN)];
            // While `meshlock run` is there, it is the one who reads the node's messages.
            let watched = match (&self.control, self.session.first()) {
                (Some(control), _) => Some(control.as_fd()),
                (None, Some(session)) => Some(session.as_fd()),
                (None, None) => None,
            };
            waits.extend(watched.map(|watched| PollFd::from_borrowed_fd(watched, PollFlags::IN)));
            match poll(&mut waits, left.map(timespec).as_ref()) {
                Ok(_) | Err(Errno::INTR) => {}
                Err(error) => return Err(error.into()),
            }
            if waits.get(1).is_some_and(|watched| !watched.revents().is_empty()) {
                drop(waits);
                self.on_readable()?;
            }
        }
    }

    /// Collects the status of all processes that have ended, and tells `meshlock run` what became of CMD. Returns whether any are left.
    fn has_children(&mut self) -> io::Result<bool> {
        let mut code = None;
        let has_children = loop {
            match wait(WaitOptions::NOHANG | WaitOptions::UNTRACED) {
                Ok(Some((pid, status))) if pid == self.cmd => {
                    if let Some(signal) = status.stopping_signal() {
                        self.say(FromSupervisor::Stopped(signal));
                    }
                    let exited = status.exit_status().map(|code| u8::try_from(code).unwrap_or(u8::MAX));
                    code = exited.or_else(|| status.terminating_signal().map(code_of_signal)).or(code);
                }
                Ok(Some(_)) | Err(Errno::INTR) => {}
                Ok(None) => break true,
                Err(Errno::CHILD) => break false,
                Err(error) => return Err(error.into()),
            }
        };
        if !has_children {
            self.end_session_of_stopped();
        }
        if let Some(code) = code {
            if !has_children {
                // `meshlock run` ends the session when it sees that this process has ended.
                self.session.clear();
            }
            self.say(FromSupervisor::Ended { code, is_last: !has_children });
        }
        Ok(has_children)
    }

    /// Ends the session if `meshlock run` is stopped: it has the session open, too, and would keep the lock until it goes on, although no
    /// process is left that could need it.
    fn end_session_of_stopped(&self) {
        if let (Some(_), Some(session), true) = (&self.control, self.session.first(), is_parent_stopped()) {
            // The node may have gone.
            let _ = shutdown(session, Shutdown::Both);
        }
    }

    fn say(&self, what: FromSupervisor) {
        if let Some(control) = &self.control {
            // It may have been killed; then its end is noticed.
            let _ = control.say(what);
        }
    }

    /// Handles the end of `meshlock run`, or of the session after it.
    fn on_readable(&mut self) -> io::Result<()> {
        if let Some(control) = &self.control {
            if control.is_over() {
                self.control = None;
                self.leave_session()?;
            }
            return Ok(());
        }
        let mut scratch = [0; 4096];
        match self.session.first().map(|session| rustix::io::read(session, &mut scratch[..])) {
            Some(Ok(count @ 1..)) => self.on_bytes(&scratch[..count]),
            Some(Err(Errno::INTR | Errno::AGAIN)) => Ok(()),
            Some(Ok(_) | Err(_)) | None => self.end_all(),
        }
    }

    /// Leaves the terminal's session, because `meshlock run` has gone and nobody gives CMD's processes the terminal any more: the kernel
    /// then refuses them the terminal instead of stopping them until somebody does.
    fn leave_session(&self) -> io::Result<()> {
        // Only a process that does not lead its group can, so it joins CMD's for a moment. If that is empty, nobody is stopped in it.
        if setpgid(None, Some(self.cmd)).and_then(|()| setsid()).is_ok() {
            hang_up_stopped(Process::this()?);
        }
        Ok(())
    }

    /// Reads the node's messages in place of `meshlock run`: if the lock is lost, asks all processes to end, and kills them before anyone
    /// else can have it. (The node does the latter as well, if it may.)
    fn on_bytes(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.bytes.extend_from_slice(bytes);
        loop {
            match take_to_client(&self.bytes) {
                Ok(Some((message, length))) => {
                    self.bytes.drain(..length);
                    if let ToClient::Lost { act_by, .. } = message {
                        self.kill_at = Some(act_by.before(RESERVE));
                        let this = Process::this()?;
                        signal_descendants(this, &[], Signal::TERM);
                        signal_descendants(this, &[], Signal::CONT);
                    }
                }
                Ok(None) => return Ok(()),
                // `meshlock run` had read part of a message when it was killed; the end of the session is still noticed.
                Err(_) => {
                    self.bytes.clear();
                    return Ok(());
                }
            }
        }
    }

    /// Kills all processes below this one: the session has ended, and nobody else is left to do it.
    fn end_all(&mut self) -> io::Result<()> {
        let this = Process::this()?;
        while self.has_children()? {
            kill_descendants(this, &[]);
            match poll(&mut [], Some(&KILL_AGAIN)) {
                Ok(_) | Err(Errno::INTR) => {}
                Err(error) => return Err(error.into()),
            }
        }
        self.session.clear();
        Ok(())
    }
}
