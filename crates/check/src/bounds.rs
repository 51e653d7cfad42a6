//! Bounds: what to explore. The number of sites and requests, what the network may do, what may fail, what must hold.

use meshlock_protocol::world::{Delivery, News};
use meshlock_protocol::{Cluster, Demand, Holders, Mode, PlanError, Priority, SiteId};

use crate::property::Properties;
use crate::symmetry;

/// The number of requests of each site.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Entries {
    /// This many requests.
    Each(u8),
    /// Requests without end. Numbers that only grow are made relative; the exploration ends only if nothing else grows.
    Endless,
}

/// What to explore.
#[derive(Clone, Debug)]
#[expect(clippy::struct_excessive_bools, reason = "each is one condition of a run, given by its own flag")]
pub struct Bounds {
    pub cluster: Cluster,
    /// The sites that are inside at the start.
    pub holders: Holders,
    /// The number of requests of each site.
    pub entries: Entries,
    /// What processes may ask for: each request is tried with each of these.
    pub demands: Vec<Demand>,
    /// How often a process that is inside may change its mode before it leaves, to any of those that processes ask for.
    pub changes: u8,
    /// In an endless run: a site does not request while one of its numbers is larger than this, relative to the smallest of its
    /// family, or while it has more messages than this in flight to one other site. That can hide a schedule, but no schedule that is
    /// left is less fair for it: nobody is obliged to request.
    pub window: Option<u8>,
    /// The order in which messages arrive.
    pub delivery: Delivery,
    /// The number of messages that may arrive a second time.
    pub duplicates: u8,
    /// The number of messages that may be lost.
    pub losses: u8,
    /// The number of sites that may fail, at any moment.
    pub crashes: u8,
    pub recoveries: bool,
    /// What the news of failures do not wait for.
    pub news: News,
    /// Whether nothing else happens between a failure and the moment at which all know of it, except that what the failed site had sent
    /// arrives.
    pub news_first: bool,
    /// Whether a site may leave and request again in one step.
    pub returns: bool,
    /// Whether survivors of a failure must be served even where the algorithm leaves failures to its host.
    pub survivors: bool,
    pub properties: Properties,
    /// Whether a state includes the timestamp of each site's last entry: only where the search has found that it matters.
    pub keeps_entries: bool,
    /// Whether the search is reduced, as [`Bounds::reduced`] describes.
    pub reduces: bool,
    /// Whether of the states that differ only in which site is which one is kept, as [`Bounds::up_to_symmetry`] describes.
    pub up_to_symmetry: bool,
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
            demands: vec![Demand::PLAIN],
            changes: 0,
            window: None,
            delivery: Delivery::Fifo,
            duplicates: 0,
            losses: 0,
            crashes: 0,
            recoveries: false,
            news: News::default(),
            news_first: false,
            returns: false,
            survivors: false,
            properties: Properties::all(),
            keeps_entries: false,
            reduces: false,
            up_to_symmetry: false,
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

    /// Whether processes request without end, so that the numbers of a state are made relative.
    pub(crate) fn is_endless(&self) -> bool {
        self.entries == Entries::Endless
    }

    /// Whether faults are possible, so that a state must include the fault state.
    pub(crate) fn has_faults(&self) -> bool {
        self.crashes > 0 || self.duplicates > 0 || self.losses > 0
    }
}

impl Bounds {
    /// Whether a search within these bounds can be reduced. A failure is a step of several sites, the window of an endless run counts
    /// messages in flight, and an endless run is explored for the cycles that a reduced search does not see. Of demands and changes of mode
    /// it was not shown that a silent delivery changes places with them.
    pub fn can_be_reduced(&self) -> bool {
        let is_plain = self.demands == [Demand::PLAIN] && self.changes == 0 && !self.has_modes();
        !self.has_faults() && !self.is_endless() && is_plain
    }

    /// Whether a search within these bounds can leave out states that differ only in which site is which: under the same conditions, and
    /// with few sites.
    pub fn can_be_explored_alike(&self) -> bool {
        self.can_be_reduced() && self.cluster.sites <= symmetry::MAX_SITES
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

    /// With these sites inside at the start, each in its mode.
    pub fn shared_by(self, holders: &[(usize, Mode)]) -> Result<Self, PlanError> {
        let sites = holders.iter().map(|&(site, mode)| (SiteId::new(site), mode));
        Ok(Bounds { holders: Holders::sharing(self.cluster, sites)?, ..self })
    }

    /// With processes that ask for each of these modes.
    #[must_use]
    pub fn with_modes(self, modes: &[Mode]) -> Self {
        Bounds { demands: modes.iter().map(|&mode| Demand::of(mode)).collect(), ..self }
    }

    /// With processes that ask for each of these modes with each of these priorities.
    #[must_use]
    pub fn demanding(self, modes: &[Mode], priorities: &[Priority]) -> Self {
        let with = |&mode: &Mode| priorities.iter().map(move |&priority| Demand { mode, priority });
        Bounds { demands: modes.iter().flat_map(with).collect(), ..self }
    }

    /// The modes and the priorities that processes ask for, as [`Bounds::demanding`] takes them.
    pub fn modes_and_priorities(&self) -> (Vec<Mode>, Vec<Priority>) {
        let (mut modes, mut priorities) = (Vec::new(), Vec::new());
        for demand in &self.demands {
            if !modes.contains(&demand.mode) {
                modes.push(demand.mode);
            }
            if !priorities.contains(&demand.priority) {
                priorities.push(demand.priority);
            }
        }
        (modes, priorities)
    }

    /// With processes inside that may change their mode this often.
    #[must_use]
    pub fn with_changes(self, changes: u8) -> Self {
        Bounds { changes, ..self }
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

    /// With news of failures that do not wait for everything.
    #[must_use]
    pub fn with_news(self, news: News) -> Self {
        Bounds { news, ..self }
    }

    /// With failures of which all know before anything else happens.
    #[must_use]
    pub fn with_news_first(self) -> Self {
        Bounds { news_first: true, ..self }
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

    /// In an endless run, with requests only within this window.
    #[must_use]
    pub fn within(self, window: u8) -> Self {
        Bounds { window: Some(window), ..self }
    }

    /// With a search that puts off deliveries which nobody notices, and so keeps far fewer states. It checks the same properties but
    /// starvation, bypass and messages, and the invariants that span sites only in the states that it keeps.
    #[must_use]
    pub fn reduced(self) -> Self {
        Bounds { reduces: true, properties: self.properties.kept_by_reduction(), ..self }
    }

    /// With a search that keeps one of the states that differ only in which site is which, if the algorithm treats sites alike. It
    /// checks the same properties as a [reduced](Bounds::reduced) one.
    #[must_use]
    pub fn up_to_symmetry(self) -> Self {
        Bounds { up_to_symmetry: true, properties: self.properties.kept_by_reduction(), ..self }
    }

    /// With only these properties checked.
    #[must_use]
    pub fn checking(self, properties: Properties) -> Self {
        Bounds { properties, ..self }
    }
}
