//! The locks that clients of other members held when the view opened, as their censuses list them.

use std::hash::{Hash, Hasher};

use foldhash::fast::FixedState;
use indexmap::{Equivalent, IndexMap};

use super::holdings::{HeldLane, Holdings};

/// Locks with one holder, at another member, whose machines have not been started here. An entry refers to the census that
/// lists it, so that noting it copies nothing.
#[derive(Clone, Debug, Default)]
pub(super) struct HeldElsewhere(IndexMap<Listed, usize, FixedState>);

/// One lock of a piece of a census. It is equal to another one of the same name.
#[derive(Clone, Debug)]
struct Listed {
    piece: Holdings,
    at: u32,
}

impl Listed {
    fn name(&self) -> &str {
        self.piece.get(self.at as usize).lock
    }
}

impl PartialEq for Listed {
    fn eq(&self, other: &Self) -> bool {
        self.name() == other.name()
    }
}

impl Eq for Listed {}

impl Hash for Listed {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.name().hash(state);
    }
}

/// The name of a lock, to look it up.
#[derive(Hash)]
struct Name<'a>(&'a str);

impl Equivalent<Listed> for Name<'_> {
    fn equivalent(&self, listed: &Listed) -> bool {
        self.0 == listed.name()
    }
}

impl HeldElsewhere {
    /// Returns an empty list with room for this many locks.
    pub(super) fn with_capacity(locks: usize) -> Self {
        HeldElsewhere(IndexMap::with_capacity_and_hasher(locks, FixedState::default()))
    }

    /// Notes that a client of the member at `place` holds the lock that its census lists at `at`. Returns whether nobody
    /// else was noted for that name.
    pub(super) fn insert(&mut self, place: usize, piece: &Holdings, at: usize) -> bool {
        let at = u32::try_from(at).expect("a piece has fewer locks");
        self.0.insert(Listed { piece: piece.clone(), at }, place).is_none()
    }

    /// Returns whether a lock of this name is listed.
    pub(super) fn contains(&self, name: &str) -> bool {
        !self.0.is_empty() && self.0.contains_key(&Name(name))
    }

    /// Removes a lock. Returns the place of its holder's member, and how it is held there.
    pub(super) fn remove(&mut self, name: &str) -> Option<(usize, HeldLane)> {
        if self.0.is_empty() {
            return None;
        }
        let (listed, place) = self.0.swap_remove_entry(&Name(name))?;
        Some((place, listed.piece.get(listed.at as usize).lanes().next()?))
    }

    /// Forgets all of them.
    pub(super) fn clear(&mut self) {
        self.0 = IndexMap::default();
    }

    /// Returns the number of locks.
    pub(super) fn len(&self) -> usize {
        self.0.len()
    }
}
