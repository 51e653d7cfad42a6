//! Questions and orders that have one answer: who holds a lock, how the site is, to take a lock away, to change the rules, to leave.

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
use crate::gate::{Act, Origin};

/// Why there is no answer.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NotAnswered {
    #[error(transparent)]
    Denied(#[from] Denied),
    /// The node or the cluster does not do it; the text says why.
    #[error("{0}")]
    Refused(String),
    #[error("the node is stopping; ask another site")]
    Stopping,
}

/// A lock was taken away from its holders.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BrokenLock {
    /// From whom.
    pub cut_off: Vec<CutOff>,
    /// Members that have not said that they did it: order it again, if they are not gone.
    pub missing: Vec<SiteName>,
}

impl Front {
    /// Who holds a lock and who waits for it, in the whole cluster.
    pub async fn queue(&self, caller: &Admitted, lock: LockName) -> Result<LockQueue, NotAnswered> {
        self.check(caller, Verb::Watch, &lock)?;
        self.queue_for_checked(lock).await
    }

    /// The same, for callers whose right to watch the lock was checked before.
    pub async fn queue_for_checked(&self, lock: LockName) -> Result<LockQueue, NotAnswered> {
        let answer = self.question(|request| ClientCall::Query { request, lock }).await?;
        if let ClientAnswer::Queue { queue, .. } = answer { Ok(queue) } else { Err(unexpected(&answer)) }
    }

    /// How the site is. Of what its clients hold it shows what the caller may watch.
    pub async fn overview(&self, caller: &Admitted) -> Result<Box<Overview>, NotAnswered> {
        // Whoever may have a lock has to know whether the site leaves.
        let policy = self.gate().policy();
        let may_acquire = policy.access.check(&caller.principal, Verb::Acquire, Subject::Some).is_ok();
        if !may_acquire {
            self.check_subject(caller, Verb::Watch, Subject::Some)?;
        }
        let mut overview = self.overview_for_checked().await?;
        if let Origin::Network(_) = caller.origin {
            let may_watch = |lock: &LockName| {
                policy.access.check(&caller.principal, Verb::Watch, Subject::Lock(lock)).is_ok()
            };
            overview.held.retain(|held| may_watch(&held.lock));
        }
        Ok(overview)
    }

    /// The same with all that its clients hold, for callers that were checked before and are not shown that.
    pub async fn overview_for_checked(&self) -> Result<Box<Overview>, NotAnswered> {
        let answer = self.question(|request| ClientCall::Overview { request }).await?;
        if let ClientAnswer::Overview { overview, .. } = answer {
            Ok(overview)
        } else {
            Err(unexpected(&answer))
        }
    }

    /// How all members are and which locks are in use, and which members did not answer.
    pub async fn locks(&self, caller: &Admitted) -> Result<(Vec<SiteLocks>, Vec<SiteName>), NotAnswered> {
        self.check_subject(caller, Verb::Watch, Subject::Cluster)?;
        let answer = self.question(|request| ClientCall::Locks { request }).await?;
        if let ClientAnswer::Locks { sites, missing, .. } = answer {
            Ok((sites, missing))
        } else {
            Err(unexpected(&answer))
        }
    }

    /// Takes a lock away from whoever holds it.
    pub async fn break_lock(&self, caller: &Admitted, lock: LockName) -> Result<BrokenLock, NotAnswered> {
        self.check(caller, Verb::Break, &lock)?;
        let answer = self.question(|request| ClientCall::Break { request, lock: lock.clone() }).await?;
        let ClientAnswer::Broken { cut_off, missing, .. } = answer else { return Err(unexpected(&answer)) };
        let fences = cut_off.iter().map(|cut_off| cut_off.fence.value()).collect();
        self.gate().audit().note(caller, Some(&lock), Act::Broke { fences });
        Ok(BrokenLock { cut_off, missing })
    }

    /// Sets the cluster's rules; returns the view from which on they hold.
    pub async fn set_rules(&self, caller: &Admitted, rules: RulesText) -> Result<Epoch, NotAnswered> {
        self.check_rules_change(caller)?;
        let answer = self.question(|request| ClientCall::SetRules { request, rules }).await?;
        let ClientAnswer::RulesSet { epoch, .. } = answer else { return Err(unexpected(&answer)) };
        self.gate().audit().note(caller, None, Act::SetRules { epoch: epoch.number() });
        Ok(epoch)
    }

    /// Tells a site to leave the cluster; returns whether it has heard it.
    pub async fn remove_site(&self, caller: &Admitted, site: SiteName) -> Result<bool, NotAnswered> {
        self.check_subject(caller, Verb::Admin, Subject::Cluster)?;
        self.gate().audit().note(caller, None, Act::Removed { site: Some(site.clone()) });
        let answer = self.question(|request| ClientCall::Remove { request, site }).await?;
        if let ClientAnswer::Leaves { leaves, .. } = answer { Ok(leaves) } else { Err(unexpected(&answer)) }
    }

    /// Leaves the cluster: nothing more is granted here. Completes once all that is held here is given back and the others have
    /// agreed.
    pub async fn leave(&self, caller: &Admitted) -> Result<(), NotAnswered> {
        self.check_subject(caller, Verb::Admin, Subject::Cluster)?;
        self.gate().audit().note(caller, None, Act::Removed { site: None });
        let answer = self.question(|request| ClientCall::Leave { request }).await?;
        if let ClientAnswer::Left { .. } = answer { Ok(()) } else { Err(unexpected(&answer)) }
    }

    /// Takes everything away that clients hold here: they have the margin of a lease to stop. Returns how many held something.
    pub fn take_all_away(&self) -> usize {
        self.node().with(|node| {
            let holders = node.node().table().counts().holders;
            if holders > 0 {
                node.call(ClientCall::TakeAllAway);
            }
            holders
        })
    }

    /// Tells `listener` all that happens to locks of this pattern, or to all, until the session ends or the watch is
    /// [ended](Front::end_watch).
    pub fn watch(
        &self,
        caller: &Admitted,
        listener: Arc<dyn Listener>,
        watch: impl FnOnce(Request) -> TraceWatch,
    ) -> Result<Request, Denied> {
        self.check_subject(caller, Verb::Watch, Subject::Cluster)?;
        Ok(self.node().with(|node| node.ask(listener, |request| ClientCall::Watch(watch(request)))))
    }

    /// Ends a watch; its listener is told that it is cancelled.
    pub fn end_watch(&self, request: Request) {
        self.node().with(|node| node.call(ClientCall::Cancel(request)));
    }

    /// Asks the node, and waits for the one answer.
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

    /// Whether a session of this number is the caller's own affair only: watches end with it.
    pub(crate) fn forget_watch(&self, request: Request) {
        self.node().with(|node| node.forget(request));
    }
}

/// The node has answered another question than the one asked, which would be its bug; a client hears of it and goes on.
fn unexpected(answer: &ClientAnswer) -> NotAnswered {
    debug_assert!(false, "the node answers another question: {answer:?}");
    NotAnswered::Refused("the node answers another question, which is a bug; please report it".to_owned())
}

/// Passes the one answer on.
struct Once(Mutex<Option<oneshot::Sender<ClientAnswer>>>);

impl Listener for Once {
    fn on_answer(&self, answer: &ClientAnswer) {
        if let Some(sender) = self.0.lock().unwrap_or_else(PoisonError::into_inner).take() {
            // Whoever asked may have gone.
            let _ = sender.send(answer.clone());
        }
    }
}
