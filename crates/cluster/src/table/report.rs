//! Reports of a site about its locks, and taking locks away.
//!
//! Lists are bounded, with the true number beside them. Times are given as ages, because clocks of different sites are
//! never compared.

use std::cmp::Reverse;

use meshlock_protocol::{Algorithm, Demand, Fence, Mode, Phase, numbered};
use serde::{Deserialize, Serialize};

use super::claims::PendingClaim;
use super::clients::{Hold, WaitingClient};
use super::lock::{Lock, Machines};
use super::losing::Revocation;
use super::{AcquireOutcome, LeaseClock, LockKey, LockTable, LossReason, Request, Session, TableOutput};
use crate::mutant::{self, Mutant};
use crate::names::{ClientLabel, LockName};
use crate::rules::Rules;
use crate::time::{Span, Time};

/// Maximum number of holders, and of waiters, that one site lists; of more it reports only the number.
pub const MAX_LISTED: usize = 100;

/// A client that holds a lock.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct HolderReport {
    /// The label that the client gave itself.
    pub label: Option<ClientLabel>,
    /// The fence of its grant.
    pub fence: Fence,
    /// Which of K permits, where they are numbered.
    pub slot: Option<u32>,
    /// How long it has held the lock.
    pub age: Span,
    /// Whether it was told that it has lost the lock, and has time left to stop.
    pub lost: bool,
    /// In which mode it holds the lock; older versions do not say it.
    #[serde(skip)]
    pub mode: Mode,
}

/// A client that waits for a lock.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct WaiterReport {
    /// The label that the client gave itself.
    pub label: Option<ClientLabel>,
    /// How long it has waited.
    pub age: Span,
    /// What it asked for; older versions do not say it.
    #[serde(skip)]
    pub demand: Demand,
}

/// The state of a lock's machines at one site.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Machinery {
    /// There are none: the view is not open, or nobody has used the lock in it.
    Stopped,
    /// The number of lanes in each phase.
    Running {
        idle: u32,
        /// Have requested to enter.
        waiting: u32,
        /// Are inside.
        executing: u32,
    },
    /// The lock has more holders than permits: nobody enters before enough have left.
    Draining,
}

numbered! { Machinery {
    0 => Stopped,
    1 => Running { idle, waiting, executing },
    2 => Draining,
} }

/// A site's report about a lock.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct LockReport {
    pub machines: Machinery,
    /// The clients that hold the lock, the first [`MAX_LISTED`].
    pub holders: Vec<HolderReport>,
    /// Number of holders, listed or not.
    pub holders_in_all: u64,
    /// The clients that wait, in their order, the first [`MAX_LISTED`].
    pub waiters: Vec<WaiterReport>,
    /// Number of waiters, listed or not.
    pub waiters_in_all: u64,
}

impl LockReport {
    /// Returns whether it lists no more than a correct site does.
    pub(crate) fn is_bounded(&self) -> bool {
        let agrees = |listed: usize, all: u64| listed <= MAX_LISTED && listed as u64 <= all;
        agrees(self.holders.len(), self.holders_in_all) && agrees(self.waiters.len(), self.waiters_in_all)
    }
}

/// A lock that a client of this site holds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HeldLock {
    pub lock: LockName,
    pub holder: HolderReport,
}

/// A lock that clients of one site hold or wait for.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct LockInUse {
    pub lock: LockName,
    /// Number of holders at the site.
    pub holders: u64,
    /// Number of waiters at the site.
    pub waiters: u64,
    /// The holder at this site that has held it longest, if there is one.
    pub holder: Option<HolderReport>,
    /// How long the first waiter at this site has waited.
    pub waited: Span,
}

/// The sizes of a table.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Number of locks that it keeps, in use or idle.
    pub locks: usize,
    /// Number of acquisitions that were granted and not released.
    pub holders: usize,
    /// Number of acquisitions that wait.
    pub waiters: usize,
    /// Number of sessions that have a label or an acquisition.
    pub sessions: usize,
}

impl LockTable {
    /// Sets the label of a session's client. After `reacts_within` the client has certainly received what it was told,
    /// or has stopped by itself. The label is forgotten with the session.
    pub(crate) fn introduce(&mut self, session: Session, who: ClientLabel, reacts_within: Span) {
        let client = self.sessions.entry(session).or_default();
        (client.label, client.reacts_within) = (Some(who), reacts_within);
    }

    /// Returns the report of this site about a lock.
    pub(crate) fn report(&self, lock: &LockName, now: Time) -> LockReport {
        self.report_with(lock, now, |_| true)
    }

    /// Returns the report of this site about a lock, with those of its claims that are `shown`.
    fn report_with(&self, lock: &LockName, now: Time, shown: impl Fn(&PendingClaim) -> bool) -> LockReport {
        let waiter = |waiter: &WaitingClient| {
            let (label, age) = (self.label(waiter.request), now.since(waiter.since));
            WaiterReport { label, age, demand: waiter.demand }
        };
        // Clients that take the name for different locks wait in different queues.
        let keys = self.keys_of(lock);
        let keyed: Vec<(&LockKey, &Lock)> =
            keys.iter().filter_map(|key| Some((key, &**self.locks.get(key)?))).collect();
        let in_use = keyed.iter().find(|(_, lock)| !lock.clients.holds.is_empty()).or(keyed.last());
        let locks: Vec<&Lock> = keyed.iter().map(|(_, lock)| *lock).collect();
        let holds = || locks.iter().flat_map(|lock| &lock.clients.holds);
        let waiters = || locks.iter().flat_map(|lock| lock.clients.waiters.iter());
        let claims: Vec<HolderReport> = self.claimants(lock, now, shown).collect();
        let holders_in_all = (holds().count() + claims.len()) as u64;
        let holders = holds().map(|hold| self.holder(hold, now)).chain(claims).take(MAX_LISTED).collect();
        LockReport {
            machines: in_use.map_or_else(|| self.at_rest(lock, 0), |(key, lock)| self.machinery(key, lock)),
            holders,
            holders_in_all,
            waiters: waiters().take(MAX_LISTED).map(waiter).collect(),
            waiters_in_all: waiters().count() as u64,
        }
    }

    /// Returns the clients of this site that claim the lock, in a way that `is_meant`.
    pub(super) fn claimants(
        &self,
        lock: &LockName,
        now: Time,
        is_meant: impl Fn(&PendingClaim) -> bool,
    ) -> impl Iterator<Item = HolderReport> {
        self.claims.shown(lock).filter(move |(_, claim)| is_meant(claim)).map(move |(session, claim)| {
            HolderReport {
                label: self.sessions.get(&session).and_then(|client| client.label.clone()),
                fence: claim.hold.fence,
                slot: claim.hold.slot,
                age: now.since(claim.since),
                lost: false,
                mode: claim.hold.mode,
            }
        })
    }

    /// Returns the rules of the view that is open.
    pub fn rules(&self) -> Option<&Rules> {
        self.local_view.as_ref().map(|local_view| &local_view.rules)
    }

    /// Returns whether a client of this site holds anything, or claims something.
    pub fn holds_anything(&self) -> bool {
        self.tally.holders() > self.vacated.len() as u64
            || self.claims.has_any() && !mutant::is_on(Mutant::LeavesWithClaims)
    }

    /// Returns all holders here: session, request, lock.
    pub fn holders(&self) -> impl Iterator<Item = (Session, Request, &LockName)> {
        self.held_keys().map(|(session, request, key)| (session, request, &key.name))
    }

    /// Returns all holders here, with the lock as they asked for it.
    pub(super) fn held_keys(&self) -> impl Iterator<Item = (Session, Request, &LockKey)> {
        let holds = |(request, (_, lock)): &(&Request, &(Session, LockKey))| {
            self.locks.get(lock).is_some_and(|lock| lock.holds(**request))
        };
        self.requests.iter().filter(holds).map(|(request, (session, lock))| (*session, *request, lock))
    }

    /// Returns the sizes of this table.
    pub fn counts(&self) -> Counts {
        let holders = usize::try_from(self.tally.holders()).unwrap_or(usize::MAX) - self.vacated.len();
        let waiters = self.requests.len() - holders;
        Counts { locks: self.locks.len(), holders, waiters, sessions: self.sessions.len() }
    }

    /// Returns the first [`MAX_LISTED`] locks that clients of this site hold, in the order of their requests.
    pub(crate) fn held(&self, now: Time) -> Vec<HeldLock> {
        let held = self.held_keys().filter_map(|(_, request, key)| {
            let hold = self.locks.get(key)?.hold(request)?;
            Some(HeldLock { lock: key.name.clone(), holder: self.holder(hold, now) })
        });
        held.take(MAX_LISTED).collect()
    }

    /// Returns the number of grants here.
    pub(crate) fn granted(&self) -> u64 {
        self.tally.outcomes(AcquireOutcome::Granted)
    }

    /// Returns the first [`MAX_LISTED`] locks that clients of this site hold or wait for, those with the most waiters
    /// first, and the number of all such locks. Takes time linear in the number of locks.
    pub(crate) fn in_use(&self, now: Time) -> (Vec<LockInUse>, u64) {
        let in_use = |(_, lock): &(&LockKey, &Lock)| {
            !lock.clients.waiters.is_empty() || !lock.clients.holds.is_empty()
        };
        let locks = self.locks.iter().map(|(key, lock)| (key, &**lock));
        let mut locks: Vec<(&LockKey, &Lock)> = locks.filter(in_use).collect();
        let all = locks.len() as u64;
        let order = |a: &(&LockKey, &Lock), b: &(&LockKey, &Lock)| {
            let use_of =
                |lock: &Lock| (Reverse(lock.clients.waiters.len()), Reverse(lock.clients.holds.len()));
            use_of(a.1).cmp(&use_of(b.1)).then_with(|| a.0.cmp(b.0))
        };
        if locks.len() > MAX_LISTED {
            locks.select_nth_unstable_by(MAX_LISTED, order);
            locks.truncate(MAX_LISTED);
        }
        locks.sort_unstable_by(order);
        let in_use = |(key, lock): (&LockKey, &Lock)| LockInUse {
            lock: key.name.clone(),
            holders: lock.clients.holds.len() as u64,
            waiters: lock.clients.waiters.len() as u64,
            holder: lock.clients.holds.first().map(|hold| self.holder(hold, now)),
            waited: lock.clients.waiters.front().map_or(Span::ZERO, |waiter| now.since(waiter.since)),
        };
        let listed = locks.into_iter().map(in_use).collect();
        self.with_claims(listed, all, now)
    }

    /// Adds the locks that clients of this site claim to those that they hold or wait for, and to the number of them.
    fn with_claims(&self, mut listed: Vec<LockInUse>, mut all: u64, now: Time) -> (Vec<LockInUse>, u64) {
        let is_in_use = |key: &LockKey| {
            let lock = self.locks.get(key);
            lock.is_some_and(|lock| !lock.clients.waiters.is_empty() || !lock.clients.holds.is_empty())
        };
        for lock in self.claims.locks() {
            // A standing claim is one of a lock that another site lists.
            let claims = self.claimants(lock, now, |claim| !claim.is_standing);
            let claims: Vec<HolderReport> = claims.collect();
            let (holders, holder) = (claims.len() as u64, claims.into_iter().next());
            if let Some(known) = listed.iter_mut().find(|known| known.lock == *lock) {
                known.holders += holders;
                known.holder = known.holder.take().or(holder);
            } else if holder.is_some() && !self.keys_of(lock).iter().any(is_in_use) {
                all += 1;
                if listed.len() < MAX_LISTED {
                    let (lock, waiters, waited) = (lock.clone(), 0, Span::ZERO);
                    listed.push(LockInUse { lock, holders, waiters, holder, waited });
                }
            }
        }
        (listed, all)
    }

    /// Returns all claims here that are not settled: session, lock.
    pub fn claims(&self) -> impl Iterator<Item = (Session, &LockName)> {
        self.claims.claiming()
    }

    /// Takes a lock away from every client of this site that holds it, and returns who they were. They are told now,
    /// and keep the lock (so that nobody else can enter) until they confirm that they have stopped, or for the margin
    /// of a lease. A client on another machine, which may be cut off and not receive the message, keeps it until it has
    /// certainly stopped by itself.
    pub(crate) fn take_away(
        &mut self,
        name: &LockName,
        lease_clock: LeaseClock,
        out: &mut Vec<TableOutput>,
    ) -> Vec<HolderReport> {
        let mut holders: Vec<(Request, LockKey)> = Vec::new();
        for key in self.keys_of(name) {
            let holds = self.locks.get(&key).map_or(&[] as &[Hold], |lock| &lock.clients.holds);
            holders.extend(holds.iter().map(|hold| (hold.request, key.clone())));
        }
        self.take_from(holders.iter().cloned(), LossReason::Broken, lease_clock, out);
        // Whoever holds what a mirror claims is cut off by its own site.
        let cut_off = self.report_with(name, lease_clock.now, |claim| !claim.is_standing).holders;
        self.take_claims(Some(name), LossReason::Broken, lease_clock, out);
        if mutant::is_on(Mutant::BrokenIsFreeAtOnce) {
            for (request, key) in holders {
                self.leave(request, &key, lease_clock, out);
            }
        }
        cut_off
    }

    /// Takes everything away from the clients of this site, each as [`take_away`](LockTable::take_away) does.
    pub(crate) fn take_all_away(&mut self, lease_clock: LeaseClock, out: &mut Vec<TableOutput>) {
        let all: Vec<_> = self.held_keys().map(|(_, request, key)| (request, key.clone())).collect();
        self.take_from(all.into_iter(), LossReason::Leaving, lease_clock, out);
        self.take_claims(None, LossReason::Leaving, lease_clock, out);
    }

    pub(super) fn take_from(
        &mut self,
        holders: impl Iterator<Item = (Request, LockKey)>,
        by: LossReason,
        lease_clock: LeaseClock,
        out: &mut Vec<TableOutput>,
    ) {
        for (request, name) in holders {
            let Some((session, _)) = self.requests.get(&request) else { continue };
            let act_by = self.act_by(*session, lease_clock);
            let ends_at = self.ends_at(request, act_by, lease_clock);
            if let Some(hold) = self.locks.get_mut(&name).and_then(|lock| lock.hold_mut(request)) {
                let (alarms, tally, losing) = (&mut self.alarms, &mut self.tally, &mut self.losing);
                let (changes, now) = (&mut self.changes, lease_clock.now);
                let mut revocation = Revocation { alarms, tally, losing, changes, now, out };
                revocation.revoke(&name, hold, act_by, ends_at, by);
            }
        }
    }

    /// Returns the time by which a client of the session must have stopped, if it is told now that it has lost a lock.
    pub(super) fn act_by(&self, session: Session, lease_clock: LeaseClock) -> Time {
        let reacts_within = self.sessions.get(&session).map_or(Span::ZERO, |client| client.reacts_within);
        let act_by = lease_clock.now + self.table_config.margin.max(reacts_within);
        // Without a comfortable lease all holders have been told before, to stop before the lease ends.
        lease_clock.lease_end.map_or(act_by, |end| end.min(act_by))
    }

    pub(super) fn holder(&self, hold: &Hold, now: Time) -> HolderReport {
        HolderReport {
            label: self.label(hold.request),
            fence: hold.fence,
            slot: hold.slot,
            age: now.since(hold.since),
            lost: hold.stop_by.is_some(),
            mode: hold.mode,
        }
    }

    fn label(&self, request: Request) -> Option<ClientLabel> {
        let (session, _) = self.requests.get(&request)?;
        self.sessions.get(session)?.label.clone()
    }

    /// Returns the state in which the machines of a name would start that was held when the view opened, by `holders`
    /// clients of this site.
    fn at_rest(&self, name: &LockName, holders: u32) -> Machinery {
        let is_held = holders > 0 || self.elsewhere.contains(name.as_str());
        match self.rules().filter(|_| is_held && !self.draining.contains_key(name)) {
            None => Machinery::Stopped,
            Some(rules) => {
                let lanes =
                    self.local_view.as_ref().map_or(rules.rule(name).per_site, |view| view.lanes(name));
                let idle = lanes.saturating_sub(holders);
                Machinery::Running { idle, waiting: 0, executing: holders }
            }
        }
    }

    fn machinery(&self, key: &LockKey, lock: &Lock) -> Machinery {
        let count = |clients: usize| u32::try_from(clients).unwrap_or(u32::MAX);
        match &lock.machines {
            Machines::Stopped => self.at_rest(&key.name, count(lock.clients.holds.len())),
            Machines::Draining => Machinery::Draining,
            Machines::AtHome => {
                // One more could always ask: it never waits for a permit of this site only.
                let (idle, waiting) = (1, count(lock.clients.asked.len()));
                Machinery::Running { idle, waiting, executing: count(lock.clients.holds.len()) }
            }
            Machines::Running { lanes, .. } => {
                let of = |phase| count(lanes.iter().filter(|lane| lane.site.phase() == phase).count());
                let (idle, waiting, executing) = (of(Phase::Idle), of(Phase::Waiting), of(Phase::Executing));
                let all = self.local_view.as_ref().map_or(0, |view| view.lanes(&key.name));
                let idle = idle + all.saturating_sub(idle + waiting + executing);
                Machinery::Running { idle, waiting, executing }
            }
        }
    }
}
