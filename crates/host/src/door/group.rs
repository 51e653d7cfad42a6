//! What a node does about the process group that a client has put into its hands.

use std::time::Duration;

use meshlock_cluster::time::{Span, Time};
use meshlock_system::{Group, now};

/// How long before the lock can be someone else's the processes are killed at the latest.
const RESERVE: Span = Span::from_millis(100);

/// How often to look whether the last process of a group has ended: at first, and at most. Each look reads about all processes of
/// the machine, on the node's own thread.
const LOOK_AFTER: (Duration, Duration) = (Duration::from_millis(10), Duration::from_millis(250));

/// Waits until no process is left in the group. A program may have closed the connection that it inherited and still run.
pub(super) async fn until_gone(group: Group) {
    let mut pause = LOOK_AFTER.0;
    while !group.is_gone() {
        tokio::time::sleep(pause).await;
        pause = (pause * 3 / 2).min(LOOK_AFTER.1);
    }
}

/// Kills the group shortly before `act_by`. A client that is still there has asked its processes to stop before.
pub(super) fn kill_by(group: Group, act_by: Time, tasks: &tokio::runtime::Handle) {
    tasks.spawn(async move {
        let left = act_by.before(RESERVE).since(now());
        tokio::time::sleep(Duration::from_micros(left.micros())).await;
        group.kill();
    });
}
