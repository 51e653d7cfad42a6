//! Watches and kills the process group that a client has entrusted to its node.

use std::time::Duration;

use meshlock_cluster::time::{Span, Time};
use meshlock_system::{ProcessGroup, now};

/// The processes are killed this long before another client can have the lock.
const RESERVE: Span = Span::from_millis(100);

/// Interval for checking whether the last process of a group has ended: the first one, and the longest. Each check reads the status of all
/// processes of the machine, on the node's own thread.
const LOOK_AFTER: (Duration, Duration) = (Duration::from_millis(10), Duration::from_millis(250));

/// Waits until no process is left in the group. A program may have closed the connection that it inherited and still be running.
pub(super) async fn until_gone(group: ProcessGroup) {
    let mut pause = LOOK_AFTER.0;
    while !group.is_gone() {
        tokio::time::sleep(pause).await;
        pause = (pause * 3 / 2).min(LOOK_AFTER.1);
    }
}

/// Kills the group shortly before `act_by`. A client that still runs has asked its processes to stop before that.
pub(super) fn kill_by(group: ProcessGroup, act_by: Time, tasks: &tokio::runtime::Handle) {
    tasks.spawn(async move {
        let left = act_by.before(RESERVE).since(now());
        tokio::time::sleep(Duration::from_micros(left.micros())).await;
        group.kill();
    });
}
