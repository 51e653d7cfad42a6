//! Clients that wait, and the locks for whose waiters nothing could be asked.
//!
//! A machine asks for a waiter when the waiter comes, if a view is open and the lease has time to spare. Where that is not
//! so, or where a machine had to leave again because the lease had ended, the lock is noted (T8), and asks as soon as it
//! can. So a renewal of the lease visits the noted locks and no others.

use meshlock_protocol::{Algorithm, Phase};

use super::clients::{Queues, WaitingClient, forget};
use super::lock::{Env, Lock, Machines};
use super::{AcquireOutcome, LeaseClock, LockKey, LockTable, Request, StepKind, TableAlarm, TableOutput};
use crate::mutant::{self, Mutant};

impl LockTable {
    /// Removes a waiter from its queue. A request that the machine made for it continues; the permit goes to the first
    /// waiter at that time, or is released at once.
    pub(super) fn stop_waiting(
        &mut self,
        request: Request,
        lock: &LockKey,
        outcome: AcquireOutcome,
        out: &mut Vec<TableOutput>,
    ) {
        let Some(waited) = self.locks.get_mut(lock) else { return };
        let at = waited.clients.waiters.iter().position(|waiter| waiter.request == request);
        let Some(waiter) = at.and_then(|at| waited.clients.waiters.remove(at)) else { return };
        waited.clients.rest(&mut self.spare);
        self.tally.came_out(outcome);
        self.forget_deadline(lock, &waiter);
        self.trace(lock, || StepKind::Cancel(request), out);
        forget(&mut self.requests, &mut self.sessions, request);
        self.forget_unused(lock);
        self.note_exposed(lock);
    }

    pub(super) fn waiter(&self, request: Request, lock: &LockKey) -> Option<&WaitingClient> {
        self.locks.get(lock)?.clients.waiters.iter().find(|waiter| waiter.request == request)
    }

    pub(super) fn waiter_mut(&mut self, request: Request, lock: &LockKey) -> Option<&mut WaitingClient> {
        let waiters = &mut self.locks.get_mut(lock)?.clients.waiters;
        waiters.iter_mut().find(|waiter| waiter.request == request)
    }

    fn forget_deadline(&mut self, lock: &LockKey, waiter: &WaitingClient) {
        if let Some(deadline) = waiter.deadline {
            self.alarms.remove(&(deadline.alarm, TableAlarm::Deadline(lock.clone(), waiter.request)));
        }
    }

    /// Lets the locks for whose waiters nothing could be asked send requests, as far as lease and view allow.
    pub(super) fn seek_all(&mut self, lease_clock: LeaseClock, out: &mut Vec<TableOutput>) {
        if self.local_view.is_none() || lease_clock.lease_end.is_none() {
            return;
        }
        for key in std::mem::take(&mut self.unsought) {
            if self.locks.contains_key(&key) {
                self.with_lock(&key, lease_clock, out, |lock, env| lock.seek(env));
            }
        }
    }

    /// Notes a lock in which a waiter has gone and others may be asked for in its place.
    fn note_exposed(&mut self, key: &LockKey) {
        let Some((view, lock)) = self.local_view.as_ref().zip(self.locks.get(key)) else { return };
        if lock.is_shared() && lock.could_ask(view.lanes(&key.name)) {
            self.unsought.insert(key.clone());
        }
    }

    /// Lets a lock ask that was noted, as far as lease and view allow.
    pub(super) fn seek_noted(&mut self, key: &LockKey, lease_clock: LeaseClock, out: &mut Vec<TableOutput>) {
        if self.may_serve(lease_clock) && self.unsought.swap_remove(key) && self.locks.contains_key(key) {
            self.with_lock(key, lease_clock, out, |lock, env| lock.seek(env));
        }
    }

    /// Checks that every lock is noted for whose waiters less was asked than they need.
    pub(super) fn check_waiting(&self) -> Result<(), &'static str> {
        let is_unserved = |key: &LockKey, lock: &Lock| match &self.local_view {
            None => lock.clients.need_asking(),
            Some(view) => !self.marks.contains_key(&key.name) && lock.could_ask(view.lanes(&key.name)),
        };
        if self.locks.iter().any(|(key, lock)| is_unserved(key, lock) && !self.unsought.contains(key)) {
            return Err("T8: a lock for whose waiters less was asked than they need is noted");
        }
        Ok(())
    }
}

impl Lock {
    /// Returns whether machines run by which clients may share the lock.
    fn is_shared(&self) -> bool {
        matches!(self.machines, Machines::Running { shared: Some(_), .. })
    }

    /// Returns whether a machine of this lock could ask for a waiter and has not.
    fn could_ask(&self, most: u32) -> bool {
        let Machines::Running { lanes, shared, .. } = &self.machines else { return false };
        if shared.is_some() {
            return self.could_ask_shared(most);
        }
        let count = |phase| lanes.iter().filter(|lane| lane.site.phase() == phase).count();
        count(Phase::Idle) > 0 && count(Phase::Waiting) < self.clients.waiters.len()
    }
}

impl Env<'_> {
    /// Notes that nothing can be asked now for the waiters of the lock, if it has any.
    pub(super) fn note_unsought(&mut self, clients: &Queues) {
        if clients.need_asking() && !mutant::is_on(Mutant::WaiterNotNoted) {
            self.unsought.insert(self.key.clone());
        }
    }
}
