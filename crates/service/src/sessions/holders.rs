//! Watches on the holders of a lock. All watchers of the same lock share one poll of the cluster.
//!
//! The node does not report holders at other sites by itself. So the cluster is asked every [`POLL_INTERVAL`], and at
//! once when something changes at this site, while somebody watches the lock.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use meshlock_cluster::access::{Denied, Principal, Verb};
use meshlock_cluster::names::{ClientLabel, LockName, SiteName};
use meshlock_cluster::node::{LockQueue, SiteQueue};
use meshlock_cluster::table::HolderReport;
use meshlock_host::front::{Admitted, QueueReader};
use meshlock_host::gate::{TooMany, WatchUse};
use tokio::sync::{Notify, watch};
use tokio::time::{Instant, sleep, sleep_until, timeout};

use super::Sessions;

/// How often the cluster is asked about a watched lock.
const POLL_INTERVAL: Duration = Duration::from_millis(500);

/// The shortest time between two such questions.
const MIN_POLL_INTERVAL: Duration = Duration::from_millis(20);

/// A client that holds a lock, at any site.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Holder {
    pub(crate) site: SiteName,
    pub(crate) label: Option<ClientLabel>,
    pub(crate) fence: i64,
    pub(crate) slot: Option<u32>,
    /// The client was told that it has lost the lock.
    pub(crate) lost: bool,
    /// How many may hold the lock at once, as the cluster says. This site need not have heard of a semaphore that others use.
    pub(crate) permits: u32,
}

/// The holders of a lock in the order of their fences; `None` before the cluster has answered for the first time.
pub(crate) type HolderSnapshot = Option<Arc<[Holder]>>;

/// All locks that are watched at this site.
#[derive(Default)]
pub(crate) struct WatchedLocks(Mutex<BTreeMap<LockName, WatchedLock>>);

/// A lock that somebody watches.
struct WatchedLock {
    seen: watch::Sender<HolderSnapshot>,
    rounds: Arc<Rounds>,
    /// The principal that watched it first; the watch counts towards its limit.
    by: Principal,
}

/// The polls of a lock, by number.
struct Rounds {
    /// The last one that was begun.
    begun: AtomicU64,
    /// The last one whose result is known.
    done: watch::Sender<u64>,
    /// Asks for the next one at once.
    hurry: Notify,
}

/// Why a lock cannot be watched.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum WatchError {
    #[error(transparent)]
    Denied(#[from] Denied),
    #[error("{0} locks are watched at this site already; watch fewer, or ask another site")]
    TooMany(usize),
    #[error("'{of}' watches {max} locks, the limit for one client at this site; watch fewer")]
    TooManyOf { of: Principal, max: usize },
    #[error(transparent)]
    Limit(#[from] TooMany),
}

/// One watch on the holders of a lock.
pub(crate) struct HolderWatch {
    seen: watch::Receiver<HolderSnapshot>,
    rounds: Arc<Rounds>,
    #[expect(dead_code, reason = "the watch counts until this is dropped")]
    counted: Option<WatchUse>,
}

impl HolderWatch {
    /// Returns the current holders, as the cluster answers a question that is asked from now on: others may watch the lock already, and
    /// what they were told last may be half a second old.
    pub(crate) async fn first(&mut self) -> Arc<[Holder]> {
        let next = self.rounds.begun.load(Ordering::SeqCst) + 1;
        self.rounds.hurry.notify_one();
        let _ = self.rounds.done.subscribe().wait_for(|done| *done >= next).await;
        self.seen.borrow_and_update().clone().unwrap_or_default()
    }

    /// Waits for the next change and returns the holders. A slow reader misses intermediate states. Returns `None`
    /// when the watch has ended.
    pub(crate) async fn next(&mut self) -> Option<Arc<[Holder]>> {
        self.seen.changed().await.ok()?;
        self.seen.borrow_and_update().clone()
    }
}

/// Returns all holders in a queue in the order of their fences.
pub(crate) fn holders_in(queue: &LockQueue) -> Vec<Holder> {
    let permits = queue.permits;
    let of_site = |queue: &SiteQueue| {
        let site = queue.site.clone();
        let holder = move |report: &HolderReport| Holder {
            site: site.clone(),
            label: report.label.clone(),
            fence: report.fence.value(),
            slot: report.slot,
            lost: report.lost,
            permits,
        };
        queue.lock.holders.iter().map(holder).collect::<Vec<_>>()
    };
    let mut holders: Vec<Holder> = queue.sites.iter().flat_map(of_site).collect();
    holders.sort_by_key(|holder| holder.fence);
    holders
}

impl Sessions {
    /// Watches a lock for a caller that has the right to; fails if too many other locks are watched. `verb` says what
    /// for: a client that may acquire the lock may watch its own key, even if it may see nothing else of the lock.
    pub(crate) fn watch(
        &self,
        caller: &Admitted,
        verb: Verb,
        lock: &LockName,
    ) -> Result<HolderWatch, WatchError> {
        let reader = self.front().queue_reader(caller, verb, lock)?;
        let counted = self.front().count_watch(caller)?;
        let mut watched = self.0.watched.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(watch) = watched.get(lock) {
            return Ok(HolderWatch { seen: watch.seen.subscribe(), rounds: watch.rounds.clone(), counted });
        }
        let limits = self.0.limits;
        if watched.len() >= limits.watched_locks {
            return Err(WatchError::TooMany(limits.watched_locks));
        }
        let (of, max) = (&caller.principal, limits.each.watched_locks);
        if watched.values().filter(|watch| watch.by == *of).count() >= max {
            return Err(WatchError::TooManyOf { of: of.clone(), max });
        }
        let (seen, receiver) = watch::channel(None);
        let rounds =
            Arc::new(Rounds { begun: AtomicU64::new(0), done: watch::Sender::new(0), hurry: Notify::new() });
        watched.insert(lock.clone(), WatchedLock { seen, rounds: rounds.clone(), by: of.clone() });
        drop(watched);
        tokio::spawn(poll_holders(self.clone(), reader, rounds.clone()));
        Ok(HolderWatch { seen: receiver, rounds, counted })
    }

    /// Publishes the holders to all watchers. Returns whether there are any watchers left.
    fn publish(&self, lock: &LockName, seen: Option<Vec<Holder>>) -> bool {
        let mut watched = self.0.watched.0.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(WatchedLock { seen: sender, .. }) = watched.get(lock) else { return false };
        if sender.receiver_count() == 0 {
            watched.remove(lock);
            return false;
        }
        if let Some(seen) = seen {
            sender.send_if_modified(|before| {
                let changes = before.as_deref() != Some(&seen);
                if changes {
                    *before = Some(seen.into());
                }
                changes
            });
        }
        true
    }
}

async fn poll_holders(sessions: Sessions, reader: QueueReader, rounds: Arc<Rounds>) {
    let mut changes = sessions.0.changes.subscribe();
    loop {
        let looked = Instant::now();
        changes.mark_unchanged();
        // Unless all sites have answered, keep the previous state: the holder may be at a site that did not answer.
        let round = rounds.begun.fetch_add(1, Ordering::SeqCst) + 1;
        let queue = reader.read().await;
        let seen = queue.ok().filter(|queue| queue.missing.is_empty()).map(|queue| holders_in(&queue));
        let is_known = seen.is_some();
        if !sessions.publish(reader.lock(), seen) {
            return;
        }
        if is_known {
            rounds.done.send_replace(round);
        }
        tokio::select! {
            changed = timeout(POLL_INTERVAL, changes.changed()) => {
                if changed.is_ok_and(|changed| changed.is_err()) {
                    sleep(POLL_INTERVAL).await;
                }
            }
            () = rounds.hurry.notified() => {}
        }
        // `changes` covers all locks of this site: a busy one must not make this site ask all others without a pause.
        sleep_until(looked + MIN_POLL_INTERVAL).await;
    }
}
