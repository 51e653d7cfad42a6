//! How clients lose what they hold or wait for: the lease ends, or the site is excluded or leaves.

use std::collections::BTreeSet;

use super::clients::{Hold, forget};
use super::{
    AcquireOutcome, LockEvent, LockKey, LockTable, LossReason, Request, RequestRefusal, Session, StepKind,
    TableAlarm, TableOutput, TableTally,
};
use crate::time::Time;

impl LockTable {
    /// Reacts to the lease not being renewed before its end at `end`: every holder is told that its lock is lost.
    pub(crate) fn on_notice(&mut self, end: Time, out: &mut Vec<TableOutput>) {
        for (request, (_, name)) in &self.requests {
            let hold = self.locks.get_mut(name).and_then(|lock| lock.hold_mut(*request));
            if let Some(hold) = hold {
                let mut revocation = Revocation { alarms: &mut self.alarms, tally: &mut self.tally, out };
                revocation.revoke(name, hold, end, LossReason::LeaseEnd);
            }
        }
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
            let Some(lock) = self.locks.get_mut(&name) else { continue };
            if let Some(hold) = lock.hold(request) {
                self.tally.holds.record(now.since(hold.since));
                if hold.stop_by.is_none() {
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
    }
}

/// The parts of the table that are needed to take a lock away.
pub(super) struct Revocation<'a> {
    pub(super) alarms: &'a mut BTreeSet<(Time, TableAlarm)>,
    pub(super) tally: &'a mut TableTally,
    pub(super) out: &'a mut Vec<TableOutput>,
}

impl Revocation<'_> {
    /// Tells a holder, once, that it has lost the lock. It keeps the lock until it confirms that it has stopped, or
    /// until `act_by`.
    pub(super) fn revoke(&mut self, name: &LockKey, hold: &mut Hold, act_by: Time, why: LossReason) {
        if hold.stop_by.is_none() {
            hold.stop_by = Some(act_by);
            self.tally.lost(why);
            self.out.push(TableOutput::LockEvent(LockEvent::Lost { request: hold.request, act_by, why }));
            self.alarms.insert((act_by, TableAlarm::Lost(name.clone(), hold.request)));
        }
    }
}
