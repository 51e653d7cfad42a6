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
//! - `pending.rs`: the claims that are not settled. `ending.rs`: how one ends. `settling.rs`: how one becomes a hold.
//!
//! **Invariants**
//! - T10: a pending claim that was not lost is one on an incarnation that is in the installed view.
//! - T11: a claim that was lost, or that will be at a set time, has its alarm; and no hold is claimed twice here.

mod ending;
mod pending;
mod settling;

use meshlock_protocol::Fence;

use super::tally::ClaimOutcome;
use super::{
    LeaseClock, LockEvent, LockKey, LockTable, LossReason, Request, Session, TableAlarm, TableOutput,
};
use crate::claim::{Proof, ProvedHold, Reserved};
use crate::mutant::{self, Mutant};
use crate::time::{Span, Time};
pub(super) use pending::{Claims, PendingClaim};

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

impl ClaimEvent {
    /// Returns the claim that it is about.
    pub fn request(&self) -> Request {
        match self {
            ClaimEvent::Pending { request, .. }
            | ClaimEvent::Settled { request, .. }
            | ClaimEvent::Refused { request, .. } => *request,
        }
    }
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

    /// Checks the claims.
    pub(in crate::table) fn check_claims(&self) -> Result<(), &'static str> {
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
