//! Settings: what to simulate.

use meshlock_protocol::Cluster;

use crate::draw::Distribution;
use crate::faults::FaultPlan;
use crate::network::Delay;
use crate::time::Time;

/// The load: when sites request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Load {
    /// Requests arrive at each site as a Poisson stream, whatever happens, and queue there; the site serves them one by
    /// one. (Singhal's model.)
    Open,
    /// A site thinks for an exponential time after each critical section, then requests. (Bulgannawar and Vaidya's
    /// model.)
    Closed,
    /// A site requests again as soon as it has left.
    Saturated,
}

/// The rate λ of each site, in requests per unit of time.
#[derive(Clone, Debug, PartialEq)]
pub enum Rates {
    /// The same for all sites.
    Same(f64),
    /// One for each site.
    Each(Vec<f64>),
}

impl Rates {
    /// The rate of the site with this index.
    pub(crate) fn of(&self, site: usize) -> f64 {
        match self {
            Rates::Same(rate) => *rate,
            Rates::Each(rates) => rates[site],
        }
    }
}

/// How a site spends the time that messages cost it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SiteProcessor {
    /// One processor sends and receives, one message after the other: while a site sends, what has arrived waits. A message
    /// and all that is sent because of it come before the next one. (Bulgannawar and Vaidya's model.)
    Shared,
    /// Sending and receiving do not hinder each other.
    Separate,
}

/// The treatment of the beginning of a run, before it is steady.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WarmUp {
    /// The warm-up is found by a rule and discarded.
    Found,
    /// The warm-up is measured as the rest is.
    Keep,
}

/// The settings of one run.
#[derive(Clone, Debug)]
pub struct Settings {
    pub cluster: Cluster,
    pub load: Load,
    pub rates: Rates,
    /// The transmission time of a message.
    pub delay: Delay,
    /// The sender's cost of each copy; copies are sent one after the other.
    pub send_cost: Time,
    /// The receiver's cost of each message; messages are processed one after the other.
    pub receive_cost: Time,
    /// Whether a site that sends can receive meanwhile.
    pub processor: SiteProcessor,
    /// Whether messages between two sites arrive in the order of sending.
    pub fifo: bool,
    /// The time that a process stays inside.
    pub inside: Distribution,
    /// The share of the requests that are shared, from 0 to 1; the others are exclusive.
    pub readers: f64,
    pub faults: FaultPlan,
    /// The number of entries to measure.
    pub entries: u64,
    /// The treatment of the beginning.
    pub warm_up: WarmUp,
    /// The seed of all random numbers.
    pub seed: u64,
}

impl Settings {
    /// Singhal's model with these sites: T = 1, E = 0.0002, open load at λ = 0.1, 100,000 entries.
    pub fn new(cluster: Cluster) -> Self {
        Settings {
            cluster,
            load: Load::Open,
            rates: Rates::Same(0.1),
            delay: Delay::Same(Distribution::Constant(Time::units(1.0))),
            send_cost: Time::ZERO,
            receive_cost: Time::ZERO,
            processor: SiteProcessor::Shared,
            fifo: true,
            inside: Distribution::Constant(Time::units(0.0002)),
            readers: 0.0,
            faults: FaultPlan::default(),
            entries: 100_000,
            warm_up: WarmUp::Found,
            seed: 1,
        }
    }

    /// The longest time that a message takes from the call that sends it to the call that receives it, if it need not
    /// queue: T of the papers.
    pub(crate) fn max_delay(&self) -> Time {
        Time::units(self.delay.longest()) + self.send_cost + self.receive_cost
    }
}
