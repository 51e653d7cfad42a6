//! The counter that clients increment under a lock, which checks that the lock excludes.

use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, AtomicUsize, Ordering};

use anyhow::bail;
use tokio::sync::Notify;

/// A counter that loses an update whenever two clients are inside at once.
pub(super) struct Guarded {
    entries: AtomicU64,
    inside: AtomicBool,
    overlaps: AtomicU64,
    /// The number of the client that entered last.
    last: AtomicUsize,
    /// Number of entries by the client that had also entered before.
    repeats: AtomicU64,
    fence: AtomicI64,
    /// Number of fences that were not larger than the one before.
    stale: AtomicU64,
    entered: Notify,
}

/// An entry that has not ended.
#[must_use]
pub(super) struct OpenEntry {
    /// The number of entries before it.
    before: u64,
}

impl Default for Guarded {
    fn default() -> Self {
        Guarded {
            entries: AtomicU64::new(0),
            inside: AtomicBool::new(false),
            overlaps: AtomicU64::new(0),
            last: AtomicUsize::new(usize::MAX),
            repeats: AtomicU64::new(0),
            fence: AtomicI64::new(i64::MIN),
            stale: AtomicU64::new(0),
            entered: Notify::new(),
        }
    }
}

impl Guarded {
    /// Counts one entry: reads, then writes, as users of a lock do.
    pub(super) fn count(&self, client: usize, fence: Option<i64>) {
        self.exit(self.enter(client, fence));
    }

    /// Begins an entry. What it returns has to be given to [`exit`](Self::exit) before the lock is released.
    pub(super) fn enter(&self, client: usize, fence: Option<i64>) -> OpenEntry {
        if self.inside.swap(true, Ordering::AcqRel) {
            self.overlaps.fetch_add(1, Ordering::Relaxed);
        }
        let before = self.entries.load(Ordering::Relaxed);
        if self.last.swap(client, Ordering::Relaxed) == client {
            self.repeats.fetch_add(1, Ordering::Relaxed);
        }
        if let Some(fence) = fence
            && self.fence.swap(fence, Ordering::Relaxed) >= fence
        {
            self.stale.fetch_add(1, Ordering::Relaxed);
        }
        OpenEntry { before }
    }

    /// Ends an entry.
    pub(super) fn exit(&self, OpenEntry { before }: OpenEntry) {
        self.entries.store(before + 1, Ordering::Relaxed);
        self.entered.notify_waiters();
        self.inside.store(false, Ordering::Release);
    }

    /// Returns the number of entries.
    pub(super) fn entries(&self) -> u64 {
        self.entries.load(Ordering::Acquire)
    }

    /// Waits until there are at least this many entries.
    pub(super) async fn until_entries(&self, count: u64) {
        loop {
            let entered = self.entered.notified();
            if self.entries() >= count {
                return;
            }
            entered.await;
        }
    }

    /// Waits until another client than this one has entered last, or the run is over.
    pub(super) async fn until_another_entered(&self, client: usize, done: &AtomicBool) {
        // Mostly the next client is ready to run.
        for _ in 0..2 {
            if self.last.load(Ordering::Relaxed) != client {
                return;
            }
            tokio::task::yield_now().await;
        }
        loop {
            let entered = self.entered.notified();
            if self.last.load(Ordering::Relaxed) != client || done.load(Ordering::Relaxed) {
                return;
            }
            entered.await;
        }
    }

    /// Wakes the clients that wait for another one to enter: a client has left for good, perhaps the last one.
    pub(super) fn leave(&self) {
        self.entered.notify_waiters();
    }

    /// Checks that no update was lost, that no two clients were inside at once, and that fences only grew. In a contended run it also
    /// checks that the lock went from client to client: each of the `contenders` may follow itself only once at the start and once at
    /// the end, when not all of them take part.
    pub(super) fn judge(&self, expected: u64, contenders: Option<u64>) -> anyhow::Result<()> {
        let load = |counter: &AtomicU64| counter.load(Ordering::Acquire);
        let (entries, overlaps, stale) = (load(&self.entries), load(&self.overlaps), load(&self.stale));
        if entries != expected {
            bail!("the counter has {entries} of {expected} entries: updates were lost");
        }
        if overlaps > 0 {
            bail!("two clients were inside at once, {overlaps} times");
        }
        if stale > 0 {
            bail!("{stale} grants had a fence that was not larger than the one before");
        }
        let repeats = load(&self.repeats);
        if contenders.is_some_and(|contenders| repeats > 2 * contenders) {
            bail!(
                "{repeats} of {entries} entries were by the client that had just left: the run was not contended"
            );
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lost_update_a_stale_fence_and_a_lone_runner_are_found() {
        let good = Guarded::default();
        for (client, fence) in [(0, 1), (1, 2), (0, 5)] {
            good.count(client, Some(fence));
        }
        assert!(good.judge(3, Some(0)).is_ok());
        assert!(good.judge(4, None).is_err(), "one update too few");
        good.count(1, Some(5));
        assert!(good.judge(4, None).is_err(), "the same fence twice");
        let alone = Guarded::default();
        for _ in 0..100 {
            alone.count(0, None);
        }
        assert!(alone.judge(100, None).is_ok());
        assert!(alone.judge(100, Some(2)).is_err(), "always the same client");
    }

    #[test]
    fn two_inside_at_once_are_found() {
        let guarded = Guarded::default();
        let (one, other) = (guarded.enter(0, None), guarded.enter(1, None));
        guarded.exit(one);
        guarded.exit(other);
        assert!(guarded.judge(2, None).unwrap_err().to_string().contains("updates were lost"));
        assert!(guarded.judge(1, None).unwrap_err().to_string().contains("at once"));
    }
}
