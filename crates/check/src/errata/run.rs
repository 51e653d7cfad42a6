//! One exploration of an erratum, as a constant.

use std::fmt;

use meshlock_protocol::Spec;

use super::twin;
use crate::{Bounds, Progress, Properties, Property, Report, Step, Story, explore_spec_with, story_spec};

/// What to explore.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Run {
    /// The algorithm and its options.
    pub spec: &'static str,
    pub sites: usize,
    /// The number of requests of each site.
    pub entries: u8,
    pub permits: usize,
    /// Whether messages may overtake each other.
    pub unordered: bool,
    /// The number of messages that may arrive a second time.
    pub duplicates: u8,
    /// The number of sites that may fail.
    pub crashes: u8,
    pub recoveries: bool,
    /// Whether all know of a failure before anything else happens.
    pub(crate) news_first: bool,
    /// The number of states that is enough, if the run is too large to be explored completely.
    pub(crate) enough: Option<usize>,
}

impl Run {
    /// `sites` that request `entries` times each over FIFO channels, with one permit and no faults.
    pub(super) const fn new(spec: &'static str, sites: usize, entries: u8) -> Self {
        Run {
            spec,
            sites,
            entries,
            permits: 1,
            unordered: false,
            duplicates: 0,
            crashes: 0,
            recoveries: false,
            news_first: false,
            enough: None,
        }
    }

    /// The same over channels that keep no order.
    pub(super) const fn unordered(self) -> Self {
        Run { unordered: true, ..self }
    }

    /// The same with K permits.
    pub(super) const fn permits(self, permits: usize) -> Self {
        Run { permits, ..self }
    }

    /// The same with messages that arrive a second time.
    pub(super) const fn duplicates(self, duplicates: u8) -> Self {
        Run { duplicates, ..self }
    }

    /// The same with failed sites that recover.
    pub(super) const fn recoveries(self) -> Self {
        Run { recoveries: true, ..self }
    }

    /// The same with sites that fail at any moment.
    pub(super) const fn crashes(self, crashes: u8) -> Self {
        Run { crashes, ..self }
    }

    /// The same with failures of which all know before anything else happens.
    pub(super) const fn news_first(self) -> Self {
        Run { news_first: true, ..self }
    }

    /// The same, but only this many states.
    pub(super) const fn enough(self, states: usize) -> Self {
        Run { enough: Some(states), ..self }
    }

    fn parsed(&self) -> Spec {
        twin::spec(self.spec).expect("errata name registered algorithms and options, or a twin's")
    }

    /// Explores the run, for one property or all.
    pub(super) fn explore(&self, property: Option<Property>, progress: impl FnMut(&Progress)) -> Report {
        let report = explore_spec_with(&self.parsed(), &self.bounds(property), progress);
        report.expect("errata ask for runs that can start")
    }

    /// The story of a path that was found.
    pub(super) fn story(&self, property: Option<Property>, path: &[Step]) -> Story {
        story_spec(&self.parsed(), &self.bounds(property), path)
    }

    /// The bounds, with one property or all.
    fn bounds(&self, property: Option<Property>) -> Bounds {
        let bounds = Bounds::new(self.sites, self.entries)
            .with_permits(self.permits)
            .with_duplicates(self.duplicates)
            .with_crashes(self.crashes);
        let bounds = if self.recoveries { bounds.with_recoveries() } else { bounds };
        let bounds = if self.news_first { bounds.with_news_first() } else { bounds };
        let bounds = if self.unordered { bounds.unordered() } else { bounds };
        let properties = property.map_or_else(Properties::all, |property| [property].into_iter().collect());
        Bounds { max_states: self.enough.unwrap_or(usize::MAX), ..bounds.checking(properties) }
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
        match self.duplicates {
            0 => {}
            1 => f.write_str(", one message twice")?,
            duplicates => write!(f, ", {duplicates} messages twice")?,
        }
        match self.crashes {
            0 => {}
            1 => f.write_str(", one failure at any moment")?,
            crashes => write!(f, ", {crashes} failures at any moment")?,
        }
        if self.recoveries {
            f.write_str(" and a return")?;
        }
        if self.news_first { f.write_str(", of which all know before anything else happens") } else { Ok(()) }
    }
}
