//! Everything that can happen next, as values: what random schedules draw from and the checker goes through.

use std::hash::{BuildHasher, Hash, Hasher};

use crate::{Algorithm, Effect, SiteId};

use super::World;

/// What the network may do with messages between two sites.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Delivery {
    /// Deliver them in the order in which they were sent.
    Fifo,
    /// Deliver them in any order.
    Unordered,
}

/// One thing that can happen.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Action {
    /// The process of the site asks to enter.
    Request(SiteId),
    /// The process of the site leaves.
    Release(SiteId),
    /// The process of the site leaves and asks again in the same step.
    Return(SiteId),
    /// A message arrives.
    Deliver {
        /// From here.
        from: SiteId,
        /// To there.
        to: SiteId,
        /// With so many older ones still on their way.
        nth: usize,
    },
    /// A message arrives, and will arrive again.
    Duplicate {
        /// From here.
        from: SiteId,
        /// To there.
        to: SiteId,
        /// With so many older ones still on their way.
        nth: usize,
    },
    /// A message is lost.
    Lose {
        /// From here.
        from: SiteId,
        /// To there.
        to: SiteId,
        /// With so many older ones still on their way.
        nth: usize,
    },
    /// A timer of the site runs out.
    Wake(SiteId),
    /// A site learns that another failed, or recovered.
    Tell {
        /// Who learns it.
        to: SiteId,
        /// About whom.
        about: SiteId,
    },
}

impl<A: Algorithm> World<A> {
    /// What can happen now without anyone's will: messages arrive, timers run out, news of failures spreads.
    pub fn deliveries(&self, delivery: Delivery) -> impl Iterator<Item = Action> {
        let arrivals = self.channels.iter().flat_map(move |(&(from, to), packets)| {
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

    /// Which processes could ask now.
    pub fn requests(&self) -> impl Iterator<Item = Action> {
        SiteId::all(self.cluster.sites).filter(|&site| self.is_idle(site)).map(Action::Request)
    }

    /// Which processes could leave now.
    pub fn releases(&self) -> impl Iterator<Item = Action> {
        self.inside.iter().map(Action::Release)
    }

    /// Which processes could leave now and want in again at once.
    pub fn returns(&self) -> impl Iterator<Item = Action> {
        self.inside.iter().map(Action::Return)
    }

    /// Lets `action` happen.
    pub fn apply(&mut self, action: Action) -> Vec<Effect<A::Message>> {
        match action {
            Action::Request(site) => self.request(site),
            Action::Release(site) => self.release(site),
            Action::Return(site) => self.release_and_request(site),
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

    /// A hash of what the future depends on: the sites, the messages on their way, what the processes do and what has
    /// failed; not what has been counted so far. Messages of one channel count in their order only if the network
    /// keeps it.
    pub fn hash_future(&self, delivery: Delivery, hasher: &impl BuildHasher) -> u64 {
        let mut state = hasher.build_hasher();
        self.sites.hash(&mut state);
        self.inside.hash(&mut state);
        self.timers.hash(&mut state);
        self.faults.hash(&mut state);
        for asked in &self.asked {
            asked.is_some().hash(&mut state);
        }
        for (ends, packets) in &self.channels {
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
