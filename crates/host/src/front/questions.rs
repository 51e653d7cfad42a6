//! Calls with a single answer: a lock's queue, the site's status, breaking a lock, changing the rules, leaving the cluster.

use std::sync::{Arc, Mutex, PoisonError};

use meshlock_cluster::access::{Denied, Subject, Verb};
use meshlock_cluster::names::{LockName, SiteName};
use meshlock_cluster::node::{ClientAnswer, ClientCall, CutOff, LockQueue, Overview, SiteLocks};
use meshlock_cluster::rules::RulesText;
use meshlock_cluster::table::{LockEvent, Request, TraceWatch};
use meshlock_protocol::Epoch;
use tokio::sync::oneshot;

use super::{Admitted, Front};
use crate::engine::Listener;
use crate::gate::{AuditEvent, CallerOrigin};

/// Why there is no answer.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NotAnswered {
    #[error(transparent)]
    Denied(#[from] Denied),
    /// The node or the cluster refuses; the text says why.
    #[error("{0}")]
    Refused(String),
    #[error("the node is stopping; ask another site")]
    Stopping,
}

/// The result of breaking a lock.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BrokenLock {
    /// The holders that have lost it.
    pub cut_off: Vec<CutOff>,
    /// Members that have not confirmed it. If they still run, break the lock again.
    pub missing: Vec<SiteName>,
}

impl Front {
    /// Returns who holds a lock and who waits for it, in the whole cluster.
    pub async fn queue(&self, caller: &Admitted, lock: LockName) -> Result<LockQueue, NotAnswered> {
        self.check(caller, Verb::Watch, &lock)?;
        self.queue_for_checked(lock).await
    }

    /// Like [`queue`](Front::queue), for callers whose right to watch the lock was already checked.
    pub async fn queue_for_checked(&self, lock: LockName) -> Result<LockQueue, NotAnswered> {
        let answer = self.question(|request| ClientCall::Query { request, lock }).await?;
        if let ClientAnswer::Queue { queue, .. } = answer { Ok(queue) } else { Err(unexpected(&answer)) }
    }

    /// Returns the site's status. It lists only those held locks that the caller may watch.
    pub(crate) async fn overview(&self, caller: &Admitted) -> Result<Box<Overview>, NotAnswered> {
        // A caller that may acquire some lock has to know whether the site is leaving.
        let policy = self.gate().policy();
        let may_acquire = policy.access.check(&caller.principal, Verb::Acquire, Subject::Some).is_ok();
        if !may_acquire {
            self.check_subject(caller, Verb::Watch, Subject::Some)?;
        }
        let mut overview = self.overview_for_checked().await?;
        if let CallerOrigin::Network(_) = caller.origin {
            let may_watch = |lock: &LockName| {
                policy.access.check(&caller.principal, Verb::Watch, Subject::Lock(lock)).is_ok()
            };
            overview.held.retain(|held| may_watch(&held.lock));
        }
        Ok(overview)
    }

    /// Returns the site's status with all held locks, for callers whose rights were checked elsewhere and that do not show the locks.
    pub async fn overview_for_checked(&self) -> Result<Box<Overview>, NotAnswered> {
        let answer = self.question(|request| ClientCall::Overview { request }).await?;
        if let ClientAnswer::Overview { overview, .. } = answer {
            Ok(overview)
        } else {
            Err(unexpected(&answer))
        }
    }

    /// Returns the status and the locks in use of all members, and which members did not answer.
    pub(crate) async fn locks(
        &self,
        caller: &Admitted,
    ) -> Result<(Vec<SiteLocks>, Vec<SiteName>), NotAnswered> {
        self.check_subject(caller, Verb::Watch, Subject::Cluster)?;
        let answer = self.question(|request| ClientCall::Locks { request }).await?;
        if let ClientAnswer::Locks { sites, missing, .. } = answer {
            Ok((sites, missing))
        } else {
            Err(unexpected(&answer))
        }
    }

    /// Breaks a lock: takes it away from all its holders.
    pub async fn break_lock(&self, caller: &Admitted, lock: LockName) -> Result<BrokenLock, NotAnswered> {
        self.check(caller, Verb::Break, &lock)?;
        let answer = self.question(|request| ClientCall::Break { request, lock: lock.clone() }).await?;
        let ClientAnswer::Broken { cut_off, missing, .. } = answer else { return Err(unexpected(&answer)) };
        let fences = cut_off.iter().map(|cut_off| cut_off.fence.value()).collect();
        self.gate().audit().note(caller, Some(&lock), AuditEvent::Broke { fences });
        Ok(BrokenLock { cut_off, missing })
    }

    /// Sets the cluster's rules. Returns the epoch of the view in which they take effect.
    pub async fn set_rules(&self, caller: &Admitted, rules: RulesText) -> Result<Epoch, NotAnswered> {
        self.check_rules_change(caller)?;
        let answer = self.question(|request| ClientCall::SetRules { request, rules }).await?;
        let ClientAnswer::RulesSet { epoch, .. } = answer else { return Err(unexpected(&answer)) };
        self.gate().audit().note(caller, None, AuditEvent::SetRules { epoch: epoch.number() });
        Ok(epoch)
    }

    /// Tells a site to leave the cluster. Returns whether the site has received that.
    pub(crate) async fn remove_site(&self, caller: &Admitted, site: SiteName) -> Result<bool, NotAnswered> {
        self.check_subject(caller, Verb::Admin, Subject::Cluster)?;
        self.gate().audit().note(caller, None, AuditEvent::Removed { site: Some(site.clone()) });
        let answer = self.question(|request| ClientCall::Remove { request, site }).await?;
        if let ClientAnswer::Leaves { leaves, .. } = answer { Ok(leaves) } else { Err(unexpected(&answer)) }
    }

    /// Makes this site leave the cluster. Nothing more is granted here; completes once everything held here is released and the other
    /// sites have agreed.
    pub async fn leave(&self, caller: &Admitted) -> Result<(), NotAnswered> {
        self.check_subject(caller, Verb::Admin, Subject::Cluster)?;
        self.gate().audit().note(caller, None, AuditEvent::Removed { site: None });
        let answer = self.question(|request| ClientCall::Leave { request }).await?;
        if let ClientAnswer::Left { .. } = answer { Ok(()) } else { Err(unexpected(&answer)) }
    }

    /// Revokes everything that clients hold here; they have the margin of a lease to stop. Returns the number of holders.
    pub fn take_all_away(&self) -> usize {
        self.node().with(|node| {
            let holders = node.node().table().counts().holders;
            if holders > 0 {
                node.call(ClientCall::TakeAllAway);
            }
            holders
        })
    }

    /// Reports every step of the locks that match a pattern, or of all locks, to `listener`, until the session ends or the client cancels
    /// the watch.
    pub fn watch(
        &self,
        caller: &Admitted,
        listener: Arc<dyn Listener>,
        watch: impl FnOnce(Request) -> TraceWatch,
    ) -> Result<Request, Denied> {
        self.check_subject(caller, Verb::Watch, Subject::Cluster)?;
        Ok(self.node().with(|node| node.ask(listener, |request| ClientCall::Watch(watch(request)))))
    }

    /// Ends a watch. Its listener is told that it is cancelled.
    pub(crate) fn end_watch(&self, request: Request) {
        self.node().with(|node| node.call(ClientCall::Cancel(request)));
    }

    /// Asks the node and waits for the single answer.
    pub(super) async fn question(
        &self,
        call: impl FnOnce(Request) -> ClientCall,
    ) -> Result<ClientAnswer, NotAnswered> {
        let (sender, answer) = oneshot::channel();
        let once = Arc::new(Once(Mutex::new(Some(sender))));
        self.node().with(|node| node.ask(once, call));
        match answer.await {
            Ok(ClientAnswer::Lock(LockEvent::Refused { why, .. })) => {
                Err(NotAnswered::Refused(why.to_string()))
            }
            Ok(ClientAnswer::RulesRefused { why, .. }) => Err(NotAnswered::Refused(why)),
            Ok(answer) => Ok(answer),
            Err(_) => Err(NotAnswered::Stopping),
        }
    }

    /// Removes the listener of a watch, when the session that it ends with is about to end.
    pub(crate) fn forget_watch(&self, request: Request) {
        self.node().with(|node| node.forget(request));
    }
}

/// Reports an answer that does not belong to the question, which is a bug of the node. The client gets an error and can go on.
fn unexpected(answer: &ClientAnswer) -> NotAnswered {
    debug_assert!(false, "the node answers another question: {answer:?}");
    NotAnswered::Refused("the node answers another question, which is a bug; please report it".to_owned())
}

/// Passes the single answer on.
struct Once(Mutex<Option<oneshot::Sender<ClientAnswer>>>);

impl Listener for Once {
    fn on_answer(&self, answer: &ClientAnswer) {
        if let Some(sender) = self.0.lock().unwrap_or_else(PoisonError::into_inner).take() {
            // The caller may have stopped waiting.
            let _ = sender.send(answer.clone());
        }
    }
}
