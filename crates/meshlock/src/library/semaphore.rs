//! Semaphores: locks with several permits.

use std::sync::Arc;
use std::time::Duration;

use meshlock_node::names::LockName;
use meshlock_node::node::{Answer, Call};
use meshlock_node::rules::{Clause, Rules};
use meshlock_node::shell::Listener;
use meshlock_node::table::Wait;
use tokio::sync::watch;

use super::blocking::wait_for;
use super::guard::Guard;
use super::node::{AcquireError, Node, until};

/// What runs semaphores that no rule names.
const ALGORITHM: &str = "bulgannawar-vaidya";

/// A lock that several may hold at once, of all processes of all sites together.
#[derive(Clone, Debug)]
pub struct Semaphore {
    node: Node,
    name: String,
    permits: u32,
}

impl Semaphore {
    pub(super) fn new(node: Node, name: String, permits: u32) -> Self {
        Semaphore { node, name, permits }
    }

    /// Waits for a permit, as long as it takes.
    pub async fn acquire(&self) -> Result<Guard, AcquireError> {
        self.acquire_as(Wait::Forever).await
    }

    /// Takes a permit if one is free.
    pub async fn try_acquire(&self) -> Result<Guard, AcquireError> {
        self.acquire_as(Wait::Try).await
    }

    /// Waits for a permit, but not longer than this.
    pub async fn acquire_within(&self, longest: Duration) -> Result<Guard, AcquireError> {
        self.acquire_as(until(longest)).await
    }

    /// [`acquire`](Semaphore::acquire) without async.
    pub fn acquire_blocking(&self) -> Result<Guard, AcquireError> {
        wait_for(self.acquire())
    }

    async fn acquire_as(&self, wait: Wait) -> Result<Guard, AcquireError> {
        let lock: LockName = self.name.parse()?;
        self.agree(&lock).await?;
        self.node.acquire(lock, wait).await
    }

    /// Sees to it that the cluster's rules give the lock as many permits as this program expects. Where no rule names
    /// the lock, one is added; where one does and says something else, that is an error: another program relies on it.
    async fn agree(&self, lock: &LockName) -> Result<(), AcquireError> {
        loop {
            let text = self.node.engine().look(|node| node.view().rules.clone());
            let refused = |why: String| AcquireError::Refused { lock: lock.clone(), why };
            let rules = Rules::new(text.clone()).map_err(|error| refused(error.to_string()))?;
            if rules.rule(lock).permits == self.permits {
                return Ok(());
            }
            if !std::ptr::eq(rules.rule(lock), rules.default_rule()) {
                let (has, wants) = (rules.rule(lock).permits, self.permits);
                return Err(refused(format!(
                    "the cluster's rules give it {has} permits and this program expects {wants}; change one of them"
                )));
            }
            let mut wanted = text;
            wanted.rules.push((lock.as_str().to_owned(), Clause::shared(ALGORITHM, self.permits)));
            let heard = Arc::new(Heard(watch::Sender::new(None)));
            self.node.engine().ask(heard.clone(), |request| Call::SetRules { request, rules: wanted });
            let mut answer = heard.0.subscribe();
            let answer = answer.wait_for(Option::is_some).await.expect("`heard` lives here").clone();
            match answer {
                Some(Ok(())) => {}
                // Whoever changed them meanwhile may have wanted the same.
                Some(Err(_)) if self.node.engine().look(|node| node.view().rules != rules.text().clone()) => {}
                Some(Err(why)) => return Err(refused(why)),
                None => unreachable!("waited for"),
            }
        }
    }
}

/// Whether the rules were changed.
struct Heard(watch::Sender<Option<Result<(), String>>>);

impl Listener for Heard {
    fn hear(&self, answer: &Answer) {
        let heard = match answer {
            Answer::RulesSet { .. } => Ok(()),
            Answer::RulesRefused { why, .. } => Err(why.clone()),
            _ => return,
        };
        self.0.send_replace(Some(heard));
    }
}
