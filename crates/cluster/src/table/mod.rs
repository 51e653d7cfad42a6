//! The lock table: who at this site waits for what and holds what, and the machines that decide it with other sites.
//!
//! Per lock there is one machine for each *lane* (as many as permits that one site may hold), of the algorithm that the
//! view's rules name. Machines exist only while a view is *open*; holders and waiters outlive them. They start in the
//! state that the view, the census and the lock's name determine: the same at every member.
//!
//! **Invariants**
//! - T1: a client is told that it holds a lock only while the site's lease is comfortable, by a machine of an open view.
//! - T2: whoever holds a lock is the holder of one executing lane, or the machines are stopped.
//! - T3: fences of a lock (slot) increase at this site.
//! - T4: whoever was told that its lock is lost does not get it back; its lane is left when it says so or when the time
//!   it was given is over.

mod census;
mod clients;
mod lock;
mod losing;
mod refusal;
mod report;
mod tally;
#[cfg(test)]
mod tests;
mod trace;
mod types;

use std::collections::{BTreeMap, BTreeSet};

use foldhash::fast::FixedState;
use indexmap::IndexMap;
use meshlock_protocol::Epoch;
use meshlock_protocol::registry::AnyOutbox;

use crate::cause::Origin;
use crate::names::{ClientLabel, LockName};
use crate::time::{Span, Time};
pub use census::{Census, Holding};
use clients::{Spare, Waiter, forget};
use lock::{Call, Env, Lock};
pub use refusal::{LossReason, Refusal};
pub use report::{
    Counts, HeldLock, HolderReport, LockInUse, LockReport, MAX_LISTED, Machinery, WaiterReport,
};
pub use tally::{Messages, Outcome, Served, Tally};
pub use trace::{Happening, Watch, What};
pub use types::{
    Acquire, LeaseClock, LocalView, LockEvent, LockMessage, Output, Request, Session, TableConfig, Wait,
};

/// Something that is to happen at a time.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Alarm {
    /// This one does not wait longer.
    Deadline(LockName, Request),
    /// This one was told that it has lost, and its time is over.
    Doom(LockName, Request),
    /// A timer of the machine of this lane.
    Timer(LockName, usize, Epoch),
}

/// Who is behind a session, as long as it has said so or wants something.
#[derive(Clone, Debug, Default)]
struct Client {
    label: Option<ClientLabel>,
    /// After so long it has heard what it was told, or has given up by itself what it holds.
    hears_within: Span,
    requests: BTreeSet<Request>,
}

/// All locks of one site.
#[derive(Clone, Debug)]
pub struct LockTable {
    table_config: TableConfig,
    local_view: Option<LocalView>,
    /// In the order in which they came, which is the same in every run. Boxed, so that growing moves little.
    locks: IndexMap<LockName, Box<Lock>, FixedState>,
    requests: BTreeMap<Request, (Session, LockName)>,
    sessions: BTreeMap<Session, Client>,
    alarms: BTreeSet<(Time, Alarm)>,
    outbox: Option<Box<AnyOutbox>>,
    spare: Spare,
    tally: Tally,
    /// Where the causes of wishes come from that have none.
    origin: Origin,
    /// Whether some lock has, or had when the view opened, more holders than permits.
    draining: bool,
    /// How many locks the view began with.
    opened_with: usize,
    /// Whoever wants to know all that happens: mostly nobody.
    watches: Vec<Watch>,
}

impl LockTable {
    /// No locks, no view.
    pub fn new(table_config: TableConfig) -> Self {
        LockTable {
            table_config,
            local_view: None,
            locks: IndexMap::default(),
            requests: BTreeMap::new(),
            sessions: BTreeMap::new(),
            alarms: BTreeSet::new(),
            outbox: None,
            spare: Spare::default(),
            tally: Tally::default(),
            origin: Origin::default(),
            draining: false,
            opened_with: 0,
            watches: Vec::new(),
        }
    }

    /// Clients are told so long before the end of the lease: it was agreed on.
    pub(crate) fn agree_margin(&mut self, margin: Span) {
        self.table_config.margin = margin;
    }

    /// A client wants a lock.
    pub fn acquire(&mut self, wanted: Acquire, lease_clock: LeaseClock, out: &mut Vec<Output>) {
        let Acquire { session, request, lock, wait, cause } = wanted;
        if self.requests.contains_key(&request) {
            return self.refuse(request, Refusal::DuplicateRequest, out);
        }
        if !self.locks.contains_key(&lock) && self.locks.len() >= self.table_config.max_locks {
            let why = if self.is_crowded() { Refusal::MakingRoom } else { Refusal::TooManyLocks };
            return self.refuse(request, why, out);
        }
        if wait == Wait::Try && self.is_taken_here(&lock) {
            self.tally.came_out(Outcome::Busy);
            return out.push(Output::LockEvent(LockEvent::Busy { request }));
        }
        let deadline = match wait {
            Wait::Forever => None,
            Wait::Within(longest) => Some(lease_clock.now + longest),
            Wait::Try => Some(lease_clock.now + self.table_config.try_within),
        };
        if let Some(deadline) = deadline {
            self.alarms.insert((deadline, Alarm::Deadline(lock.clone(), request)));
        }
        self.requests.insert(request, (session, lock.clone()));
        self.sessions.entry(session).or_default().requests.insert(request);
        let cause = cause.unwrap_or_else(|| self.cause(request));
        let waiter = Waiter { request, since: lease_clock.now, deadline, is_try: wait == Wait::Try, cause };
        self.with_lock(&lock, lease_clock, out, |lock, env| {
            env.served = Served::AtOnce;
            lock.clients.wake(env.spare).waiters.push_back(waiter);
            env.trace(0, || What::Request(request));
            lock.seek(env);
        });
    }

    /// A wish cannot be granted.
    pub fn refuse(&mut self, request: Request, why: Refusal, out: &mut Vec<Output>) {
        self.tally.came_out(Outcome::Refused);
        out.push(Output::LockEvent(LockEvent::Refused { request, why }));
    }

    /// A client gives up waiting; if it has the lock meanwhile, it gives that back.
    pub fn cancel(&mut self, request: Request, lease_clock: LeaseClock, out: &mut Vec<Output>) {
        let Some((_, lock)) = self.requests.get(&request).cloned() else {
            return out.push(Output::LockEvent(LockEvent::Refused { request, why: Refusal::UnknownRequest }));
        };
        if self.locks.get(&lock).is_some_and(|lock| lock.holds(request)) {
            return self.release(request, lease_clock, out);
        }
        self.stop_waiting(request, &lock, Outcome::Cancelled, out);
        out.push(Output::LockEvent(LockEvent::Cancelled { request }));
    }

    /// A client gives its lock back.
    pub fn release(&mut self, request: Request, lease_clock: LeaseClock, out: &mut Vec<Output>) {
        let lock = self.requests.get(&request).map(|(_, lock)| lock.clone());
        match lock.filter(|lock| self.locks.get(lock).is_some_and(|lock| lock.holds(request))) {
            Some(lock) => {
                out.push(Output::LockEvent(LockEvent::Released { request }));
                self.leave(request, &lock, lease_clock, out);
            }
            // Whoever gives back what it does not have yet does not want it any more.
            None if self.requests.contains_key(&request) => self.cancel(request, lease_clock, out),
            None => out.push(Output::LockEvent(LockEvent::Refused { request, why: Refusal::NotHeld })),
        }
    }

    /// A client is gone: it neither waits nor holds any more.
    pub fn on_session_ended(&mut self, session: Session, lease_clock: LeaseClock, out: &mut Vec<Output>) {
        let Some(client) = self.sessions.get_mut(&session) else { return };
        client.label = None;
        for request in client.requests.clone() {
            let (_, lock) = self.requests.get(&request).cloned().expect("a session's requests exist");
            if self.locks.get(&lock).is_some_and(|lock| lock.holds(request)) {
                self.leave(request, &lock, lease_clock, out);
            } else {
                self.stop_waiting(request, &lock, Outcome::Abandoned, out);
            }
        }
        // One that had nothing but a name is not forgotten with its last request.
        self.sessions.remove(&session);
    }

    /// A member's machine has sent something, in the epoch that is open.
    pub fn on_message(
        &mut self,
        from: usize,
        message: LockMessage,
        lease_clock: LeaseClock,
        out: &mut Vec<Output>,
    ) {
        let Some(local_view) = &self.local_view else { return };
        let lanes = local_view.rules.rule(&message.lock).per_site;
        if message.from_lane >= lanes || message.to_lane >= lanes || from >= local_view.members {
            return out.push(Output::Misbehaved { place: from, why: "names a lane that does not exist" });
        }
        let LockMessage { lock, from_lane, to_lane, stamp, message, cause } = message;
        self.tally.received.count(&message);
        self.with_lock(&lock, lease_clock, out, |lock, env| {
            env.cause = cause;
            let sender = env.site_of(from, from_lane as usize);
            if lock.clock.observe(stamp).is_err() {
                return env.misbehaved(from, "a fence clock out of its range");
            }
            env.trace(to_lane as usize, || What::Receive(from, message.printed()));
            lock.run(to_lane as usize, Call::Receive(sender, message), env);
        });
    }

    /// The lease lasts longer: sessions that hold something are told; whoever could not be served before is now.
    pub fn on_extended(&mut self, lease_end: Time, lease_clock: LeaseClock, out: &mut Vec<Output>) {
        let mut told = BTreeSet::new();
        for (request, (session, name)) in &self.requests {
            let hold = self.locks.get(name).and_then(|lock| lock.hold(*request));
            if hold.is_some_and(|hold| hold.doomed.is_none()) && told.insert(*session) {
                out.push(Output::LockEvent(LockEvent::Extended { session: *session, lease_end }));
            }
        }
        self.seek_all(lease_clock, out);
    }

    /// Whether a message about this lock can be taken: its machines exist, or there is room for them. Other sites may
    /// need as many locks here as clients of this one.
    pub fn has_room(&self, lock: &LockName) -> bool {
        self.locks.len() < self.table_config.max_locks.saturating_mul(2) || self.locks.contains_key(lock)
    }

    /// Whether the table is half full, and more than half of that of locks that a fresh view would not have: machines
    /// cannot be dropped while their view lasts, because others count on what they remember.
    pub fn is_crowded(&self) -> bool {
        let kept = self.opened_with.max(self.requests.len());
        self.locks.len() >= self.table_config.max_locks.div_ceil(2)
            && self.locks.len() > kept.saturating_mul(2)
    }

    /// Whether the same members should start again: a lock could run again, or room would be made.
    pub fn wants_fresh_view(&self) -> bool {
        self.local_view.is_some() && (self.is_crowded() || self.has_drained())
    }

    /// Lets time pass: deadlines, machines' timers, the end of what was lost.
    pub fn on_time(&mut self, lease_clock: LeaseClock, out: &mut Vec<Output>) {
        while let Some((due, _)) = self.alarms.first()
            && *due <= lease_clock.now
        {
            let (_, alarm) = self.alarms.pop_first().expect("there is a first");
            match alarm {
                Alarm::Deadline(lock, request) => {
                    let Some(is_try) = self.waiter(request, &lock).map(|waiter| waiter.is_try) else {
                        continue;
                    };
                    let outcome = if is_try { Outcome::Busy } else { Outcome::TimedOut };
                    self.stop_waiting(request, &lock, outcome, out);
                    out.push(Output::LockEvent(if is_try {
                        LockEvent::Busy { request }
                    } else {
                        LockEvent::TimedOut { request }
                    }));
                }
                Alarm::Doom(lock, request) => self.leave(request, &lock, lease_clock, out),
                Alarm::Timer(lock, lane, epoch) => {
                    if self.local_view.as_ref().is_some_and(|local_view| local_view.epoch == epoch) {
                        self.with_lock(&lock, lease_clock, out, |lock, env| lock.run(lane, Call::Wake, env));
                    }
                }
            }
        }
    }

    /// When [`on_time`](LockTable::on_time) has something to do next.
    pub fn next_due(&self) -> Option<Time> {
        self.alarms.first().map(|(due, _)| *due)
    }

    /// The first numbered invariant of this table, or of a machine in it, that does not hold.
    pub fn check_invariants(&self) -> Result<(), &'static str> {
        self.locks.values().try_for_each(|lock| lock.check_invariants(self.local_view.is_some()))?;
        let holds = self.locks.values().map(|lock| lock.clients.holds.len() as u64).sum::<u64>();
        if self.tally.holders() != holds {
            return Err("T5: everyone who holds something no more has been counted once");
        }
        Ok(())
    }

    /// Whether a client that does not want to wait would have to, as far as is known here.
    fn is_taken_here(&self, lock: &LockName) -> bool {
        let most =
            self.local_view.as_ref().map_or(1, |local_view| local_view.rules.rule(lock).per_site as usize);
        self.locks
            .get(lock)
            .is_some_and(|lock| !lock.clients.waiters.is_empty() || lock.clients.holds.len() >= most)
    }

    /// Takes a waiter out of its queue. A request of the machine that it caused runs on; whoever is first when it is
    /// granted gets it, or it is given back at once.
    fn stop_waiting(&mut self, request: Request, lock: &LockName, outcome: Outcome, out: &mut Vec<Output>) {
        let Some(waited) = self.locks.get_mut(lock) else { return };
        let at = waited.clients.waiters.iter().position(|waiter| waiter.request == request);
        let Some(waiter) = at.and_then(|at| waited.clients.waiters.remove(at)) else { return };
        waited.clients.rest(&mut self.spare);
        self.tally.came_out(outcome);
        self.forget_deadline(lock, &waiter);
        self.trace(lock, || What::Cancel(request), out);
        forget(&mut self.requests, &mut self.sessions, request);
    }

    fn waiter(&self, request: Request, lock: &LockName) -> Option<&Waiter> {
        self.locks.get(lock)?.clients.waiters.iter().find(|waiter| waiter.request == request)
    }

    fn forget_deadline(&mut self, lock: &LockName, waiter: &Waiter) {
        if let Some(deadline) = waiter.deadline {
            self.alarms.remove(&(deadline, Alarm::Deadline(lock.clone(), waiter.request)));
        }
    }

    /// A holder leaves.
    fn leave(&mut self, request: Request, lock: &LockName, lease_clock: LeaseClock, out: &mut Vec<Output>) {
        forget(&mut self.requests, &mut self.sessions, request);
        self.with_lock(lock, lease_clock, out, |lock, env| {
            env.served = Served::Here;
            lock.on_left(request, env);
        });
    }

    /// Lets every lock with waiters ask again, as far as lease and view allow.
    fn seek_all(&mut self, lease_clock: LeaseClock, out: &mut Vec<Output>) {
        if self.local_view.is_none() || lease_clock.lease_end.is_none() {
            return;
        }
        let waits = |(request, (_, lock)): &(&Request, &(Session, LockName))| {
            self.locks.get(lock).is_some_and(|lock| !lock.holds(**request))
        };
        let waited: BTreeSet<LockName> =
            self.requests.iter().filter(waits).map(|(_, (_, lock))| lock.clone()).collect();
        for name in waited {
            self.with_lock(&name, lease_clock, out, |lock, env| lock.seek(env));
        }
    }

    /// Does something with a lock, which is made, and its machines started, if need be.
    fn with_lock(
        &mut self,
        name: &LockName,
        lease_clock: LeaseClock,
        out: &mut Vec<Output>,
        act: impl FnOnce(&mut Lock, &mut Env<'_>),
    ) {
        self.with_lock_as_it_is(name, lease_clock, out, |lock, env| {
            lock.touch(env);
            act(lock, env);
        });
    }

    /// Does something with a lock, which is made if need be; whether its machines run is left to `act`.
    fn with_lock_as_it_is<R>(
        &mut self,
        name: &LockName,
        lease_clock: LeaseClock,
        out: &mut Vec<Output>,
        act: impl FnOnce(&mut Lock, &mut Env<'_>) -> R,
    ) -> R {
        let at = self.locks.get_index_of(name);
        let at = at.unwrap_or_else(|| self.locks.insert_full(name.clone(), Box::new(Lock::new())).0);
        let lock = &mut self.locks[at];
        let mut env = Env {
            name,
            lease_clock,
            table_config: self.table_config,
            local_view: self.local_view.as_ref(),
            alarms: &mut self.alarms,
            outbox: &mut self.outbox,
            spare: &mut self.spare,
            tally: &mut self.tally,
            served: Served::Elsewhere,
            cause: None,
            watches: &self.watches,
            out,
        };
        let told = env.out.len();
        let done = act(lock, &mut env);
        env.trace_states(lock, told);
        lock.clients.rest(&mut self.spare);
        done
    }
}
