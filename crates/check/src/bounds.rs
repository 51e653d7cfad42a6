//! What to explore: how many sites, how often they ask, what the network and fate may do, what must hold.

use meshlock_protocol::world::Delivery;
use meshlock_protocol::{Cluster, Holders, PlanError, SiteId};

use crate::property::Properties;

/// How often each site asks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Entries {
    /// So many times.
    Each(u8),
    /// Again and again. Ends only where the algorithm's state is bounded: without clocks and counters.
    Endless,
}

/// What to explore.
#[derive(Clone, Debug)]
pub struct Bounds {
    /// How many sites and permits.
    pub cluster: Cluster,
    /// Who is inside at the start.
    pub holders: Holders,
    /// How often each site asks.
    pub entries: Entries,
    /// What the network may do.
    pub delivery: Delivery,
    /// How many messages may arrive a second time.
    pub duplicates: u8,
    /// How many messages may be lost.
    pub losses: u8,
    /// How many sites may fail, at any moment.
    pub crashes: u8,
    /// Whether failed sites come back.
    pub recoveries: bool,
    /// Whether a site may leave and ask again in one step.
    pub returns: bool,
    /// Whether survivors of a failure must be served even where the algorithm leaves failures to its host.
    pub survivors: bool,
    /// What is checked.
    pub properties: Properties,
    /// Where to stop, finished or not.
    pub most_states: usize,
    /// How much memory may be used, in bytes.
    pub most_memory: usize,
}

impl Bounds {
    /// `sites` that ask `entries` times each over FIFO channels, one permit, nothing fails.
    pub fn new(sites: usize, entries: u8) -> Self {
        Bounds {
            cluster: Cluster::of(sites),
            holders: Holders::none(),
            entries: Entries::Each(entries),
            delivery: Delivery::Fifo,
            duplicates: 0,
            losses: 0,
            crashes: 0,
            recoveries: false,
            returns: false,
            survivors: false,
            properties: Properties::all(),
            most_states: usize::MAX,
            most_memory: 8 << 30,
        }
    }

    /// Whether a process may request again after so many requests.
    pub(crate) fn may_request(&self, requests: u8) -> bool {
        match self.entries {
            Entries::Each(entries) => requests < entries,
            Entries::Endless => true,
        }
    }

    /// Whether anything but the plain course of things can happen, so that a state must remember it.
    pub(crate) fn has_faults(&self) -> bool {
        self.crashes > 0 || self.duplicates > 0 || self.losses > 0
    }
}

/// The same, but for one thing.
impl Bounds {
    /// Over channels that keep no order.
    #[must_use]
    pub fn unordered(self) -> Self {
        Bounds { delivery: Delivery::Unordered, ..self }
    }

    /// With K permits.
    #[must_use]
    pub fn with_permits(self, permits: usize) -> Self {
        Bounds { cluster: self.cluster.with_permits(permits), ..self }
    }

    /// With these sites inside at the start.
    pub fn held_by(self, sites: &[usize]) -> Result<Self, PlanError> {
        let holders = Holders::new(self.cluster, sites.iter().map(|&site| SiteId::new(site)))?;
        Ok(Bounds { holders, ..self })
    }

    /// With so many messages that arrive twice.
    #[must_use]
    pub fn with_duplicates(self, duplicates: u8) -> Self {
        Bounds { duplicates, ..self }
    }

    /// With so many messages that never arrive.
    #[must_use]
    pub fn with_losses(self, losses: u8) -> Self {
        Bounds { losses, ..self }
    }

    /// With so many failures, at any moment.
    #[must_use]
    pub fn with_crashes(self, crashes: u8) -> Self {
        Bounds { crashes, ..self }
    }

    /// With failed sites that come back.
    #[must_use]
    pub fn with_recoveries(self) -> Self {
        Bounds { recoveries: true, ..self }
    }

    /// With sites that leave and ask again in one step.
    #[must_use]
    pub fn with_returns(self) -> Self {
        Bounds { returns: true, ..self }
    }

    /// With survivors that must be served, whatever the algorithm leaves to its host.
    #[must_use]
    pub fn with_survivors(self) -> Self {
        Bounds { survivors: true, ..self }
    }

    /// With sites that ask for ever.
    #[must_use]
    pub fn endless(self) -> Self {
        Bounds { entries: Entries::Endless, ..self }
    }

    /// With only these properties checked.
    #[must_use]
    pub fn checking(self, properties: Properties) -> Self {
        Bounds { properties, ..self }
    }
}
