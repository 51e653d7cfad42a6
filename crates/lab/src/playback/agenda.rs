//! The agenda: the events that are due, in order of time.

use std::collections::BTreeMap;

use meshlock_protocol::SiteId;
use meshlock_sim::Time;

/// An event that happens by itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Due {
    /// The process of a site requests.
    Ask(SiteId),
    /// The process of a site leaves.
    Exit(SiteId),
    /// The message with this number arrives.
    Arrive { from: SiteId, to: SiteId, number: usize },
    /// A timer of a site runs out.
    Wake(SiteId),
    /// A site learns that another has failed or recovered.
    Tell { to: SiteId, about: SiteId },
}

/// The time of an event, and its position among those at the same time: the one that was planned first.
pub(super) type EventKey = (Time, u64);

/// The events that are due.
#[derive(Clone, Debug, Default)]
pub(super) struct Agenda {
    due: BTreeMap<EventKey, Due>,
    planned: u64,
}

impl Agenda {
    /// Adds an event. Returns its key.
    pub(super) fn plan(&mut self, time: Time, due: Due) -> EventKey {
        let key = (time, self.planned);
        self.due.insert(key, due);
        self.planned += 1;
        key
    }

    /// All events in order of time.
    pub(super) fn iter(&self) -> impl Iterator<Item = (EventKey, Due)> {
        self.due.iter().map(|(&key, &due)| (key, due))
    }

    pub(super) fn remove(&mut self, key: EventKey) {
        self.due.remove(&key);
    }

    /// The first event that `wanted` accepts.
    pub(super) fn find(&self, wanted: impl Fn(Due) -> bool) -> Option<(EventKey, Due)> {
        self.iter().find(|&(_, due)| wanted(due))
    }

    /// Removes the events that `kept` does not accept.
    pub(super) fn retain(&mut self, kept: impl Fn(Due) -> bool) {
        self.due.retain(|_, due| kept(*due));
    }
}
