//! Questions to the node that have one answer.

use std::sync::{Arc, Mutex, PoisonError};

use meshlock_cluster::access::{Denied, Subject, Verb};
use meshlock_cluster::names::{LockName, SiteName};
use meshlock_cluster::node::{Answer, Call, CutOff, Overview, SiteQueue};
use meshlock_cluster::rules::RulesText;
use meshlock_cluster::table::{Request, Tell};
use meshlock_host::Listener;
use meshlock_host::gate::{Act, Caller};
use tokio::sync::oneshot;

use super::Desk;

/// Who holds a lock and who waits for it, in the whole cluster.
pub(crate) struct Queue {
    pub(crate) epoch: u32,
    pub(crate) algorithm: Option<&'static str>,
    pub(crate) permits: u32,
    pub(crate) sites: Vec<SiteQueue>,
    /// Sites that have not answered.
    pub(crate) missing: Vec<SiteName>,
}

/// Why there is no answer.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum NoAnswer {
    #[error(transparent)]
    Denied(#[from] Denied),
    #[error("{0}")]
    Refused(String),
    #[error("the node is stopping; ask another site")]
    Stopping,
}

impl Desk {
    /// Who holds a lock and who waits for it, for whoever may watch it.
    pub(crate) async fn queue_for(&self, caller: &Caller, lock: LockName) -> Result<Queue, NoAnswer> {
        self.check(caller, Verb::Watch, &lock)?;
        self.queue(lock).await
    }

    /// The same, for whoever has been checked, or for all who have been.
    pub(crate) async fn queue(&self, lock: LockName) -> Result<Queue, NoAnswer> {
        let answer = self.question(|request| Call::Query { request, lock }).await?;
        if let Answer::Queue { epoch, algorithm, permits, sites, missing, .. } = answer {
            Ok(Queue { epoch: epoch.number(), algorithm, permits, sites, missing })
        } else {
            Err(refused(answer))
        }
    }

    pub(crate) async fn overview(&self) -> Result<Box<Overview>, NoAnswer> {
        let answer = self.question(|request| Call::Overview { request }).await?;
        if let Answer::Overview { overview, .. } = answer { Ok(overview) } else { Err(refused(answer)) }
    }

    /// Takes a lock away from whoever holds it; gives back from whom, and which sites have not said that they did.
    pub(crate) async fn break_lock(
        &self,
        caller: &Caller,
        lock: LockName,
    ) -> Result<(Vec<CutOff>, Vec<SiteName>), NoAnswer> {
        self.check(caller, Verb::Break, &lock)?;
        let answer = self.question(|request| Call::Break { request, lock: lock.clone() }).await?;
        if let Answer::Broken { cut_off, missing, .. } = answer {
            let fences = cut_off.iter().map(|cut_off| cut_off.fence.value()).collect();
            self.gate().audit().note(caller, Some(&lock), Act::Broke { fences });
            Ok((cut_off, missing))
        } else {
            Err(refused(answer))
        }
    }

    /// Sets the cluster's rules; gives back the view from which on they hold.
    pub(crate) async fn set_rules(&self, caller: &Caller, rules: RulesText) -> Result<u32, NoAnswer> {
        self.gate().check_subject(caller, Verb::Admin, Subject::Cluster)?;
        let answer = self.question(|request| Call::SetRules { request, rules }).await?;
        if let Answer::RulesSet { epoch, .. } = answer {
            let epoch = epoch.number();
            self.gate().audit().note(caller, None, Act::SetRules { epoch });
            Ok(epoch)
        } else {
            Err(refused(answer))
        }
    }

    async fn question(&self, call: impl FnOnce(Request) -> Call) -> Result<Answer, NoAnswer> {
        let (answer, heard) = oneshot::channel();
        self.node().ask(Arc::new(Once(Mutex::new(Some(answer)))), call);
        heard.await.map_err(|_| NoAnswer::Stopping)
    }
}

/// What the node says instead of the answer that was asked for.
fn refused(answer: Answer) -> NoAnswer {
    match answer {
        Answer::Lock(Tell::Refused { why, .. }) => NoAnswer::Refused(why.to_owned()),
        Answer::RulesRefused { why, .. } => NoAnswer::Refused(why),
        other @ (Answer::Lock(_)
        | Answer::Queue { .. }
        | Answer::Overview { .. }
        | Answer::Broken { .. }
        | Answer::RulesSet { .. }
        | Answer::Locks { .. }
        | Answer::Leaves { .. }
        | Answer::Traced { .. }
        | Answer::Left { .. }) => unreachable!("the node answers another question: {other:?}"),
    }
}

/// Hears the one answer.
struct Once(Mutex<Option<oneshot::Sender<Answer>>>);

impl Listener for Once {
    fn hear(&self, answer: &Answer) {
        if let Some(sender) = self.0.lock().unwrap_or_else(PoisonError::into_inner).take() {
            // Whoever asked may have gone.
            let _ = sender.send(answer.clone());
        }
    }
}
