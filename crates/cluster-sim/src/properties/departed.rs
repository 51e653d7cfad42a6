//! A client that is gone holds nothing, from the moment its node knows.

use std::collections::BTreeSet;

use super::{CheckResult, broken};
use crate::clock::Moment;
use meshlock_cluster::node::Node;
use meshlock_cluster::table::Session;

/// The sessions that nodes know to have ended.
#[derive(Clone, Debug, Default)]
pub(crate) struct Departed(BTreeSet<Session>);

impl Departed {
    pub(crate) fn on_ended(&mut self, session: Session) {
        self.0.insert(session);
    }

    pub(crate) fn check(&self, node: &Node, now: Moment) -> CheckResult {
        if self.0.is_empty() {
            return Ok(());
        }
        for (session, _, lock) in node.table().holders() {
            if self.0.contains(&session) {
                let what = format!("{} holds {lock} for a client that is gone", node.me());
                return broken("departed", now, what);
            }
        }
        for (session, lock) in node.table().claims() {
            if self.0.contains(&session) {
                let what = format!("{} keeps a claim to {lock} of a client that is gone", node.me());
                return broken("departed", now, what);
            }
        }
        Ok(())
    }
}
