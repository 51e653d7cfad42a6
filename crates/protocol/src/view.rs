//! What a picture of one site's state shows: pointers, sets, queues, and whom it waits for.
//!
//! The names are the papers'. Nothing decides by it; the lab draws it.

use crate::{SiteId, SiteSet, Slot};

/// An arrow from a site to another.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pointer {
    /// What the paper calls it.
    pub name: &'static str,
    /// Where it points.
    pub to: SiteId,
    /// Of which numbered token, where each has pointers of its own.
    pub slot: Option<Slot>,
}

/// What a picture of one site shows.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct View {
    /// Arrows to other sites.
    pub pointers: Vec<Pointer>,
    /// Sets of sites, by name.
    pub sets: Vec<(&'static str, SiteSet)>,
    /// Lists in their order, by name, as they are written.
    pub queues: Vec<(&'static str, Vec<String>)>,
    /// Whom a request that waits here waits for, as far as this site knows.
    pub waits_for: SiteSet,
}

impl View {
    /// Nothing to show.
    pub fn new() -> Self {
        View::default()
    }

    /// With an arrow.
    #[must_use]
    pub fn pointer(mut self, name: &'static str, to: SiteId) -> Self {
        self.pointers.push(Pointer { name, to, slot: None });
        self
    }

    /// With an arrow that belongs to one token.
    #[must_use]
    pub fn pointer_of(mut self, name: &'static str, slot: Slot, to: SiteId) -> Self {
        self.pointers.push(Pointer { name, to, slot: Some(slot) });
        self
    }

    /// With a set.
    #[must_use]
    pub fn set(mut self, name: &'static str, sites: &SiteSet) -> Self {
        self.sets.push((name, sites.clone()));
        self
    }

    /// With a list.
    #[must_use]
    pub fn queue(mut self, name: &'static str, items: impl IntoIterator<Item = impl ToString>) -> Self {
        self.queues.push((name, items.into_iter().map(|item| item.to_string()).collect()));
        self
    }

    /// Waiting for these.
    #[must_use]
    pub fn waiting_for(mut self, sites: impl IntoIterator<Item = SiteId>) -> Self {
        for site in sites {
            self.waits_for.insert(site);
        }
        self
    }
}
