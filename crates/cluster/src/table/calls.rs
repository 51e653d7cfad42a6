//! The calls of clients: they acquire, cancel and release locks, and their sessions end.

use meshlock_protocol::Mode;

use super::clients::{WaitingClient, forget};
use super::inquiry::Deadline;
use super::lock::Lock;
use super::{
    Acquire, AcquireOutcome, LeaseClock, LockEvent, LockKey, LockTable, Request, RequestRefusal, ServedBy,
    Session, StepKind, TableAlarm, TableOutput, Wait,
};
use crate::report::ChangeKind;

impl LockTable {
    /// Handles a client's request for a lock.
    pub(crate) fn acquire(&mut self, wanted: Acquire, lease_clock: LeaseClock, out: &mut Vec<TableOutput>) {
        let Acquire { session, request, lock: name, permits, wait, demand, cause } = wanted;
        let lock = LockKey { name, permits };
        if self.requests.contains_key(&request) || self.claims.contains(request) {
            return self.refuse(request, RequestRefusal::DuplicateRequest, out);
        }
        if let Some(Err(why)) =
            self.local_view.as_ref().map(|local_view| local_view.check_wanted(&lock, demand))
        {
            return self.refuse(request, why, out);
        }
        if self.locks.len() >= self.table_config.max_locks && !self.is_known(&lock) {
            let why =
                if self.is_crowded() { RequestRefusal::MakingRoom } else { RequestRefusal::TooManyLocks };
            return self.refuse(request, why, out);
        }
        if wait == Wait::Try && self.may_serve(lease_clock) && self.is_taken_here(&lock, demand.mode) {
            self.tally.came_out(AcquireOutcome::Busy);
            return out.push(TableOutput::LockEvent(LockEvent::Busy { request }));
        }
        let reply_timeout = self.table_config.try_within.unwrap_or(self.reply_timeout);
        let deadline = Deadline::new(wait, lease_clock.now, reply_timeout);
        if let Some(deadline) = deadline {
            self.alarms.insert((deadline.alarm, TableAlarm::Deadline(lock.clone(), request)));
        }
        self.requests.insert(request, (session, lock.clone()));
        self.sessions.entry(session).or_default().requests.insert(request);
        let cause = cause.unwrap_or_else(|| self.cause(request));
        let (since, is_try) = (lease_clock.now, wait == Wait::Try);
        let (inquiry, overtaken) = (None, 0);
        let waiter = WaitingClient { request, since, deadline, is_try, demand, overtaken, inquiry, cause };
        self.with_lock(&lock, lease_clock, out, |lock, env| {
            env.served = ServedBy::AtOnce;
            lock.enqueue(waiter, env.spare);
            env.trace(0, || StepKind::Request(request));
            lock.seek(env);
        });
        // A client whose time to ask the members has come already need not wait for the next alarm.
        if deadline.is_some_and(|deadline| deadline.alarm <= since) && self.waiter(request, &lock).is_some() {
            self.alarms.remove(&(since, TableAlarm::Deadline(lock.clone(), request)));
            self.on_deadline(&lock, request, lease_clock, out);
        }
    }

    /// Refuses a request.
    pub(crate) fn refuse(&mut self, request: Request, why: RequestRefusal, out: &mut Vec<TableOutput>) {
        self.tally.came_out(AcquireOutcome::Refused);
        out.push(TableOutput::LockEvent(LockEvent::Refused { request, why }));
    }

    /// Handles a client's cancellation; if it has the lock already, the lock is released.
    pub(crate) fn cancel(&mut self, request: Request, lease_clock: LeaseClock, out: &mut Vec<TableOutput>) {
        if self.drop_claim(request) {
            return out.push(TableOutput::LockEvent(LockEvent::Released { request }));
        }
        let Some((_, lock)) = self.requests.get(&request).cloned() else {
            return out.push(TableOutput::LockEvent(LockEvent::Refused {
                request,
                why: RequestRefusal::UnknownRequest,
            }));
        };
        if self.locks.get(&lock).is_some_and(|lock| lock.holds(request)) {
            return self.release(request, lease_clock, out);
        }
        self.stop_waiting(request, &lock, AcquireOutcome::Cancelled, out);
        out.push(TableOutput::LockEvent(LockEvent::Cancelled { request }));
        self.seek_noted(&lock, lease_clock, out);
    }

    /// Handles a client's release of its lock, or of its claim to one.
    pub(crate) fn release(&mut self, request: Request, lease_clock: LeaseClock, out: &mut Vec<TableOutput>) {
        if self.drop_claim(request) {
            return out.push(TableOutput::LockEvent(LockEvent::Released { request }));
        }
        let lock = self.requests.get(&request).map(|(_, lock)| lock.clone());
        match lock.filter(|lock| self.locks.get(lock).is_some_and(|lock| lock.holds(request))) {
            Some(lock) => {
                out.push(TableOutput::LockEvent(LockEvent::Released { request }));
                self.leave(request, &lock, lease_clock, out);
            }
            // Releasing a lock that is not granted yet cancels the request.
            None if self.requests.contains_key(&request) => self.cancel(request, lease_clock, out),
            None => {
                out.push(TableOutput::LockEvent(LockEvent::Refused {
                    request,
                    why: RequestRefusal::NotHeld,
                }));
            }
        }
    }

    /// Handles the end of a session: the client neither waits for nor holds anything any more.
    pub(crate) fn on_session_ended(
        &mut self,
        session: Session,
        lease_clock: LeaseClock,
        out: &mut Vec<TableOutput>,
    ) {
        self.drop_claims_of(session);
        self.label_changes();
        let Some(client) = self.sessions.get(&session) else { return };
        for request in client.requests.clone() {
            let (_, lock) = self.requests.get(&request).cloned().expect("a session's requests exist");
            if self.locks.get(&lock).is_some_and(|lock| lock.holds(request)) {
                self.leave(request, &lock, lease_clock, out);
            } else {
                self.stop_waiting(request, &lock, AcquireOutcome::Abandoned, out);
                self.seek_noted(&lock, lease_clock, out);
            }
        }
        // A session that has a label is not forgotten with its last request.
        self.sessions.remove(&session);
    }

    /// Returns whether a client that does not want to wait would have to, as far as is known here.
    fn is_taken_here(&self, lock: &LockKey, mode: Mode) -> bool {
        if self.is_shared(lock) {
            let excludes = |known: &Lock| {
                !known.clients.waiters.is_empty()
                    || known.clients.holds.iter().any(|hold| !hold.mode.admits(mode))
            };
            return self.locks.get(lock).is_some_and(|known| excludes(known));
        }
        let rule = self.local_view.as_ref().and_then(|local_view| local_view.rule(lock));
        let most = rule.map_or(lock.permits, |rule| rule.per_site) as usize;
        self.locks
            .get(lock)
            .is_some_and(|lock| !lock.clients.waiters.is_empty() || lock.clients.holds.len() >= most)
    }

    /// Removes a holder.
    pub(super) fn leave(
        &mut self,
        request: Request,
        lock: &LockKey,
        lease_clock: LeaseClock,
        out: &mut Vec<TableOutput>,
    ) {
        if self.vacate(request, lock) {
            return;
        }
        self.note_change(lock, ChangeKind::Released, request, lease_clock.now);
        self.proved.remove(&request);
        self.claims.on_hold_ended(request);
        forget(&mut self.requests, &mut self.sessions, request);
        self.with_lock(lock, lease_clock, out, |lock, env| {
            env.served = ServedBy::Here;
            lock.on_left(request, env);
        });
    }
}
