//! Faults: what fails and when. As in the papers, failures of sites and partitions are known for certain some time after they happen; a
//! cut link only delays what is sent over it, and no site is told.

use meshlock_protocol::{SiteId, SiteSet};

use crate::time::Time;

/// The link between two sites, in both directions.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Link {
    low: SiteId,
    high: SiteId,
}

impl Link {
    /// The link between two sites, in either order; none joins a site to itself.
    pub fn between(one: SiteId, other: SiteId) -> Option<Self> {
        (one != other).then(|| Link { low: one.min(other), high: one.max(other) })
    }

    /// The two sites, the lower one first.
    pub fn ends(self) -> [SiteId; 2] {
        [self.low, self.high]
    }
}

/// One fault or repair.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FaultEvent {
    /// A site stops; its process is gone.
    Fail(SiteId),
    /// A failed site runs again, with nothing but its stable storage.
    Recover(SiteId),
    /// The network splits cleanly into these sites and the rest; what is in flight across the split is lost.
    Split(SiteSet),
    /// The network is whole again.
    Heal,
    /// A link is cut: what is sent over it from now on waits at its sender.
    Cut(Link),
    /// The link is whole again: what waited is sent now, in its order.
    Mend(Link),
}

/// All faults of a run.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct FaultPlan {
    /// Faults at given times, in any order.
    pub at: Vec<(Time, FaultEvent)>,
    /// The time from a failure or a recovery until the peers know of it.
    pub detection: Time,
    /// Failures of sites drawn at random, if any.
    pub drawn: Option<DrawnFaults>,
    /// Partitions drawn at random, if any.
    pub splits: Option<DrawnOutages>,
    /// Cuts of links drawn at random, if any.
    pub cuts: Option<DrawnOutages>,
}

/// Sites that fail at random, one at a time, and recover.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct DrawnFaults {
    /// The mean time that a site runs before it fails, in units of time: all sites together fail N times as often.
    pub mean_time_to_failure: f64,
    /// The mean time that a site stays down.
    pub mean_time_to_recovery: f64,
}

/// Something in the network that breaks at random and is repaired: partitions, one at a time, or links, each by itself.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct DrawnOutages {
    /// The mean time until the next outage in the whole network, in units of time.
    pub mean_time_between: f64,
    /// The mean length of an outage.
    pub mean_time_to_repair: f64,
}

impl FaultPlan {
    /// Whether no message is ever lost: nothing fails, or nothing but links.
    pub(crate) fn loses_nothing(&self) -> bool {
        let only_delays = |fault: &FaultEvent| matches!(fault, FaultEvent::Cut(_) | FaultEvent::Mend(_));
        self.drawn.is_none() && self.splits.is_none() && self.at.iter().all(|(_, fault)| only_delays(fault))
    }

    /// The first link that is cut at a given time and not mended at a later one.
    pub fn never_mended(&self) -> Option<Link> {
        let mended = |link: Link, after: Time| {
            self.at.iter().any(|(time, fault)| *fault == FaultEvent::Mend(link) && *time > after)
        };
        self.at.iter().find_map(|(time, fault)| match fault {
            FaultEvent::Cut(link) if !mended(*link, *time) => Some(*link),
            FaultEvent::Cut(_)
            | FaultEvent::Mend(_)
            | FaultEvent::Fail(_)
            | FaultEvent::Recover(_)
            | FaultEvent::Split(_)
            | FaultEvent::Heal => None,
        })
    }
}
