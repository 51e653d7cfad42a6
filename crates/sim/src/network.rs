//! The network: the sender's cost, the transmission and the receiver's cost of a message, and whether order is kept.
//!
//! After Bulgannawar and Vaidya, section 4: a sender pays `T_s` for each copy, one after the other; transmission takes
//! `T_t`; the receiver pays `T_r` for each message, one after the other. A site is one processor, which does not send and
//! receive at once, unless the settings say otherwise. With both costs zero it is Singhal's model.

use meshlock_protocol::{LookupMap, SiteId};

use crate::draw::{Distribution, Draw};
use crate::settings::{Settings, SiteProcessor};
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
    processor: SiteProcessor,
    /// By site: when it has finished sending what it was given to send; with one processor, also receiving.
    sender_free: Vec<Time>,
    /// By site: when it has finished processing what has arrived; unused with one processor.
    receiver_free: Vec<Time>,
    /// By ordered pair of sites: when the last message arrives. Looked up, never iterated.
    last_arrival: LookupMap<(SiteId, SiteId), Time>,
}

impl Network {
    /// A quiet network with the delays and costs of `settings`.
    pub fn new(settings: &Settings) -> Self {
        let sites = settings.cluster.sites;
        Network {
            delay: settings.delay.clone(),
            send_cost: settings.send_cost,
            receive_cost: settings.receive_cost,
            fifo: settings.fifo,
            processor: settings.processor,
            sender_free: vec![Time::ZERO; sites],
            receiver_free: vec![Time::ZERO; sites],
            last_arrival: LookupMap::default(),
        }
    }

    /// When a message that `from` sends to `to` now arrives.
    #[inline]
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

    /// When `site` has received a message that it begins to receive as soon as it can.
    pub(crate) fn received_at(&mut self, now: Time, site: SiteId) -> Time {
        let free = match self.processor {
            SiteProcessor::Shared => &mut self.sender_free[site.index()],
            SiteProcessor::Separate => &mut self.receiver_free[site.index()],
        };
        *free = now.max(*free) + self.receive_cost;
        *free
    }

    /// The time that every message takes, if it is the same for all, and none has to wait before it is sent or handled.
    pub(crate) fn uniform_delay(&self) -> Option<Time> {
        match self.delay {
            Delay::Same(Distribution::Constant(delay))
                if self.send_cost == Time::ZERO && !self.queues_at_receivers() =>
            {
                Some(delay)
            }
            Delay::Same(_) | Delay::Matrix(_) => None,
        }
    }

    /// Whether a message may have to wait at its receiver.
    pub(crate) fn queues_at_receivers(&self) -> bool {
        let sends = self.processor == SiteProcessor::Shared && self.send_cost > Time::ZERO;
        sends || self.receive_cost > Time::ZERO
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

#[cfg(test)]
mod tests {
    use meshlock_protocol::Cluster;

    use super::*;

    /// A site sends three copies of 0.1 each from time 0 on; a message reaches it at 0.1. When has it received that?
    fn received(processor: SiteProcessor) -> f64 {
        let mut settings = Settings::new(Cluster::of(4));
        (settings.send_cost, settings.receive_cost) = (Time::units(0.1), Time::units(0.1));
        settings.processor = processor;
        let (mut network, mut draw) = (Network::new(&settings), Draw::new(1));
        let [me, others @ ..] = SiteId::first::<4>();
        for to in others {
            network.arrival(Time::ZERO, me, to, &mut draw);
        }
        network.received_at(Time::units(0.1), me).as_units()
    }

    #[test]
    fn one_processor_does_not_receive_while_it_sends() {
        assert!((received(SiteProcessor::Shared) - 0.4).abs() < 1e-9);
        assert!((received(SiteProcessor::Separate) - 0.2).abs() < 1e-9);
    }
}
