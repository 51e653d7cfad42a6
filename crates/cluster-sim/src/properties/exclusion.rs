//! Never more holders of a lock than permits, each counted as long as it may believe that it holds.
//!
//! A holder counts from when its node grants (before it knows) until it says that it has left, its process is gone, or
//! its machine's clock has reached the end of the lease that it was told. Checked at every grant: between grants holders
//! can only become fewer. What K is, the view of the granting node says.

use std::collections::BTreeMap;

use super::{Verdict, broken};
use crate::clock::{Clock, Moment};
use meshlock_cluster::names::LockName;
use meshlock_cluster::table::{Request, Session};
use meshlock_cluster::time::Time;

#[derive(Clone, Debug)]
struct Belief {
    session: Session,
    lock: LockName,
    machine: usize,
    until: Time,
    lost: bool,
}

/// Everyone who may believe to hold something.
#[derive(Clone, Debug)]
pub(crate) struct Exclusion {
    beliefs: BTreeMap<Request, Belief>,
    clocks: Vec<Clock>,
    /// Whether clocks keep to the bound; if not, only fences protect, and too many holders are only counted.
    strict: bool,
    pub(crate) stale_holders: u64,
}

/// A grant, as a node makes it.
pub(crate) struct Grant<'a> {
    pub(crate) request: Request,
    pub(crate) session: Session,
    pub(crate) lock: &'a LockName,
    pub(crate) machine: usize,
    pub(crate) until: Time,
    pub(crate) permits: usize,
    /// Whether the client still lives; if not, its node will hear of it and nobody believes anything.
    pub(crate) heard: bool,
}

impl Exclusion {
    pub(crate) fn new(clocks: Vec<Clock>, strict: bool) -> Self {
        Exclusion { beliefs: BTreeMap::new(), clocks, strict, stale_holders: 0 }
    }

    fn is_valid(&self, belief: &Belief, now: Moment) -> bool {
        self.clocks[belief.machine].at(now) < belief.until
    }

    pub(crate) fn on_granted(&mut self, grant: Grant<'_>, now: Moment) -> Verdict {
        let Grant { request, session, lock, machine, until, permits, heard } = grant;
        let belief = Belief { session, lock: lock.clone(), machine, until, lost: false };
        if !self.is_valid(&belief, now) {
            return broken("exclusion", now, format!("s{machine} grants {lock} on a lease that is over"));
        }
        self.beliefs.insert(request, belief);
        let verdict = self.count(lock, permits, now);
        if !heard {
            self.beliefs.remove(&request);
        }
        verdict
    }

    fn count(&mut self, lock: &LockName, permits: usize, now: Moment) -> Verdict {
        let of_lock = self.beliefs.values().filter(|belief| belief.lock == *lock);
        let holders: Vec<usize> =
            of_lock.filter(|belief| self.is_valid(belief, now)).map(|belief| belief.machine).collect();
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

    /// A session is told that all it holds and has not lost lasts longer. What that is, the clients know: whoever was
    /// granted a lock and not told that it has lost it believes to have it again, whatever its node thinks.
    pub(crate) fn on_extended(&mut self, session: Session, until: Time, now: Moment) -> Verdict {
        let of_session = |belief: &&mut Belief| belief.session == session && !belief.lost;
        for belief in self.beliefs.values_mut().filter(of_session) {
            if self.clocks[belief.machine].at(now) >= belief.until {
                let what = format!("a holder of {} at s{} came back", belief.lock, belief.machine);
                return broken("exclusion", now, what);
            }
            belief.until = until;
        }
        Ok(())
    }

    /// It was told that it has lost.
    pub(crate) fn on_lost(&mut self, request: Request, act_by: Time) {
        if let Some(belief) = self.beliefs.get_mut(&request) {
            belief.lost = true;
            belief.until = belief.until.min(act_by);
        }
    }

    /// It does not believe it any more.
    pub(crate) fn on_left(&mut self, request: Request) {
        self.beliefs.remove(&request);
    }
}
