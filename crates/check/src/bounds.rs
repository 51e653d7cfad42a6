//! Bounds: what to explore. The number of sites and requests, what the network may do, what may fail, what must hold.

use meshlock_protocol::world::Delivery;
use meshlock_protocol::{Cluster, Holders, PlanError, SiteId};

use crate::property::Properties;

/// The number of requests of each site.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Entries {
    /// This many requests.
    Each(u8),
    /// Requests without end. The exploration ends only if the algorithm's state is bounded: without clocks and
    /// counters.
    Endless,
}

/// What to explore.
#[derive(Clone, Debug)]
pub struct Bounds {
    pub cluster: Cluster,
    /// The sites that are inside at the start.
    pub holders: Holders,
    /// The number of requests of each site.
    pub entries: Entries,
    /// The order in which messages arrive.
    pub delivery: Delivery,
    /// The number of messages that may arrive a second time.
    pub duplicates: u8,
    /// The number of messages that may be lost.
    pub losses: u8,
    /// The number of sites that may fail, at any moment.
    pub crashes: u8,
    pub recoveries: bool,
    /// Whether a site may leave and request again in one step.
    pub returns: bool,
    /// Whether survivors of a failure must be served even where the algorithm leaves failures to its host.
    pub survivors: bool,
    pub properties: Properties,
    /// The number of states at which the exploration stops.
    pub max_states: usize,
    /// The memory limit, in bytes.
    pub max_memory: usize,
}

impl Bounds {
    /// `sites` that request `entries` times each over FIFO channels, with one permit and no faults.
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
            max_states: usize::MAX,
            max_memory: 8 << 30,
        }
    }

    /// Whether a process may request again after this many requests.
    pub(crate) fn may_request(&self, requests: u8) -> bool {
        match self.entries {
            Entries::Each(entries) => requests < entries,
            Entries::Endless => true,
        }
    }

    /// Whether faults are possible, so that a state must include the fault state.
    pub(crate) fn has_faults(&self) -> bool {
        self.crashes > 0 || self.duplicates > 0 || self.losses > 0
    }
}

/// The same bounds with one change.
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

    /// With this many messages that arrive twice.
    #[must_use]
    pub fn with_duplicates(self, duplicates: u8) -> Self {
        Bounds { duplicates, ..self }
    }

    /// With this many messages that are lost.
    #[must_use]
    pub(crate) fn with_losses(self, losses: u8) -> Self {
        Bounds { losses, ..self }
    }

    /// With this many failures, at any moment.
    #[must_use]
    pub fn with_crashes(self, crashes: u8) -> Self {
        Bounds { crashes, ..self }
    }

    /// With failed sites that recover.
    #[must_use]
    pub fn with_recoveries(self) -> Self {
        Bounds { recoveries: true, ..self }
    }

    /// With sites that may leave and request again in one step.
    #[must_use]
    pub fn with_returns(self) -> Self {
        Bounds { returns: true, ..self }
    }

    /// With survivors that must be served even if the algorithm leaves failures to its host.
    #[must_use]
    pub fn with_survivors(self) -> Self {
        Bounds { survivors: true, ..self }
    }

    /// With sites that request without end.
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
