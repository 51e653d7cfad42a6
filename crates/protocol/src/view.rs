//! The view of one site's state for a picture: pointers, sets, queues, and the sites that it waits for.
//!
//! The names are the papers'. The lab draws it; no algorithm depends on it.

use crate::{SiteId, SiteSet, Slot};

/// An arrow from a site to another.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pointer {
    /// What the paper calls it.
    pub name: &'static str,
    pub to: SiteId,
    /// The numbered token that it belongs to, where each token has its own pointers.
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
    /// The sites that the waiting request of this site waits for, as far as this site knows.
    pub waits_for: SiteSet,
}

impl View {
    /// An empty view.
    pub fn new() -> Self {
        View::default()
    }

    /// Adds an arrow.
    #[must_use]
    pub fn pointer(mut self, name: &'static str, to: SiteId) -> Self {
        self.pointers.push(Pointer { name, to, slot: None });
        self
    }

    /// Adds an arrow that belongs to one token.
    #[must_use]
    pub fn pointer_of(mut self, name: &'static str, slot: Slot, to: SiteId) -> Self {
        self.pointers.push(Pointer { name, to, slot: Some(slot) });
        self
    }

    /// Adds a set.
    #[must_use]
    pub fn set(mut self, name: &'static str, sites: &SiteSet) -> Self {
        self.sets.push((name, sites.clone()));
        self
    }

    /// Adds a list.
    #[must_use]
    pub fn queue(mut self, name: &'static str, items: impl IntoIterator<Item = impl ToString>) -> Self {
        self.queues.push((name, items.into_iter().map(|item| item.to_string()).collect()));
        self
    }

    /// Adds sites that this one waits for.
    #[must_use]
    pub fn waiting_for(mut self, sites: impl IntoIterator<Item = SiteId>) -> Self {
        for site in sites {
            self.waits_for.insert(site);
        }
        self
    }
}
