//! Semaphores without configuration: whoever uses one says how many permits it has, and the cluster's rules follow.

use meshlock_cluster::access::{Denied, Subject, Verb};
use meshlock_cluster::names::LockName;
use meshlock_cluster::node::{ClientCall, Node};
use meshlock_cluster::rules::{Clause, Rules, RulesError};
use meshlock_protocol::Epoch;

use super::questions::NotAnswered;
use super::{Admitted, Front, NotGranted};

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
    Differ { lock: LockName, has: u32, wants: u32 },
    /// A rule for this name alone cannot be written.
    #[error(
        "the name '{lock}' contains '*', which in a rule stands for other names too; give the semaphore another name"
    )]
    Star { lock: LockName },
    /// Such rules make no sense.
    #[error(transparent)]
    Rules(#[from] RulesError),
    /// The cluster did not take them.
    #[error("the cluster's rules for '{lock}' could not be changed: {why}")]
    Refused { lock: LockName, why: String },
}

/// Whether the lock has so many permits, as far as this site knows.
pub(super) fn has_permits(node: &Node, lock: &LockName, permits: u32) -> bool {
    node.table().rules().is_some_and(|rules| rules.rule(lock).permits == permits)
}

impl Front {
    /// Whether the caller may change the cluster's rules.
    pub(super) fn check_rules_change(&self, caller: &Admitted) -> Result<(), Denied> {
        self.check_subject(caller, Verb::Admin, Subject::Cluster)
    }
}

/// Sees to it that the cluster's rules give the lock so many permits. Where no rule names the lock, one is added; where one
/// does and says something else, that is an error.
pub(super) async fn agree_on_permits(
    front: &Front,
    caller: &Admitted,
    lock: &LockName,
    permits: u32,
) -> Result<(), NotGranted> {
    let node = front.node();
    // Before it takes part a site does not know the rules that it would add to.
    node.until(|state| state.epoch > Epoch::default()).await;
    // One change at a time: whoever comes second may find it done.
    let _one = node.rules_gate().lock().await;
    loop {
        let text = node.look(|node| node.view().rules.clone());
        let rules = Rules::new(text.clone()).map_err(PermitsError::from)?;
        let rule = rules.rule(lock);
        if rule.permits == permits {
            return Ok(());
        }
        let lock = lock.clone();
        if !std::ptr::eq(rule, rules.default_rule()) {
            return Err(PermitsError::Differ { lock, has: rule.permits, wants: permits }.into());
        }
        front.check_rules_change(caller)?;
        if lock.as_str().contains('*') {
            return Err(PermitsError::Star { lock }.into());
        }
        let mut wanted = text.clone();
        wanted.rules.push((lock.as_str().to_owned(), Clause::shared(ALGORITHM, permits)));
        Rules::new(wanted.clone()).map_err(PermitsError::from)?;
        let changed = front.question(|request| ClientCall::SetRules { request, rules: wanted }).await;
        // Whoever changed them meanwhile may have wanted the same: look again.
        if let Err(error) = changed
            && (error == NotAnswered::Stopping || node.look(|node| node.view().rules == text))
        {
            return Err(PermitsError::Refused { lock, why: error.to_string() }.into());
        }
    }
}
