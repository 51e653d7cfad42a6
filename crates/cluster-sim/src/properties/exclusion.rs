//! A lock never has more holders than the permits that any of them was granted it with, and never holders with
//! different numbers, where each holder counts as long as it may assume that it holds the lock.
//!
//! A holder counts from when its node grants (before the client knows) until it says that it has left, its process is
//! gone, or its machine's clock has reached the end of the lease that it was told. The check is made at every grant:
//! between grants, and upgrades, the number of holders can only decrease. The number of permits is the one that the client asked with.
//!
//! Of the holders of one permit there may be several only if their modes admit each other. A holder that downgrades counts as the weaker one
//! from when its node says so, and one that upgrades as exclusive from then on.

use std::collections::{BTreeMap, BTreeSet};

use meshlock_protocol::Mode;

use super::{CheckResult, PropertyViolation, broken};
use crate::clock::{Clock, Moment};
use meshlock_cluster::names::LockName;
use meshlock_cluster::table::{Request, Session};
use meshlock_cluster::time::Time;

#[derive(Clone, Debug)]
struct AssumedHold {
    session: Session,
    lock: LockName,
    permits: u32,
    mode: Mode,
    machine: usize,
    until: Time,
    /// However long the lease lasts: a time on the clock of a machine.
    cap: Option<(usize, Time)>,
    /// Whose it is, if a client may have it twice for a while: at the site that it comes from, and where it claims it.
    mover: Option<usize>,
    lost: bool,
    /// The site that vouches for it leaves, and the one that mirrors it has confirmed that it goes on with it.
    moved: bool,
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
    pub(crate) permits: u32,
    pub(crate) mode: Mode,
    /// Whether the client still runs; if not, its node will notice, and nobody assumes that it holds the lock.
    pub(crate) client_runs: bool,
    /// Whose it is, if it is one that moves from site to site.
    pub(crate) mover: Option<usize>,
}

/// A claim that a node has accepted or settled.
pub(crate) struct ObservedClaim<'a> {
    pub(crate) request: Request,
    pub(crate) session: Session,
    pub(crate) lock: &'a LockName,
    pub(crate) machine: usize,
    pub(crate) until: Time,
    pub(crate) cap: Option<(usize, Time)>,
    pub(crate) permits: u32,
    pub(crate) mode: Mode,
    /// Whose it is, if it is an honest client's.
    pub(crate) mover: Option<usize>,
}

impl Exclusion {
    pub(crate) fn new(clocks: Vec<Clock>, strict: bool) -> Self {
        Exclusion { holds: BTreeMap::new(), clocks, strict, stale_holders: 0 }
    }

    fn is_valid(&self, hold: &AssumedHold, now: Moment) -> bool {
        let is_capped = |(machine, cap): (usize, Time)| self.clocks[machine].at(now) >= cap;
        self.clocks[hold.machine].at(now) < hold.until && !hold.cap.is_some_and(is_capped)
    }

    pub(crate) fn on_granted(&mut self, grant: ObservedGrant<'_>, now: Moment) -> CheckResult {
        let ObservedGrant { request, session, lock, machine, until, permits, mode, client_runs, mover } =
            grant;
        let (cap, lost, moved) = (None, false, false);
        let hold = AssumedHold {
            session,
            lock: lock.clone(),
            permits,
            mode,
            machine,
            until,
            cap,
            mover,
            lost,
            moved,
        };
        if !self.is_valid(&hold, now) {
            return broken("exclusion", now, format!("s{machine} grants {lock} on a lease that is over"));
        }
        self.holds.insert(request, hold);
        let verdict = self.count(lock, now);
        if !client_runs {
            self.holds.remove(&request);
        }
        verdict
    }

    /// Records that a site vouches for a lock that a client claims: until its lease ends, and no longer than the cap.
    pub(crate) fn on_claimed(&mut self, claim: ObservedClaim<'_>, now: Moment) -> CheckResult {
        let ObservedClaim { request, session, lock, machine, until, cap, permits, mode, mover } = claim;
        let (lock_name, lost, moved) = (lock.clone(), false, false);
        let hold =
            AssumedHold { session, lock: lock_name, permits, mode, machine, until, cap, mover, lost, moved };
        self.holds.insert(request, hold);
        self.count(lock, now)
    }

    fn count(&mut self, lock: &LockName, now: Moment) -> CheckResult {
        let of_lock = self.holds.values().filter(|hold| hold.lock == *lock);
        let mut valid: Vec<&AssumedHold> = of_lock.filter(|hold| self.is_valid(hold, now)).collect();
        let mut movers = BTreeSet::new();
        valid.retain(|hold| hold.mover.is_none_or(|mover| movers.insert(mover)));
        let holders: Vec<usize> = valid.iter().map(|hold| hold.machine).collect();
        let numbers: Vec<u32> = valid.iter().map(|hold| hold.permits).collect();
        let (permits, most) = (numbers.iter().min().copied(), numbers.iter().max().copied());
        let modes: Vec<Mode> = valid.iter().map(|hold| hold.mode).collect();
        let go_together = permits == Some(1) && admit_each_other(&modes);
        if permits == most && (holders.len() <= permits.unwrap_or(0) as usize || go_together) {
            return Ok(());
        }
        if !self.strict {
            self.stale_holders += 1;
            return Ok(());
        }
        let what = format!(
            "{lock} has {} holders at the sites {holders:?}, with {numbers:?} permits, {modes:?}",
            holders.len()
        );
        broken("exclusion", now, what)
    }

    /// Records that a client goes on in another mode, and returns the one before; `None` if nobody assumes that it holds the lock.
    pub(crate) fn on_mode(
        &mut self,
        request: Request,
        mode: Mode,
        now: Moment,
    ) -> Result<Option<Mode>, PropertyViolation> {
        let Some(hold) = self.holds.get_mut(&request) else { return Ok(None) };
        let (before, lock) = (std::mem::replace(&mut hold.mode, mode), hold.lock.clone());
        if mode > before {
            self.count(&lock, now)?;
        }
        Ok(Some(before))
    }

    /// Returns whether several clients hold the one permit of a lock.
    pub(crate) fn is_shared(&self, lock: &LockName, now: Moment) -> bool {
        let of_lock = self.holds.values().filter(|hold| hold.lock == *lock && hold.mode != Mode::Exclusive);
        of_lock.filter(|hold| self.is_valid(hold, now)).nth(1).is_some()
    }

    /// Handles the extension of everything that a session holds and has not lost. The clients decide what that is: a
    /// client that was granted a lock and not told that it has lost it assumes that it holds it again, whatever its
    /// node thinks. Returns whether there is any.
    pub(crate) fn on_extended(
        &mut self,
        session: Session,
        until: Time,
        now: Moment,
    ) -> Result<bool, PropertyViolation> {
        let mut any = false;
        let of_session = |hold: &&mut AssumedHold| hold.session == session && !hold.lost;
        for hold in self.holds.values_mut().filter(of_session) {
            if self.clocks[hold.machine].at(now) >= hold.until {
                let what = format!("a holder of {} at s{} came back", hold.lock, hold.machine);
                broken("exclusion", now, what)?;
            }
            (hold.until, any) = (until, true);
        }
        Ok(any)
    }

    /// Checks that nobody counts on what a site has said when it gives up its lease, because it leaves.
    pub(crate) fn on_gave_up(&self, machine: usize, now: Moment) -> CheckResult {
        let counts = |hold: &&AssumedHold| hold.machine == machine && !hold.moved && self.is_valid(hold, now);
        match self.holds.values().find(counts).filter(|_| self.strict) {
            Some(hold) => {
                let what = format!("s{machine} leaves, and a client counts on {}", hold.lock);
                broken("exclusion", now, what)
            }
            None => Ok(()),
        }
    }

    /// Records that the client was told that it has lost the lock.
    pub(crate) fn on_lost(&mut self, request: Request, act_by: Time) {
        if let Some(hold) = self.holds.get_mut(&request) {
            hold.lost = true;
            hold.until = hold.until.min(act_by);
        }
    }

    /// Records that another site has confirmed that it goes on with what a client holds through one that leaves.
    pub(crate) fn on_moved(&mut self, request: Request) {
        if let Some(hold) = self.holds.get_mut(&request) {
            hold.moved = true;
        }
    }

    /// Records that the client no longer assumes that it holds the lock.
    pub(crate) fn on_left(&mut self, request: Request) {
        self.holds.remove(&request);
    }
}

/// Returns whether no two of these modes exclude each other.
fn admit_each_other(modes: &[Mode]) -> bool {
    let others =
        |at: usize| modes.iter().enumerate().filter(move |(other, _)| *other != at).map(|(_, mode)| *mode);
    modes.iter().enumerate().all(|(at, mode)| others(at).all(|other| mode.admits(other)))
}
