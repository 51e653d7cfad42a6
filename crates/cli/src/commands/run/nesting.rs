//! Refuses a command that would wait for itself: `meshlock run x -- … meshlock run x -- …`.
//!
//! Everything that runs under a lock is below its [supervisor](super::supervisor), whose arguments say which lock of which node that is.
//! So it is enough to look at the processes above this one. Nothing is asked of the node, and nothing of the environment is trusted.

use std::fs;

use meshlock_cluster::names::LockName;
use meshlock_system::ancestors;

use super::supervisor;
use crate::output::UsageError;

/// Maximum number of processes above this one that are looked at.
const MAX_DEPTH: usize = 1000;

/// Refuses a request for a lock that processes above this one hold, unless it has more permits than they have taken.
pub(super) fn refuse_own_lock(node: &str, lock: &LockName, permits: Option<u32>) -> Result<(), UsageError> {
    let permits = permits.unwrap_or(1) as usize;
    let held = ancestors().take(MAX_DEPTH).filter(|process| holds(*process, node, lock)).count();
    if held < permits {
        return Ok(());
    }
    Err(UsageError::new(if permits == 1 {
        format!(
            "this command already runs under the lock '{lock}' and would wait for itself; leave out the inner `meshlock run`, or give it \
             another lock"
        )
    } else {
        format!(
            "this command already has all {permits} permits of '{lock}' and would wait for itself; give it another lock"
        )
    }))
}

/// Whether a process is the supervisor of a command under this lock.
fn holds(process: i32, node: &str, lock: &LockName) -> bool {
    let line = fs::read(format!("/proc/{process}/cmdline")).unwrap_or_default();
    let mut words = line.split(|byte| *byte == 0).skip(1);
    let wanted = [supervisor::NAME, node, lock.as_str()];
    wanted.iter().all(|word| words.next() == Some(word.as_bytes()))
}
