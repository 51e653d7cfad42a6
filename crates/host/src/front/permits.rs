//! Semaphores without configuration: a caller states how many permits a semaphore has, and a rule is added to the cluster if needed.

use meshlock_cluster::access::{Denied, Subject, Verb};
use meshlock_cluster::names::LockName;
use meshlock_cluster::node::{ClientCall, Node};
use meshlock_cluster::rules::{Clause, Rules, RulesError};
use meshlock_protocol::Epoch;

use super::questions::NotAnswered;
use super::{Admitted, Front, NotGranted};

/// The algorithm of semaphores that no rule names. Its permits are numbered, and a free permit reaches a waiter
/// ([`Permits::Many`](meshlock_protocol::registry::info::Permits)) however long the others are kept.
const ALGORITHM: &str = "srimani-reddy";

/// Why a lock does not have the number of permits that a caller expects.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PermitsError {
    /// A rule gives another number, and other programs rely on that rule.
    #[error(
        "the cluster's rules give '{lock}' {has} permits and this program expects {wants}; change one of the two"
    )]
    Differ { lock: LockName, has: u32, wants: u32 },
    /// A rule that matches only this name cannot be written.
    #[error(
        "the name '{lock}' contains '*', which in a rule stands for other names too; give the semaphore another name"
    )]
    Star { lock: LockName },
    /// The resulting rules would be invalid.
    #[error(transparent)]
    Rules(#[from] RulesError),
    /// The cluster did not accept the rules.
    #[error("the cluster's rules for '{lock}' could not be changed: {why}")]
    Refused { lock: LockName, why: String },
}

/// Returns the number of permits that the lock has by the rules of this site's view; `None` before the first view.
pub(super) fn permits_of(node: &Node, lock: &LockName) -> Option<u32> {
    if let Some(rules) = node.table().rules() {
        return Some(rules.rule(lock).permits);
    }
    // While the view changes, the rules of the next view already apply.
    let view = Some(node.view()).filter(|view| view.epoch > Epoch::default())?;
    Rules::new(view.rules.clone()).ok().map(|rules| rules.rule(lock).permits)
}

impl Front {
    /// Checks whether the caller may change the cluster's rules.
    pub(super) fn check_rules_change(&self, caller: &Admitted) -> Result<(), Denied> {
        self.check_subject(caller, Verb::Admin, Subject::Cluster)
    }
}

/// Makes sure that the cluster's rules give the lock this number of permits. If no rule names the lock, one is added; a rule with another
/// number is an error.
pub(super) async fn agree_on_permits(
    front: &Front,
    caller: &Admitted,
    lock: &LockName,
    permits: u32,
) -> Result<(), NotGranted> {
    let node = front.node();
    // A site that is not yet a member does not know the rules that it would extend.
    node.until(|state| state.epoch > Epoch::default()).await;
    // One change at a time: the next caller may find it already done.
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
        // Somebody else may have made the same change meanwhile: check again.
        if let Err(error) = changed
            && (error == NotAnswered::Stopping || node.look(|node| node.view().rules == text))
        {
            if let Some(outage) = front.outage() {
                return Err(outage.into());
            }
            return Err(PermitsError::Refused { lock, why: error.to_string() }.into());
        }
    }
}
