//! Semaphores without configuration: whoever uses one says how many permits it has, and the cluster's rules follow.

use std::sync::Arc;
use std::time::Duration;

use meshlock_protocol::Epoch;
use tokio::sync::watch;
use tokio::time::timeout;

use super::engine::{Handle, Listener};
use meshlock_cluster::names::LockName;
use meshlock_cluster::node::{Answer, Call, Node};
use meshlock_cluster::rules::{Clause, Rules, RulesError};
use meshlock_cluster::table::Tell;

/// What runs semaphores that no rule names: permits are numbered, and one that is free reaches whoever waits
/// ([`Permits::Many`](meshlock_protocol::registry::info::Permits)), however long the others are kept.
const ALGORITHM: &str = "srimani-reddy";

/// Why a lock does not have the permits that a program expects.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PermitsError {
    /// A rule says something else, and other programs rely on it.
    #[error(
        "the cluster's rules give '{lock}' {has} permits and this program expects {wants}; change one of the two"
    )]
    Differ {
        /// Which lock.
        lock: LockName,
        /// What the rules say.
        has: u32,
        /// What the program says.
        wants: u32,
    },
    /// A rule for this name alone cannot be written.
    #[error(
        "the name '{lock}' contains '*', which in a rule stands for other names too; give the semaphore another name"
    )]
    Star {
        /// Which lock.
        lock: LockName,
    },
    /// Such rules make no sense.
    #[error(transparent)]
    Rules(#[from] RulesError),
    /// The cluster did not take them.
    #[error("the cluster's rules for '{lock}' could not be changed: {why}")]
    Refused {
        /// Which lock.
        lock: LockName,
        /// Why.
        why: String,
    },
}

/// Sees to it that the cluster's rules give the lock so many permits. Where no rule names the lock, one is added; where one
/// does and says something else, that is an error.
pub async fn agree_on_permits(node: &Handle, lock: &LockName, permits: u32) -> Result<(), PermitsError> {
    // Before it takes part a site does not know the rules that it would add to.
    node.until(|stand| stand.epoch > Epoch::default()).await;
    let is_met = || -> Result<bool, PermitsError> {
        let rules = Rules::new(node.look(|node| node.view().rules.clone()))?;
        Ok(rules.rule(lock).permits == permits)
    };
    if is_met()? {
        return Ok(());
    }
    // One change at a time: whoever comes second may find it done.
    let _one = node.rules_gate().lock().await;
    loop {
        let text = node.look(|node| node.view().rules.clone());
        let rules = Rules::new(text.clone())?;
        let rule = rules.rule(lock);
        if rule.permits == permits {
            return Ok(());
        }
        if !std::ptr::eq(rule, rules.default_rule()) {
            return Err(PermitsError::Differ { lock: lock.clone(), has: rule.permits, wants: permits });
        }
        if lock.as_str().contains('*') {
            return Err(PermitsError::Star { lock: lock.clone() });
        }
        let mut wanted = text.clone();
        wanted.rules.push((lock.as_str().to_owned(), Clause::shared(ALGORITHM, permits)));
        Rules::new(wanted.clone())?;
        let heard = Arc::new(Heard(watch::Sender::new(None)));
        node.ask(heard.clone(), |request| Call::SetRules { request, rules: wanted });
        let mut answer = heard.0.subscribe();
        let answer = answer.wait_for(Option::is_some).await.expect("`heard` lives here").clone();
        // Whoever changed them meanwhile may have wanted the same: look again.
        if let Some(Err(why)) = answer
            && node.look(|node| node.view().rules == text)
        {
            return Err(PermitsError::Refused { lock: lock.clone(), why });
        }
    }
}

/// Whether the cluster's rules would have to change for the lock to have so many permits, as far as is known here. What cannot be
/// had at all changes nothing either.
pub fn needs_rule(node: &Node, lock: &LockName, permits: u32) -> bool {
    let Ok(rules) = Rules::new(node.view().rules.clone()) else { return false };
    let rule = rules.rule(lock);
    rule.permits != permits && std::ptr::eq(rule, rules.default_rule())
}

/// The same, within so long; nothing if that was not enough. Needs no runtime of the caller's.
pub async fn agree_on_permits_within(
    node: &Handle,
    lock: &LockName,
    permits: u32,
    within: Duration,
) -> Option<Result<(), PermitsError>> {
    let (there, lock) = (node.clone(), lock.clone());
    let agreeing = async move { timeout(within, agree_on_permits(&there, &lock, permits)).await };
    // Where the node has ended nobody agrees any more.
    node.tasks().spawn(agreeing).await.ok()?.ok()
}

/// Whether the rules were changed.
struct Heard(watch::Sender<Option<Result<(), String>>>);

impl Listener for Heard {
    fn hear(&self, answer: &Answer) {
        let heard = match answer {
            Answer::RulesSet { .. } => Ok(()),
            Answer::RulesRefused { why, .. } => Err(why.clone()),
            Answer::Lock(Tell::Refused { why, .. }) => Err((*why).to_owned()),
            Answer::Lock(_)
            | Answer::Queue { .. }
            | Answer::Overview { .. }
            | Answer::Broken { .. }
            | Answer::Locks { .. }
            | Answer::Leaves { .. }
            | Answer::Traced { .. }
            | Answer::Left { .. } => return,
        };
        self.0.send_replace(Some(heard));
    }
}
