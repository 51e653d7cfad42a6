//! Mirrors: how sessions of the wire APIs outlive their site. What is told, claimed, promised and owed is decided by the machines of
//! [`meshlock_mirror`], whose header is the protocol and the argument; here is what drives them for a node.
//!
//! - [`answering`]: the questions of this site's mirror are answered. [`release`]: releases are acknowledged. [`moving`]: a site that leaves.
//! - [`following`]: this site's questions to the member before it. [`effects`]: what the machine asks for is carried out at the node and in
//!   the registry.

mod answering;
mod effects;
mod following;
mod moving;
mod release;
#[cfg(test)]
mod tests;

use meshlock_cluster::names::LockName;
use meshlock_cluster::time::Span;
use meshlock_wire::sites::mirror::MirroredConsul;

use crate::sessions::registry::LeaseId;

pub(super) use following::follow;
pub(crate) use meshlock_mirror::{ChangeNumber, Source, mirror_of};
pub(super) use moving::keep_moving;
pub(crate) use release::acknowledged;

/// What an API knows of a session besides the registry.
pub(crate) trait Companion: Send + Sync {
    /// Returns what has to be known of a session to go on with it elsewhere.
    fn describe(&self, lease: LeaseId, held: &[LockName]) -> Option<MirroredConsul>;

    /// Takes over what another site knew of a session that lasts for `lasts`.
    fn adopt(&self, lease: LeaseId, lasts: Span, told: &MirroredConsul);
}
