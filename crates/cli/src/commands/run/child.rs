//! CMD: a process group of its own. All its processes inherit the session's socket.

use std::ffi::OsString;
use std::io;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::os::unix::process::CommandExt;
use std::process::Command;

use anyhow::Context;
use meshlock_cluster::names::LockName;
use rustix::io::{Errno, FdFlags, fcntl_dupfd_cloexec, fcntl_setfd};
use rustix::process::{
    Pid, Signal, WaitOptions, getpgrp, getpid, kill_current_process_group, kill_process, kill_process_group,
    test_kill_process_group, waitpid,
};

use super::code_of_signal;
use super::start;
use super::terminal::{Terminal, alone_in_group};
use super::waiting::GrantedLock;

/// The program of this process, even if its file has been replaced meanwhile.
const OURSELVES: &str = "/proc/self/exe";

/// Smallest number for the session's socket. Scripts use small descriptors themselves (`exec 3<file`).
const MIN_DESCRIPTOR: i32 = 100;

/// CMD and the processes that it has started.
pub(super) struct Child {
    /// The process group, which is also the id of its first process.
    group: Pid,
    terminal: Option<Terminal>,
    /// Whether `meshlock run` is alone in its process group.
    alone: bool,
    /// The exit code of the first process, once it has ended. The kernel reports it only once.
    ended: Option<u8>,
}

impl Child {
    /// Starts CMD.
    pub(super) fn start(name: &LockName, held: &GrantedLock, command: &[OsString]) -> anyhow::Result<Self> {
        let terminal = Terminal::open();
        let alone = terminal.is_some() && alone_in_group();
        let foreground = alone && terminal.as_ref().is_some_and(Terminal::is_ours);
        let session = held.request.descriptors().map(inheritable).collect::<io::Result<Vec<_>>>()?;
        let mut process = Command::new(OURSELVES);
        process.arg(start::NAME);
        if foreground {
            process.arg("--foreground");
        }
        process.arg("--").args(command).process_group(0);
        process.env("MESHLOCK_NAME", name.as_str()).env("MESHLOCK_FENCE", held.fence.to_string());
        process.env("MESHLOCK_SLOT", held.slot.map_or_else(String::new, |slot| slot.to_string()));
        let child = process.spawn().context("cannot start a process for CMD")?;
        drop(session);
        let group = i32::try_from(child.id()).ok().and_then(Pid::from_raw);
        Ok(Child { group: group.context("a process has a number")?, terminal, alone, ended: None })
    }

    /// Returns the process group.
    pub(super) fn group(&self) -> i32 {
        self.group.as_raw_nonzero().get()
    }

    /// Passes a signal on to the whole group.
    pub(super) fn pass_on(&self, signal: Signal) {
        if signal == Signal::CONT {
            self.come_to_the_foreground();
        }
        // The group may be gone.
        let _ = kill_process_group(self.group, signal);
    }

    /// Asks all processes of the group to end, including stopped ones.
    pub(super) fn ask_to_end(&self) {
        let _ = kill_process_group(self.group, Signal::TERM);
        let _ = kill_process_group(self.group, Signal::CONT);
    }

    /// Kills all processes of the group.
    pub(super) fn kill(&self) {
        let _ = kill_process_group(self.group, Signal::KILL);
    }

    /// Returns whether the group has no processes any more.
    pub(super) fn is_gone(&self) -> bool {
        // Other errors mean that the group exists and runs as another user.
        test_kill_process_group(self.group) == Err(Errno::SRCH)
    }

    /// Handles a change of CMD's first process. Returns its exit code once it has ended. If it was stopped because it needs the
    /// terminal, it gets the terminal; otherwise the user has stopped it, and this process stops as well.
    pub(super) fn look(&mut self) -> io::Result<Option<u8>> {
        let options = WaitOptions::NOHANG | WaitOptions::UNTRACED;
        while self.ended.is_none() {
            let Some((_, status)) = waitpid(Some(self.group), options)? else { break };
            if let Some(signal) = status.stopping_signal() {
                self.on_stopped(signal);
            }
            let exited = status.exit_status().map(|code| u8::try_from(code).unwrap_or(u8::MAX));
            self.ended = exited.or_else(|| status.terminating_signal().map(code_of_signal));
        }
        Ok(self.ended)
    }

    fn on_stopped(&self, signal: i32) {
        let Some(terminal) = &self.terminal else { return };
        let wants_terminal = signal == Signal::TTIN.as_raw() || signal == Signal::TTOU.as_raw();
        if wants_terminal && (terminal.is_ours() || terminal.is_of(self.group)) {
            let _ = terminal.give_to(self.group);
            let _ = kill_process_group(self.group, Signal::CONT);
            return;
        }
        self.give_terminal_back();
        if !self.alone {
            // The other processes of our group stop, too, as if Ctrl-Z had been typed while our group was in the foreground.
            let _ = kill_current_process_group(Signal::TSTP);
        }
        let _ = kill_process(getpid(), Signal::STOP);
    }

    /// Continues CMD after this process was continued: in the foreground, if this process is there and alone in its group.
    fn come_to_the_foreground(&self) {
        if let Some(terminal) = &self.terminal
            && self.alone
            && terminal.is_ours()
        {
            let _ = terminal.give_to(self.group);
        }
    }

    /// Takes the terminal's foreground back if CMD has it.
    pub(super) fn give_terminal_back(&self) {
        if let Some(terminal) = &self.terminal
            && terminal.is_of(self.group)
        {
            let _ = terminal.give_to(getpgrp());
        }
    }
}

/// Duplicates the session's socket, to be inherited by CMD and all that it starts: the lock is held while any process has it
/// open.
fn inheritable(session: BorrowedFd<'_>) -> io::Result<OwnedFd> {
    // If the limit on descriptors is lower, any number will do.
    let copy = fcntl_dupfd_cloexec(session, MIN_DESCRIPTOR).or_else(|_| fcntl_dupfd_cloexec(session, 0))?;
    fcntl_setfd(&copy, FdFlags::empty())?;
    Ok(copy)
}
