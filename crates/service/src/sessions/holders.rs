//! Who holds a lock, as a stream of changes. Whoever watches the same lock shares one look at the cluster.
//!
//! The node does not tell holders of other sites by itself, so the cluster is asked, as often as [`LOOK_EVERY`] and at once when
//! something changes here; only while somebody watches.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use meshlock_cluster::access::{Denied, Principal, Verb};
use meshlock_cluster::names::{ClientLabel, LockName, SiteName};
use meshlock_cluster::node::{LockQueue, SiteQueue};
use meshlock_cluster::table::HolderReport;
use meshlock_host::front::Admitted;
use tokio::sync::watch;
use tokio::time::{Instant, sleep, sleep_until, timeout};

use super::Sessions;

/// How often the cluster is asked about a lock that is watched.
const LOOK_EVERY: Duration = Duration::from_millis(500);

/// And not more often than so.
const LOOK_AT_MOST_EVERY: Duration = Duration::from_millis(20);

/// A client that holds a lock, somewhere.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Holder {
    pub(crate) site: SiteName,
    pub(crate) label: Option<ClientLabel>,
    pub(crate) fence: i64,
    pub(crate) slot: Option<u32>,
    /// It was told that it has lost the lock.
    pub(crate) lost: bool,
}

/// The holders of a lock, those with smaller fences first; none before the cluster has been asked.
pub(crate) type Seen = Option<Arc<[Holder]>>;

/// Locks that are watched.
#[derive(Default)]
pub(crate) struct Watched(Mutex<BTreeMap<LockName, Watch>>);

/// A lock that is watched.
struct Watch {
    seen: watch::Sender<Seen>,
    /// Who watched it first, and is charged for it.
    by: Principal,
}

/// Why a lock is not watched.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum NotWatched {
    #[error(transparent)]
    Denied(#[from] Denied),
    #[error("{0} locks are watched at this site already; watch fewer, or ask another site")]
    TooMany(usize),
    #[error("'{of}' watches {most} locks, which is what one client may at this site; watch fewer")]
    TooManyOf { of: Principal, most: usize },
}

/// Somebody who watches a lock.
pub(crate) struct Watching(watch::Receiver<Seen>);

impl Watching {
    /// The holders now; waits for the first look at them.
    pub(crate) async fn first(&mut self) -> Arc<[Holder]> {
        match self.0.wait_for(Option::is_some).await {
            Ok(seen) => seen.clone().unwrap_or_default(),
            Err(_) => Arc::default(),
        }
    }

    /// The holders when they have changed. Who is slow misses those between.
    pub(crate) async fn next(&mut self) -> Option<Arc<[Holder]>> {
        self.0.changed().await.ok()?;
        self.0.borrow_and_update().clone()
    }
}

/// All that hold the lock of a queue, those with smaller fences first.
pub(crate) fn holders_in(queue: &LockQueue) -> Vec<Holder> {
    let of_site = |queue: &SiteQueue| {
        let site = queue.site.clone();
        let holder = move |report: &HolderReport| Holder {
            site: site.clone(),
            label: report.label.clone(),
            fence: report.fence.value(),
            slot: report.slot,
            lost: report.lost,
        };
        queue.lock.holders.iter().map(holder).collect::<Vec<_>>()
    };
    let mut holders: Vec<Holder> = queue.sites.iter().flat_map(of_site).collect();
    holders.sort_by_key(|holder| holder.fence);
    holders
}

impl Sessions {
    /// Watches a lock, unless too many others are watched.
    pub(crate) fn watch(&self, caller: &Admitted, lock: &LockName) -> Result<Watching, NotWatched> {
        self.check(caller, Verb::Watch, lock)?;
        self.watch_as_seen(caller, lock)
    }

    /// The same, for whoever has been checked: a client may watch its own key, whatever else of the lock it may see.
    pub(crate) fn watch_as_seen(&self, caller: &Admitted, lock: &LockName) -> Result<Watching, NotWatched> {
        let mut watched = self.0.watched.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(watch) = watched.get(lock) {
            return Ok(Watching(watch.seen.subscribe()));
        }
        let limits = self.0.limits;
        if watched.len() >= limits.watched_locks {
            return Err(NotWatched::TooMany(limits.watched_locks));
        }
        let (of, most) = (&caller.principal, limits.each.watched_locks);
        if watched.values().filter(|watch| watch.by == *of).count() >= most {
            return Err(NotWatched::TooManyOf { of: of.clone(), most });
        }
        let (seen, receiver) = watch::channel(None);
        watched.insert(lock.clone(), Watch { seen, by: of.clone() });
        drop(watched);
        tokio::spawn(keep_looking(self.clone(), lock.clone()));
        Ok(Watching(receiver))
    }

    /// Tells those who watch what is seen now. Gives back whether there are any.
    fn show(&self, lock: &LockName, seen: Option<Vec<Holder>>) -> bool {
        let mut watched = self.0.watched.0.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(Watch { seen: sender, .. }) = watched.get(lock) else { return false };
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

async fn keep_looking(sessions: Sessions, lock: LockName) {
    let mut changes = sessions.0.changes.subscribe();
    loop {
        let looked = Instant::now();
        changes.mark_unchanged();
        // Without an answer of all, what was seen before stands: a silent site may have the holder.
        let queue = sessions.front().queue_for_checked(lock.clone()).await;
        let seen = queue.ok().filter(|queue| queue.missing.is_empty()).map(|queue| holders_in(&queue));
        if !sessions.show(&lock, seen) {
            return;
        }
        if timeout(LOOK_EVERY, changes.changed()).await.is_ok_and(|changed| changed.is_err()) {
            sleep(LOOK_EVERY).await;
        }
        // Any lock of this site may have changed: a busy one must not make this site ask all others without a pause.
        sleep_until(looked + LOOK_AT_MOST_EVERY).await;
    }
}
