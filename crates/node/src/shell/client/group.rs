//! Ends a client's processes before a lock that they lost can be someone else's, should the client itself be gone.

use std::io;
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process_group, test_kill_process_group};
use std::os::unix::fs::MetadataExt;

use super::super::clock::now;
use crate::time::{Span, Time};

/// How long before the lock can be someone else's the processes are ended at the latest.
const RESERVE: Span = Span::from_millis(100);

/// A process group that a client has put into the node's hands.
#[derive(Clone, Copy, Debug)]
pub(super) struct Group {
    group: Pid,
    owner: u32,
}

impl Group {
    /// The group, if its leader belongs to the client's own user.
    pub(super) fn of(group: i32, owner: Option<u32>) -> io::Result<Self> {
        let refuse = |why| io::Error::new(io::ErrorKind::PermissionDenied, why);
        let owner = owner.ok_or_else(|| refuse("the system does not say who the client is"))?;
        let pid = Pid::from_raw(group).filter(|_| group > 1);
        let group = Group { group: pid.ok_or_else(|| refuse("not a process group"))?, owner };
        if group.is_the_clients() {
            Ok(group)
        } else {
            Err(refuse("not a process group of the client's user"))
        }
    }

    fn is_the_clients(self) -> bool {
        let leader = std::fs::metadata(format!("/proc/{}", self.group.as_raw_nonzero()));
        // A group outlives its leader, and its number is not given away before the group is empty.
        leader.map_or(true, |leader| leader.uid() == self.owner)
            && test_kill_process_group(self.group).is_ok()
    }

    /// Ends the group shortly before `act_by`. A client that is still there has asked it to stop before.
    pub(super) fn end_by(self, act_by: Time, tasks: &tokio::runtime::Handle) {
        tasks.spawn(async move {
            let left = act_by.before(RESERVE).since(now());
            tokio::time::sleep(Duration::from_micros(left.micros())).await;
            if self.is_the_clients() {
                tracing::warn!(group = %self.group.as_raw_nonzero(), "ending processes whose lock is lost");
                let _ = kill_process_group(self.group, Signal::KILL);
            }
        });
    }
}
