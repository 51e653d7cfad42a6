//! Errors as text with a status, as Consul says them; in its words where clients know it by them.

use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use meshlock_cluster::access::{Denied, Verb};
use meshlock_cluster::names::LockName;
use meshlock_host::front::Admitted;

use super::Consul;
use super::ids;
use crate::sessions::registry::{LeaseId, RegistryError};
use crate::sessions::{NotAnswered, NotHeld};

/// What is said to whoever takes Meshlock for Consul as a whole.
const WHAT_IT_IS: &str = "Meshlock keeps locks, not data: of Consul it knows sessions and the keys of locks and semaphores \
     (?acquire, ?release, and ?cas of PREFIX/.lock); see docs/consul.md";

/// What a client is refused with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Fault {
    pub(super) status: StatusCode,
    pub(super) message: String,
}

impl Fault {
    pub(super) fn new(status: StatusCode, message: impl std::fmt::Display) -> Self {
        Fault { status, message: message.to_string() }
    }

    /// What was given makes no sense.
    pub(super) fn bad(message: impl std::fmt::Display) -> Self {
        Fault::new(StatusCode::BAD_REQUEST, message)
    }

    /// Consul does it, and Meshlock does not.
    pub(super) fn not_a_lock(what: &str) -> Self {
        Fault::new(StatusCode::NOT_IMPLEMENTED, format!("meshlock: {what}. {WHAT_IT_IS}"))
    }

    /// The rules do not give it.
    pub(super) fn denied(error: &Denied) -> Self {
        Fault::new(StatusCode::FORBIDDEN, format!("Permission denied: {error}"))
    }

    pub(super) fn unanswered(error: &NotAnswered) -> Self {
        Fault::new(StatusCode::SERVICE_UNAVAILABLE, format!("meshlock: {error}"))
    }
}

impl IntoResponse for Fault {
    fn into_response(self) -> Response {
        let kind = [(header::CONTENT_TYPE, "text/plain; charset=utf-8")];
        (self.status, kind, self.message).into_response()
    }
}

impl Consul {
    /// The lease of a session's name, if it can be one's.
    pub(super) fn lease(name: &str) -> Result<LeaseId, Fault> {
        let invalid = |message: String| Fault::new(StatusCode::INTERNAL_SERVER_ERROR, message);
        if name.is_empty() {
            return Err(invalid("missing session".to_owned()));
        }
        if !ids::is_uuid(name) {
            return Err(invalid("failed session lookup: the name of a session is a UUID".to_owned()));
        }
        ids::lease(name).ok_or_else(|| invalid(no_such(name)))
    }

    /// Whether the caller may do something with a lock.
    pub(super) fn check(&self, caller: &Admitted, verb: Verb, lock: &LockName) -> Result<(), Fault> {
        self.sessions.check(caller, verb, lock).map_err(|error| Fault::denied(&error))
    }

    /// The session is not there, or at another site.
    pub(super) fn no_session(&self, lease: LeaseId) -> Fault {
        let name = ids::session(lease);
        let message = self.elsewhere(lease).unwrap_or_else(|| no_such(&name));
        Fault::new(StatusCode::INTERNAL_SERVER_ERROR, message)
    }

    /// If another site has the session: that it does.
    pub(super) fn elsewhere(&self, lease: LeaseId) -> Option<String> {
        let site = self.sessions.granted_by(lease)?;
        Some(format!(
            "invalid session \"{}\": it was created at the site '{site}', and this is '{}'; use the address of '{site}' for it, \
             because each site keeps the sessions that it created",
            ids::session(lease),
            self.sessions.site()
        ))
    }

    /// Why a lock is not held, where that is not simply an answer.
    pub(super) fn not_held(&self, error: &NotHeld) -> Fault {
        let status = match error {
            NotHeld::Registry(RegistryError::NoLease(lease)) => return self.no_session(*lease),
            NotHeld::Denied(error) => return Fault::denied(error),
            NotHeld::Registry(error) if error.is_a_limit() => StatusCode::TOO_MANY_REQUESTS,
            NotHeld::Registry(_)
            | NotHeld::Permits(_)
            | NotHeld::Busy
            | NotHeld::TimedOut
            | NotHeld::GoneAgain => StatusCode::CONFLICT,
            NotHeld::SessionOver => StatusCode::INTERNAL_SERVER_ERROR,
            NotHeld::Refused(_) => StatusCode::SERVICE_UNAVAILABLE,
        };
        Fault::new(status, format!("meshlock: {error}"))
    }
}

/// In exactly these words: clients know it by them, and some show nothing longer.
fn no_such(name: &str) -> String {
    format!("invalid session \"{name}\"")
}
