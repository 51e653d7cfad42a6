//! Errors as text with an HTTP status, as Consul reports them; in Consul's words where clients recognise errors by
//! their text.

use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use meshlock_cluster::access::{Denied, Verb};
use meshlock_cluster::names::LockName;
use meshlock_host::front::{Admitted, QueueReader};

use super::Consul;
use super::ids;
use crate::sessions::registry::{LeaseId, RegistryError};
use crate::sessions::{AcquireError, NotAnswered};

/// Explains what Meshlock serves of Consul's API.
const WHAT_IT_IS: &str = "Meshlock keeps locks, not data: of Consul it knows sessions and the keys of locks and semaphores \
     (?acquire, ?release, and ?cas of PREFIX/.lock); see docs/consul.md";

/// An error answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct ConsulError {
    pub(super) status: StatusCode,
    pub(super) message: String,
}

impl ConsulError {
    pub(super) fn new(status: StatusCode, message: impl std::fmt::Display) -> Self {
        ConsulError { status, message: message.to_string() }
    }

    /// Builds the error for invalid input.
    pub(super) fn bad(message: impl std::fmt::Display) -> Self {
        ConsulError::new(StatusCode::BAD_REQUEST, message)
    }

    /// Builds the error for something that Consul does and Meshlock does not.
    pub(super) fn not_a_lock(what: &str) -> Self {
        ConsulError::new(StatusCode::NOT_IMPLEMENTED, format!("meshlock: {what}. {WHAT_IT_IS}"))
    }

    /// Builds the error for a caller that the access rules do not allow this.
    pub(super) fn denied(error: &Denied) -> Self {
        ConsulError::new(StatusCode::FORBIDDEN, format!("Permission denied: {error}"))
    }

    /// Builds the error for a site that is not a member of its cluster, or has no lease.
    pub(super) fn no_leader() -> Self {
        ConsulError::new(StatusCode::INTERNAL_SERVER_ERROR, "No cluster leader")
    }

    pub(super) fn unanswered(error: &NotAnswered) -> Self {
        match error {
            NotAnswered::Denied(error) => ConsulError::denied(error),
            NotAnswered::Refused(_) | NotAnswered::Unavailable(_) | NotAnswered::Stopping => {
                ConsulError::new(StatusCode::SERVICE_UNAVAILABLE, format!("meshlock: {error}"))
            }
        }
    }
}

impl IntoResponse for ConsulError {
    fn into_response(self) -> Response {
        let kind = [(header::CONTENT_TYPE, "text/plain; charset=utf-8")];
        (self.status, kind, self.message).into_response()
    }
}

impl Consul {
    /// Parses the name of a session.
    pub(super) fn lease(name: &str) -> Result<LeaseId, ConsulError> {
        let invalid = |message: String| ConsulError::new(StatusCode::INTERNAL_SERVER_ERROR, message);
        if name.is_empty() {
            return Err(invalid("missing session".to_owned()));
        }
        if !ids::is_uuid(name) {
            return Err(invalid("failed session lookup: the name of a session is a UUID".to_owned()));
        }
        ids::lease(name).ok_or_else(|| invalid(no_such(name)))
    }

    /// Checks whether the caller may do something with a lock.
    pub(super) fn check(&self, caller: &Admitted, verb: Verb, lock: &LockName) -> Result<(), ConsulError> {
        self.sessions.check(caller, verb, lock).map_err(|error| ConsulError::denied(&error))
    }

    /// Lets the caller read who has a lock; `verb` says what for.
    pub(super) fn reader(
        &self,
        caller: &Admitted,
        verb: Verb,
        lock: &LockName,
    ) -> Result<QueueReader, ConsulError> {
        let reader = self.sessions.front().queue_reader(caller, verb, lock);
        reader.map_err(|error| ConsulError::denied(&error))
    }

    /// Builds the error for a session that does not exist.
    pub(super) fn no_session(lease: LeaseId) -> ConsulError {
        ConsulError::new(StatusCode::INTERNAL_SERVER_ERROR, no_such(&ids::session(lease)))
    }

    /// Builds the error for a lock that was not acquired, where the answer is not simply `false`.
    #[expect(clippy::unused_self, reason = "it is called like the methods whose errors it explains")]
    pub(super) fn not_held(&self, error: &AcquireError) -> ConsulError {
        let status = match error {
            AcquireError::Registry(RegistryError::NoLease(lease)) => return Consul::no_session(*lease),
            AcquireError::Denied(error) => return ConsulError::denied(error),
            AcquireError::Registry(error) if error.is_a_limit() => StatusCode::TOO_MANY_REQUESTS,
            AcquireError::Registry(_)
            | AcquireError::Permits(_)
            | AcquireError::Busy
            | AcquireError::TimedOut
            | AcquireError::Deadlock
            | AcquireError::LostAtOnce => StatusCode::CONFLICT,
            AcquireError::SessionOver => StatusCode::INTERNAL_SERVER_ERROR,
            AcquireError::Limit(_) => StatusCode::TOO_MANY_REQUESTS,
            AcquireError::Unavailable(_) | AcquireError::Refused(_) | AcquireError::Unaudited(_) => {
                StatusCode::SERVICE_UNAVAILABLE
            }
        };
        ConsulError::new(status, format!("meshlock: {error}"))
    }
}

/// The exact text matters: clients recognise it, and some show nothing longer.
fn no_such(name: &str) -> String {
    format!("invalid session \"{name}\"")
}
