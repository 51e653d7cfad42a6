//! Errors in etcd's words, by which its clients distinguish them, and in ours where etcd has no such error.

use meshlock_cluster::access::Denied;
use tonic::Status;

use super::Etcd;
use crate::escape::ValueTooLong;
use crate::sessions::registry::RegistryError;
use crate::sessions::{AcquireError, NotAnswered, WatchError};

const LEASE_NOT_FOUND: &str = "etcdserver: requested lease not found";

/// Explains what Meshlock serves of etcd's API.
const WHAT_IT_IS: &str = "Meshlock keeps locks, not data: it knows the transactions of etcdctl lock and elect, Go's concurrency package, \
     python-etcd3 and Node etcd3, and the lock, election and lease services; see docs/etcd.md";

pub(super) fn no_leader() -> Status {
    Status::unavailable("etcdserver: no leader")
}

/// What a call is told that ends because this site stops: clients go to another endpoint.
pub(super) fn stopped() -> Status {
    Status::unavailable("etcdserver: server stopped")
}

pub(super) fn lease_not_found() -> Status {
    Status::not_found(LEASE_NOT_FOUND)
}

pub(super) fn not_a_lock(what: &str) -> Status {
    Status::unimplemented(format!("meshlock: {what}. {WHAT_IT_IS}"))
}

pub(super) fn bad_name(error: impl std::fmt::Display) -> Status {
    Status::invalid_argument(format!("meshlock: {error}; the name of a lock is text of 1 to 255 bytes"))
}

pub(super) fn too_long(error: ValueTooLong) -> Status {
    Status::invalid_argument(format!("meshlock: {error}"))
}

pub(super) fn no_answer(error: NotAnswered) -> Status {
    match error {
        NotAnswered::Denied(error) => denied(&error),
        NotAnswered::Refused(_) | NotAnswered::Unavailable(_) | NotAnswered::Stopping => {
            Status::unavailable(format!("meshlock: {error}"))
        }
    }
}

/// Builds the error for a caller that the access rules do not allow this. etcd's own message would not say what is
/// missing.
pub(super) fn denied(error: &Denied) -> Status {
    Status::permission_denied(format!("meshlock: {error}"))
}

pub(super) fn not_watched(error: WatchError) -> Status {
    match error {
        WatchError::Denied(error) => denied(&error),
        WatchError::TooMany(_) | WatchError::TooManyOf { .. } | WatchError::Limit(_) => {
            Status::resource_exhausted(format!("meshlock: {error}"))
        }
    }
}

/// Removes the code of an error, as etcd's lock and election services do.
pub(super) fn without_code(status: Status) -> Status {
    if status.message().starts_with("etcdserver: ") { Status::unknown(status.message()) } else { status }
}

impl Etcd {
    #[expect(clippy::unused_self, reason = "it is called like the methods whose errors it explains")]
    pub(super) fn not_held(&self, error: AcquireError) -> Status {
        match error {
            AcquireError::Registry(RegistryError::NoLease(_)) | AcquireError::SessionOver => {
                lease_not_found()
            }
            AcquireError::Registry(RegistryError::LeaseExists(_)) => {
                Status::failed_precondition("etcdserver: lease already exists")
            }
            AcquireError::Denied(error) => denied(&error),
            AcquireError::Registry(error) if error.is_a_limit() => {
                Status::resource_exhausted(format!("meshlock: {error}"))
            }
            AcquireError::Registry(error) => Status::failed_precondition(format!("meshlock: {error}")),
            AcquireError::Limit(error) => Status::resource_exhausted(format!("meshlock: {error}")),
            // Of a deadlock not "unavailable": clients would repeat the request for ever.
            AcquireError::LostAtOnce | AcquireError::Deadlock => {
                Status::aborted(format!("meshlock: {error}"))
            }
            AcquireError::Permits(error) => Status::failed_precondition(format!("meshlock: {error}")),
            AcquireError::Busy
            | AcquireError::TimedOut
            | AcquireError::Unaudited(_)
            | AcquireError::Unavailable(_)
            | AcquireError::Refused(_) => Status::unavailable(format!("meshlock: {error}")),
        }
    }
}
