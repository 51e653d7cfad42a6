//! How clients lose what they hold, or hope for: the lease ends, the site is excluded or leaves.

use std::collections::BTreeSet;

use super::clients::{Hold, forget};
use super::{
    Alarm, LockEvent, LockTable, LossReason, Outcome, Output, Refusal, Request, Session, Tally, What,
};
use crate::names::LockName;
use crate::time::Time;

impl LockTable {
    /// The lease will end at `end` and was not renewed: everyone who holds something is told that it is lost.
    pub fn on_notice(&mut self, end: Time, out: &mut Vec<Output>) {
        for (request, (_, name)) in &self.requests {
            let hold = self.locks.get_mut(name).and_then(|lock| lock.hold_mut(*request));
            if let Some(hold) = hold {
                let mut ruin = Ruin { alarms: &mut self.alarms, tally: &mut self.tally, out };
                ruin.doom(name, hold, end, LossReason::LeaseEnd);
            }
        }
    }

    /// Nobody who waits here will be served: all are told why.
    pub fn turn_away(&mut self, why: Refusal, out: &mut Vec<Output>) {
        let waiting = |(request, (_, lock)): (&Request, &(Session, LockName))| {
            let waits = self.locks.get(lock).is_some_and(|lock| !lock.holds(*request));
            waits.then(|| (*request, lock.clone()))
        };
        let waiting: Vec<(Request, LockName)> = self.requests.iter().filter_map(waiting).collect();
        for (request, lock) in waiting {
            self.stop_waiting(request, &lock, Outcome::Refused, out);
            out.push(Output::LockEvent(LockEvent::Refused { request, why }));
        }
    }

    /// Everyone who holds something loses it now: this incarnation of the site is over.
    pub fn lose_all(&mut self, now: Time, out: &mut Vec<Output>) {
        let holding: Vec<(Request, LockName)> =
            self.holders().map(|(_, request, lock)| (request, lock.clone())).collect();
        for (request, name) in holding {
            let Some(lock) = self.locks.get_mut(&name) else { continue };
            if let Some(hold) = lock.hold(request) {
                self.tally.holds.record(now.since(hold.since));
                if hold.doomed.is_none() {
                    self.tally.lost(LossReason::Excluded);
                    out.push(Output::LockEvent(LockEvent::Lost {
                        request,
                        act_by: now,
                        why: LossReason::Excluded,
                    }));
                }
            }
            lock.clients.holds.retain(|hold| hold.request != request);
            self.trace(&name, || What::Release(request), out);
            forget(&mut self.requests, &mut self.sessions, request);
        }
        self.alarms.retain(|(_, alarm)| !matches!(alarm, Alarm::Doom(..)));
    }
}

/// What is needed to take something away.
pub(super) struct Ruin<'a> {
    pub(super) alarms: &'a mut BTreeSet<(Time, Alarm)>,
    pub(super) tally: &'a mut Tally,
    pub(super) out: &'a mut Vec<Output>,
}

impl Ruin<'_> {
    /// Tells a holder, once, that it has lost; it keeps the lock until it says that it has stopped or until `act_by`.
    pub(super) fn doom(&mut self, name: &LockName, hold: &mut Hold, act_by: Time, why: LossReason) {
        if hold.doomed.is_none() {
            hold.doomed = Some(act_by);
            self.tally.lost(why);
            self.out.push(Output::LockEvent(LockEvent::Lost { request: hold.request, act_by, why }));
            self.alarms.insert((act_by, Alarm::Doom(name.clone(), hold.request)));
        }
    }
}
