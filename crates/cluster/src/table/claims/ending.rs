//! How claims end: the client gives one up, was wrong, is told that it has lost it, or is cut off.

use crate::mutant::{self, Mutant};
use crate::names::LockName;
use crate::table::{LeaseClock, LockEvent, LockTable, LossReason, Request, Session, TableAlarm, TableOutput};
use crate::time::Time;

impl LockTable {
    /// Removes a claim. Returns whether there was one.
    pub(in crate::table) fn drop_claim(&mut self, request: Request) -> bool {
        let Some(session) = self.claims.sessions.remove(&request) else { return false };
        let Some(claim) = self.claims.pending.remove(&(session, request)) else { return false };
        self.claims.by_hold.remove(&claim.hold);
        self.claims.by_lock.remove(&(claim.hold.lock.clone(), request));
        if let Some(alarm) = claim.alarm(self.table_config.margin) {
            self.alarms.remove(&(alarm, TableAlarm::Claim(request)));
        }
        true
    }

    /// Removes the claims of a session that has ended: its client has stopped.
    pub(in crate::table) fn drop_claims_of(&mut self, session: Session) {
        for request in self.claims.of_session(session) {
            self.drop_claim(request);
        }
    }

    /// Lets the claims of a session that was cut off end when its client does not rely on them any more. Until then they count: the
    /// client may not have found another site yet.
    pub(in crate::table) fn end_claims_of(&mut self, session: Session, relies_until: Time, now: Time) {
        if relies_until <= now || mutant::is_on(Mutant::CutClaimDropped) {
            return self.drop_claims_of(session);
        }
        for request in self.claims.of_session(session) {
            self.end_claim(request, relies_until);
        }
    }

    /// Sets the time at which a claim ends, unless it ends later. Returns whether its client was told before that it has lost it; `None`
    /// if there is no such claim.
    fn end_claim(&mut self, request: Request, at: Time) -> Option<bool> {
        let session = *self.claims.sessions.get(&request)?;
        let claim = self.claims.pending.get_mut(&(session, request))?;
        if let Some(alarm) = claim.alarm(self.table_config.margin) {
            self.alarms.remove(&(alarm, TableAlarm::Claim(request)));
        }
        let at = claim.stop_by.map_or(at, |stop_by| stop_by.max(at));
        claim.stop_by = Some(at);
        self.alarms.insert((at, TableAlarm::Claim(request)));
        Some(claim.is_lost)
    }

    /// Tells a client, once, that it has lost what it claims, and must have stopped by `act_by`. The claim stays until the client
    /// confirms that it has, or until `ends_at`, which is that time or later: this site does not leave the cluster before, and
    /// a view without the former site finds the lock held.
    fn revoke_claim(
        &mut self,
        request: Request,
        (act_by, ends_at): (Time, Time),
        why: LossReason,
        out: &mut Vec<TableOutput>,
    ) {
        let Some(claim) = self.claims.get_mut(request).filter(|claim| !claim.is_lost) else { return };
        claim.is_lost = true;
        self.end_claim(request, ends_at);
        self.tally.lost(why);
        out.push(TableOutput::LockEvent(LockEvent::Lost { request, act_by, why }));
    }

    /// Returns when a claim ends whose client is told now that it must have stopped by `act_by`: if it was cut off and does not hear
    /// that, it goes on as long as it was told that it may.
    fn claim_ends_at(&self, request: Request, act_by: Time, lease_clock: LeaseClock) -> Time {
        let until = self.claims.get(request).and_then(|claim| claim.until);
        let told = lease_clock.lease_end.map(|end| until.map_or(end, |until| until.min(end)));
        told.filter(|_| !mutant::is_on(Mutant::ClaimLossHeard)).map_or(act_by, |told| told.max(act_by))
    }

    /// Handles the alarm of a claim: the former site may give the lock to others soon, or the time to stop is over.
    pub(in crate::table) fn on_claim_alarm(&mut self, request: Request, out: &mut Vec<TableOutput>) {
        let Some(claim) = self.claims.get(request) else { return };
        match (claim.stop_by, claim.until) {
            (None, Some(until)) => {
                self.revoke_claim(request, (until, until), LossReason::ReservationOver, out);
            }
            (Some(_), _) => drop(self.drop_claim(request)),
            (None, None) => {}
        }
    }

    /// Tells all clients whose claims are pending that they have lost them, because the lease ends at `end`.
    pub(in crate::table) fn revoke_claims_at(&mut self, end: Time, out: &mut Vec<TableOutput>) {
        for request in self.claims.sessions.keys().copied().collect::<Vec<_>>() {
            self.revoke_claim(request, (end, end), LossReason::LeaseEnd, out);
        }
    }

    /// Takes the claims of one lock, or of all, away from their clients.
    pub(in crate::table) fn take_claims(
        &mut self,
        name: Option<&LockName>,
        why: LossReason,
        lease_clock: LeaseClock,
        out: &mut Vec<TableOutput>,
    ) {
        let taken: Vec<(Session, Request)> = match name {
            Some(name) => self.claims.of_lock(name).map(|(session, request, _)| (session, request)).collect(),
            None => self.claims.pending.keys().copied().collect(),
        };
        for (session, request) in taken {
            let act_by = self.act_by(session, lease_clock);
            let ends_at = self.claim_ends_at(request, act_by, lease_clock);
            self.revoke_claim(request, (act_by, ends_at), why, out);
        }
    }

    /// Takes all claims away now, because this incarnation of the site has ended.
    pub(in crate::table) fn lose_claims(&mut self, now: Time, out: &mut Vec<TableOutput>) {
        for request in self.claims.sessions.keys().copied().collect::<Vec<_>>() {
            self.revoke_claim(request, (now, now), LossReason::Excluded, out);
            self.drop_claim(request);
        }
        self.claims.unsettled.clear();
    }
}
