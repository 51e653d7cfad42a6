//! Watches and kills the processes that a client has entrusted to its node.

use std::time::Duration;

use meshlock_cluster::time::{Span, Time};
use meshlock_system::{ProcessTree, now};

/// The processes are killed this long before another client can have the lock.
const RESERVE: Span = Span::from_millis(100);

/// Interval for checking whether the last process has ended: the first one, and the longest.
const LOOK_AFTER: (Duration, Duration) = (Duration::from_millis(5), Duration::from_millis(250));

/// How often processes that do not end are killed again, and how long after each other.
const MAX_KILLS: usize = 1000;
const KILL_EVERY: Duration = Duration::from_millis(5);

/// Waits until no process of the tree is left. A program may have closed what it inherited and still be running.
pub(super) async fn until_gone(tree: ProcessTree) {
    let mut pause = LOOK_AFTER.0;
    while !tree.is_gone() {
        tokio::time::sleep(pause).await;
        pause = (pause * 3 / 2).min(LOOK_AFTER.1);
    }
}

/// Kills the processes shortly before `act_by`. A client that still runs has asked them to stop before that.
pub(super) fn kill_by(tree: ProcessTree, act_by: Time, tasks: &tokio::runtime::Handle) {
    tasks.spawn(async move {
        let left = act_by.before(RESERVE).since(now());
        tokio::time::sleep(Duration::from_micros(left.micros())).await;
        if !tree.is_gone() {
            tracing::warn!("ending processes whose lock is lost");
        }
        for _ in 0..MAX_KILLS {
            if tree.is_gone() {
                return;
            }
            tree.kill();
            tokio::time::sleep(KILL_EVERY).await;
        }
    });
}
