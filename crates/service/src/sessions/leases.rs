//! Granting, renewing and ending leases, by their owners or because their time is up.

use std::net::SocketAddr;
use std::sync::{PoisonError, Weak};
use std::time::Duration;

use meshlock_cluster::names::{ClientLabel, SiteName, fnv_1a};
use meshlock_cluster::time::{Span, Time};
use meshlock_host::front::{Admitted, Ended};
use meshlock_host::gate::{Caller, CallerOrigin, unguessable};
use meshlock_system::now;
use tokio::time::sleep;

use super::{Inner, SessionKey, Sessions};
use crate::metrics::SessionEnd;
use crate::sessions::registry::{Expired, LeaseDuration, LeaseId, RegistryError};

/// The upper bits of a lease's number say which site has granted it; the bits below are the
/// system's random numbers.
const SITE_BITS: u32 = 15;
const RANDOM_BITS: u32 = 63 - SITE_BITS;

impl Sessions {
    /// Grants a lease with a number chosen by this site.
    pub(crate) fn grant(
        &self,
        caller: &Admitted,
        lasts: LeaseDuration,
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

    /// Grants a lease with a number chosen by the client.
    pub(crate) fn grant_as(
        &self,
        caller: &Admitted,
        id: LeaseId,
        lasts: LeaseDuration,
        who: Option<ClientLabel>,
    ) -> Result<(), RegistryError> {
        self.0.registry().grant(id, lasts, who, caller, now())?;
        self.0.alarm.notify_one();
        Ok(())
    }

    /// Restarts the caller's lease. Returns how long it lasts from now, or `None` if the caller has no such lease.
    pub(crate) fn renew(&self, caller: &Admitted, id: LeaseId) -> Option<LeaseDuration> {
        let mut registry = self.0.registry();
        let lasts = registry.renew(id, &caller.principal, now())?;
        registry.note_certificate(id, caller.certificate.as_ref());
        Some(lasts)
    }

    /// Ends the caller's lease and all of its keys. Returns whether there was such a lease.
    pub(crate) fn revoke(&self, caller: &Admitted, id: LeaseId) -> bool {
        let is_its = self.0.registry().is_of(id, &caller.principal);
        let is_ended = is_its && self.end_lease(id, SessionEnd::Closed);
        if is_ended {
            self.0.note_released(id);
        }
        is_ended
    }

    /// Notes that a client's connection was cut. The client may go on relying on its locks for as long as it was
    /// told, which is never longer than this site's own lease lasts now.
    pub(crate) fn on_cut(&self, client: SocketAddr) {
        let now = now();
        let until = self.0.front().lease_end().unwrap_or(now);
        let mut cut = self.0.cut.lock().unwrap_or_else(PoisonError::into_inner);
        cut.retain(|_, until| *until > now);
        cut.insert(client, until);
    }

    /// Like [`Sessions::on_cut`], for a client that was cut off because it does not read what it is sent.
    pub(crate) fn on_cut_off(&self, client: &Caller) {
        if let CallerOrigin::Network(address) = client.origin {
            self.on_cut(address);
        }
    }

    /// Returns until when a client may rely on its locks, if its connection was cut.
    fn relies_until(&self, client: &Caller) -> Option<Time> {
        let CallerOrigin::Network(address) = client.origin else { return None };
        let cut = self.0.cut.lock().unwrap_or_else(PoisonError::into_inner);
        cut.get(&address).copied()
    }

    /// Ends a lease that was made for one call, when the call has ended.
    pub(crate) fn end_with_call(&self, id: LeaseId) {
        let revoked = self.0.registry().revoke(id);
        let Some((owner, keys)) = revoked else { return };
        let Some(until) = self.relies_until(&owner) else {
            return self.0.end_all(id, &owner, keys, SessionEnd::CallEnded);
        };
        self.0.note_end(id, &owner, SessionEnd::CallEnded);
        for key in keys {
            self.0.end_at(key, until);
        }
    }

    /// Ends a lease regardless of its owner. Returns whether it existed.
    pub(crate) fn end_lease(&self, id: LeaseId, why: SessionEnd) -> bool {
        let revoked = self.0.registry().revoke(id);
        let Some((owner, keys)) = revoked else { return false };
        self.0.end_all(id, &owner, keys, why);
        true
    }

    /// Gives a lease that lasted as long as its connection a time to live, which starts now.
    pub(crate) fn start_ttl(&self, id: LeaseId, lasts: LeaseDuration) {
        self.0.registry().start_ttl(id, lasts, now());
        self.0.alarm.notify_one();
    }

    /// Lets a lease outlive the call that it was made for.
    pub(crate) fn detach_from_call(&self, id: LeaseId) {
        self.0.registry().detach_from_call(id);
        self.0.note_change();
    }

    /// Returns the other site that granted a lease, according to the lease's number. `None` if it is this site or
    /// unknown.
    pub(crate) fn granted_by(&self, id: LeaseId) -> Option<SiteName> {
        let number = id.number() >> RANDOM_BITS;
        if number == site_number(self.0.front.site()) {
            return None;
        }
        self.0.front().members().into_iter().find(|site| site_number(site) == number)
    }
}

impl Inner {
    /// Chooses a number that nobody can guess: whoever knows the number of a lease can name it in calls.
    fn choose_lease(&self) -> LeaseId {
        loop {
            let bytes = unguessable().expect("a system that has started gives random numbers");
            let random = i64::from_be_bytes(bytes) & ((1 << RANDOM_BITS) - 1);
            if let Some(id) = LeaseId::new(site_number(self.front.site()) << RANDOM_BITS | random) {
                return id;
            }
        }
    }

    /// Ends a key that was removed from the registry while its client does not know: the lock stays taken until
    /// `until`.
    pub(super) fn end_at(&self, key: SessionKey, until: Time) {
        self.end_unasked(key, until);
    }

    pub(super) fn note_end(&self, lease: LeaseId, owner: &Caller, why: SessionEnd) {
        self.meter.session_ended(why);
        self.front.note_session_end(owner, Some(lease.to_string()), why.why());
    }

    /// Ends the keys of a lease that was removed from the registry.
    pub(super) fn end_all(&self, lease: LeaseId, owner: &Caller, keys: Vec<SessionKey>, why: SessionEnd) {
        self.note_end(lease, owner, why);
        for key in keys {
            self.end(&key, Ended::SessionOver);
        }
    }
}

/// Returns a number for a site name. It uses the lower bits of the hash: names that differ only at their end have the
/// same upper bits.
pub(super) fn site_number(site: &SiteName) -> i64 {
    i64::try_from(fnv_1a(site.as_str().bytes()) & ((1 << SITE_BITS) - 1)).unwrap_or(0)
}

/// Ends leases when their time is up.
pub(super) async fn expire_leases(sessions: Weak<Inner>) {
    loop {
        let Some(sessions) = sessions.upgrade() else { return };
        while let Some(Expired { lease, owner, keys, after_delay }) =
            { sessions.registry().expire_one(now()) }
        {
            if !after_delay {
                tracing::info!(%lease, keys = keys.len(), "a session was not renewed and is over");
                sessions.note_end(lease, &owner, SessionEnd::Expired);
                sessions.stopping.note_loss();
            }
            for key in keys {
                sessions.end_unasked(key, now());
            }
            // Wake those who watch the session: it is over, even if all of its keys stay for the delay.
            sessions.note_change();
        }
        // Wake up once a second even if no lease is about to end, to notice that the sessions were dropped.
        let idle = Span::from_millis(1000);
        let due = sessions.registry().next_end().map_or(idle, |end| end.since(now()).min(idle));
        tokio::select! {
            () = sleep(Duration::from_micros(due.micros())) => {}
            () = sessions.alarm.notified() => {}
        }
    }
}
