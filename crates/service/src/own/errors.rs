//! Errors of our own API: a code for programs, and a sentence that names the thing and the next step.

use tonic::metadata::MetadataValue;
use tonic::{Code, Status};

use meshlock_cluster::access::Denied;

use crate::sessions::registry::RegistryError;
use crate::sessions::{AcquireError, NotAnswered};

/// Metadata key of the error code.
const CODE: &str = "meshlock-code";

/// Builds an error with this code.
pub(crate) fn api_error(code: &'static str, grpc: Code, message: impl std::fmt::Display) -> Status {
    let mut status = Status::new(grpc, message.to_string());
    status.metadata_mut().insert(CODE, MetadataValue::from_static(code));
    status
}

/// Returns the code of an error.
pub(super) fn code_of(status: &Status) -> &str {
    let said = status.metadata().get(CODE).and_then(|code| code.to_str().ok());
    said.unwrap_or("bad_request")
}

/// Builds the error for invalid input.
pub(super) fn bad(message: impl std::fmt::Display) -> Status {
    api_error("bad_request", Code::InvalidArgument, message)
}

pub(super) fn no_session(session: &str) -> Status {
    let session: String = session.chars().take(40).collect();
    api_error(
        "no_session",
        Code::NotFound,
        format!("there is no session '{session}' at this site; it may have ended: begin a new one"),
    )
}

pub(super) fn unanswered(error: NotAnswered) -> Status {
    match error {
        NotAnswered::Denied(error) => denied(error),
        NotAnswered::Refused(_) | NotAnswered::Unavailable(_) | NotAnswered::Stopping => {
            api_error("unavailable", Code::Unavailable, error)
        }
    }
}

/// Builds the error for a caller that the access rules do not allow this.
pub(crate) fn denied(error: Denied) -> Status {
    api_error("denied", Code::PermissionDenied, error)
}

/// Builds the error for a lock that was not acquired.
pub(super) fn not_held(lock: &str, error: AcquireError) -> Status {
    not_done(&format!("cannot acquire the lock '{lock}'"), error)
}

/// Builds the error for a session that was not begun.
pub(super) fn no_new_session(error: AcquireError) -> Status {
    not_done("cannot begin a session", error)
}

fn not_done(what: &str, error: AcquireError) -> Status {
    let (code, grpc) = match &error {
        AcquireError::Busy => ("busy", Code::Aborted),
        AcquireError::TimedOut => ("timed_out", Code::DeadlineExceeded),
        AcquireError::Deadlock => ("deadlock", Code::Aborted),
        AcquireError::SessionOver => ("session_over", Code::NotFound),
        AcquireError::LostAtOnce => ("lost", Code::Aborted),
        AcquireError::Limit(_) => ("too_many", Code::ResourceExhausted),
        AcquireError::Unavailable(_) | AcquireError::Refused(_) | AcquireError::Unaudited(_) => {
            ("unavailable", Code::Unavailable)
        }
        AcquireError::Permits(_) => ("permits", Code::FailedPrecondition),
        AcquireError::Registry(RegistryError::NoLease(id)) => return no_session(&id.to_string()),
        AcquireError::Denied(error) => return denied(error.clone()),
        AcquireError::Registry(error) if error.is_a_limit() => ("too_many", Code::ResourceExhausted),
        AcquireError::Registry(_) => ("taken", Code::FailedPrecondition),
    };
    api_error(code, grpc, format!("{what}: {error}"))
}
