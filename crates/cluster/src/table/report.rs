//! What a site says about its locks to whoever asks, and how a lock is taken away.
//!
//! Lists are bounded, with the true number beside them. Times are ages, because clocks of different sites are never
//! compared.

use std::cmp::Reverse;
use std::collections::BTreeSet;

use meshlock_protocol::{Algorithm, Fence, Phase, numbered};
use serde::{Deserialize, Serialize};

use super::clients::{Hold, Waiter};
use super::lock::{Lock, Machines};
use super::losing::Ruin;
use super::{LeaseClock, LockTable, LossReason, Outcome, Output, Request, Session};
use crate::mutant::{self, Mutant};
use crate::names::{ClientLabel, LockName};
use crate::rules::Rules;
use crate::time::{Span, Time};

/// How many holders, and how many waiters, one site lists; of more it says only how many there are.
pub const MAX_LISTED: usize = 100;

/// A client that holds a lock.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct HolderReport {
    /// Who it says it is.
    pub label: Option<ClientLabel>,
    /// The number of its grant.
    pub fence: Fence,
    /// Which of K permits, where they are numbered.
    pub slot: Option<u32>,
    /// How long it has held the lock.
    pub age: Span,
    /// Whether it was told that it has lost, and is given time to stop.
    pub lost: bool,
}

/// A client that waits for a lock.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct WaiterReport {
    /// Who it says it is.
    pub label: Option<ClientLabel>,
    /// How long it has waited.
    pub age: Span,
}

/// What the machines of a lock do at one site.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Machinery {
    /// There are none: the view is not open, or nobody has touched the lock in it.
    Stopped,
    /// So many lanes in each phase.
    Running {
        /// Want nothing.
        idle: u32,
        /// Have asked to enter.
        waiting: u32,
        /// Are inside.
        executing: u32,
    },
    /// The lock has more holders than permits: nobody is let in before enough have left.
    Draining,
}

numbered! { Machinery {
    0 => Stopped,
    1 => Running { idle, waiting, executing },
    2 => Draining,
} }

/// What one site knows of a lock.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct LockReport {
    /// What its machines do.
    pub machines: Machinery,
    /// Its clients that hold the lock, the first [`MAX_LISTED`].
    pub holders: Vec<HolderReport>,
    /// How many hold it.
    pub holders_in_all: u64,
    /// Its clients that wait, in their order, the first [`MAX_LISTED`].
    pub waiters: Vec<WaiterReport>,
    /// How many wait.
    pub waiters_in_all: u64,
}

impl LockReport {
    /// Whether it lists no more than a correct site does.
    pub fn is_bounded(&self) -> bool {
        let agrees = |listed: usize, all: u64| listed <= MAX_LISTED && listed as u64 <= all;
        agrees(self.holders.len(), self.holders_in_all) && agrees(self.waiters.len(), self.waiters_in_all)
    }
}

/// A lock that a client of this site holds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HeldLock {
    /// The lock.
    pub lock: LockName,
    /// Its holder.
    pub holder: HolderReport,
}

/// A lock that clients of one site hold or wait for.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct LockInUse {
    /// The lock.
    pub lock: LockName,
    /// How many clients of the site hold it.
    pub holders: u64,
    /// How many wait.
    pub waiters: u64,
    /// The one that has held it longest here, if one does.
    pub holder: Option<HolderReport>,
    /// How long the first of those who wait here has waited.
    pub waited: Span,
}

/// How much a table has.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Locks that it keeps, in use or idle.
    pub locks: usize,
    /// Wishes that were granted and not given back.
    pub holders: usize,
    /// Wishes that wait.
    pub waiters: usize,
    /// Sessions that have a name or want something.
    pub sessions: usize,
}

impl LockTable {
    /// A client says who it is; after `hears_within` it has certainly heard what it was told, or has stopped by itself. It is
    /// forgotten with its session.
    pub fn introduce(&mut self, session: Session, who: ClientLabel, hears_within: Span) {
        let client = self.sessions.entry(session).or_default();
        (client.label, client.hears_within) = (Some(who), hears_within);
    }

    /// What is known here about a lock.
    pub fn report(&self, lock: &LockName, now: Time) -> LockReport {
        let Some(lock) = self.locks.get(lock) else {
            let machines = Machinery::Stopped;
            let (holders, waiters) = (Vec::new(), Vec::new());
            return LockReport { machines, holders, holders_in_all: 0, waiters, waiters_in_all: 0 };
        };
        let waiter = |waiter: &Waiter| {
            let (label, age) = (self.label(waiter.request), now.since(waiter.since));
            WaiterReport { label, age }
        };
        LockReport {
            machines: machinery(lock),
            holders: lock.clients.holds.iter().take(MAX_LISTED).map(|hold| self.holder(hold, now)).collect(),
            holders_in_all: lock.clients.holds.len() as u64,
            waiters: lock.clients.waiters.iter().take(MAX_LISTED).map(waiter).collect(),
            waiters_in_all: lock.clients.waiters.len() as u64,
        }
    }

    /// The rules of the view that is open.
    pub fn rules(&self) -> Option<&Rules> {
        self.local_view.as_ref().map(|local_view| &local_view.rules)
    }

    /// Whether a client of this site holds anything.
    pub fn holds_anything(&self) -> bool {
        self.holders().next().is_some()
    }

    /// Everyone who holds something here: session, wish, lock.
    pub fn holders(&self) -> impl Iterator<Item = (Session, Request, &LockName)> {
        let holds = |(request, (_, lock)): &(&Request, &(Session, LockName))| {
            self.locks.get(lock).is_some_and(|lock| lock.holds(**request))
        };
        self.requests.iter().filter(holds).map(|(request, (session, lock))| (*session, *request, lock))
    }

    /// How much there is here. Takes as long as there are wishes.
    pub fn counts(&self) -> Counts {
        let holders = self.holders().count();
        let waiters = self.requests.len() - holders;
        Counts { locks: self.locks.len(), holders, waiters, sessions: self.sessions.len() }
    }

    /// The first [`MAX_LISTED`] locks that clients of this site hold, in the order of their wishes.
    pub fn held(&self, now: Time) -> Vec<HeldLock> {
        let held = self.holders().filter_map(|(_, request, lock)| {
            let hold = self.locks.get(lock)?.hold(request)?;
            Some(HeldLock { lock: lock.clone(), holder: self.holder(hold, now) })
        });
        held.take(MAX_LISTED).collect()
    }

    /// How often a client was given a lock here.
    pub fn granted(&self) -> u64 {
        self.tally.outcomes(Outcome::Granted)
    }

    /// The first [`MAX_LISTED`] locks that clients of this site hold or wait for, those that most wait for first; and how many there
    /// are. Takes as long as there are wishes.
    pub fn in_use(&self, now: Time) -> (Vec<LockInUse>, u64) {
        let names: BTreeSet<&LockName> = self.requests.values().map(|(_, lock)| lock).collect();
        let mut locks: Vec<(&LockName, &Lock)> =
            names.into_iter().filter_map(|name| Some((name, &**self.locks.get(name)?))).collect();
        locks.sort_by_key(|(_, lock)| {
            (Reverse(lock.clients.waiters.len()), Reverse(lock.clients.holds.len()))
        });
        let all = locks.len() as u64;
        let in_use = |(name, lock): (&LockName, &Lock)| LockInUse {
            lock: name.clone(),
            holders: lock.clients.holds.len() as u64,
            waiters: lock.clients.waiters.len() as u64,
            holder: lock.clients.holds.first().map(|hold| self.holder(hold, now)),
            waited: lock.clients.waiters.front().map_or(Span::ZERO, |waiter| now.since(waiter.since)),
        };
        (locks.into_iter().take(MAX_LISTED).map(in_use).collect(), all)
    }

    /// Takes a lock away from every client of this site that holds it, and says who that was. They are told now, and keep
    /// it (so nobody else can enter) until they say that they have stopped, or as long as the margin of a lease. One on
    /// another machine, which may be cut off and not hear it, keeps it until it has certainly stopped by itself.
    pub fn take_away(
        &mut self,
        name: &LockName,
        lease_clock: LeaseClock,
        out: &mut Vec<Output>,
    ) -> Vec<HolderReport> {
        let holds = self.locks.get(name).map_or(&[] as &[Hold], |lock| &lock.clients.holds);
        let requests: Vec<Request> = holds.iter().map(|hold| hold.request).collect();
        let holders = requests.into_iter().map(|request| (request, name.clone()));
        self.take_from(holders, LossReason::Broken, lease_clock, out);
        let cut_off = self.report(name, lease_clock.now).holders;
        if mutant::is_on(Mutant::BrokenIsFreeAtOnce) {
            let holds = self.locks.get(name).map_or(&[] as &[Hold], |lock| &lock.clients.holds);
            for request in holds.iter().map(|hold| hold.request).collect::<Vec<_>>() {
                self.leave(request, name, lease_clock, out);
            }
        }
        cut_off
    }

    /// Takes everything away from the clients of this site, each as [`take_away`](LockTable::take_away) does.
    pub fn take_all_away(&mut self, lease_clock: LeaseClock, out: &mut Vec<Output>) {
        let all: Vec<_> = self.holders().map(|(_, request, lock)| (request, lock.clone())).collect();
        self.take_from(all.into_iter(), LossReason::Leaving, lease_clock, out);
    }

    fn take_from(
        &mut self,
        holders: impl Iterator<Item = (Request, LockName)>,
        by: LossReason,
        lease_clock: LeaseClock,
        out: &mut Vec<Output>,
    ) {
        for (request, name) in holders {
            let act_by = self.act_by(request, lease_clock);
            if let Some(hold) = self.locks.get_mut(&name).and_then(|lock| lock.hold_mut(request)) {
                let mut ruin = Ruin { alarms: &mut self.alarms, tally: &mut self.tally, out };
                ruin.doom(&name, hold, act_by, by);
            }
        }
    }

    /// Until when this one, if it is told now that it has lost, may take to stop.
    fn act_by(&self, request: Request, lease_clock: LeaseClock) -> Time {
        let session = self.requests.get(&request).and_then(|(session, _)| self.sessions.get(session));
        let hears_within = session.map_or(Span::ZERO, |client| client.hears_within);
        let act_by = lease_clock.now + self.table_config.margin.max(hears_within);
        // Without a comfortable lease everyone has been told before, to stop before the lease ends.
        lease_clock.lease_end.map_or(act_by, |end| end.min(act_by))
    }

    fn holder(&self, hold: &Hold, now: Time) -> HolderReport {
        HolderReport {
            label: self.label(hold.request),
            fence: hold.fence,
            slot: hold.slot,
            age: now.since(hold.since),
            lost: hold.doomed.is_some(),
        }
    }

    fn label(&self, request: Request) -> Option<ClientLabel> {
        let (session, _) = self.requests.get(&request)?;
        self.sessions.get(session)?.label.clone()
    }
}

fn machinery(lock: &Lock) -> Machinery {
    match &lock.machines {
        Machines::Stopped => Machinery::Stopped,
        Machines::Draining { .. } => Machinery::Draining,
        Machines::Running { lanes, .. } => {
            let count = |phase| {
                let lanes = lanes.iter().filter(|lane| lane.site.phase() == phase).count();
                u32::try_from(lanes).unwrap_or(u32::MAX)
            };
            let (idle, waiting) = (count(Phase::Idle), count(Phase::Waiting));
            Machinery::Running { idle, waiting, executing: count(Phase::Executing) }
        }
    }
}
