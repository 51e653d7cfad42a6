//! The messages in flight, channel by channel.

use std::collections::VecDeque;
use std::hash::{Hash, Hasher};

use crate::SiteId;
use crate::fence::Stamp;

/// A message in flight, with the host's stamp.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Packet<M> {
    /// What the algorithm sent.
    pub message: M,
    /// What the host added.
    pub stamp: Stamp,
    /// Whether its contents are gone already: it was meant for the receiver's incarnation before a failure, or it has
    /// arrived once and arrives again.
    pub spent: bool,
}

impl<M: Hash> Packet<M> {
    /// Hashes what the future depends on: not the stamp, which only serves to check fences.
    pub(super) fn hash_future(&self, state: &mut impl Hasher) {
        self.message.hash(state);
        self.spent.hash(state);
    }
}

/// The sender and the receiver of a channel.
pub(super) type Ends = (SiteId, SiteId);

/// The channels with a message in flight, in the order of their ends. A sorted list and not a map: there are few, and the
/// code for it is small, which is compiled once for each type of message.
#[derive(Clone, Debug)]
pub(super) struct Channels<M>(Vec<(Ends, VecDeque<Packet<M>>)>);

impl<M> Default for Channels<M> {
    fn default() -> Self {
        Channels(Vec::new())
    }
}

impl<M> Channels<M> {
    /// The position of a channel, or the position where it belongs.
    fn find(&self, ends: Ends) -> Result<usize, usize> {
        let at = self.0.partition_point(|(other, _)| *other < ends);
        if self.0.get(at).is_some_and(|(other, _)| *other == ends) { Ok(at) } else { Err(at) }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Whether a message is in flight from the one to the other.
    pub(super) fn contains(&self, from: SiteId, to: SiteId) -> bool {
        self.find((from, to)).is_ok()
    }

    /// The first channel with a message in flight.
    pub(super) fn first(&self) -> Option<Ends> {
        self.0.first().map(|(ends, _)| *ends)
    }

    /// The messages from the one to the other, oldest first.
    pub(super) fn between(&self, from: SiteId, to: SiteId) -> impl Iterator<Item = &Packet<M>> {
        self.find((from, to)).ok().into_iter().flat_map(|at| &self.0[at].1)
    }

    /// All channels and their messages, oldest first.
    pub(super) fn iter(&self) -> impl Iterator<Item = (Ends, &VecDeque<Packet<M>>)> {
        self.0.iter().map(|(ends, packets)| (*ends, packets))
    }

    /// All messages to `site`.
    pub(super) fn to_mut(&mut self, site: SiteId) -> impl Iterator<Item = &mut Packet<M>> {
        self.0.iter_mut().filter(move |((_, to), _)| *to == site).flat_map(|(_, packets)| packets)
    }

    pub(super) fn push(&mut self, from: SiteId, to: SiteId, packet: Packet<M>) {
        let at = match self.find((from, to)) {
            Ok(at) => at,
            Err(at) => {
                self.0.insert(at, ((from, to), VecDeque::new()));
                at
            }
        };
        self.0[at].1.push_back(packet);
    }

    /// The message with `nth` older ones before it.
    pub(super) fn get_mut(&mut self, from: SiteId, to: SiteId, nth: usize) -> Option<&mut Packet<M>> {
        let at = self.find((from, to)).ok()?;
        self.0[at].1.get_mut(nth)
    }

    /// Takes out the message with `nth` older ones before it.
    pub(super) fn take(&mut self, from: SiteId, to: SiteId, nth: usize) -> Option<Packet<M>> {
        let at = self.find((from, to)).ok()?;
        let packet = self.0[at].1.remove(nth);
        if self.0[at].1.is_empty() {
            self.0.remove(at);
        }
        packet
    }

    /// Drops the channels that `is_kept` does not accept.
    pub(super) fn retain(&mut self, is_kept: impl Fn(Ends) -> bool) {
        self.0.retain(|(ends, _)| is_kept(*ends));
    }
}
