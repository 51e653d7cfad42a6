//! Busy polling: while inputs follow each other closely, the node's thread looks for the next one instead of sleeping.
//!
//! A core that sleeps takes tens of microseconds to wake up, which is most of what handing a lock over costs. A lock that many wait for
//! gives its site an input every few tens of microseconds, and each would find the thread asleep. So once two inputs came within
//! [`CLOSE`], the thread stays awake until none has come for a [`WINDOW`]. Between two looks it lets every other thread run that is
//! ready to, so it takes only time that the core would have slept. Inputs that are further apart, as on a site that is not busy, cost
//! nothing. Where clients keep all cores busy it takes time from them, so it is off unless somebody has measured that it helps.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use meshlock_cluster::time::{Span, Time};
use meshlock_system::now;
use tokio::sync::Notify;

/// How long the thread looks for another input. About what it takes to wake a sleeping core twice: where the next input comes later, it
/// is not worth the wait. (`meshlock-bench --only contended,handover` shows what it gains.)
const WINDOW: Span = Span::from_micros(50);

/// Inputs that are no further apart make the thread stay awake: about what a hand-over takes while threads sleep in between, and more.
const CLOSE: Span = Span::from_micros(500);

/// When inputs came, and whether the thread stays awake for more of them.
pub(super) struct BusyPoll {
    enabled: bool,
    /// When the last input came, in microseconds.
    last: AtomicU64,
    /// Whether the thread may sleep. Nothing depends on the order of these atomics: the worst that a stale value does is one sleep.
    rests: AtomicBool,
    wake: Notify,
}

impl BusyPoll {
    pub(super) fn new(enabled: bool) -> Self {
        BusyPoll { enabled, last: AtomicU64::new(0), rests: AtomicBool::new(true), wake: Notify::new() }
    }

    /// Reacts to an input that came from a socket at this time.
    pub(super) fn on_input(&self, at: Time) {
        if self.enabled && self.is_close(at) && self.rests.swap(false, Ordering::Relaxed) {
            self.wake.notify_one();
        }
    }

    /// Returns whether the last input came shortly before this one, which becomes the last.
    fn is_close(&self, at: Time) -> bool {
        let last = Time::from_micros(self.last.swap(at.micros(), Ordering::Relaxed));
        at.since(last) <= CLOSE
    }

    /// Returns whether it is too early to sleep.
    fn is_awake(&self, at: Time) -> bool {
        at.since(Time::from_micros(self.last.load(Ordering::Relaxed))) <= WINDOW
    }

    /// Keeps the thread that runs this awake whenever inputs follow each other closely. Each turn of its runtime looks at all sockets.
    pub(super) async fn keep_polling(&self) {
        loop {
            self.wake.notified().await;
            while self.is_awake(now()) {
                std::thread::yield_now();
                tokio::task::yield_now().await;
            }
            self.rests.store(true, Ordering::Relaxed);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns which of these inputs wake the task that keeps the thread awake, if it rests before each.
    fn wakes(enabled: bool, inputs: &[u64]) -> Vec<bool> {
        let polling = BusyPoll::new(enabled);
        let wakes = |at: &u64| {
            polling.rests.store(true, Ordering::Relaxed);
            polling.on_input(Time::from_micros(*at));
            !polling.rests.load(Ordering::Relaxed)
        };
        inputs.iter().map(wakes).collect()
    }

    #[test]
    fn only_inputs_that_follow_each_other_closely_keep_the_thread_awake() {
        assert_eq!(wakes(true, &[1000, 1500, 2001, 2501, 9000]), [false, true, false, true, false]);
    }

    #[test]
    fn nothing_keeps_the_thread_awake_where_busy_polling_is_off() {
        assert_eq!(wakes(false, &[1000, 1001, 1002]), [false, false, false]);
    }

    #[test]
    fn the_thread_stays_awake_for_one_window_after_the_last_input() {
        let polling = BusyPoll::new(true);
        polling.on_input(Time::from_micros(1000));
        assert!(polling.is_awake(Time::from_micros(1050)));
        assert!(!polling.is_awake(Time::from_micros(1051)));
    }
}
