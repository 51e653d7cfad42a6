//! The number of permits of a lock: why a caller is refused that takes the lock for one with another number.

use meshlock_cluster::names::LockName;
use meshlock_cluster::node::Node;
use meshlock_cluster::rules::Rules;
use meshlock_cluster::table::{PermitCount, RequestRefusal};
use meshlock_protocol::Epoch;

/// Why a caller cannot have the lock with the number of permits that it expects. Nothing has been changed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PermitsError {
    /// Other clients hold the lock or wait for it, with another number.
    #[error(
        "'{lock}' is in use with {} and this program expects {wants}; let both say the same, or ask again when the others have gone",
        PermitCount(*.has)
    )]
    InUse { lock: LockName, has: u32, wants: u32 },
    /// A rule gives another number, and other programs rely on that rule.
    #[error(
        "the cluster's rules give '{lock}' {} and this program expects {wants}; change one of the two",
        PermitCount(*.has)
    )]
    Differ { lock: LockName, has: u32, wants: u32 },
    /// No lock can have this number of permits.
    #[error("'{lock}' cannot have {}; give 1 to {}", PermitCount(*.wants), Rules::MAX_PERMITS)]
    TooMany { lock: LockName, wants: u32 },
    /// A site runs a program that knows semaphores only by a rule.
    #[error(
        "'{lock}' cannot have {} without a rule while a site of the cluster runs an older version of Meshlock; upgrade all sites, or set a rule",
        PermitCount(*.wants)
    )]
    OlderMember { lock: LockName, wants: u32 },
}

impl PermitsError {
    /// Returns the error for a refusal by the node, if it is about the number of permits.
    pub(super) fn of(lock: &LockName, refusal: RequestRefusal) -> Option<Self> {
        let lock = lock.clone();
        match refusal {
            RequestRefusal::PermitsInUse { has, wants } => Some(PermitsError::InUse { lock, has, wants }),
            RequestRefusal::PermitsByRule { has, wants } => Some(PermitsError::Differ { lock, has, wants }),
            RequestRefusal::TooManyPermits { wants } => Some(PermitsError::TooMany { lock, wants }),
            RequestRefusal::OlderMember { wants, .. } => Some(PermitsError::OlderMember { lock, wants }),
            RequestRefusal::TooManyLocks
            | RequestRefusal::MakingRoom
            | RequestRefusal::Leaving
            | RequestRefusal::DuplicateRequest
            | RequestRefusal::UnknownRequest
            | RequestRefusal::NotHeld
            | RequestRefusal::TooManyQuestions
            | RequestRefusal::TooManyWatches
            | RequestRefusal::ExclusiveOnly { .. }
            | RequestRefusal::NoPriorities { .. }
            | RequestRefusal::ModeOfMany { .. }
            | RequestRefusal::OlderMemberModes
            | RequestRefusal::UpgradeOfShared { .. }
            | RequestRefusal::Deadlock
            | RequestRefusal::Failed => None,
        }
    }
}

/// Returns the number of permits that the lock has now, as far as this site knows; `None` before the first view.
pub(super) fn permits_of(node: &Node, lock: &LockName) -> Option<u32> {
    if let Some(permits) = node.table().permits(lock) {
        return Some(permits);
    }
    // While the view changes, the rules of the next view already apply.
    let view = Some(node.view()).filter(|view| view.epoch > Epoch::default())?;
    Rules::new(view.rules.clone()).ok().map(|rules| rules.rule(lock).permits)
}
