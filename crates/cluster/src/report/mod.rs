//! What nodes report to clients. A client needs these types even if it is built without a node (feature `node`).

mod queue;
mod trace;
mod voters;

use meshlock_protocol::Fence;
use serde::{Deserialize, Serialize};

use crate::names::{ClientLabel, SiteName};
pub use queue::{Age, InLine, LockQueue, SiteLocks, SiteQueue, Standing, Why, line};
pub(crate) use queue::{Names, drop_mirrored};
pub use trace::{TraceEvent, TraceLine};
pub use voters::{StopEffect, VoterPresence, VoterRequest, VoterState, VotersReport};

/// A client from which a lock was taken away.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CutOff {
    pub site: SiteName,
    /// The label that the client gave itself.
    pub label: Option<ClientLabel>,
    /// The fence of its grant. The resource that the lock protects should reject it once it has seen a larger one.
    pub fence: Fence,
}
