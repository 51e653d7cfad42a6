//! Holds of which a client has a proof, and what a site owes that client: it does not let go of such a hold without the client's word
//! before the *resume window* after its last contact with the client is over. Until then the client may count on it, through another
//! site where it claims the lock; or it comes back here and goes on with the hold.
//!
//! The client's word is a release, or the end of its session. Without it the hold may end because the session was cut, because the
//! lease ends, or because an operator takes the lock away. The site tells the client, if it can, and the client may have moved
//! elsewhere meanwhile and not hear it. So in all of these cases the hold stays until the window is over.
//!
//! A site that leaves is *frozen*: it lets go of no such hold at all, and does not leave while a client may count on one through it. A hold whose client has gone stays as a *vacated* one, inside the
//! machines and in the census, until a view without this site. So who claims it elsewhere finds it as it was. Holds of which nobody
//! has a proof are released as always.
//!
//! **Invariant** T12: every vacated hold is a hold of a lock and of no request.

use meshlock_protocol::{Fence, Mode};

use super::clients::{Hold, forget};
use super::tally::ClaimOutcome;
use super::{
    AcquireOutcome, ClaimEvent, ClaimRefusal, LeaseClock, LockEvent, LockKey, LockTable, LossReason, Request,
    Session, TableAlarm, TableOutput,
};
use crate::claim::ProvedHold;
use crate::mutant::{self, Mutant};
use crate::names::LockName;
use crate::time::{Span, Time};

/// A hold of a client here that can be proved.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Provable {
    pub(crate) lock: LockName,
    pub(crate) permits: u32,
    pub(crate) slot: Option<u32>,
    pub(crate) fence: Fence,
    pub(crate) mode: Mode,
}

impl LockTable {
    /// Adopts the terms that were agreed on: how long before the end of the lease clients are told, and for how long this site keeps
    /// what a client can prove after its last contact with the client.
    pub(crate) fn agree_terms(&mut self, margin: Span, resume_window: Span) {
        (self.table_config.margin, self.table_config.resume_window) = (margin, resume_window);
    }

    /// Returns the hold of this request, which its client will be given a proof of, unless the client has lost it or gone.
    pub(crate) fn prove(&mut self, request: Request) -> Option<Provable> {
        let (_, key) = self.requests.get(&request)?;
        let lock = self.locks.get(key)?;
        let hold = lock.hold(request).filter(|hold| hold.stop_by.is_none())?;
        // Clients that share the lock may have had the same fence at different sites. A site gives no second proof of one.
        let is_same = |other: &Hold| other.fence == hold.fence && other.slot == hold.slot;
        if lock.clients.holds.iter().filter(|other| is_same(other)).count() > 1 {
            return None;
        }
        let (lock, permits) = (key.name.clone(), key.permits);
        let provable = Provable { lock, permits, slot: hold.slot, fence: hold.fence, mode: hold.mode };
        self.proved.insert(request);
        Some(provable)
    }

    /// Returns whether the client was given a proof of this hold.
    pub(super) fn is_proved(&self, request: Request) -> bool {
        self.proved.contains(&request)
    }

    /// Lets a client that has come back through another connection go on with what it holds here, as its proof, which was
    /// checked, says.
    pub(crate) fn resume(
        &mut self,
        session: Session,
        request: Request,
        proved: &ProvedHold,
        lease_clock: LeaseClock,
        out: &mut Vec<TableOutput>,
    ) {
        let key = LockKey { name: proved.lock.clone(), permits: proved.permits };
        let (fence, slot) = (proved.fence, proved.slot);
        // Two of the same fence were not both granted here: nobody can say which one is meant.
        let is_meant = |hold: &&Hold| hold.fence == fence && hold.slot == slot && hold.mode == proved.mode;
        let mut meant =
            self.locks.get(&key).into_iter().flat_map(|lock| &lock.clients.holds).filter(is_meant);
        let known = meant.next().filter(|_| meant.next().is_none());
        let known = known.filter(|hold| hold.stop_by.is_none()).map(|hold| hold.request);
        let kept = known.filter(|known| self.is_proved(*known) && self.requests.contains_key(known));
        let refusal = match (kept, lease_clock.lease_end) {
            _ if self.requests.contains_key(&request) || self.claims.contains(request) => {
                ClaimRefusal::DuplicateRequest
            }
            _ if self.is_frozen() => ClaimRefusal::Leaving,
            (None, _) => ClaimRefusal::NothingToClaim,
            (Some(_), None) => ClaimRefusal::NoLease,
            (Some(former), Some(lease_end)) => {
                self.rename(former, session, request, &key);
                self.tally.claimed(ClaimOutcome::Resumed);
                let (act_by, why) = (lease_clock.now, LossReason::TakenOver);
                out.push(TableOutput::LockEvent(LockEvent::Lost { request: former, act_by, why }));
                let margin = self.table_config.margin;
                let settled = ClaimEvent::Settled { request, fence, slot, lease_end, margin };
                return out.push(TableOutput::Claim(settled));
            }
        };
        self.refuse_claim(request, refusal, out);
    }

    /// Makes the hold of the request `former` that of another request and session.
    fn rename(&mut self, former: Request, session: Session, request: Request, key: &LockKey) {
        forget(&mut self.requests, &mut self.sessions, former);
        self.proved.remove(&former);
        self.claims.on_hold_ended(former);
        self.proved.insert(request);
        self.requests.insert(request, (session, key.clone()));
        self.sessions.entry(session).or_default().requests.insert(request);
        if let Some(hold) = self.locks.get_mut(key).and_then(|lock| lock.hold_mut(former)) {
            hold.request = request;
        }
    }

    /// Handles the end of a session whose client may still run: it was cut off. It waits for nothing any more. What it can prove is kept for
    /// the resume window after the last contact, and the rest, also what it claims, as long as the client may rely on it.
    pub(crate) fn on_session_cut(
        &mut self,
        session: Session,
        last_contact: Time,
        relies_for: Span,
        lease_clock: LeaseClock,
        out: &mut Vec<TableOutput>,
    ) {
        let relies_until = lease_clock.now + relies_for;
        self.end_claims_of(session, relies_until, lease_clock.now);
        let Some(client) = self.sessions.get_mut(&session) else { return };
        client.cut = Some(relies_until);
        let mut is_proved = false;
        for request in client.requests.clone() {
            let (_, lock) = self.requests.get(&request).cloned().expect("a session's requests exist");
            if self.locks.get(&lock).is_some_and(|lock| lock.holds(request)) {
                is_proved |= self.is_proved(request);
                self.give_up_upgrade(request, &lock);
            } else {
                self.stop_waiting(request, &lock, AcquireOutcome::Abandoned, out);
                self.seek_noted(&lock, lease_clock, out);
            }
        }
        self.alarms.insert((relies_until, TableAlarm::Unproved(session)));
        if is_proved {
            let until = last_contact.min(lease_clock.now) + self.table_config.resume_window;
            self.alarms.insert((until.max(relies_until), TableAlarm::ResumeOver(session)));
        }
    }

    /// Forgets that a client wants to be exclusive: it was cut off, and could not prove what it would have then.
    fn give_up_upgrade(&mut self, request: Request, key: &LockKey) {
        if let Some(hold) = self.locks.get_mut(key).and_then(|lock| lock.hold_mut(request)) {
            hold.upgrades = false;
        }
    }

    /// Ends what a client that was cut off cannot prove, or everything if this site leaves: the client does not rely on it any more.
    pub(super) fn on_unproved(
        &mut self,
        session: Session,
        lease_clock: LeaseClock,
        out: &mut Vec<TableOutput>,
    ) {
        let Some(client) = self.sessions.get(&session).filter(|client| client.cut.is_some()) else { return };
        let requests = client.requests.clone();
        let is_kept = |request: &Request| self.is_proved(*request) && !self.keeps_no_window();
        if !requests.iter().any(is_kept) {
            return self.on_session_ended(session, lease_clock, out);
        }
        let ending: Vec<Request> = requests.into_iter().filter(|request| !is_kept(request)).collect();
        for request in ending {
            if let Some((_, lock)) = self.requests.get(&request).cloned() {
                self.leave(request, &lock, lease_clock, out);
            }
        }
    }

    /// Returns whether what a client can prove ends with the rest: this site leaves and lets go of none of it anyway.
    fn keeps_no_window(&self) -> bool {
        self.frozen || mutant::is_on(Mutant::NoResumeWindow)
    }

    /// Returns when a hold ends whose client is told now that it has lost it, and must have stopped by `act_by`.
    pub(super) fn ends_at(&self, request: Request, act_by: Time, lease_clock: LeaseClock) -> Time {
        if !self.is_proved(request) {
            act_by
        } else if self.frozen {
            act_by.max(self.relied_on_until(request, act_by, lease_clock))
        } else if mutant::is_on(Mutant::LostProofForgotten) {
            act_by
        } else {
            act_by.max(lease_clock.now + self.table_config.resume_window)
        }
    }

    /// Returns until when a client may count on a hold that it can prove, and of which it was told that it must have stopped by `act_by`. It
    /// may have been cut off before it could hear that. Then it goes on as long as it was told that the lease lasts, and
    /// tries to claim the hold elsewhere.
    fn relied_on_until(&self, request: Request, act_by: Time, lease_clock: LeaseClock) -> Time {
        if mutant::is_on(Mutant::LeavesBeforeCutClient) {
            return act_by;
        }
        let session = self.requests.get(&request).and_then(|(session, _)| self.sessions.get(session));
        session.and_then(|client| client.cut).or(lease_clock.lease_end).unwrap_or(act_by)
    }

    /// Reacts to this site being about to leave: from now on it lets go of nothing that a client has a proof of, and says so.
    pub(crate) fn freeze(&mut self, lease_clock: LeaseClock, out: &mut Vec<TableOutput>) {
        if std::mem::replace(&mut self.frozen, true) {
            return;
        }
        out.push(TableOutput::Leaving);
        let over = |(session, client): (&Session, &super::SessionState)| {
            client.cut.filter(|relies_until| *relies_until <= lease_clock.now).map(|_| *session)
        };
        for session in self.sessions.iter().filter_map(over).collect::<Vec<_>>() {
            self.on_session_ended(session, lease_clock, out);
        }
        self.hurry_losses(lease_clock);
    }

    /// Lets what clients have lost end when they have certainly stopped, and not only when the resume window is over.
    fn hurry_losses(&mut self, lease_clock: LeaseClock) {
        for request in self.proved.iter().copied().collect::<Vec<_>>() {
            let Some((session, key)) = self.requests.get(&request).cloned() else { continue };
            let ends_at = self.ends_at(request, self.act_by(session, lease_clock), lease_clock);
            let Some(hold) = self.locks.get_mut(&key).and_then(|lock| lock.hold_mut(request)) else {
                continue;
            };
            if let Some(stop_by) = hold.stop_by.as_mut().filter(|stop_by| ***stop_by > ends_at) {
                let alarm = TableAlarm::Lost(key, request);
                self.alarms.remove(&(**stop_by, alarm.clone()));
                **stop_by = ends_at;
                self.alarms.insert((ends_at, alarm));
            }
        }
    }

    /// Returns whether this site is about to leave.
    pub(crate) fn is_frozen(&self) -> bool {
        self.frozen
    }

    /// Vacates a hold, if this site is frozen and somebody may claim it elsewhere. Returns whether it did.
    pub(super) fn vacate(&mut self, request: Request, key: &LockKey) -> bool {
        if !self.frozen || !self.is_proved(request) || mutant::is_on(Mutant::FrozenReleases) {
            return false;
        }
        forget(&mut self.requests, &mut self.sessions, request);
        self.claims.on_hold_ended(request);
        self.proved.remove(&request);
        if let Some(hold) = self.locks.get_mut(key).and_then(|lock| lock.hold_mut(request)) {
            hold.upgrades = false;
            if let Some(stop_by) = hold.stop_by.take() {
                self.losing -= 1;
                self.alarms.remove(&(*stop_by, TableAlarm::Lost(key.clone(), request)));
            }
            self.vacated.insert(request, key.clone());
        }
        true
    }

    /// Checks the vacated holds.
    pub(super) fn check_vacated(&self) -> Result<(), &'static str> {
        let is_vacated = |(request, key): (&Request, &LockKey)| {
            let hold = self.locks.get(key).and_then(|lock| lock.hold(*request));
            hold.is_some_and(|hold| hold.stop_by.is_none()) && !self.requests.contains_key(request)
        };
        if !self.vacated.iter().all(is_vacated) || !(self.frozen || self.vacated.is_empty()) {
            return Err("T12: every vacated hold is a hold of a lock and of no request");
        }
        Ok(())
    }
}
