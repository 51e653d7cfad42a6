//! What fails and when, as the papers assume it: known for certain, a while after it happened.

use meshlock_protocol::{SiteId, SiteSet};

use crate::time::Time;

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
}

/// Everything that will fail in a run.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct FaultPlan {
    /// What happens at a given time, in any order.
    pub at: Vec<(Time, Fault)>,
    /// How long after a failure or a recovery the peers know of it.
    pub detection: Time,
    /// Failures drawn at random, if any.
    pub drawn: Option<DrawnFaults>,
}

/// Sites that fail at random, one at a time, and come back.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct DrawnFaults {
    /// How long a site runs before it fails, on average, in units of time: all sites together fail N times as often.
    pub mean_time_to_failure: f64,
    /// How long a site stays down, on average.
    pub mean_time_to_recovery: f64,
}

impl FaultPlan {
    /// Whether nothing fails.
    pub fn is_empty(&self) -> bool {
        self.at.is_empty() && self.drawn.is_none()
    }
}
