//! What happens to locks, for those who watch: acquired, released, lost, broken.
//!
//! A site keeps its last changes while somebody asks for them, and is asked again and again for those after a [`ChangeCursor`]. So whoever
//! reads slowly never holds a site up: what the site does not keep any more is missed, and the reader is told so.

use meshlock_protocol::{Fence, numbered};
use serde::{Deserialize, Serialize};

use crate::names::{ClientLabel, Incarnation, LockName, SiteName};
use crate::time::Span;

/// Maximum number of changes in one reply of a site.
pub(crate) const MAX_CHANGES: usize = 500;

/// What happened to a lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ChangeKind {
    /// A client has acquired it.
    Acquired,
    /// A client does not hold it any more: it released it, or its time to stop after a loss is over.
    Released,
    /// A client was told that it has lost it. It holds it until it is `Released`.
    Lost,
    /// The same, because an operator broke the lock.
    Broken,
}

numbered! { ChangeKind {
    0 => Acquired,
    1 => Released,
    2 => Lost,
    3 => Broken,
} }

impl ChangeKind {
    /// Returns the word for people and for machines.
    pub fn name(self) -> &'static str {
        match self {
            ChangeKind::Acquired => "acquired",
            ChangeKind::Released => "released",
            ChangeKind::Lost => "lost",
            ChangeKind::Broken => "broken",
        }
    }
}

/// A change of a lock at one site.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct LockChange {
    pub lock: LockName,
    pub kind: ChangeKind,
    /// The label that the client gave itself.
    pub who: Option<ClientLabel>,
    pub fence: Fence,
    /// Which of K permits, where they are numbered.
    pub slot: Option<u32>,
    /// How long ago it happened.
    pub ago: Span,
}

/// A place in the changes of a site.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct ChangeCursor {
    /// The incarnation of the site.
    pub incarnation: Incarnation,
    /// The number of the next change.
    pub next: u64,
}

/// What a site says to a question for its changes.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct SiteChanges {
    /// The first changes after the cursor, at most 500 and in order. None, if the question had no cursor.
    pub changes: Vec<LockChange>,
    /// How many before these are not kept any more: at least so many.
    pub missed: u64,
    /// The cursor for the next question.
    pub cursor: ChangeCursor,
    /// Whether there are more already.
    pub more: bool,
}

impl SiteChanges {
    /// Returns whether it lists no more than a correct site does.
    pub(crate) fn is_bounded(&self) -> bool {
        self.changes.len() <= MAX_CHANGES
    }
}

/// A change of a lock, with the site at which it happened.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SiteChange {
    pub site: SiteName,
    pub change: LockChange,
}
