//! Errors of the registry.

use meshlock_cluster::access::Principal;
use meshlock_cluster::names::LockName;

use super::LeaseId;

/// Why an operation on leases or keys was refused. The registry is unchanged.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum RegistryError {
    #[error("there is no session {0}; it may have ended: begin a new one")]
    NoLease(LeaseId),
    #[error("the session {0} already exists")]
    LeaseExists(LeaseId),
    #[error("this site has {0} sessions, which is its limit; end some, or use another site")]
    TooManyLeases(usize),
    #[error("the key belongs to another session")]
    KeyTaken,
    #[error("{0} locks are held or waited for through this site's API, which is its limit; release some")]
    TooManyKeys(usize),
    #[error("{max} clients wait for '{lock}' at this site, which is its limit; try again later")]
    TooManyWaiters { lock: LockName, max: usize },
    #[error("'{of}' has {max} sessions, the limit for one client at this site; end some")]
    TooManyLeasesOf { of: Principal, max: usize },
    #[error(
        "'{of}' holds {max} locks or waits for them, the limit for one client at this site; release some"
    )]
    TooManyKeysOf { of: Principal, max: usize },
    #[error("'{of}' waits {max} times for '{lock}', the limit for one client at this site; wait fewer times")]
    TooManyWaitersOf { of: Principal, lock: LockName, max: usize },
}

impl RegistryError {
    /// Returns whether a limit was reached, so that a later or smaller request may succeed.
    pub(crate) fn is_a_limit(&self) -> bool {
        match self {
            RegistryError::NoLease(_) | RegistryError::LeaseExists(_) | RegistryError::KeyTaken => false,
            RegistryError::TooManyLeases(_)
            | RegistryError::TooManyKeys(_)
            | RegistryError::TooManyWaiters { .. }
            | RegistryError::TooManyLeasesOf { .. }
            | RegistryError::TooManyKeysOf { .. }
            | RegistryError::TooManyWaitersOf { .. } => true,
        }
    }
}
