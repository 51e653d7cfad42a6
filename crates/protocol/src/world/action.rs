//! The actions that are possible next, as values: random schedules draw from them, and the checker tries them all.

use std::hash::{BuildHasher, Hash, Hasher};

use crate::{Algorithm, Demand, Effect, Mode, SiteId};

use super::World;

/// The order in which the network delivers the messages between two sites.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Delivery {
    /// In the order in which they were sent.
    Fifo,
    /// In any order.
    Unordered,
}

/// One action: something that can happen to the world.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Action {
    /// The process of the site requests.
    Request(SiteId),
    /// The process of the site leaves.
    Release(SiteId),
    /// The process of the site leaves and requests again in the same step.
    Return(SiteId),
    /// The process of the site requests, with a demand that is not plain.
    RequestAs(SiteId, Demand),
    /// The process of the site leaves and requests again in the same step, with a demand that is not plain.
    ReturnAs(SiteId, Demand),
    /// The process of the site, which is inside, begins to change its mode.
    ChangeMode(SiteId, Mode),
    /// A message arrives.
    Deliver {
        from: SiteId,
        to: SiteId,
        /// The number of older messages in the same channel that are still in flight.
        nth: usize,
    },
    /// A message arrives, and a copy of it will arrive again.
    Duplicate {
        from: SiteId,
        to: SiteId,
        /// The number of older messages in the same channel that are still in flight.
        nth: usize,
    },
    /// A message is lost.
    Lose {
        from: SiteId,
        to: SiteId,
        /// The number of older messages in the same channel that are still in flight.
        nth: usize,
    },
    /// A timer of the site runs out.
    Wake(SiteId),
    /// A site learns that another has failed or recovered.
    Tell {
        /// The site that learns it.
        to: SiteId,
        /// The site that has failed or recovered.
        about: SiteId,
    },
}

impl Action {
    /// The process of `site` requests.
    pub fn request(site: SiteId, demand: Demand) -> Action {
        if demand == Demand::PLAIN { Action::Request(site) } else { Action::RequestAs(site, demand) }
    }

    /// The process of `site` leaves and requests again in the same step.
    pub fn request_again(site: SiteId, demand: Demand) -> Action {
        if demand == Demand::PLAIN { Action::Return(site) } else { Action::ReturnAs(site, demand) }
    }
}

impl<A: Algorithm> World<A> {
    /// What can happen now by itself: messages arrive, timers run out, sites learn of failures.
    pub fn deliveries(&self, delivery: Delivery) -> impl Iterator<Item = Action> {
        let arrivals = self.channels.iter().flat_map(move |((from, to), packets)| {
            let reach = match delivery {
                Delivery::Fifo => 1,
                Delivery::Unordered => packets.len(),
            };
            (0..reach).map(move |nth| Action::Deliver { from, to, nth })
        });
        let timers =
            SiteId::all(self.cluster.sites).filter(|site| self.timers[site.index()] > 0).map(Action::Wake);
        let news = SiteId::all(self.cluster.sites).flat_map(move |about| {
            let to = SiteId::all(self.cluster.sites).filter(move |&to| self.can_tell(to, about));
            to.map(move |to| Action::Tell { to, about })
        });
        arrivals.chain(timers).chain(news)
    }

    /// The requests that are possible now.
    pub fn requests(&self) -> impl Iterator<Item = Action> {
        let idle = SiteId::all(self.cluster.sites).filter(|&site| self.is_idle(site));
        idle.flat_map(|site| self.demands().iter().map(move |&demand| Action::request(site, demand)))
    }

    /// The releases that are possible now.
    pub fn releases(&self) -> impl Iterator<Item = Action> {
        self.inside.iter().map(Action::Release)
    }

    /// The releases with a new request in the same step that are possible now.
    pub fn returns(&self) -> impl Iterator<Item = Action> {
        let inside = self.inside.iter();
        inside.flat_map(|site| self.demands().iter().map(move |&demand| Action::request_again(site, demand)))
    }

    /// Applies `action`.
    pub fn apply(&mut self, action: Action) -> Vec<Effect<A::Message>> {
        match action {
            Action::Request(site) => self.request(site),
            Action::Release(site) => self.release(site),
            Action::Return(site) => self.release_and_request(site),
            Action::RequestAs(site, demand) => self.request_as(site, demand),
            Action::ReturnAs(site, demand) => self.release_and_request_as(site, demand),
            Action::ChangeMode(site, to) => self.change_mode(site, to),
            Action::Deliver { from, to, nth } => self.deliver_nth(from, to, nth),
            Action::Duplicate { from, to, nth } => self.duplicate_nth(from, to, nth),
            Action::Lose { from, to, nth } => {
                self.lose_nth(from, to, nth);
                Vec::new()
            }
            Action::Wake(site) => self.wake(site),
            Action::Tell { to, about } => self.tell(to, about),
        }
    }

    /// Hashes what the future depends on: the sites, the messages in flight, what the processes do and what has
    /// failed, but not what has been counted so far. The order of the messages in a channel counts only if the network
    /// keeps it.
    pub fn hash_future(&self, delivery: Delivery, hasher: &impl BuildHasher) -> u64 {
        let mut state = hasher.build_hasher();
        self.sites.hash(&mut state);
        self.inside.hash(&mut state);
        for site in SiteId::all(self.cluster.sites).filter(|&site| !self.is_idle(site)) {
            (self.mode(site), self.is_upgrading(site)).hash(&mut state);
        }
        self.timers.hash(&mut state);
        self.faults.hash(&mut state);
        for asked in &self.asked {
            asked.is_some().hash(&mut state);
        }
        for (ends, packets) in self.channels.iter() {
            (ends, packets.len()).hash(&mut state);
            match delivery {
                Delivery::Fifo => packets.iter().for_each(|packet| packet.hash_future(&mut state)),
                Delivery::Unordered => {
                    let hashes = packets.iter().map(|packet| {
                        let mut state = hasher.build_hasher();
                        packet.hash_future(&mut state);
                        state.finish()
                    });
                    hashes.fold(0_u64, u64::wrapping_add).hash(&mut state);
                }
            }
        }
        state.finish()
    }
}
