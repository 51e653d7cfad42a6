//! One exploration that an erratum asks for, as a constant.

use std::fmt;

use meshlock_protocol::Spec;

use crate::{Bounds, Properties, Property};

/// What to explore.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Run {
    /// The algorithm and its options.
    pub spec: &'static str,
    /// How many sites.
    pub sites: usize,
    /// How often each asks.
    pub entries: u8,
    /// How many permits.
    pub permits: usize,
    /// Whether messages may overtake each other.
    pub unordered: bool,
    /// How many sites may fail.
    pub crashes: u8,
    /// How many states are enough, if the run is too large to be explored to its end.
    pub enough: Option<usize>,
}

impl Run {
    /// `sites` that ask `entries` times each over FIFO channels, one permit, nothing fails.
    pub(super) const fn new(spec: &'static str, sites: usize, entries: u8) -> Self {
        Run { spec, sites, entries, permits: 1, unordered: false, crashes: 0, enough: None }
    }

    /// The same over channels that keep no order.
    pub(super) const fn unordered(self) -> Self {
        Run { unordered: true, ..self }
    }

    /// The same with K permits.
    pub(super) const fn permits(self, permits: usize) -> Self {
        Run { permits, ..self }
    }

    /// The same with sites that fail at any moment.
    pub(super) const fn crashes(self, crashes: u8) -> Self {
        Run { crashes, ..self }
    }

    /// The same, but only so many states.
    pub(super) const fn enough(self, states: usize) -> Self {
        Run { enough: Some(states), ..self }
    }

    pub(super) fn parsed(&self) -> Spec {
        self.spec.parse().expect("errata name registered algorithms and options")
    }

    /// The bounds, with one property or all.
    pub(super) fn bounds(&self, property: Option<Property>) -> Bounds {
        let bounds =
            Bounds::new(self.sites, self.entries).with_permits(self.permits).with_crashes(self.crashes);
        let bounds = if self.unordered { bounds.unordered() } else { bounds };
        let properties = property.map_or_else(Properties::all, |property| [property].into_iter().collect());
        Bounds { most_states: self.enough.unwrap_or(usize::MAX), ..bounds.checking(properties) }
    }
}

impl fmt::Display for Run {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let entries = if self.entries == 1 { "1 entry" } else { &format!("{} entries", self.entries) };
        let channels = if self.unordered { "channels without order" } else { "FIFO channels" };
        write!(f, "`{}`, {} sites, {entries} each, {channels}", self.spec, self.sites)?;
        if self.permits > 1 {
            write!(f, ", {} permits", self.permits)?;
        }
        match self.crashes {
            0 => Ok(()),
            1 => f.write_str(", one failure at any moment"),
            crashes => write!(f, ", {crashes} failures at any moment"),
        }
    }
}
