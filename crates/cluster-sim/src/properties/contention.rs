//! A client is told that somebody else has a lock only if somebody else held it or asked for it meanwhile: an outage is
//! not contention.
//!
//! A request counts from when its node receives it until its node says that it has ended, its session ends, or its
//! node's process is gone. A site that still reports it later, because its client was cut off, does no harm: then it has
//! not ended here.

use std::collections::BTreeMap;

use super::{CheckResult, broken};
use crate::clock::Moment;
use meshlock_cluster::names::LockName;
use meshlock_cluster::table::{Acquire, LockClaim, Request, Session};

/// The requests that nodes know.
#[derive(Clone, Debug, Default)]
pub(crate) struct Contention {
    open: BTreeMap<Request, OpenUse>,
    /// When the last request for each lock ended.
    ended: BTreeMap<LockName, Moment>,
}

#[derive(Clone, Debug)]
struct OpenUse {
    lock: LockName,
    machine: usize,
    session: Session,
    since: Moment,
}

impl Contention {
    pub(crate) fn on_asked(&mut self, machine: usize, wanted: &Acquire, since: Moment) {
        let (lock, session) = (wanted.lock.clone(), wanted.session);
        self.open.insert(wanted.request, OpenUse { lock, machine, session, since });
    }

    pub(crate) fn on_claimed(&mut self, machine: usize, claim: &LockClaim, since: Moment) {
        let (lock, session) = (claim.proof.hold().lock.clone(), claim.session);
        self.open.insert(claim.request, OpenUse { lock, machine, session, since });
    }

    pub(crate) fn on_ended(&mut self, request: Request, now: Moment) {
        if let Some(used) = self.open.remove(&request) {
            self.ended.insert(used.lock, now);
        }
    }

    pub(crate) fn on_session_ended(&mut self, session: Session, now: Moment) {
        self.end_all(|used| used.session == session, now);
    }

    pub(crate) fn on_crash(&mut self, machine: usize, now: Moment) {
        self.end_all(|used| used.machine == machine, now);
    }

    /// Checks that the request, which is told that the lock is taken, was not the only one for it.
    pub(crate) fn on_taken(&mut self, request: Request, now: Moment) -> CheckResult {
        let Some(used) = self.open.get(&request).cloned() else { return Ok(()) };
        let others = self.open.iter().any(|(other, open)| *other != request && open.lock == used.lock);
        let before = self.ended.get(&used.lock).is_some_and(|ended| *ended >= used.since);
        self.on_ended(request, now);
        if others || before {
            return Ok(());
        }
        let what =
            format!("a client of s{} is told that {} is taken, and nobody uses it", used.machine, used.lock);
        broken("contention", now, what)
    }

    fn end_all(&mut self, ends: impl Fn(&OpenUse) -> bool, now: Moment) {
        let ending = self.open.iter().filter(|(_, used)| ends(used)).map(|(request, _)| *request);
        for request in ending.collect::<Vec<_>>() {
            self.on_ended(request, now);
        }
    }
}
