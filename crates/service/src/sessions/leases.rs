//! Leases at the sessions: granted, renewed, ended, by their owners or by time.

use std::net::SocketAddr;
use std::sync::{PoisonError, Weak};
use std::time::Duration;

use meshlock_cluster::names::{ClientLabel, SiteName, fnv_1a};
use meshlock_cluster::time::{Span, Time};
use meshlock_host::front::{Admitted, Ended};
use meshlock_host::gate::{AuditEvent, Caller, CallerOrigin};
use meshlock_system::now;
use tokio::time::sleep;

use super::{Inner, SessionKey, Sessions};
use crate::metrics::SessionEnd;
use crate::sessions::registry::{Expired, Lasts, LeaseId, RegistryError};

/// How many bits of a lease's number say which site has granted it; below them is chance.
const SITE_BITS: u32 = 15;
const CHANCE_BITS: u32 = 63 - SITE_BITS;

impl Sessions {
    /// Grants a lease with a number of this site's choice.
    pub(crate) fn grant(
        &self,
        caller: &Admitted,
        lasts: Lasts,
        who: Option<ClientLabel>,
    ) -> Result<LeaseId, RegistryError> {
        loop {
            let id = self.0.choose_lease();
            match self.grant_as(caller, id, lasts, who.clone()) {
                Err(RegistryError::LeaseExists(_)) => {}
                done => return done.map(|()| id),
            }
        }
    }

    /// Grants a lease with a number of the client's choice.
    pub(crate) fn grant_as(
        &self,
        caller: &Admitted,
        id: LeaseId,
        lasts: Lasts,
        who: Option<ClientLabel>,
    ) -> Result<(), RegistryError> {
        self.0.registry().grant(id, lasts, who, caller, now())?;
        self.0.alarm.notify_one();
        Ok(())
    }

    /// Begins the time of the caller's lease anew; gives back how long it lasts from now.
    pub(crate) fn renew(&self, caller: &Admitted, id: LeaseId) -> Option<Lasts> {
        self.0.registry().renew(id, &caller.principal, now())
    }

    /// Ends the caller's lease and all that hangs on it; gives back whether there was one.
    pub(crate) fn revoke(&self, caller: &Admitted, id: LeaseId) -> bool {
        let is_its = self.0.registry().is_of(id, &caller.principal);
        is_its && self.end_lease(id, SessionEnd::Closed)
    }

    /// The connection of a client was cut: it may believe in what it has for as long as it was told, which is never longer than this
    /// site's own lease is now.
    pub(crate) fn on_cut(&self, client: SocketAddr) {
        let now = now();
        let until = self.0.front().lease_end().unwrap_or(now);
        let mut cut = self.0.cut.lock().unwrap_or_else(PoisonError::into_inner);
        cut.retain(|_, until| *until > now);
        cut.insert(client, until);
    }

    /// The same of a client that does not read what it is told.
    pub(crate) fn on_cut_off(&self, client: &Caller) {
        if let CallerOrigin::Network(address) = client.origin {
            self.on_cut(address);
        }
    }

    /// Until when the client may believe in what it has, if its connection was cut.
    fn believes_until(&self, client: &Caller) -> Option<Time> {
        let CallerOrigin::Network(address) = client.origin else { return None };
        let cut = self.0.cut.lock().unwrap_or_else(PoisonError::into_inner);
        cut.get(&address).copied()
    }

    /// Ends a lease that lasted as long as a call, which is over.
    pub(crate) fn end_with_call(&self, id: LeaseId) {
        let revoked = self.0.registry().revoke(id);
        let Some((owner, keys)) = revoked else { return };
        let Some(until) = self.believes_until(&owner) else {
            return self.0.end_all(id, &owner, keys, SessionEnd::CallEnded);
        };
        self.0.note_end(id, &owner, SessionEnd::CallEnded);
        for key in keys {
            self.0.end_at(key, until);
        }
    }

    /// Ends a lease, whosever it is.
    pub(crate) fn end_lease(&self, id: LeaseId, why: SessionEnd) -> bool {
        let revoked = self.0.registry().revoke(id);
        let Some((owner, keys)) = revoked else { return false };
        self.0.end_all(id, &owner, keys, why);
        true
    }

    /// Ends all leases: nobody can be heard of any more.
    pub(crate) fn close(&self) {
        let leases = self.0.registry().all_leases();
        for id in leases {
            self.end_lease(id, SessionEnd::Stopped);
        }
    }

    /// The time of a lease that has lasted with its connection begins.
    pub(crate) fn begin_time(&self, id: LeaseId, lasts: Lasts) {
        self.0.registry().begin_time(id, lasts, now());
        self.0.alarm.notify_one();
    }

    /// Another site that has granted the lease, by the lease's number.
    pub(crate) fn granted_by(&self, id: LeaseId) -> Option<SiteName> {
        let number = id.number() >> CHANCE_BITS;
        if number == site_number(self.0.front.site()) {
            return None;
        }
        self.0.front().node().look(|node| {
            let mut members = node.view().members.iter();
            members.find(|member| site_number(&member.site) == number).map(|member| member.site.clone())
        })
    }
}

impl Inner {
    fn choose_lease(&self) -> LeaseId {
        loop {
            let chance = fastrand::i64(0..1 << CHANCE_BITS);
            if let Some(id) = LeaseId::new(site_number(self.front.site()) << CHANCE_BITS | chance) {
                return id;
            }
        }
    }

    /// A key has been taken out of the registry, and its client does not know: until then nobody else has the lock.
    fn end_at(&self, key: SessionKey, until: Time) {
        key.driver.end(Ended::SessionOver);
        let _ = self.over.send((key.driver, until));
        self.note_change();
    }

    fn note_end(&self, lease: LeaseId, owner: &Caller, why: SessionEnd) {
        self.meter.session_ended(why);
        let why = why.why();
        self.front.gate().audit().note(
            owner,
            None,
            AuditEvent::Ended { session: Some(lease.to_string()), why },
        );
    }

    /// A lease has been taken out of the registry, with all that hung on it.
    pub(super) fn end_all(&self, lease: LeaseId, owner: &Caller, keys: Vec<SessionKey>, why: SessionEnd) {
        self.note_end(lease, owner, why);
        self.end_keys(keys);
    }

    fn end_keys(&self, keys: Vec<SessionKey>) {
        for key in keys {
            self.end(&key, Ended::SessionOver);
        }
    }
}

/// The lower bits: in the upper ones names that differ only at their end do not.
pub(super) fn site_number(site: &SiteName) -> i64 {
    i64::try_from(fnv_1a(site.as_str().bytes()) & ((1 << SITE_BITS) - 1)).unwrap_or(0)
}

/// Ends leases when their time is up.
pub(super) async fn keep_time(sessions: Weak<Inner>) {
    loop {
        let Some(sessions) = sessions.upgrade() else { return };
        while let Some(Expired { lease, owner, keys, after_delay }) =
            { sessions.registry().expire_one(now()) }
        {
            if after_delay {
                sessions.end_keys(keys);
            } else {
                tracing::info!(%lease, keys = keys.len(), "a session was not renewed and is over");
                sessions.end_all(lease, &owner, keys, SessionEnd::Expired);
            }
            // Also if all that hangs on it stays for a while, its client is to see that the session is over.
            sessions.note_change();
        }
        // Looked at now and then also without an end in sight: the sessions may be gone.
        let idle = Span::from_millis(1000);
        let due = sessions.registry().next_end().map_or(idle, |end| end.since(now()).min(idle));
        tokio::select! {
            () = sleep(Duration::from_micros(due.micros())) => {}
            () = sessions.alarm.notified() => {}
        }
    }
}
