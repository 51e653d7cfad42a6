//! CMD and all processes that it starts: below a [supervisor](meshlock_supervisor), in a process group of its own.

use std::ffi::OsString;
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, Stdio};

use anyhow::Context;
use meshlock_cluster::names::LockName;
use meshlock_cluster::report::Party;
use meshlock_supervisor::{
    Control, FromSupervisor, OURSELVES, SUPERVISE, StartOrder, Terminal, alone_in_group, code_of_signal,
    identity, tell,
};
use meshlock_system::{Process, children_of, kill_descendants, signal_descendants};
use rustix::process::{
    Pid, Signal, WaitOptions, getpgrp, getpid, kill_current_process_group, kill_process, kill_process_group,
    set_child_subreaper, waitpid,
};

use super::beside;
use super::nesting::PARTY_VARIABLE;
use super::waiting::GrantedLock;

/// CMD's supervisor, before CMD is started.
pub(super) struct WaitingSupervisor {
    pid: Pid,
    control: Control,
    /// The supervisor as a process, if it has been looked for.
    running: Option<Process>,
    /// The processes of Meshlock that this process has started: they are not CMD's.
    ours: Vec<Process>,
}

impl WaitingSupervisor {
    /// Starts the supervisor, which waits. If this process ends before it starts CMD, the supervisor ends, too.
    /// `node` and the name of the lock are seen by [commands below it](super::nesting).
    pub(super) fn start(
        node: &[String; 2],
        name: &LockName,
        party: Party,
        command: &[OsString],
    ) -> anyhow::Result<Self> {
        let (control, theirs) = Control::pair().context("cannot make a pair of sockets")?;
        let start = |program: &Path| {
            let mut process = Command::new(program);
            process.arg(SUPERVISE).args(node).arg(name.as_str()).arg(identity()).args(command);
            process.process_group(0).stdin(Stdio::from(theirs.try_clone()?));
            process.env(PARTY_VARIABLE, format!("{:016x}", party.0));
            process.env("MESHLOCK_NAME", name.as_str()).spawn()
        };
        let program = beside::supervisor();
        // Whatever is wrong with the file of the small program, this program is there.
        let started = start(&program).or_else(|_| start(Path::new(OURSELVES)));
        let pid = Pid::from_child(&started.context("cannot start a process for CMD")?);
        // If the supervisor is killed, what is below it comes to this process. Where that is impossible, the supervisor says so.
        let _ = set_child_subreaper(Some(getpid()));
        Ok(WaitingSupervisor { pid, control, running: None, ours: Vec::new() })
    }

    /// Notes which processes this one has started for itself: all that it has before CMD is started. To be called after each of them.
    pub(super) fn note_own_processes(&mut self) -> io::Result<()> {
        self.running = Process::find(self.id());
        self.ours = children_of(Process::this()?);
        Ok(())
    }

    /// Returns the process of the supervisor, which leads a process group.
    pub(super) fn id(&self) -> i32 {
        self.pid.as_raw_nonzero().get()
    }
}

/// CMD and the processes that it has started.
pub(super) struct Child {
    /// The supervisor; it is `running` until it has ended.
    supervisor: WaitingSupervisor,
    /// CMD's process group, which is also the id of its first process.
    group: Pid,
    terminal: Option<Terminal>,
    /// Whether `meshlock run` is alone in its process group.
    alone: bool,
    this: Process,
}

/// What has happened to CMD.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ChildEvent {
    /// Its first process has ended with this exit code. `is_last`: no other process that it started is left.
    Ended { code: u8, is_last: bool },
    /// The supervisor was killed, so that nobody can tell any more what becomes of CMD.
    SupervisorKilled,
}

impl Child {
    /// Starts CMD; or returns its exit code if that is impossible, which the user has been told.
    pub(super) fn start(
        supervisor: WaitingSupervisor,
        held: &mut GrantedLock,
    ) -> anyhow::Result<Result<Self, u8>> {
        let terminal = Terminal::open();
        let alone = terminal.is_some() && alone_in_group();
        let foreground = alone && terminal.as_ref().is_some_and(Terminal::is_ours);
        let slot = held.slot.map_or_else(String::new, |slot| slot.to_string());
        let keep_alive = held.request.take_keep_alive();
        let order =
            StartOrder { foreground, keep_alive: keep_alive.is_some(), fence: held.fence.to_string(), slot };
        let this = Process::this()?;
        let stdin = io::stdin();
        let descriptors: Vec<BorrowedFd<'_>> = std::iter::once(stdin.as_fd())
            .chain(keep_alive.as_ref().map(AsFd::as_fd))
            .chain(held.request.descriptors())
            .collect();
        supervisor.control.order(&order, &descriptors).context("cannot reach the supervisor of CMD")?;
        // Only CMD keeps the session by it, whatever becomes of this process from here on.
        drop(descriptors);
        drop(keep_alive);
        match supervisor.control.receive()? {
            Some(FromSupervisor::Started(cmd)) => {
                let group = Pid::from_raw(cmd).context("a process has a number")?;
                Ok(Ok(Child { supervisor, group, terminal, alone, this }))
            }
            Some(FromSupervisor::Ended { code, .. }) => Ok(Err(code)),
            Some(FromSupervisor::Stopped(_)) | None => {
                // As later, when CMD is known to run: it may have been started just now.
                tell("the supervisor of CMD was killed");
                Ok(Err(code_of_signal(Signal::KILL.as_raw())))
            }
        }
    }

    /// Returns the process group.
    pub(super) fn group(&self) -> i32 {
        self.group.as_raw_nonzero().get()
    }

    /// Returns the descriptor that is readable when something has happened to CMD; `None` once the supervisor has ended.
    pub(super) fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        self.supervisor.running.map(|_| self.supervisor.control.as_fd())
    }

    /// Returns whether the supervisor has told that CMD has ended, and [`look`](Child::look) would say so.
    pub(super) fn has_ended(&self) -> bool {
        self.supervisor.running.is_some() && self.supervisor.control.tells_the_end()
    }

    /// Passes a signal on to CMD's process group.
    pub(super) fn pass_on(&self, signal: Signal) {
        if signal == Signal::CONT {
            self.come_to_the_foreground();
        }
        // The group may be gone.
        let _ = kill_process_group(self.group, signal);
    }

    /// Asks all processes of CMD to end, including stopped ones.
    pub(super) fn ask_to_end(&self) {
        for signal in [Signal::TERM, Signal::CONT] {
            if let Some(supervisor) = self.supervisor.running {
                signal_descendants(supervisor, &[], signal);
            }
            signal_descendants(self.this, &self.supervisor.ours, signal);
        }
    }

    /// Kills all processes of CMD.
    pub(super) fn kill(&self) {
        if let Some(supervisor) = self.supervisor.running {
            kill_descendants(supervisor, &[]);
        }
        kill_descendants(self.this, &self.supervisor.ours);
    }

    /// Returns whether CMD has no processes any more.
    pub(super) fn is_gone(&self) -> bool {
        let mut orphans = children_of(self.this);
        orphans.retain(|child| !self.supervisor.ours.contains(child));
        self.supervisor.running.is_none() && orphans.is_empty()
    }

    /// Waits until the supervisor has ended, as it does when no process of CMD is left.
    pub(super) fn wait_for_end(&mut self) -> io::Result<()> {
        while self.supervisor.running.is_some() {
            self.look()?;
        }
        Ok(())
    }

    /// Reads what the supervisor tells. If CMD was stopped because it needs the terminal, it gets the terminal; otherwise the user has
    /// stopped it, and this process stops as well.
    pub(super) fn look(&mut self) -> io::Result<Option<ChildEvent>> {
        match self.supervisor.control.receive()? {
            Some(FromSupervisor::Started(_)) => Ok(None),
            Some(FromSupervisor::Stopped(signal)) => {
                self.on_stopped(signal);
                Ok(None)
            }
            Some(FromSupervisor::Ended { code, is_last }) => Ok(Some(ChildEvent::Ended { code, is_last })),
            None => {
                self.supervisor.running = None;
                let status = waitpid(Some(self.supervisor.pid), WaitOptions::empty())?;
                let killed = status.is_some_and(|(_, status)| status.exit_status() != Some(0));
                Ok(killed.then_some(ChildEvent::SupervisorKilled))
            }
        }
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
