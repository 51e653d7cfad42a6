//! What nodes report to clients. A client needs these types even if it is built without a node (feature `node`).

mod changes;
mod page;
mod queue;
mod trace;
mod voters;
mod waits;

use meshlock_protocol::Fence;
use serde::{Deserialize, Serialize};

use crate::names::{ClientLabel, SiteName};
pub(crate) use changes::MAX_CHANGES;
pub use changes::{ChangeCursor, ChangeKind, LockChange, SiteChange, SiteChanges};
pub(crate) use page::{FirstNames, MAX_PAGE_BYTES, merge};
pub use page::{
    LockEntry, LockPage, LockSummary, MAX_PAGE, MAX_PAGE_HOLDERS, NameFilter, PageQuestion, SiteHolder,
    SitePage,
};
pub use queue::{Age, InLine, LockQueue, SiteLocks, SiteQueue, Standing, Why, line};
pub(crate) use queue::{Names, drop_mirrored};
pub use trace::{TraceEvent, TraceLine};
pub use voters::{StopEffect, VoterPresence, VoterRequest, VoterState, VotersReport};
pub use waits::{Deadlock, Deadlocks, Party, PartyHold, PartyWait, PartyWaits, SiteWaits, StuckParty};
pub(crate) use waits::{MAX_OF_PARTY, MAX_PARTIES, deadlocks};

/// A client from which a lock was taken away.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CutOff {
    pub site: SiteName,
    /// The label that the client gave itself.
    pub label: Option<ClientLabel>,
    /// The fence of its grant. The resource that the lock protects should reject it once it has seen a larger one.
    pub fence: Fence,
}
