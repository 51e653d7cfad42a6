//! The processes that run under a lock: all descendants of one process, the *supervisor*.
//!
//! The supervisor is a *child subreaper*: the kernel makes it the parent of every descendant whose own parent has ended. So whatever a
//! program does (a session or a process group of its own, forking twice, closing what it inherited), it stays below the supervisor as
//! long as that runs. If the supervisor has been killed, only the process group of the command is still known.

use std::io;

use rustix::io::Errno;
use rustix::process::{Pid, Signal, kill_process_group, test_kill_process, test_kill_process_group};

use crate::process::{Process, ProcessStat, all_processes};

/// How often one call goes through the tree to kill what was started meanwhile.
const MAX_ROUNDS: usize = 100;

/// Maximum number of processes that one pass looks at.
const MAX_PROCESSES: usize = 100_000;

/// A client that entrusts its processes to its node, as the kernel identifies it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct ProcessOwner {
    /// The client's own process, if the system says which it is.
    pub process: Option<i32>,
    pub user: u32,
}

/// The processes that a client has entrusted to its node, or to the process that keeps its session with a node on another machine.
#[derive(Clone, Copy, Debug)]
pub struct ProcessTree {
    supervisor: Process,
    /// The leader of the command's process group, which the client names once the command has been started.
    leader: Option<Process>,
    user: u32,
}

impl ProcessTree {
    /// Returns the tree below `supervisor`, if that is a child of the client itself, of its user and in its session of the system.
    pub fn below(supervisor: i32, client: ProcessOwner) -> io::Result<Self> {
        let user = client.user;
        let client = client.process.ok_or_else(|| refuse("the system does not say which process it is"))?;
        let found = Process::find(supervisor).filter(|_| supervisor > 1);
        let found = found.ok_or_else(|| refuse("there is no such process"))?;
        let stat = found.stat().ok_or_else(|| refuse("it has ended"))?;
        let is_child = stat.parent == client;
        let in_session = ProcessStat::of(client).is_some_and(|client| client.session == stat.session);
        if !is_child || !in_session || found.owner() != Some(user) {
            return Err(refuse("it is not a child of the client, of the client's user"));
        }
        if test_kill_process(found.pid()).is_err() {
            return Err(refuse("this process runs as another user and may not end it"));
        }
        Ok(ProcessTree { supervisor: found, leader: None, user })
    }

    /// Adds the process group of the command, whose leader must be in the tree: it is still known if the supervisor is killed.
    pub fn add_group(&mut self, group: i32) -> io::Result<()> {
        // A command that has already ended needs no group.
        let Some(leader) = Process::find(group).filter(|leader| leader.owner() == Some(self.user)) else {
            return Ok(());
        };
        let Some(mut stat) = leader.stat().filter(|stat| stat.group == group) else { return Ok(()) };
        for _ in 0..MAX_ROUNDS {
            if stat.parent == self.supervisor.id() && self.supervisor.stat().is_some() {
                self.leader = Some(leader);
                return Ok(());
            }
            match ProcessStat::of(stat.parent) {
                Some(above) => stat = above,
                None => break,
            }
        }
        Err(refuse("it is not below the process that the client named before"))
    }

    /// Returns the command's process group. It can outlive its leader, and its number is not given away before it is empty.
    fn group(&self) -> Option<Pid> {
        self.leader.and_then(Process::as_group)
    }

    /// Whether no process of the tree runs any more.
    pub fn is_gone(&self) -> bool {
        !self.supervisor.is_running() && self.group().is_none_or(|group| !is_group_running(group))
    }

    /// Kills all processes of the tree that belong to the client's user, the supervisor last. To be repeated until
    /// [`is_gone`](Self::is_gone): the kernel needs a moment to end a process, and one that is being started can be missed.
    pub fn kill(&self) {
        if let Some(group) = self.group() {
            let _ = kill_process_group(group, Signal::KILL);
        }
        let is_ours = |process: &Process| process.owner() == Some(self.user);
        if kill_below(self.supervisor, &[], is_ours) {
            self.supervisor.signal(Signal::KILL);
        }
    }
}

/// Sends a signal to all descendants of `process`, except those that are or are below one of `spared`. Returns whether there were any.
pub fn signal_descendants(process: Process, spared: &[Process], signal: Signal) -> bool {
    let below = descendants(process, spared);
    for process in &below {
        process.signal(signal);
    }
    !below.is_empty()
}

/// Hangs up descendants of `process` that are stopped and lets them go on, as the kernel does when nobody is left who could.
pub fn hang_up_stopped(process: Process) {
    for stopped in descendants(process, &[]) {
        if stopped.stat().is_some_and(|stat| stat.state == 'T') {
            stopped.signal(Signal::HUP);
            stopped.signal(Signal::CONT);
        }
    }
}

/// Kills all descendants of `process`, except those that are or are below one of `spared`, and returns whether none is left. To be
/// repeated until then: the kernel needs a moment to end a process, and one that is being started can be missed.
pub fn kill_descendants(process: Process, spared: &[Process]) -> bool {
    kill_below(process, spared, |_| true)
}

/// Kills those descendants that `may_kill` accepts, again and again until none is left or it has tried often enough. Returns whether none
/// is left. A pass can miss a process whose parent ends meanwhile, so that two of them in a row must find none.
fn kill_below(process: Process, spared: &[Process], may_kill: impl Fn(&Process) -> bool) -> bool {
    let mut was_empty = false;
    for _ in 0..MAX_ROUNDS {
        let below: Vec<_> = descendants(process, spared).into_iter().filter(&may_kill).collect();
        if below.is_empty() && was_empty {
            return true;
        }
        was_empty = below.is_empty();
        for process in &below {
            process.signal(Signal::KILL);
        }
        std::thread::yield_now();
    }
    false
}

/// Returns the processes that have been started by `process` or inherited from those, and that run.
pub fn children_of(process: Process) -> Vec<Process> {
    process.children()
}

fn descendants(process: Process, spared: &[Process]) -> Vec<Process> {
    let mut found = process.children();
    found.retain(|child| !spared.contains(child));
    let mut at = 0;
    while at < found.len() && found.len() < MAX_PROCESSES {
        let children = found[at].children();
        // A process may be seen twice if its parent ends meanwhile.
        found.extend(children.into_iter().filter(|child| !spared.contains(child)));
        at += 1;
    }
    found
}

/// Whether some process of the group has not ended. Zombies count as ended.
fn is_group_running(group: Pid) -> bool {
    // A process that has changed its user cannot be signalled from here, but it counts as running.
    test_kill_process_group(group) != Err(Errno::SRCH)
        && all_processes()
            .filter_map(ProcessStat::of)
            .any(|stat| stat.group == group.as_raw_nonzero().get() && stat.is_running())
}

fn refuse(why: &str) -> io::Error {
    let why = format!("these processes are not ended when the lock is lost: {why}");
    io::Error::new(io::ErrorKind::PermissionDenied, why)
}

#[cfg(test)]
mod tests {
    use std::io::{BufRead, BufReader};
    use std::os::unix::process::CommandExt;
    use std::process::{Child, Command, Stdio};

    use meshlock_testing::{BoundedChild, eventually};
    use rustix::process::{getpid, getuid};

    use super::*;

    fn this_client() -> ProcessOwner {
        ProcessOwner { process: Some(getpid().as_raw_nonzero().get()), user: getuid().as_raw() }
    }

    /// Starts a shell that prints the number of a process it has started, and waits. It leads a process group of its own: the leader of
    /// this process's group may have ended long ago.
    fn start(script: &str) -> (Child, i32) {
        let mut shell = Command::new("sh");
        shell.args(["-c", script]).process_group(0).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut shell = shell.spawn().unwrap();
        let mut line = String::new();
        BufReader::new(shell.stdout.take().unwrap()).read_line(&mut line).unwrap();
        (shell, line.trim().parse().unwrap())
    }

    #[test]
    fn a_whole_tree_is_killed_also_what_has_a_session_of_its_own() {
        let (mut shell, grandchild) = start("setsid sleep 600 >/dev/null & echo $!; read _");
        let supervisor = i32::try_from(shell.id()).unwrap();
        let tree = ProcessTree::below(supervisor, this_client()).unwrap();
        let grandchild = Process::find(grandchild).unwrap();
        assert!(!tree.is_gone());
        eventually("the tree is gone", || {
            tree.kill();
            tree.is_gone()
        });
        shell.wait_in_time();
        assert!(!grandchild.is_running());
    }

    #[test]
    fn a_zombie_is_not_running() {
        let mut child = Command::new("true").spawn().unwrap();
        let process = Process::find(i32::try_from(child.id()).unwrap()).unwrap();
        process.signal(Signal::KILL);
        // Its status is collected below, so it is a zombie as soon as it has ended.
        let tree = ProcessTree { supervisor: process, leader: None, user: getuid().as_raw() };
        eventually("the zombie counts as gone", || tree.is_gone());
        assert!(process.stat().is_some(), "it is still in the table of processes");
        child.wait_in_time();
    }

    #[test]
    fn processes_of_others_are_refused() {
        let (mut shell, grandchild) = start("sleep 600 >/dev/null & echo $!; read _");
        let shell_id = i32::try_from(shell.id()).unwrap();
        let refused = |process: i32, client: ProcessOwner| ProcessTree::below(process, client).is_err();
        assert!(refused(1, this_client()), "the system's first process");
        assert!(refused(grandchild, this_client()), "not a child of the client itself");
        assert!(refused(getpid().as_raw_nonzero().get(), this_client()), "the client itself");
        assert!(refused(shell_id, ProcessOwner { user: 4321, ..this_client() }), "another user's");
        assert!(refused(shell_id, ProcessOwner { process: None, ..this_client() }));
        let (mut other, _) = start("setsid sh -c 'echo 1; read _' & wait");
        let mut tree = ProcessTree::below(shell_id, this_client()).unwrap();
        let elsewhere = i32::try_from(other.id()).unwrap();
        assert!(tree.add_group(ProcessStat::of(elsewhere).unwrap().group).is_err(), "outside of the tree");
        eventually("the shells have no children", || {
            [shell_id, elsewhere].map(|shell| kill_descendants(Process::find(shell).unwrap(), &[]))
                == [true; 2]
        });
        for process in [&mut shell, &mut other] {
            process.kill().unwrap();
            process.wait_in_time();
        }
    }
}
