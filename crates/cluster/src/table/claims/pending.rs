//! The claims that are not settled.

use std::collections::{BTreeMap, BTreeSet};

use crate::claim::ProvedHold;
use crate::names::{LockName, Member};
use crate::table::{LockKey, Request, Session};
use crate::time::{Span, Time};

/// A claim that is not settled.
#[derive(Clone, Debug)]
pub(in crate::table) struct PendingClaim {
    pub(in crate::table) hold: ProvedHold,
    pub(in crate::table) since: Time,
    /// It is a mirror's: the site that granted the lock may well be there.
    pub(in crate::table) is_standing: bool,
    /// Until when the former site keeps the lock, if that is limited.
    pub(super) until: Option<Time>,
    /// Set when the client was told that it has lost the lock, or was cut off: the time by which it has certainly stopped.
    pub(super) stop_by: Option<Time>,
    /// Whether it was told. A client that was cut off may claim the same again.
    pub(super) is_lost: bool,
}

impl PendingClaim {
    /// Returns when the claim has to be looked at.
    pub(super) fn alarm(&self, margin: Span) -> Option<Time> {
        self.stop_by.or(self.until.map(|until| until.before(margin)))
    }

    pub(super) fn key(&self) -> LockKey {
        LockKey { name: self.hold.lock.clone(), permits: self.hold.permits }
    }
}

/// The claims at one site.
#[derive(Clone, Debug, Default)]
pub(in crate::table) struct Claims {
    /// The members of the view that was installed last.
    pub(super) installed: Vec<Member>,
    pub(super) pending: BTreeMap<(Session, Request), PendingClaim>,
    pub(super) sessions: BTreeMap<Request, Session>,
    /// Who claims a hold.
    pub(super) by_hold: BTreeMap<ProvedHold, Request>,
    /// The claims of each lock.
    pub(super) by_lock: BTreeSet<(LockName, Request)>,
    /// Claims that have become holds, and are not settled because no view has opened since then.
    pub(super) unsettled: BTreeSet<Request>,
}

impl Claims {
    /// Returns whether some claim is not settled, lost or not.
    pub(in crate::table) fn has_any(&self) -> bool {
        !self.pending.is_empty()
    }

    /// Returns whether some client counts on a claim.
    pub(in crate::table) fn has_live(&self) -> bool {
        self.pending.values().any(|claim| claim.stop_by.is_none())
    }

    /// Forgets that a hold is not settled: it has ended.
    pub(in crate::table) fn on_hold_ended(&mut self, request: Request) {
        self.unsettled.remove(&request);
    }

    pub(in crate::table) fn contains(&self, request: Request) -> bool {
        self.sessions.contains_key(&request)
    }

    #[cfg(test)]
    pub(in crate::table) fn installed_sites(&self) -> Vec<Member> {
        self.installed.clone()
    }

    /// Returns the claims of a plain lock that clients count on, as people are shown them: whose they are, and since when. Those of a
    /// semaphore are not shown: with the holder at the former site they would count twice.
    pub(in crate::table) fn shown(&self, name: &LockName) -> impl Iterator<Item = (Session, &PendingClaim)> {
        let live = |claim: &PendingClaim| claim.stop_by.is_none() && claim.hold.permits == 1;
        self.of_lock(name).filter(move |(.., claim)| live(claim)).map(|(session, _, claim)| (session, claim))
    }

    /// Returns the names of all locks that are claimed.
    pub(in crate::table) fn locks(&self) -> BTreeSet<&LockName> {
        self.by_lock.iter().map(|(name, _)| name).collect()
    }

    /// Returns the sessions whose claims are not settled.
    pub(in crate::table) fn claiming(&self) -> impl Iterator<Item = (Session, &LockName)> {
        self.pending.iter().map(|((session, _), claim)| (*session, &claim.hold.lock))
    }

    pub(super) fn of_session(&self, session: Session) -> Vec<Request> {
        let range = (session, Request(0))..=(session, Request(u64::MAX));
        self.pending.range(range).map(|((_, request), _)| *request).collect()
    }

    pub(super) fn get(&self, request: Request) -> Option<&PendingClaim> {
        self.pending.get(&(*self.sessions.get(&request)?, request))
    }

    pub(super) fn get_mut(&mut self, request: Request) -> Option<&mut PendingClaim> {
        self.pending.get_mut(&(*self.sessions.get(&request)?, request))
    }

    pub(super) fn of_lock(&self, name: &LockName) -> impl Iterator<Item = (Session, Request, &PendingClaim)> {
        let range = (name.clone(), Request(0))..=(name.clone(), Request(u64::MAX));
        self.by_lock.range(range).filter_map(|(_, request)| {
            let session = *self.sessions.get(request)?;
            Some((session, *request, self.pending.get(&(session, *request))?))
        })
    }
}
