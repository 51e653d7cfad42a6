//! Claims: locks that clients of this site held through another one, which may be gone.
//!
//! A claim is *pending* as long as the incarnation that granted the lock is in the view that is installed. That incarnation's machines
//! stand for the lock, and the claim is no holder in any machine. When a view without that incarnation is installed, its pending
//! claims become holds of this site, before the census is written: for every other member they are holdings like all others. When
//! that view opens, a claimed hold is *settled*; or it is given up, if the name has more holders than permits. Then whoever claimed was
//! wrong, and a holder that was granted the lock wins.
//!
//! A client whose claim is pending is told how long it is safe: as long as this site's lease lasts, and no longer than the former site
//! keeps the lock for the client. `node/claims.rs` says why.
//!
//! **Invariants**
//! - T10: a pending claim that was not lost is one on an incarnation that is in the installed view.
//! - T11: a claim that was lost, or that will be at a set time, has its alarm; and no hold is claimed twice here.

use std::collections::{BTreeMap, BTreeSet};

use meshlock_protocol::Fence;

use super::clients::Hold;
use super::opening::HoldersByPermits;
use super::tally::ClaimOutcome;
use super::{
    LeaseClock, LocalView, LockEvent, LockKey, LockTable, LossReason, Request, Session, TableAlarm,
    TableOutput,
};
use crate::claim::{Proof, ProvedHold, Reserved};
use crate::mutant::{self, Mutant};
use crate::names::{LockName, Member};
use crate::time::{Span, Time};

/// A client's claim to a lock that it holds through another site, or held through another connection.
#[derive(Clone, Debug)]
pub struct LockClaim {
    pub session: Session,
    /// The number of the claim, never used before at this site. If the claim is settled, it is the number of the hold.
    pub request: Request,
    pub proof: Proof,
    /// For how long the site that granted the lock keeps it for the client.
    pub reserved: Reserved,
}

/// An event of a claim. A client also loses a claim as it loses a lock ([`LockEvent::Lost`]), and gives it up by releasing it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ClaimEvent {
    /// The claim is pending: nobody else gets the lock before the site's lease ends (as extended from time to time), nor before `until`.
    Pending {
        request: Request,
        fence: Fence,
        slot: Option<u32>,
        /// The client must have stopped by then, on this machine's clock, unless it is told of an extension.
        lease_end: Time,
        /// However long the lease lasts, the client must have stopped by then unless the claim is settled before. It is counted from when
        /// the claim came: a client on another machine counts what is left of it from when it *sent* the claim.
        until: Option<Time>,
        /// How long before either of these it will be told to stop.
        margin: Span,
    },
    /// The client holds the lock through this site, with the fence and the slot that it had.
    Settled {
        request: Request,
        fence: Fence,
        slot: Option<u32>,
        /// The client must have stopped by then, on this machine's clock, unless it is told of an extension.
        lease_end: Time,
        /// How long before that it will be told to stop.
        margin: Span,
    },
    /// The claim was not accepted. The client has what it had before: nothing has changed anywhere.
    Refused { request: Request, why: ClaimRefusal },
}

/// The reason why a claim is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, thiserror::Error)]
pub enum ClaimRefusal {
    /// The incarnation that granted the lock is not in the view: others may have the lock by now.
    #[error("the site that granted the lock is not a member any more; the lock is lost")]
    NotMember,
    /// This site cannot check proofs of that member (yet): it runs an older program, or a view is being opened.
    #[error(
        "this site does not know how to check proofs of the site that granted the lock; ask again in a second, or another site"
    )]
    UnknownKey,
    /// The proof was not made by that member.
    #[error("the proof is not from the site that it names")]
    BadProof,
    /// This site granted the lock, and the client has lost it or given it up.
    #[error("nothing is kept for the client here; the lock is lost")]
    NothingToClaim,
    /// The site that granted the lock may give it to others by now, or is about to.
    #[error("the site that granted the lock does not keep it any longer; the lock is lost")]
    ReservationOver,
    /// This site has no lease with time to spare.
    #[error("this site has no lease; ask another one")]
    NoLease,
    /// This site leaves its cluster.
    #[error("this site is leaving the cluster; ask another one")]
    Leaving,
    /// Clients of this site have as many permits as the rules let one site have.
    #[error("clients of this site have as many permits of the lock as one site may have; ask another one")]
    ShareTaken,
    /// Too many claims are pending, of this session or of all.
    #[error("too many claims are pending at this site; ask another one")]
    TooMany,
    /// The number of the request was used before.
    #[error("this request number is already in use; use a new one")]
    DuplicateRequest,
}

impl ClaimRefusal {
    /// Returns whether another site may accept the same claim.
    pub fn is_of_this_site(self) -> bool {
        matches!(
            self,
            ClaimRefusal::UnknownKey
                | ClaimRefusal::NoLease
                | ClaimRefusal::Leaving
                | ClaimRefusal::ShareTaken
                | ClaimRefusal::TooMany
        )
    }
}

/// A claim that is not settled.
#[derive(Clone, Debug)]
pub(super) struct PendingClaim {
    pub(super) hold: ProvedHold,
    pub(super) since: Time,
    /// It is a mirror's: the site that granted the lock may well be there.
    pub(super) is_standing: bool,
    /// Until when the former site keeps the lock, if that is limited.
    until: Option<Time>,
    /// Set when the client was told that it has lost the lock, or was cut off: the time by which it has certainly stopped.
    stop_by: Option<Time>,
    /// Whether it was told. A client that was cut off may claim the same again.
    is_lost: bool,
}

impl PendingClaim {
    /// Returns when the claim has to be looked at.
    fn alarm(&self, margin: Span) -> Option<Time> {
        self.stop_by.or(self.until.map(|until| until.before(margin)))
    }

    fn key(&self) -> LockKey {
        LockKey { name: self.hold.lock.clone(), permits: self.hold.permits }
    }
}

/// The claims at one site.
#[derive(Clone, Debug, Default)]
pub(super) struct Claims {
    /// The members of the view that was installed last.
    installed: Vec<Member>,
    pending: BTreeMap<(Session, Request), PendingClaim>,
    sessions: BTreeMap<Request, Session>,
    /// Who claims a hold.
    by_hold: BTreeMap<ProvedHold, Request>,
    /// The claims of each lock.
    by_lock: BTreeSet<(LockName, Request)>,
    /// Claims that have become holds, and are not settled because no view has opened since then.
    unsettled: BTreeSet<Request>,
}

impl Claims {
    /// Returns whether some claim is not settled, lost or not.
    pub(super) fn has_any(&self) -> bool {
        !self.pending.is_empty()
    }

    /// Returns whether some client counts on a claim.
    pub(super) fn has_live(&self) -> bool {
        self.pending.values().any(|claim| claim.stop_by.is_none())
    }

    /// Forgets that a hold is not settled: it has ended.
    pub(super) fn on_hold_ended(&mut self, request: Request) {
        self.unsettled.remove(&request);
    }

    pub(super) fn contains(&self, request: Request) -> bool {
        self.sessions.contains_key(&request)
    }

    #[cfg(test)]
    pub(super) fn installed_sites(&self) -> Vec<Member> {
        self.installed.clone()
    }

    /// Returns the claims of a plain lock that clients count on, as people are shown them: whose they are, and since when. Those of a
    /// semaphore are not shown: with the holder at the former site they would count twice.
    pub(super) fn shown(&self, name: &LockName) -> impl Iterator<Item = (Session, &PendingClaim)> {
        let live = |claim: &PendingClaim| claim.stop_by.is_none() && claim.hold.permits == 1;
        self.of_lock(name).filter(move |(.., claim)| live(claim)).map(|(session, _, claim)| (session, claim))
    }

    /// Returns the names of all locks that are claimed.
    pub(super) fn locks(&self) -> BTreeSet<&LockName> {
        self.by_lock.iter().map(|(name, _)| name).collect()
    }

    /// Returns the sessions whose claims are not settled.
    pub(super) fn claiming(&self) -> impl Iterator<Item = (Session, &LockName)> {
        self.pending.iter().map(|((session, _), claim)| (*session, &claim.hold.lock))
    }

    fn of_session(&self, session: Session) -> Vec<Request> {
        let range = (session, Request(0))..=(session, Request(u64::MAX));
        self.pending.range(range).map(|((_, request), _)| *request).collect()
    }

    fn get(&self, request: Request) -> Option<&PendingClaim> {
        self.pending.get(&(*self.sessions.get(&request)?, request))
    }

    fn get_mut(&mut self, request: Request) -> Option<&mut PendingClaim> {
        self.pending.get_mut(&(*self.sessions.get(&request)?, request))
    }

    fn of_lock(&self, name: &LockName) -> impl Iterator<Item = (Session, Request, &PendingClaim)> {
        let range = (name.clone(), Request(0))..=(name.clone(), Request(u64::MAX));
        self.by_lock.range(range).filter_map(|(_, request)| {
            let session = *self.sessions.get(request)?;
            Some((session, *request, self.pending.get(&(session, *request))?))
        })
    }
}

impl LockTable {
    /// Handles a client's claim to a lock that another member has granted, as its proof, which was checked, says. That member keeps
    /// the lock for `reserved` from now on, or until it is not a member any more.
    pub(crate) fn claim(
        &mut self,
        claim: &LockClaim,
        reserved: Option<Span>,
        lease_clock: LeaseClock,
        out: &mut Vec<TableOutput>,
    ) {
        let LockClaim { session, request, proof, reserved: reason } = claim;
        let (session, request, hold, now) = (*session, *request, proof.hold(), lease_clock.now);
        let is_standing = *reason == Reserved::Standing;
        let until = reserved.map(|reserved| now + reserved);
        let until = until.filter(|_| !mutant::is_on(Mutant::ClaimPromisedTooLong));
        let lease_end = match self.check_claim(session, request, hold, until, lease_clock) {
            Ok(lease_end) => lease_end,
            Err(why) => return self.refuse_claim(request, why, out),
        };
        if let Some(other) = self.claims.by_hold.get(hold).copied() {
            // The same client, through another connection.
            self.drop_claim(other);
            let why = LossReason::TakenOver;
            out.push(TableOutput::LockEvent(LockEvent::Lost { request: other, act_by: now, why }));
        }
        let (stop_by, is_lost) = (None, false);
        let pending = PendingClaim { hold: hold.clone(), since: now, is_standing, until, stop_by, is_lost };
        if let Some(alarm) = pending.alarm(self.table_config.margin) {
            self.alarms.insert((alarm, TableAlarm::Claim(request)));
        }
        self.claims.by_hold.insert(hold.clone(), request);
        self.claims.by_lock.insert((hold.lock.clone(), request));
        self.claims.sessions.insert(request, session);
        self.claims.pending.insert((session, request), pending);
        if !is_standing {
            self.tally.claimed(ClaimOutcome::Pending);
        }
        let (fence, slot, margin) = (hold.fence, hold.slot, self.table_config.margin);
        let pending = ClaimEvent::Pending { request, fence, slot, lease_end, until, margin };
        out.push(TableOutput::Claim(pending));
    }

    /// Returns the end of the lease, if the claim can be accepted.
    fn check_claim(
        &self,
        session: Session,
        request: Request,
        hold: &ProvedHold,
        until: Option<Time>,
        lease_clock: LeaseClock,
    ) -> Result<Time, ClaimRefusal> {
        if self.requests.contains_key(&request) || self.claims.contains(request) {
            return Err(ClaimRefusal::DuplicateRequest);
        }
        if !self.claims.installed.contains(&hold.holder) && !mutant::is_on(Mutant::ClaimOnDeparted) {
            return Err(ClaimRefusal::NotMember);
        }
        if until.is_some_and(|until| until.before(self.table_config.margin) <= lease_clock.now) {
            return Err(ClaimRefusal::ReservationOver);
        }
        if self.is_frozen() {
            return Err(ClaimRefusal::Leaving);
        }
        let lease_end = lease_clock.lease_end.ok_or(ClaimRefusal::NoLease)?;
        let table_config = &self.table_config;
        if let Some(other) = self.claims.by_hold.get(hold) {
            let other = self.claims.get(*other);
            // What its client was told is lost does not come back through another connection.
            return if other.is_some_and(|other| other.is_lost) {
                Err(ClaimRefusal::NothingToClaim)
            } else {
                Ok(lease_end)
            };
        }
        if self.claims.pending.len() >= table_config.max_claims
            || self.claims.of_session(session).len() >= table_config.max_claims_per_session
        {
            return Err(ClaimRefusal::TooMany);
        }
        if self.has_no_share_left(hold) {
            return Err(ClaimRefusal::ShareTaken);
        }
        Ok(lease_end)
    }

    /// Returns whether clients of this site have or claim as many permits of a semaphore as one site may have.
    fn has_no_share_left(&self, hold: &ProvedHold) -> bool {
        let Some(rule) = self.local_view.as_ref().map(|view| view.rules.rule(&hold.lock)) else {
            return false;
        };
        if rule.permits != hold.permits || rule.per_site >= rule.permits {
            return false;
        }
        let key = LockKey { name: hold.lock.clone(), permits: hold.permits };
        let held = self.locks.get(&key).map_or(0, |lock| lock.clients.holds.len());
        let claims = self.claims.of_lock(&hold.lock).filter(|(.., claim)| claim.key() == key).count();
        held + claims >= rule.per_site as usize
    }

    /// Refuses a claim.
    pub(crate) fn refuse_claim(&mut self, request: Request, why: ClaimRefusal, out: &mut Vec<TableOutput>) {
        self.tally.claimed(ClaimOutcome::Refused);
        out.push(TableOutput::Claim(ClaimEvent::Refused { request, why }));
    }

    /// Removes a claim. Returns whether there was one.
    pub(super) fn drop_claim(&mut self, request: Request) -> bool {
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
    pub(super) fn drop_claims_of(&mut self, session: Session) {
        for request in self.claims.of_session(session) {
            self.drop_claim(request);
        }
    }

    /// Lets the claims of a session that was cut off end when its client does not rely on them any more. Until then they count: the
    /// client may not have found another site yet.
    pub(super) fn end_claims_of(&mut self, session: Session, relies_until: Time, now: Time) {
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
    pub(super) fn on_claim_alarm(&mut self, request: Request, out: &mut Vec<TableOutput>) {
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
    pub(super) fn revoke_claims_at(&mut self, end: Time, out: &mut Vec<TableOutput>) {
        for request in self.claims.sessions.keys().copied().collect::<Vec<_>>() {
            self.revoke_claim(request, (end, end), LossReason::LeaseEnd, out);
        }
    }

    /// Takes the claims of one lock, or of all, away from their clients.
    pub(super) fn take_claims(
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
    pub(super) fn lose_claims(&mut self, now: Time, out: &mut Vec<TableOutput>) {
        for request in self.claims.sessions.keys().copied().collect::<Vec<_>>() {
            self.revoke_claim(request, (now, now), LossReason::Excluded, out);
            self.drop_claim(request);
        }
        self.claims.unsettled.clear();
    }

    /// Reacts to a view with these members, of which this site is one, being installed: claims on an incarnation that is not
    /// among them become holds, also those that have ended but whose clients may not have stopped yet.
    pub(crate) fn install(&mut self, members: &[Member]) {
        self.claims.installed = members.to_vec();
        if mutant::is_on(Mutant::StandingClaimForgotten) {
            let standing = self.claims.pending.iter().filter(|(_, claim)| claim.is_standing);
            for request in standing.map(|((_, request), _)| *request).collect::<Vec<_>>() {
                self.drop_claim(request);
            }
        }
        let is_due = |claim: &PendingClaim| {
            let is_gone = !members.contains(&claim.hold.holder);
            let counts = claim.stop_by.is_none() || !mutant::is_on(Mutant::EndedClaimNotCounted);
            counts && (is_gone || mutant::is_on(Mutant::ClaimCountedEarly))
        };
        let due = self.claims.pending.iter().filter(|(_, claim)| is_due(claim));
        for (session, request) in due.map(|(key, _)| *key).collect::<Vec<_>>() {
            let Some(claim) = self.claims.pending.get(&(session, request)).cloned() else { continue };
            self.drop_claim(request);
            let (key, cause) = (claim.key(), self.cause(request));
            let at = self.locks.get_index_of(&key).unwrap_or_else(|| self.insert(&key));
            let ProvedHold { fence, slot, .. } = claim.hold;
            let stop_by = claim.stop_by.map(Box::new);
            if let Some(stop_by) = claim.stop_by {
                self.losing += 1;
                self.alarms.insert((stop_by, TableAlarm::Lost(key.clone(), request)));
            }
            let hold = Hold { request, fence, slot, since: claim.since, stop_by, lane: 0, cause };
            self.locks[at].clients.wake(&mut self.spare).holds.push(hold);
            self.locks[at].clients.rest(&mut self.spare);
            self.requests.insert(request, (session, key));
            self.sessions.entry(session).or_default().requests.insert(request);
            // Its client does not know yet, and relies on the claim although it may be cut off: that is like having a proof.
            if !mutant::is_on(Mutant::SettledUnheard) {
                self.proved.insert(request);
            }
            self.claims.unsettled.insert(request);
            self.tally.claimed(ClaimOutcome::Settled);
        }
    }

    /// Settles the claims that became holds, now that the view is open, or gives them up where the name has more holders than permits.
    /// `held` are the holders of the names that have several.
    pub(super) fn settle_claims(
        &mut self,
        local_view: &LocalView,
        held: &BTreeMap<LockName, HoldersByPermits>,
        lease_clock: LeaseClock,
        out: &mut Vec<TableOutput>,
    ) {
        for request in std::mem::take(&mut self.claims.unsettled) {
            let Some((_, key)) = self.requests.get(&request).cloned() else { continue };
            let Some(hold) = self.locks.get(&key).and_then(|lock| lock.hold(request)) else { continue };
            if hold.stop_by.is_some() {
                continue;
            }
            let (fence, slot) = (hold.fence, hold.slot);
            let is_contested = held.get(&key.name).is_some_and(|held| {
                is_contested(local_view, &key, slot, held) && !mutant::is_on(Mutant::ClaimKeptInConflict)
            });
            if let Some(lease_end) = lease_clock.lease_end.filter(|_| !is_contested) {
                let margin = self.table_config.margin;
                let settled = ClaimEvent::Settled { request, fence, slot, lease_end, margin };
                out.push(TableOutput::Claim(settled));
            } else {
                let why = if is_contested { LossReason::Conflict } else { LossReason::LeaseEnd };
                self.take_from([(request, key)].into_iter(), why, lease_clock, out);
            }
        }
    }

    /// Checks the claims.
    pub(super) fn check_claims(&self) -> Result<(), &'static str> {
        let claims = &self.claims;
        let is_known = |claim: &PendingClaim| {
            claims.installed.contains(&claim.hold.holder)
                || claim.stop_by.is_some() && mutant::is_on(Mutant::EndedClaimNotCounted)
        };
        if !claims.pending.values().all(is_known) && !mutant::is_on(Mutant::ClaimOnDeparted) {
            return Err("T10: a pending claim is one on an incarnation that is in the installed view");
        }
        let alarms = self.alarms.iter().filter(|(_, alarm)| matches!(alarm, TableAlarm::Claim(_)));
        let due = |((_, request), claim): (&(Session, Request), &PendingClaim)| {
            Some((claim.alarm(self.table_config.margin)?, TableAlarm::Claim(*request)))
        };
        let due: Vec<(Time, TableAlarm)> = claims.pending.iter().filter_map(due).collect();
        let count = claims.pending.len();
        if alarms.count() != due.len()
            || !due.iter().all(|alarm| self.alarms.contains(alarm))
            || [claims.sessions.len(), claims.by_hold.len(), claims.by_lock.len()] != [count; 3]
        {
            return Err("T11: a claim that ends at a set time has its alarm, and no hold is claimed twice");
        }
        Ok(())
    }
}

/// Returns whether a claimed hold has too many others beside it: more than the permits or than its site's share, some that count on
/// another number of permits, or one with the same slot.
fn is_contested(local_view: &LocalView, key: &LockKey, slot: Option<u32>, held: &HoldersByPermits) -> bool {
    let Some(of_key) = held.get(&key.permits).filter(|_| held.len() == 1) else { return true };
    let rule = local_view.rules.rule(&key.name);
    let per_site = if rule.permits == key.permits { rule.per_site } else { key.permits };
    let all = of_key.iter().map(|(_, slots)| slots.len()).sum::<usize>();
    let here = of_key.iter().find(|(place, _)| *place == local_view.me).map_or(0, |(_, slots)| slots.len());
    let same = of_key.iter().flat_map(|(_, slots)| slots).filter(|other| slot.is_some() && **other == slot);
    all > key.permits as usize || here > per_site as usize || same.count() > 1
}
