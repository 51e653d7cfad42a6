//! What is due, in order of time.

use std::collections::BTreeMap;

use meshlock_protocol::SiteId;
use meshlock_sim::Time;

/// Something that will happen by itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Due {
    /// The process of a site wants in.
    Ask(SiteId),
    /// The process of a site leaves.
    Exit(SiteId),
    /// The message with this number arrives.
    Arrive { from: SiteId, to: SiteId, number: usize },
    /// A timer of a site runs out.
    Wake(SiteId),
    /// A site learns that another failed or recovered.
    Tell { to: SiteId, about: SiteId },
}

/// When, and which of those that are due at the same time: what was planned first.
pub(super) type Key = (Time, u64);

/// Everything that is due.
#[derive(Clone, Debug, Default)]
pub(super) struct Agenda {
    due: BTreeMap<Key, Due>,
    planned: u64,
}

impl Agenda {
    /// Plans it, and says where it stands.
    pub(super) fn plan(&mut self, time: Time, due: Due) -> Key {
        let key = (time, self.planned);
        self.due.insert(key, due);
        self.planned += 1;
        key
    }

    /// In order of time.
    pub(super) fn iter(&self) -> impl Iterator<Item = (Key, Due)> {
        self.due.iter().map(|(&key, &due)| (key, due))
    }

    pub(super) fn remove(&mut self, key: Key) {
        self.due.remove(&key);
    }

    /// The first that is `wanted`.
    pub(super) fn find(&self, wanted: impl Fn(Due) -> bool) -> Option<(Key, Due)> {
        self.iter().find(|&(_, due)| wanted(due))
    }

    /// Only those that are `kept` stay.
    pub(super) fn retain(&mut self, kept: impl Fn(Due) -> bool) {
        self.due.retain(|_, due| kept(*due));
    }
}
