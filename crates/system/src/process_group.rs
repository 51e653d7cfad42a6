//! Kills a client's processes before a lock that they have lost can be granted to another client, in case the client itself has gone.

use std::io;
use std::os::unix::fs::MetadataExt;

use rustix::io::Errno;
use rustix::process::{Pid, Signal, kill_process_group, test_kill_process_group};

/// A process group that a client has entrusted to its node, or to the process that keeps its session with a node on another machine.
#[derive(Clone, Copy, Debug)]
pub struct ProcessGroup {
    group: Pid,
    owner: u32,
}

impl ProcessGroup {
    /// Returns the group, if its leader belongs to the client's own user.
    pub fn of(group: i32, owner: Option<u32>) -> io::Result<Self> {
        let refuse = |why| io::Error::new(io::ErrorKind::PermissionDenied, why);
        let owner = owner.ok_or_else(|| refuse("the system does not say who the client is"))?;
        let pid = Pid::from_raw(group).filter(|_| group > 1);
        let group = ProcessGroup { group: pid.ok_or_else(|| refuse("not a process group"))?, owner };
        if group.is_the_clients() {
            Ok(group)
        } else {
            Err(refuse("not a process group of the client's user"))
        }
    }

    fn is_the_clients(self) -> bool {
        let leader = std::fs::metadata(format!("/proc/{}", self.group.as_raw_nonzero()));
        // A group can outlive its leader, and its number is not reused before the group is empty.
        leader.map_or(true, |leader| leader.uid() == self.owner)
            && test_kill_process_group(self.group).is_ok()
    }

    /// Whether no process of the group runs any more.
    pub fn is_gone(self) -> bool {
        // A process that has changed its user cannot be killed from here, but it counts as running.
        test_kill_process_group(self.group) == Err(Errno::SRCH) || !self.has_running_process()
    }

    /// Kills all processes of the group, if it still belongs to the client's user.
    pub fn kill(self) {
        if self.is_the_clients() {
            tracing::warn!(group = %self.group.as_raw_nonzero(), "ending processes whose lock is lost");
            let _ = kill_process_group(self.group, Signal::KILL);
        }
    }

    /// Whether some process of the group has not ended. Zombies, whose parent has not collected their status, count as ended.
    fn has_running_process(self) -> bool {
        let Ok(processes) = std::fs::read_dir("/proc") else { return true };
        let stats =
            processes.filter_map(|entry| std::fs::read_to_string(entry.ok()?.path().join("stat")).ok());
        let group = self.group.as_raw_nonzero().to_string();
        stats.into_iter().any(|stat| runs_in(&stat, &group))
    }
}

/// Whether a line of `/proc/PID/stat` belongs to a process of this group that has not ended. The program's name, in brackets, may
/// contain anything.
fn runs_in(stat: &str, group: &str) -> bool {
    let Some((_, rest)) = stat.rsplit_once(") ") else { return false };
    let mut words = rest.split_ascii_whitespace();
    let (state, its_group) = (words.next(), words.nth(1));
    its_group == Some(group) && !matches!(state, Some("Z" | "X"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_that_has_ended_does_not_run_whatever_it_is_called() {
        assert!(runs_in("12 (sh) S 7 12 12 0", "12"));
        assert!(!runs_in("12 (sh) Z 7 12 12 0", "12"));
        assert!(!runs_in("12 (a) Z 12 12) S 7 13 13 0", "12"));
        assert!(!runs_in("", "12"));
    }
}
