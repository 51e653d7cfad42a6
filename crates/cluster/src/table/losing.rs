//! How clients lose what they hold or wait for: the lease ends, or the site is excluded or leaves.

use std::collections::{BTreeMap, BTreeSet};

use super::changes::{ChangeLog, kind_of_loss};
use super::clients::{Hold, forget};
use super::{
    AcquireOutcome, LeaseClock, LockEvent, LockKey, LockTable, LossReason, Request, RequestRefusal, Session,
    StepKind, TableAlarm, TableOutput, TableTally,
};
use crate::report::ChangeKind;
use crate::time::Time;

impl LockTable {
    /// Reacts to the lease not being renewed before its end at `end`: every holder is told that its lock is lost.
    pub(crate) fn on_notice(&mut self, end: Time, now: Time, out: &mut Vec<TableOutput>) {
        let bound: Vec<Request> = self.proved.iter().copied().collect();
        let lease_clock = LeaseClock { now, lease_end: Some(end) };
        let ends_at = |request| self.ends_at(request, end, lease_clock);
        let bound: BTreeMap<Request, Time> =
            bound.into_iter().map(|request| (request, ends_at(request))).collect();
        for (key, lock) in self.locks.iter_mut().filter(|(_, lock)| !lock.clients.holds.is_empty()) {
            let (alarms, tally, losing) = (&mut self.alarms, &mut self.tally, &mut self.losing);
            let mut revocation = Revocation { alarms, tally, losing, changes: &mut self.changes, now, out };
            for hold in lock.clients.holds.iter_mut().filter(|hold| !self.vacated.contains_key(&hold.request))
            {
                let ends_at = bound.get(&hold.request).copied().unwrap_or(end);
                revocation.revoke(key, hold, end, ends_at, LossReason::LeaseEnd);
            }
        }
        self.revoke_claims_at(end, out);
    }

    /// Refuses all waiters, with the reason `why`.
    pub(crate) fn turn_away(&mut self, why: RequestRefusal, out: &mut Vec<TableOutput>) {
        let waiting = |(request, (_, lock)): (&Request, &(Session, LockKey))| {
            let waits = self.locks.get(lock).is_some_and(|lock| !lock.holds(*request));
            waits.then(|| (*request, lock.clone()))
        };
        let waiting: Vec<(Request, LockKey)> = self.requests.iter().filter_map(waiting).collect();
        for (request, lock) in waiting {
            self.stop_waiting(request, &lock, AcquireOutcome::Refused, out);
            out.push(TableOutput::LockEvent(LockEvent::Refused { request, why }));
        }
    }

    /// Takes everything away from all holders now, because this incarnation of the site has ended.
    pub(crate) fn lose_all(&mut self, now: Time, out: &mut Vec<TableOutput>) {
        let holding: Vec<(Request, LockKey)> =
            self.held_keys().map(|(_, request, key)| (request, key.clone())).collect();
        for (request, name) in holding {
            if self
                .locks
                .get(&name)
                .and_then(|lock| lock.hold(request))
                .is_some_and(|hold| hold.stop_by.is_none())
            {
                self.note_change(&name, ChangeKind::Lost, request, now);
            }
            self.note_change(&name, ChangeKind::Released, request, now);
            let Some(lock) = self.locks.get_mut(&name) else { continue };
            if let Some(hold) = lock.hold(request) {
                self.tally.holds.record(now.since(hold.since));
                if hold.stop_by.is_some() {
                    self.losing -= 1;
                } else {
                    self.tally.lost(LossReason::Excluded);
                    out.push(TableOutput::LockEvent(LockEvent::Lost {
                        request,
                        act_by: now,
                        why: LossReason::Excluded,
                    }));
                }
            }
            lock.clients.holds.retain(|hold| hold.request != request);
            self.trace(&name, || StepKind::Release(request), out);
            forget(&mut self.requests, &mut self.sessions, request);
        }
        self.alarms.retain(|(_, alarm)| !matches!(alarm, TableAlarm::Lost(..)));
        for (request, key) in std::mem::take(&mut self.vacated) {
            let Some(lock) = self.locks.get_mut(&key) else { continue };
            if let Some(hold) = lock.hold(request) {
                self.tally.holds.record(now.since(hold.since));
            }
            lock.clients.holds.retain(|hold| hold.request != request);
        }
        self.proved.clear();
        self.lose_claims(now, out);
    }

    /// Checks the number of holders that have lost their lock, and that each of them leaves when its time is over.
    pub(super) fn check_losing(&self) -> Result<(), &'static str> {
        let mut lost: Vec<(Time, TableAlarm)> = Vec::new();
        for (key, lock) in &self.locks {
            let alarm =
                |hold: &Hold| Some((**hold.stop_by.as_ref()?, TableAlarm::Lost(key.clone(), hold.request)));
            lost.extend(lock.clients.holds.iter().filter_map(alarm));
        }
        let alarms = self.alarms.iter().filter(|(_, alarm)| matches!(alarm, TableAlarm::Lost(..)));
        if lost.len() as u64 != self.losing
            || alarms.count() != lost.len()
            || !lost.iter().all(|alarm| self.alarms.contains(alarm))
        {
            return Err("T4: who has lost a lock leaves it when its time is over");
        }
        Ok(())
    }

    /// A deliberate mistake: lets holders that have lost their locks keep them.
    pub(super) fn revive_lost(&mut self) {
        for lock in self.locks.values_mut().filter(|lock| !lock.clients.holds.is_empty()) {
            lock.clients.holds.iter_mut().for_each(|hold| hold.stop_by = None);
        }
        self.losing = 0;
    }
}

/// The parts of the table that are needed to take a lock away.
pub(super) struct Revocation<'a> {
    pub(super) alarms: &'a mut BTreeSet<(Time, TableAlarm)>,
    pub(super) tally: &'a mut TableTally,
    /// The number of holders that have lost the lock and have time left to stop.
    pub(super) losing: &'a mut u64,
    /// The last changes, while somebody asks for them.
    pub(super) changes: &'a mut Option<Box<ChangeLog>>,
    pub(super) now: Time,
    pub(super) out: &'a mut Vec<TableOutput>,
}

impl Revocation<'_> {
    /// Tells a holder, once, that it has lost the lock. It keeps the lock until it confirms that it has stopped, or
    /// until `ends_at`, which is `act_by`, by which it must have stopped, or later.
    pub(super) fn revoke(
        &mut self,
        name: &LockKey,
        hold: &mut Hold,
        act_by: Time,
        ends_at: Time,
        why: LossReason,
    ) {
        if hold.stop_by.is_none() {
            hold.stop_by = Some(Box::new(ends_at));
            hold.upgrades = false;
            *self.losing += 1;
            self.tally.lost(why);
            if let Some(log) = &mut self.changes {
                log.push(name, kind_of_loss(why), hold, self.now);
            }
            self.out.push(TableOutput::LockEvent(LockEvent::Lost { request: hold.request, act_by, why }));
            self.alarms.insert((ends_at, TableAlarm::Lost(name.clone(), hold.request)));
        }
    }
}
