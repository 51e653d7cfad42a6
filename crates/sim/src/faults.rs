//! What fails and when, as the papers assume it: sites and partitions are known for certain, a while after it happened; a
//! link that is cut only delays what is sent over it, and nobody is told.

use meshlock_protocol::{SiteId, SiteSet};

use crate::time::Time;

/// What joins two sites, in both directions.
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

/// One thing that happens to the world.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Fault {
    /// A site stops; its process is gone.
    Fail(SiteId),
    /// A failed site runs again, with nothing left but its stable storage.
    Recover(SiteId),
    /// The network splits cleanly into these sites and the rest; what is on its way across is lost.
    Split(SiteSet),
    /// The network is whole again.
    Heal,
    /// A link opens: what is sent over it from now on waits at its sender.
    Cut(Link),
    /// The link is whole again: what waited is sent now, in its order.
    Mend(Link),
}

/// Everything that will fail in a run.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct FaultPlan {
    /// What happens at a given time, in any order.
    pub at: Vec<(Time, Fault)>,
    /// How long after a failure or a recovery the peers know of it.
    pub detection: Time,
    /// Failures of sites drawn at random, if any.
    pub drawn: Option<DrawnFaults>,
    /// Partitions drawn at random, if any.
    pub splits: Option<DrawnOutages>,
    /// Cuts of links drawn at random, if any.
    pub cuts: Option<DrawnOutages>,
}

/// Sites that fail at random, one at a time, and come back.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct DrawnFaults {
    /// How long a site runs before it fails, on average, in units of time: all sites together fail N times as often.
    pub mean_time_to_failure: f64,
    /// How long a site stays down, on average.
    pub mean_time_to_recovery: f64,
}

/// Something in the network that breaks at random and is repaired: partitions, one at a time, or links, each by itself.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct DrawnOutages {
    /// How long it takes until the next one in the whole network, on average, in units of time.
    pub mean_time_between: f64,
    /// How long one lasts, on average.
    pub mean_time_to_repair: f64,
}

impl FaultPlan {
    /// Whether no message is ever lost: nothing fails, or nothing but links.
    pub fn loses_nothing(&self) -> bool {
        let only_delays = |fault: &Fault| matches!(fault, Fault::Cut(_) | Fault::Mend(_));
        self.drawn.is_none() && self.splits.is_none() && self.at.iter().all(|(_, fault)| only_delays(fault))
    }

    /// The first link that is cut at a given time and not mended at a later one.
    pub fn never_mended(&self) -> Option<Link> {
        let mended = |link: Link, after: Time| {
            self.at.iter().any(|(time, fault)| *fault == Fault::Mend(link) && *time > after)
        };
        self.at.iter().find_map(|(time, fault)| match fault {
            Fault::Cut(link) if !mended(*link, *time) => Some(*link),
            Fault::Cut(_)
            | Fault::Mend(_)
            | Fault::Fail(_)
            | Fault::Recover(_)
            | Fault::Split(_)
            | Fault::Heal => None,
        })
    }
}
