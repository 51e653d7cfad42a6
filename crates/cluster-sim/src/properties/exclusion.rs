//! A lock never has more holders than permits, where each holder counts as long as it may assume that it holds the
//! lock.
//!
//! A holder counts from when its node grants (before the client knows) until it says that it has left, its process is
//! gone, or its machine's clock has reached the end of the lease that it was told. The check is made at every grant:
//! between grants the number of holders can only decrease. The number of permits is that of the granting node's view.

use std::collections::BTreeMap;

use super::{CheckResult, broken};
use crate::clock::{Clock, Moment};
use meshlock_cluster::names::LockName;
use meshlock_cluster::table::{Request, Session};
use meshlock_cluster::time::Time;

#[derive(Clone, Debug)]
struct AssumedHold {
    session: Session,
    lock: LockName,
    machine: usize,
    until: Time,
    lost: bool,
}

/// All clients that may assume that they hold a lock.
#[derive(Clone, Debug)]
pub(crate) struct Exclusion {
    holds: BTreeMap<Request, AssumedHold>,
    clocks: Vec<Clock>,
    /// Whether clocks are within the drift bound; if not, only fences protect, and too many holders are only counted.
    strict: bool,
    pub(crate) stale_holders: u64,
}

/// A grant, as a node makes it.
pub(crate) struct ObservedGrant<'a> {
    pub(crate) request: Request,
    pub(crate) session: Session,
    pub(crate) lock: &'a LockName,
    pub(crate) machine: usize,
    pub(crate) until: Time,
    pub(crate) permits: usize,
    /// Whether the client still runs; if not, its node will notice, and nobody assumes that it holds the lock.
    pub(crate) client_runs: bool,
}

impl Exclusion {
    pub(crate) fn new(clocks: Vec<Clock>, strict: bool) -> Self {
        Exclusion { holds: BTreeMap::new(), clocks, strict, stale_holders: 0 }
    }

    fn is_valid(&self, hold: &AssumedHold, now: Moment) -> bool {
        self.clocks[hold.machine].at(now) < hold.until
    }

    pub(crate) fn on_granted(&mut self, grant: ObservedGrant<'_>, now: Moment) -> CheckResult {
        let ObservedGrant { request, session, lock, machine, until, permits, client_runs } = grant;
        let hold = AssumedHold { session, lock: lock.clone(), machine, until, lost: false };
        if !self.is_valid(&hold, now) {
            return broken("exclusion", now, format!("s{machine} grants {lock} on a lease that is over"));
        }
        self.holds.insert(request, hold);
        let verdict = self.count(lock, permits, now);
        if !client_runs {
            self.holds.remove(&request);
        }
        verdict
    }

    fn count(&mut self, lock: &LockName, permits: usize, now: Moment) -> CheckResult {
        let of_lock = self.holds.values().filter(|hold| hold.lock == *lock);
        let holders: Vec<usize> =
            of_lock.filter(|hold| self.is_valid(hold, now)).map(|hold| hold.machine).collect();
        if holders.len() <= permits {
            return Ok(());
        }
        if !self.strict {
            self.stale_holders += 1;
            return Ok(());
        }
        let what =
            format!("{lock} has {} holders, {permits} may be; their sites: {holders:?}", holders.len());
        broken("exclusion", now, what)
    }

    /// Handles the extension of everything that a session holds and has not lost. The clients decide what that is: a
    /// client that was granted a lock and not told that it has lost it assumes that it holds it again, whatever its
    /// node thinks.
    pub(crate) fn on_extended(&mut self, session: Session, until: Time, now: Moment) -> CheckResult {
        let of_session = |hold: &&mut AssumedHold| hold.session == session && !hold.lost;
        for hold in self.holds.values_mut().filter(of_session) {
            if self.clocks[hold.machine].at(now) >= hold.until {
                let what = format!("a holder of {} at s{} came back", hold.lock, hold.machine);
                return broken("exclusion", now, what);
            }
            hold.until = until;
        }
        Ok(())
    }

    /// Records that the client was told that it has lost the lock.
    pub(crate) fn on_lost(&mut self, request: Request, act_by: Time) {
        if let Some(hold) = self.holds.get_mut(&request) {
            hold.lost = true;
            hold.until = hold.until.min(act_by);
        }
    }

    /// Records that the client no longer assumes that it holds the lock.
    pub(crate) fn on_left(&mut self, request: Request) {
        self.holds.remove(&request);
    }
}
