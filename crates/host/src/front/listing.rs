//! All locks in use in the whole cluster, page by page, and what happens to them.
//!
//! ```text
//!  every member ◀── what happened after my cursor? ── one task for each ──▶ one ring of batches ──▶ every watcher, at its own pace
//! ```
//!
//! All watchers of a site share the questions and the ring. A watcher that falls behind finds that batches are gone, and is told that it
//! has missed something; nobody waits for it. While nobody watches, nobody asks, and no member keeps anything.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use meshlock_cluster::access::{Denied, Verb};
use meshlock_cluster::names::{LockName, SiteName};
use meshlock_cluster::node::{
    ChangeCursor, ClientAnswer, ClientCall, Deadlocks, LockChange, LockPage, NameFilter, PageQuestion,
    SiteChange, SiteChanges,
};
use meshlock_cluster::report::Party;
use meshlock_cluster::rules::Pattern;
use meshlock_cluster::table::Session;
use tokio::sync::{broadcast, watch};

use super::questions::unexpected;
use super::shown::show;
use super::{Admitted, Front, Inner, NotAnswered, NotWatched};
use crate::gate::WatchUse;

/// How often this site is asked for its own changes, and how often others are.
const ASK_HERE_EVERY: Duration = Duration::from_millis(50);
const ASK_OTHERS_EVERY: Duration = Duration::from_millis(250);

/// How often it is looked whether there are other members, or no watchers any more.
const LOOK_EVERY: Duration = Duration::from_millis(500);

/// Number of batches that a watcher may fall behind.
const MAX_BEHIND: usize = 64;

/// Changes of locks, for one watcher.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Changes {
    /// In the order in which they happened at each site. None in the first answer, which says that the watch has begun.
    pub changes: Vec<SiteChange>,
    /// At least so many were missed before these.
    pub missed: u64,
}

/// What a site has answered.
struct Answered {
    site: SiteName,
    changes: Vec<LockChange>,
    missed: u64,
}

/// Everything that the watchers of this site share; nothing while there are none.
#[derive(Default)]
pub(super) struct ChangeHub(Mutex<Option<Followed>>);

/// What is being followed.
#[derive(Clone)]
struct Followed {
    batches: broadcast::Sender<Arc<Answered>>,
    /// The sites that have been asked at least once.
    asked: watch::Sender<BTreeSet<SiteName>>,
}

/// One watch on what happens to locks.
pub struct ChangeWatch {
    front: Front,
    caller: Admitted,
    pattern: Option<Pattern>,
    batches: broadcast::Receiver<Arc<Answered>>,
    asked: watch::Receiver<BTreeSet<SiteName>>,
    has_begun: bool,
    #[expect(dead_code, reason = "the watch counts until this is dropped")]
    counted: Option<WatchUse>,
}

impl Front {
    /// Returns a page of the locks in use in the whole cluster that the caller may watch.
    pub async fn lock_page(
        &self,
        caller: &Admitted,
        pattern: Option<Pattern>,
        after: Option<LockName>,
        limit: u32,
    ) -> Result<LockPage, NotAnswered> {
        let names = self.names_for(caller, pattern)?;
        let question = PageQuestion { names, after, limit };
        let answer = self.question(|request| ClientCall::Page { request, question }).await?;
        let ClientAnswer::Page { mut page, .. } = answer else { return Err(unexpected(&answer)) };
        for held in page.locks.iter_mut().flat_map(|lock| &mut lock.holders) {
            show(&mut held.holder.label);
        }
        Ok(*page)
    }

    /// Returns the deadlocks of the cluster whose locks the caller may all watch.
    pub async fn deadlocks(&self, caller: &Admitted) -> Result<Deadlocks, NotAnswered> {
        let names = self.names_for(caller, None)?;
        let answer = self.question(|request| ClientCall::Deadlocks { request }).await?;
        let ClientAnswer::Deadlocks { mut deadlocks, .. } = answer else { return Err(unexpected(&answer)) };
        deadlocks.found.retain(|deadlock| deadlock.locks().into_iter().all(|lock| names.admits(lock)));
        for stuck in deadlocks.found.iter_mut().flat_map(|deadlock| &mut deadlock.parties) {
            show(&mut stuck.who);
            // It may be made of the number of a session, which only its client may know.
            stuck.party = Party(0);
        }
        Ok(*deadlocks)
    }

    /// Says which party the client of a session is.
    pub(crate) fn join_party(&self, session: Session, party: Party) {
        self.node().with(|node| node.call(ClientCall::JoinParty { session, party }));
    }

    /// Watches what happens to locks in the whole cluster, as far as the caller may watch them. It counts towards the caller's limit until
    /// what is returned is dropped.
    pub fn changes(&self, caller: &Admitted, pattern: Option<Pattern>) -> Result<ChangeWatch, NotWatched> {
        self.names_for(caller, None)?;
        let counted = self.count_watch(caller)?;
        let mut hub = self.0.changes.locked();
        let followed = hub.get_or_insert_with(|| {
            let followed =
                Followed { batches: broadcast::Sender::new(MAX_BEHIND), asked: watch::Sender::default() };
            self.node().tasks().spawn(keep_following(Arc::downgrade(&self.0), followed.clone()));
            followed
        });
        let (batches, asked) = (followed.batches.subscribe(), followed.asked.subscribe());
        drop(hub);
        let (front, caller) = (self.clone(), caller.clone());
        Ok(ChangeWatch { front, caller, pattern, batches, asked, has_begun: false, counted })
    }

    /// Returns the names that a caller is shown: those that it may watch.
    fn names_for(&self, caller: &Admitted, pattern: Option<Pattern>) -> Result<NameFilter, Denied> {
        let visible = self.0.gate.patterns(caller, Verb::Watch)?;
        Ok(NameFilter { pattern, visible })
    }
}

#[cfg(test)]
impl Front {
    /// Returns whether members are asked for their changes.
    pub(super) fn is_followed(&self) -> bool {
        self.0.changes.locked().is_some()
    }
}

impl ChangeHub {
    fn locked(&self) -> MutexGuard<'_, Option<Followed>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl ChangeWatch {
    /// Waits for the next changes. The first answer has none: it says that everything from now on is told. Returns `None` when the node
    /// stops, or when the caller may not watch any lock any more.
    pub async fn next(&mut self) -> Option<Changes> {
        if !self.has_begun {
            self.begin().await?;
            self.has_begun = true;
            return Some(Changes::default());
        }
        loop {
            let (batch, missed) = match self.batches.recv().await {
                Ok(batch) => (Some(batch.clone()), batch.missed),
                Err(broadcast::error::RecvError::Lagged(batches)) => (None, batches),
                Err(broadcast::error::RecvError::Closed) => return None,
            };
            // What the caller may watch may have changed.
            let names = self.front.names_for(&self.caller, self.pattern.clone()).ok()?;
            let changes = batch.map(|batch| shown(&batch, &names)).unwrap_or_default();
            if missed > 0 || !changes.is_empty() {
                return Some(Changes { changes, missed });
            }
        }
    }

    /// Waits until every member has been asked once.
    async fn begin(&mut self) -> Option<()> {
        let front = self.front.clone();
        let is_asked =
            |asked: &BTreeSet<SiteName>| front.followed_sites().iter().all(|site| asked.contains(site));
        self.asked.wait_for(is_asked).await.ok().map(|_| ())
    }
}

/// Returns the changes of a batch that are meant, as people see them.
fn shown(batch: &Answered, names: &NameFilter) -> Vec<SiteChange> {
    let meant = batch.changes.iter().filter(|change| names.admits(&change.lock));
    let shown = meant.cloned().map(|mut change| {
        show(&mut change.who);
        SiteChange { site: batch.site.clone(), change }
    });
    shown.collect()
}

impl Front {
    /// Returns the members of the view, and this site.
    fn followed_sites(&self) -> BTreeSet<SiteName> {
        let members = self.node().look(|node| node.view().members.clone());
        members.into_iter().map(|member| member.site).chain([self.site().clone()]).collect()
    }
}

/// Follows every member while somebody watches.
async fn keep_following(front: Weak<Inner>, followed: Followed) {
    let mut following = BTreeSet::new();
    loop {
        let Some(front) = front.upgrade().map(Front) else { return };
        {
            let mut hub = front.0.changes.locked();
            if followed.batches.receiver_count() == 0 {
                *hub = None;
                return;
            }
        }
        let members = front.followed_sites();
        following.retain(|site| members.contains(site));
        for site in members {
            if following.insert(site.clone()) {
                let follow = follow(Arc::downgrade(&front.0), followed.clone(), site);
                front.node().tasks().spawn(follow);
            }
        }
        tokio::time::sleep(LOOK_EVERY).await;
    }
}

/// Follows one member while it is one and somebody watches.
async fn follow(front: Weak<Inner>, followed: Followed, site: SiteName) {
    let mut cursor = None;
    loop {
        let Some(front) = front.upgrade().map(Front) else { return };
        if followed.batches.receiver_count() == 0 || !front.followed_sites().contains(&site) {
            followed.asked.send_if_modified(|asked| asked.remove(&site));
            return;
        }
        let more = match front.ask_for_changes(&site, cursor).await {
            Ok(Some(SiteChanges { changes, missed, cursor: next, more })) => {
                if missed > 0 || !changes.is_empty() {
                    let _ = followed.batches.send(Arc::new(Answered { site: site.clone(), changes, missed }));
                }
                cursor = Some(next);
                more
            }
            // What it has not said it says later, or how many it does not know any more.
            Ok(None) | Err(NotAnswered::Refused(_) | NotAnswered::Unavailable(_)) => false,
            Err(NotAnswered::Stopping | NotAnswered::Denied(_)) => return,
        };
        followed.asked.send_if_modified(|asked| asked.insert(site.clone()));
        let every = if *front.site() == site { ASK_HERE_EVERY } else { ASK_OTHERS_EVERY };
        drop(front);
        if !more {
            tokio::time::sleep(every).await;
        }
    }
}

impl Front {
    async fn ask_for_changes(
        &self,
        site: &SiteName,
        after: Option<ChangeCursor>,
    ) -> Result<Option<SiteChanges>, NotAnswered> {
        let site = site.clone();
        let answer = self.question(|request| ClientCall::Changes { request, site, after }).await?;
        let ClientAnswer::Changes { changes, .. } = answer else { return Err(unexpected(&answer)) };
        Ok(changes)
    }
}
