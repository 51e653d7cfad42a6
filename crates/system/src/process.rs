//! One process of this machine, as `/proc` shows it.

use std::fs::{self, File};
use std::io::{self, Read};

use rustix::process::{Pid, PidfdFlags, Signal, getpid, getppid, pidfd_open, pidfd_send_signal};

/// Maximum length of `/proc/PID/stat`: 52 numbers, and a name of 16 characters.
const MAX_STAT_BYTES: usize = 2048;

/// A process. Its number may be given to another process when it has ended; together with the time of its start it is unique.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Process {
    pid: Pid,
    started: u64,
}

/// What `/proc/PID/stat` says of a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ProcessStat {
    pub(crate) state: char,
    pub(crate) parent: i32,
    pub(crate) group: i32,
    pub(crate) session: i32,
    started: u64,
}

impl Process {
    /// Returns the process with this number; `None` if there is none.
    pub fn find(pid: i32) -> Option<Self> {
        let started = ProcessStat::of(pid)?.started;
        Some(Process { pid: Pid::from_raw(pid)?, started })
    }

    /// Returns the calling process.
    pub fn this() -> io::Result<Self> {
        let pid = getpid().as_raw_nonzero().get();
        Process::find(pid).ok_or_else(|| io::Error::other("/proc does not show this process; mount it"))
    }

    pub(crate) fn pid(self) -> Pid {
        self.pid
    }

    /// Returns the number of the process.
    pub fn id(self) -> i32 {
        self.pid.as_raw_nonzero().get()
    }

    /// Whether the process has not ended. One that has ended and whose parent has not collected its status (a zombie) does not run.
    pub fn is_running(self) -> bool {
        self.stat().is_some_and(ProcessStat::is_running)
    }

    /// Whether the process was stopped by a signal or a debugger.
    pub fn is_stopped(self) -> bool {
        self.stat().is_some_and(|stat| matches!(stat.state, 'T' | 't'))
    }

    /// Returns the process group that this process leads or has led, with that number; `None` if the number has been given away since.
    pub(crate) fn as_group(self) -> Option<Pid> {
        ProcessStat::of(self.id()).is_none_or(|stat| stat.started == self.started).then_some(self.pid)
    }

    pub(crate) fn stat(self) -> Option<ProcessStat> {
        ProcessStat::of(self.id()).filter(|stat| stat.started == self.started)
    }

    /// Returns the user who started the process, and who may send it signals.
    pub(crate) fn owner(self) -> Option<u32> {
        let status = fs::read_to_string(format!("/proc/{}/status", self.id())).ok()?;
        let users = status.lines().find_map(|line| line.strip_prefix("Uid:"))?;
        users.split_ascii_whitespace().next()?.parse().ok()
    }

    /// Sends a signal to this process, and to no other that was given its number meanwhile.
    pub(crate) fn signal(self, signal: Signal) {
        let Ok(descriptor) = pidfd_open(self.pid, PidfdFlags::empty()) else { return };
        if self.stat().is_some() {
            // It may have ended, or belong to another user.
            let _ = pidfd_send_signal(&descriptor, signal);
        }
    }

    /// Returns the processes that this one has started or inherited, and that have not ended.
    pub(crate) fn children(self) -> Vec<Process> {
        let Ok(threads) = fs::read_dir(format!("/proc/{}/task", self.id())) else { return Vec::new() };
        let mut found: Vec<i32> = Vec::new();
        for thread in threads.flatten() {
            let Ok(children) = fs::read_to_string(thread.path().join("children")) else {
                // A kernel without these files, or the thread has just ended.
                return self.children_among_all();
            };
            found.extend(children.split_ascii_whitespace().filter_map(|pid| pid.parse::<i32>().ok()));
        }
        self.running_children(found.into_iter())
    }

    fn children_among_all(self) -> Vec<Process> {
        self.running_children(all_processes())
    }

    fn running_children(self, numbers: impl Iterator<Item = i32>) -> Vec<Process> {
        let is_child = |stat: &ProcessStat| stat.parent == self.id() && stat.is_running();
        let child = |pid: i32| {
            let stat = ProcessStat::of(pid).filter(is_child)?;
            Some(Process { pid: Pid::from_raw(pid)?, started: stat.started })
        };
        numbers.filter_map(child).collect()
    }
}

impl ProcessStat {
    pub(crate) fn of(pid: i32) -> Option<Self> {
        // One read: the kernel gives the whole line, which is shorter.
        let mut line = [0; MAX_STAT_BYTES];
        let count = File::open(format!("/proc/{pid}/stat")).ok()?.read(&mut line).ok()?;
        ProcessStat::parse(&String::from_utf8_lossy(&line[..count]))
    }

    /// Parses a line of `/proc/PID/stat`, in which the program's name, in brackets, can contain anything.
    fn parse(line: &str) -> Option<Self> {
        let (_, rest) = line.rsplit_once(") ")?;
        let words: Vec<&str> = rest.split_ascii_whitespace().collect();
        let number = |at: usize| words.get(at)?.parse().ok();
        Some(ProcessStat {
            state: words.first()?.chars().next()?,
            parent: number(1)?,
            group: number(2)?,
            session: number(3)?,
            started: words.get(19)?.parse().ok()?,
        })
    }

    pub(crate) fn is_running(self) -> bool {
        !matches!(self.state, 'Z' | 'X')
    }
}

/// Returns the numbers of the processes above this one: its parent first.
pub fn ancestors() -> impl Iterator<Item = i32> {
    let parent = getppid().map(|parent| parent.as_raw_nonzero().get());
    std::iter::successors(parent, |process| {
        ProcessStat::of(*process).map(|stat| stat.parent).filter(|parent| *parent > 0)
    })
}

/// Returns the numbers of all processes that this one can see.
pub(crate) fn all_processes() -> impl Iterator<Item = i32> {
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok())
}

#[cfg(test)]
mod tests {
    use std::process::{Command, Stdio};

    use meshlock_testing::BoundedChild;

    use super::*;

    #[test]
    fn a_process_is_read_whatever_it_is_called() {
        let rest = "7 12 11 34816 12 0 0 0 0 0 0 0 0 0 20 0 1 0 987 0";
        let found = ProcessStat { state: 'S', parent: 7, group: 12, session: 11, started: 987 };
        assert_eq!(ProcessStat::parse(&format!("12 (sh) S {rest}")), Some(found));
        assert_eq!(ProcessStat::parse(&format!("12 (a) Z 1 2 3) S {rest}")), Some(found));
        let ended = ProcessStat::parse(&format!("12 (sh) Z {rest}")).unwrap();
        assert!(found.is_running() && !ended.is_running());
        assert_eq!(ProcessStat::parse("12 (sh) S"), None);
    }

    #[test]
    fn children_are_found_until_they_have_ended() {
        let mut child = Command::new("cat").stdin(Stdio::piped()).stdout(Stdio::null()).spawn().unwrap();
        let process = Process::find(i32::try_from(child.id()).unwrap()).unwrap();
        let this = Process::this().unwrap();
        assert!(this.children().contains(&process) && this.children_among_all().contains(&process));
        assert!(process.is_running());
        process.signal(Signal::KILL);
        child.wait_in_time();
        assert!(!process.is_running() && !this.children().contains(&process));
    }
}
