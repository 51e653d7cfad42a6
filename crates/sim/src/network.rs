//! The network: the sender's cost, the transmission and the receiver's cost of a message, and whether order is kept.
//!
//! After Bulgannawar and Vaidya, section 4: a sender pays `T_s` for each copy, one after the other; transmission takes
//! `T_t`; the receiver pays `T_r` for each message, one after the other. With both costs zero it is Singhal's model.

use meshlock_protocol::{LookupMap, SiteId};

use crate::draw::{Distribution, Draw};
use crate::time::Time;

/// The transmission time of a message.
#[derive(Clone, Debug, PartialEq)]
pub enum Delay {
    /// The same distribution between all sites.
    Same(Distribution),
    /// A constant for each ordered pair: row = from, column = to.
    Matrix(Vec<Vec<Time>>),
}

impl Delay {
    /// The longest delay that can be relied on, in units: T of the papers. For an exponential one its mean.
    pub(crate) fn longest(&self) -> f64 {
        match self {
            Delay::Same(Distribution::Uniform { most, .. }) => most.as_units(),
            Delay::Same(distribution) => distribution.mean(),
            Delay::Matrix(rows) => rows.iter().flatten().max().map_or(0.0, |longest| longest.as_units()),
        }
    }
}

/// The network of a run.
#[derive(Clone, Debug)]
pub struct Network {
    delay: Delay,
    send_cost: Time,
    receive_cost: Time,
    fifo: bool,
    /// By site: when it has finished sending what it was given to send.
    sender_free: Vec<Time>,
    /// By site: when it has finished processing what has arrived.
    receiver_free: Vec<Time>,
    /// By ordered pair of sites: when the last message arrives. Looked up, never iterated.
    last_arrival: LookupMap<(SiteId, SiteId), Time>,
}

impl Network {
    /// A quiet network between `sites`.
    pub fn new(sites: usize, delay: Delay, send_cost: Time, receive_cost: Time, fifo: bool) -> Self {
        Network {
            delay,
            send_cost,
            receive_cost,
            fifo,
            sender_free: vec![Time::ZERO; sites],
            receiver_free: vec![Time::ZERO; sites],
            last_arrival: LookupMap::default(),
        }
    }

    /// When a message that `from` sends to `to` now arrives.
    pub fn arrival(&mut self, now: Time, from: SiteId, to: SiteId, draw: &mut Draw) -> Time {
        let sent = self.after_sending(now, from);
        match &self.delay {
            Delay::Same(Distribution::Constant(delay)) => sent + *delay,
            Delay::Matrix(rows) => sent + rows[from.index()][to.index()],
            Delay::Same(distribution) => {
                let arrival = sent + draw.from(distribution);
                if self.fifo { self.in_order(from, to, arrival) } else { arrival }
            }
        }
    }

    /// When `site` has processed a message that arrives now.
    pub(crate) fn taken_in(&mut self, now: Time, site: SiteId) -> Time {
        let free = &mut self.receiver_free[site.index()];
        *free = now.max(*free) + self.receive_cost;
        *free
    }

    /// Whether processing a message costs its receiver time.
    pub(crate) fn charges_receivers(&self) -> bool {
        self.receive_cost > Time::ZERO
    }

    fn after_sending(&mut self, now: Time, from: SiteId) -> Time {
        if self.send_cost == Time::ZERO {
            return now;
        }
        let free = &mut self.sender_free[from.index()];
        *free = now.max(*free) + self.send_cost;
        *free
    }

    /// Delays an arrival until the last one of the same pair; equal times keep the order of sending.
    fn in_order(&mut self, from: SiteId, to: SiteId, arrival: Time) -> Time {
        let last = self.last_arrival.get_or_default((from, to));
        *last = arrival.max(*last);
        *last
    }
}
