//! Sessions of our own API. A session is a lease of the registry.

use meshlock_cluster::names::ClientLabel;
use meshlock_cluster::time::Span;
use meshlock_host::front::Admitted;
use meshlock_system::now;
use tonic::{Code, Status};

use super::errors::{bad, no_new_session, no_session};
use super::{Own, api_error, label};
use crate::proto::meshlock::{Grant, Session};
use crate::sessions::registry::{KeyGrant, LeaseDuration, LeaseId};

/// Time to live of a session whose client gives none.
const TTL_MS: u32 = 60_000;

/// The shortest time to live. A shorter session would end before its client could renew it.
const MIN_TTL_MS: u32 = 500;

/// Converts to whole milliseconds.
pub(super) fn millis(span: Span) -> u32 {
    u32::try_from(span.micros() / 1000).unwrap_or(u32::MAX)
}

/// Returns the time to live that a client is told: what it asked for, but no more than this site promises.
fn ttl(asked: Span, promise: Span) -> u32 {
    millis(asked.min(promise))
}

/// Parses the id of a session.
pub(super) fn lease(session: &str) -> Result<LeaseId, Status> {
    let number = i64::from_str_radix(session, 16).ok().and_then(LeaseId::new);
    number.ok_or_else(|| no_session(session))
}

/// Converts the requested time to live.
pub(super) fn lasts(ttl_ms: u32) -> Result<LeaseDuration, Status> {
    let ttl_ms = if ttl_ms == 0 { TTL_MS } else { ttl_ms };
    if ttl_ms < MIN_TTL_MS {
        return Err(bad(format!("a time to live of {ttl_ms} ms is too short; give {MIN_TTL_MS} or more")));
    }
    Ok(LeaseDuration::For(Span::from_millis(u64::from(ttl_ms))))
}

impl Own {
    pub(super) fn open_lease(
        &self,
        caller: &Admitted,
        lasts: LeaseDuration,
        who: &str,
    ) -> Result<LeaseId, Status> {
        self.sessions
            .grant(caller, lasts, Some(label(caller, who)?))
            .map_err(|error| no_new_session(error.into()))
    }

    pub(super) fn session(&self, caller: &Admitted, lease: LeaseId) -> Result<Session, Status> {
        let (now, safe, promise) = (now(), self.sessions.safe_for(lease), self.promise(lease));
        let registry = self.sessions.registry();
        let Some(found) = registry.lease(lease, &caller.principal, now) else {
            drop(registry);
            if self.sessions.is_elsewhere(lease) {
                let message = format!("the session {lease} goes on at another site; ask again");
                return Err(api_error("unavailable", Code::Unavailable, message));
            }
            return Err(no_session(&lease.to_string()));
        };
        let lock = |name: &Vec<u8>| registry.key(name).map(|key| key.lock.as_str().to_owned());
        Ok(Session {
            session: lease.to_string(),
            ttl_ms: found.lasts.span().map_or(0, |asked| ttl(asked, promise)),
            left_ms: found.left(now).map_or(0, |left| millis(left.min(safe))),
            safe_ms: millis(found.left(now).map_or(safe, |left| left.min(safe))),
            kept_ms: found.left(now).map_or(0, millis),
            locks: found.keys.iter().filter_map(lock).collect(),
        })
    }

    /// Returns for how long a client may rely on what it holds without another word. Whoever has not been told of a loss has at least the
    /// margin, also when renewals are late; so nobody is told to come back without a pause.
    fn promise(&self, lease: LeaseId) -> Span {
        let least = self.sessions.front().lease_terms().margin.min(Span::from_millis(u64::from(MIN_TTL_MS)));
        self.sessions.promise_for(lease).max(least)
    }

    /// Returns the label of the client that owns the session.
    pub(super) fn who(&self, caller: &Admitted, lease: LeaseId) -> Result<ClientLabel, Status> {
        let who =
            self.sessions.registry().lease(lease, &caller.principal, now()).map(|lease| lease.who.clone());
        match who {
            Some(Some(who)) => Ok(who),
            Some(None) => label(caller, ""),
            None => Err(no_session(&lease.to_string())),
        }
    }

    pub(super) fn grant(&self, caller: &Admitted, lock: String, lease: LeaseId, granted: KeyGrant) -> Grant {
        let (now, safe, promise) = (now(), self.sessions.safe_for(lease), self.promise(lease));
        let registry = self.sessions.registry();
        let lasts = registry.lease(lease, &caller.principal, now);
        let asked = lasts.and_then(|lease| lease.lasts.span());
        // A session that is over is not safe at all.
        let safe = lasts.map_or(Span::ZERO, |lease| lease.left(now).map_or(safe, |left| left.min(safe)));
        let KeyGrant { fence, slot } = granted;
        let (ttl_ms, safe_ms) = (asked.map_or(0, |asked| ttl(asked, promise)), millis(safe));
        Grant { lock, session: lease.to_string(), fence, slot, ttl_ms, safe_ms }
    }
}

/// A session made for one call. It ends when this is dropped, unless it is kept.
pub(super) struct CallSession {
    pub(super) own: Own,
    pub(super) lease: LeaseId,
    kept: bool,
}

impl CallSession {
    pub(super) fn new(own: &Own, lease: LeaseId) -> Self {
        CallSession { own: own.clone(), lease, kept: false }
    }

    pub(super) fn keep(&mut self) {
        self.kept = true;
    }
}

impl Drop for CallSession {
    fn drop(&mut self) {
        if !self.kept {
            self.own.sessions.end_with_call(self.lease);
        }
    }
}
