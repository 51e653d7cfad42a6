//! Calls with a single answer: a lock's queue, the site's status, the rules, breaking a lock, changing the rules or the voters, leaving the
//! cluster.

use std::sync::{Arc, Mutex, PoisonError};

use meshlock_cluster::access::{AccessDocument, AgreedAccess, Denied, Subject, Verb};
use meshlock_cluster::names::{LockName, SiteName};
use meshlock_cluster::node::{
    ClientAnswer, ClientCall, CutOff, LockQueue, Overview, SiteLocks, VoterRefusal, VoterRequest,
};
use meshlock_cluster::rules::RulesText;
use meshlock_cluster::table::{LockEvent, Request, TraceWatch};
use meshlock_protocol::Epoch;
use meshlock_wire::diagnosis::AskedSite;
use tokio::sync::oneshot;

use super::permits::permits_of;
use super::shown::{show, show_queue};
use super::{Admitted, Front};
use crate::engine::Listener;
use crate::gate::{AuditEvent, TooMany, WatchUse};

/// Why there is no answer.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NotAnswered {
    #[error(transparent)]
    Denied(#[from] Denied),
    /// The node or the cluster refuses; the text says why.
    #[error("{0}")]
    Refused(String),
    /// The cluster cannot do it at present; the text says why, and whether it may still happen.
    #[error("{0}")]
    Unavailable(String),
    #[error("the node is stopping; ask another site")]
    Stopping,
}

/// Why the node cannot be watched.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NotWatched {
    #[error(transparent)]
    Denied(#[from] Denied),
    #[error(transparent)]
    Limit(#[from] TooMany),
}

/// Why the voters were not changed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum VotersNotChanged {
    #[error(transparent)]
    NotAnswered(#[from] NotAnswered),
    /// The leader refuses.
    #[error(transparent)]
    Refused(VoterRefusal),
}

impl From<Denied> for VotersNotChanged {
    fn from(denied: Denied) -> Self {
        VotersNotChanged::NotAnswered(denied.into())
    }
}

/// The result of breaking a lock.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BrokenLock {
    /// The holders that have lost it.
    pub cut_off: Vec<CutOff>,
    /// Members that have not confirmed it. If they still run, break the lock again.
    pub missing: Vec<SiteName>,
}

/// Reads the queue of one lock, on behalf of a caller that may.
pub struct QueueReader {
    front: Front,
    lock: LockName,
}

impl QueueReader {
    /// Returns the lock whose queue it reads.
    pub fn lock(&self) -> &LockName {
        &self.lock
    }

    /// Returns the number of permits with which the lock is used now, or that its rule gives, as far as this site knows. It may change
    /// at any time: an [acquisition](super::AcquireParams::permits) says itself how many it expects.
    pub fn permits(&self) -> Option<u32> {
        self.front.node().look(|node| permits_of(node, &self.lock))
    }

    /// Returns who holds the lock and who waits for it, in the whole cluster.
    pub async fn read(&self) -> Result<LockQueue, NotAnswered> {
        let lock = self.lock.clone();
        let answer = self.front.question(|request| ClientCall::Query { request, lock }).await?;
        if let ClientAnswer::Queue { queue, .. } = answer { Ok(queue) } else { Err(unexpected(&answer)) }
    }
}

impl Front {
    /// Returns who holds a lock and who waits for it, in the whole cluster.
    pub async fn queue(&self, caller: &Admitted, lock: LockName) -> Result<LockQueue, NotAnswered> {
        let mut queue = self.queue_reader(caller, Verb::Watch, &lock)?.read().await?;
        show_queue(&mut queue);
        Ok(queue)
    }

    /// Checks once whether the caller may read a lock's queue, for callers that read it again and again. `verb` says what for: to watch
    /// the lock, or to acquire it, which takes knowing whether somebody has it.
    pub fn queue_reader(
        &self,
        caller: &Admitted,
        verb: Verb,
        lock: &LockName,
    ) -> Result<QueueReader, Denied> {
        self.check(caller, verb, lock)?;
        Ok(QueueReader { front: self.clone(), lock: lock.clone() })
    }

    /// Returns the site's status to a caller that has any right here, whichever API it uses: it has to know where the site stands and
    /// whether it is leaving. The status lists only those held locks that the caller may watch.
    pub async fn overview(&self, caller: &Admitted) -> Result<Box<Overview>, NotAnswered> {
        self.check_any_right(caller, Verb::Watch)?;
        let answer = self.question(|request| ClientCall::Overview { request }).await?;
        let ClientAnswer::Overview { mut overview, .. } = answer else { return Err(unexpected(&answer)) };
        overview.held.retain(|held| self.may(caller, Verb::Watch, Subject::Lock(&held.lock)));
        for held in &mut overview.held {
            show(&mut held.holder.label);
        }
        Ok(overview)
    }

    /// Returns the cluster's rules, and the epoch of the view that they belong to.
    pub fn rules(&self, caller: &Admitted) -> Result<(Epoch, RulesText), Denied> {
        self.check_subject(caller, Verb::Watch, Subject::Some)?;
        Ok(self.node().look(|node| (node.view().epoch, node.view().rules.clone())))
    }

    /// Returns the cluster's access document, as this site knows it. It says who may do what, and so only administrators see it.
    pub fn access(&self, caller: &Admitted) -> Result<AgreedAccess, Denied> {
        self.check_subject(caller, Verb::Admin, Subject::Cluster)?;
        Ok(self.node().look(|node| node.access().clone()))
    }

    /// Compare-and-set: replaces the cluster's access document if its version is still `base`. Returns the version that it has then.
    pub async fn set_access(
        &self,
        caller: &Admitted,
        base: u64,
        document: AccessDocument,
    ) -> Result<u64, NotAnswered> {
        self.check_subject(caller, Verb::Admin, Subject::Cluster)?;
        self.check_audit()?;
        self.refuse_in_outage()?;
        let document = Box::new(document);
        let answer = self.question(|request| ClientCall::SetAccess { request, base, document }).await;
        let answer = answer.map_err(|error| self.with_disk_failure(error))?;
        let ClientAnswer::AccessSet { version, .. } = answer else { return Err(unexpected(&answer)) };
        if version != base {
            self.audit().note(caller, None, AuditEvent::SetAccess { version });
        }
        Ok(version)
    }

    /// Returns the status and the locks in use of all members, and which members did not answer.
    pub(crate) async fn locks(
        &self,
        caller: &Admitted,
    ) -> Result<(Vec<SiteLocks>, Vec<SiteName>), NotAnswered> {
        self.check_subject(caller, Verb::Watch, Subject::Cluster)?;
        let answer = self.question(|request| ClientCall::Locks { request }).await?;
        let ClientAnswer::Locks { mut sites, missing, .. } = answer else { return Err(unexpected(&answer)) };
        let holders =
            sites.iter_mut().flat_map(|site| &mut site.locks).filter_map(|lock| lock.holder.as_mut());
        holders.for_each(|holder| show(&mut holder.label));
        Ok((sites, missing))
    }

    /// Returns what this site says of itself, and if `others`, also what every other site says, for whoever looks for what is wrong. A
    /// caller has to be allowed to watch everything: reports contain more than the status does, such as how the sites reach each other.
    pub(crate) async fn diagnose(
        &self,
        caller: &Admitted,
        others: bool,
    ) -> Result<Vec<AskedSite>, NotAnswered> {
        self.check_subject(caller, Verb::Watch, Subject::Cluster)?;
        Ok(self.node().diagnose(others).await)
    }

    /// Breaks a lock: takes it away from all its holders.
    pub async fn break_lock(&self, caller: &Admitted, lock: LockName) -> Result<BrokenLock, NotAnswered> {
        self.check(caller, Verb::Break, &lock)?;
        self.check_audit()?;
        self.refuse_in_outage()?;
        let answer = self.question(|request| ClientCall::Break { request, lock: lock.clone() }).await?;
        let ClientAnswer::Broken { mut cut_off, missing, .. } = answer else {
            return Err(unexpected(&answer));
        };
        for cut_off in &mut cut_off {
            show(&mut cut_off.label);
        }
        let fences = cut_off.iter().map(|cut_off| cut_off.fence.value()).collect();
        self.audit().note(caller, Some(&lock), AuditEvent::Broke { fences });
        Ok(BrokenLock { cut_off, missing })
    }

    /// Sets the cluster's rules. Returns the epoch of the view in which they take effect.
    pub async fn set_rules(&self, caller: &Admitted, rules: RulesText) -> Result<Epoch, NotAnswered> {
        self.check_subject(caller, Verb::Admin, Subject::Cluster)?;
        self.check_audit()?;
        let answer = self.question(|request| ClientCall::SetRules { request, rules }).await;
        let answer = answer.map_err(|error| self.with_disk_failure(error))?;
        let ClientAnswer::RulesSet { epoch, .. } = answer else { return Err(unexpected(&answer)) };
        self.audit().note(caller, None, AuditEvent::SetRules { epoch: epoch.number() });
        Ok(epoch)
    }

    /// Tells a site to leave the cluster. Returns whether the site has received that; if not, nothing has happened, and nothing is
    /// written to the audit log.
    pub(crate) async fn remove_site(&self, caller: &Admitted, site: SiteName) -> Result<bool, NotAnswered> {
        self.check_subject(caller, Verb::Admin, Subject::Cluster)?;
        self.check_audit()?;
        self.refuse_in_outage()?;
        let answer = self.question(|request| ClientCall::Remove { request, site: site.clone() }).await?;
        let ClientAnswer::Leaves { leaves, .. } = answer else { return Err(unexpected(&answer)) };
        if leaves {
            self.audit().note(caller, None, AuditEvent::Removed { site: Some(site) });
        }
        Ok(leaves)
    }

    /// Changes who votes, and returns when the change is complete. If the answer is that it could not be done in time, the leader may still
    /// do it, and the same call again waits for it.
    pub async fn change_voters(
        &self,
        caller: &Admitted,
        change: VoterRequest,
    ) -> Result<(), VotersNotChanged> {
        self.check_subject(caller, Verb::Admin, Subject::Cluster)?;
        self.check_audit()?;
        self.refuse_in_outage()?;
        let wanted = change.clone();
        let answer = self.question(|request| ClientCall::ChangeVoters { request, change: wanted }).await;
        let answer = answer.map_err(|error| self.with_disk_failure(error))?;
        if let ClientAnswer::VotersRefused { why, .. } = answer {
            return Err(VotersNotChanged::Refused(why));
        }
        let ClientAnswer::VotersChanged { .. } = answer else { return Err(unexpected(&answer).into()) };
        self.audit().note(caller, None, AuditEvent::ChangedVoters { change });
        Ok(())
    }

    /// Adds to the error that the cluster cannot do something at present that this site's disk fails, which is the likely reason.
    fn with_disk_failure(&self, error: NotAnswered) -> NotAnswered {
        match (error, self.disk_failure()) {
            (NotAnswered::Unavailable(why), Some(disk)) => NotAnswered::Unavailable(format!(
                "{why}; the disk of {} cannot be written: {disk}",
                self.site()
            )),
            (error, _) => error,
        }
    }

    /// Refuses an order of an administrator that this site could not carry out, before anything has happened.
    fn refuse_in_outage(&self) -> Result<(), NotAnswered> {
        let Some(outage) = self.outage() else { return Ok(()) };
        let next = "nothing was done; repeat the command when it is over, or at another site";
        Err(NotAnswered::Unavailable(format!("{outage}; {next}")))
    }

    /// Makes this site leave the cluster. Nothing more is granted here; completes once everything held here is released and the other
    /// sites have agreed.
    pub async fn leave(&self, caller: &Admitted) -> Result<(), NotAnswered> {
        self.check_subject(caller, Verb::Admin, Subject::Cluster)?;
        self.warn_of_stop();
        self.audit().note(caller, None, AuditEvent::Removed { site: None });
        let answer = self.question(|request| ClientCall::Leave { request }).await?;
        if let ClientAnswer::Left { .. } = answer { Ok(()) } else { Err(unexpected(&answer)) }
    }

    /// Revokes everything that clients hold here; they have the margin of a lease to stop. Returns the number of holders.
    pub fn take_all_away(&self, caller: &Admitted) -> Result<usize, Denied> {
        self.check_subject(caller, Verb::Admin, Subject::Cluster)?;
        Ok(self.node().with(|node| {
            let holders = node.node().table().counts().holders;
            if holders > 0 {
                node.call(ClientCall::TakeAllAway);
            }
            holders
        }))
    }

    /// Reports every step of the locks that match a pattern, or of all locks, to `listener`, until the session ends or the client cancels
    /// the watch. It counts towards the caller's limit until what is returned is dropped.
    pub fn watch(
        &self,
        caller: &Admitted,
        listener: Arc<dyn Listener>,
        watch: impl FnOnce(Request) -> TraceWatch,
    ) -> Result<Option<WatchUse>, NotWatched> {
        self.check_subject(caller, Verb::Watch, Subject::Cluster)?;
        let counted = self.count_watch(caller)?;
        self.node().with(|node| node.ask(listener, |request| ClientCall::Watch(watch(request))));
        Ok(counted)
    }

    /// Ends a watch. Its listener is told that it is cancelled.
    pub(crate) fn end_watch(&self, request: Request) {
        self.node().with(|node| node.call(ClientCall::Cancel(request)));
    }

    /// Checks whether something may be changed: if the audit log is required, it must be possible to write it. A site may leave all the
    /// same.
    fn check_audit(&self) -> Result<(), NotAnswered> {
        self.audit().check().map_err(|error| NotAnswered::Unavailable(error.to_string()))
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
            Ok(ClientAnswer::RulesRefused { why, .. } | ClientAnswer::AccessRefused { why, .. }) => {
                Err(NotAnswered::Refused(why))
            }
            Ok(ClientAnswer::Unavailable { why, .. }) => Err(NotAnswered::Unavailable(why)),
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
pub(super) fn unexpected(answer: &ClientAnswer) -> NotAnswered {
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
