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

/// A value for each of some sites, by the name that the paper gives to the list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SiteTable {
    pub name: &'static str,
    /// The numbered token that it belongs to, where each token has its own.
    pub slot: Option<Slot>,
    pub rows: Vec<(SiteId, String)>,
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
    /// Lists with a value for each site, such as the largest number of a request that is known of each.
    pub tables: Vec<SiteTable>,
    /// Single values, by name.
    pub values: Vec<(&'static str, String)>,
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

    /// Adds a list with a value for each site, the first site's first.
    #[must_use]
    pub fn table(self, name: &'static str, values: impl IntoIterator<Item = impl ToString>) -> Self {
        self.add_table(name, None, values)
    }

    /// Adds such a list that belongs to one token.
    #[must_use]
    pub fn table_of(
        self,
        name: &'static str,
        slot: Slot,
        values: impl IntoIterator<Item = impl ToString>,
    ) -> Self {
        self.add_table(name, Some(slot), values)
    }

    fn add_table(
        mut self,
        name: &'static str,
        slot: Option<Slot>,
        values: impl IntoIterator<Item = impl ToString>,
    ) -> Self {
        let rows = values.into_iter().enumerate();
        let rows = rows.map(|(site, value)| (SiteId::new(site), value.to_string())).collect();
        self.tables.push(SiteTable { name, slot, rows });
        self
    }

    /// Adds a single value.
    #[must_use]
    pub fn value(mut self, name: &'static str, value: impl ToString) -> Self {
        self.values.push((name, value.to_string()));
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

/// Returns these items as messages and views write them, with commas between them.
pub(crate) fn listed(items: impl IntoIterator<Item = impl ToString>) -> String {
    items.into_iter().map(|item| item.to_string()).collect::<Vec<_>>().join(",")
}
