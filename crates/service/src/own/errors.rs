//! Errors of our own API: a code for programs, and a sentence that names the thing and the next step.

use tonic::metadata::MetadataValue;
use tonic::{Code, Status};

use meshlock_cluster::access::Denied;

use crate::sessions::registry::RegistryError;
use crate::sessions::{NotAnswered, NotHeld};

/// Where a call's answer says which error it is.
const CODE: &str = "meshlock-code";

/// An error of this kind.
pub(crate) fn fault(code: &'static str, grpc: Code, message: impl std::fmt::Display) -> Status {
    let mut status = Status::new(grpc, message.to_string());
    status.metadata_mut().insert(CODE, MetadataValue::from_static(code));
    status
}

/// Which error it is.
pub(super) fn code_of(status: &Status) -> &str {
    let said = status.metadata().get(CODE).and_then(|code| code.to_str().ok());
    said.unwrap_or("bad_request")
}

/// What was given makes no sense.
pub(super) fn bad(message: impl std::fmt::Display) -> Status {
    fault("bad_request", Code::InvalidArgument, message)
}

pub(super) fn no_session(session: &str) -> Status {
    let session: String = session.chars().take(40).collect();
    fault(
        "no_session",
        Code::NotFound,
        format!("there is no session '{session}' at this site; it may be over: begin a new one"),
    )
}

pub(super) fn unanswered(error: NotAnswered) -> Status {
    match error {
        NotAnswered::Denied(error) => denied(error),
        NotAnswered::Refused(_) | NotAnswered::Stopping => fault("unavailable", Code::Unavailable, error),
    }
}

/// The rules do not give it.
pub(crate) fn denied(error: Denied) -> Status {
    fault("denied", Code::PermissionDenied, error)
}

/// Why `lock` is not held.
pub(super) fn not_held(lock: &str, error: NotHeld) -> Status {
    let (code, grpc) = match &error {
        NotHeld::Busy => ("busy", Code::Aborted),
        NotHeld::TimedOut => ("timed_out", Code::DeadlineExceeded),
        NotHeld::SessionOver => ("session_over", Code::NotFound),
        NotHeld::GoneAgain => ("lost", Code::Aborted),
        NotHeld::Refused(_) => ("unavailable", Code::Unavailable),
        NotHeld::Permits(_) => ("permits", Code::FailedPrecondition),
        NotHeld::Registry(RegistryError::NoLease(id)) => return no_session(&id.to_string()),
        NotHeld::Denied(error) => return denied(error.clone()),
        NotHeld::Registry(error) if error.is_a_limit() => ("too_many", Code::ResourceExhausted),
        NotHeld::Registry(_) => ("taken", Code::FailedPrecondition),
    };
    fault(code, grpc, format!("cannot have the lock '{lock}': {error}"))
}
