//! What the registry refuses.

use meshlock_cluster::access::Principal;
use meshlock_cluster::names::LockName;

use super::LeaseId;

/// Why something about leases and keys cannot be done. Nothing has changed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum RegistryError {
    #[error("there is no session {0}; it may be over: begin a new one")]
    NoLease(LeaseId),
    #[error("the session {0} exists")]
    LeaseExists(LeaseId),
    #[error("this site has {0} sessions, and takes no more; end some, or ask another site")]
    TooManyLeases(usize),
    #[error("the key belongs to another session")]
    KeyTaken,
    #[error("{0} locks are held or waited for through this site's API, and it takes no more; give some back")]
    TooManyKeys(usize),
    #[error("{most} clients wait for '{lock}' at this site, and it takes no more; try again later")]
    TooManyWaiters { lock: LockName, most: usize },
    #[error("'{of}' has {most} sessions, which is what one client may have at this site; end some")]
    TooManyLeasesOf { of: Principal, most: usize },
    #[error(
        "'{of}' holds {most} locks or waits for them, which is what one client may have at this site; give some back"
    )]
    TooManyKeysOf { of: Principal, most: usize },
    #[error(
        "'{of}' waits {most} times for '{lock}', which is what one client may at this site; let the others wait their turn"
    )]
    TooManyWaitersOf { of: Principal, lock: LockName, most: usize },
}

impl RegistryError {
    /// Whether a limit is in the way, and waiting or asking less would help.
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
