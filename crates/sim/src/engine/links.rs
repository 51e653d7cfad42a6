//! Links that are cut: what is sent over one waits in its sender's transport and goes out, in its order, when it is mended.
//!
//! Channels stay reliable, as the papers assume them, so no algorithm is told. What waits does not outlive its sender, nor
//! the connection to a receiver that fails or is split away.

use std::collections::BTreeMap;

use meshlock_protocol::{Algorithm, Message, SiteId, SiteSet};

use super::{Event, Packet, Simulation};
use crate::faults::{Fault, Link};
use crate::time::Time;
use crate::trace::Trace;
use crate::violation::Violation;

/// A message that waits for its link.
#[derive(Clone, Debug)]
struct Held<M> {
    from: SiteId,
    to: SiteId,
    packet: Packet<M>,
}

/// The links that are cut, and what waits for each.
#[derive(Clone, Debug)]
pub(super) struct Links<M>(BTreeMap<Link, Vec<Held<M>>>);

impl<M> Default for Links<M> {
    fn default() -> Self {
        Links(BTreeMap::new())
    }
}

impl<M: Message> Links<M> {
    /// Keeps the packet if its link is cut, or gives it back.
    pub(super) fn hold(&mut self, from: SiteId, to: SiteId, packet: Packet<M>) -> Option<Packet<M>> {
        // Next to always no link is cut, and a message pays nothing but this.
        if self.0.is_empty() {
            return Some(packet);
        }
        let waiting = Link::between(from, to).and_then(|link| self.0.get_mut(&link));
        let Some(waiting) = waiting else { return Some(packet) };
        waiting.push(Held { from, to, packet });
        None
    }

    /// Forgets what waits for the links that `broken` names by their ends; how many tokens were in it.
    pub(super) fn drop_between(&mut self, broken: impl Fn([SiteId; 2]) -> bool) -> usize {
        let lost = self.0.iter_mut().filter(|(link, _)| broken(link.ends()));
        lost.flat_map(|(_, waiting)| waiting.drain(..)).map(|held| held.packet.message.tokens()).sum()
    }
}

impl<A: Algorithm, T: Trace> Simulation<'_, A, T> {
    pub(super) fn cut(&mut self, link: Link) {
        self.links.0.entry(link).or_default();
    }

    pub(super) fn mend(&mut self, link: Link) {
        // Like a cut it is no sign of messages that go on and on.
        self.last_entry += 1;
        for Held { from, to, packet } in self.links.0.remove(&link).unwrap_or_default() {
            self.put_on_the_way(from, to, packet);
        }
    }

    pub(super) fn schedule_drawn_cut(&mut self) {
        if let Some(cuts) = self.settings.faults.cuts
            && self.open
            && self.sites.len() > 1
        {
            let pause = self.draw_pause(cuts.mean_time_between);
            self.queue.push(self.now + pause, Event::DrawCut);
        }
    }

    /// A random link is cut and mended later, if it is not cut already.
    pub(super) fn draw_cut(&mut self) {
        let Some(cuts) = self.settings.faults.cuts.filter(|_| self.open) else { return };
        self.last_entry += 1;
        let one = self.draw.below(self.sites.len());
        // Any of the others, each as likely.
        let other = (one + 1 + self.draw.below(self.sites.len() - 1)) % self.sites.len();
        let link = Link::between(SiteId::new(one), SiteId::new(other)).expect("they differ");
        if !self.links.0.contains_key(&link) {
            let outage = self.draw_pause(cuts.mean_time_to_repair);
            self.queue.push(self.now + outage, Event::Fault(Fault::Mend(link)));
            self.cut(link);
        }
        self.schedule_drawn_cut();
    }

    pub(super) fn schedule_drawn_split(&mut self) {
        if let Some(splits) = self.settings.faults.splits
            && self.open
            && self.sites.len() > 1
        {
            let pause = self.draw_pause(splits.mean_time_between);
            self.queue.push(self.now + pause, Event::DrawSplit);
        }
    }

    /// The network splits at random and heals later; one split at a time.
    pub(super) fn draw_split(&mut self) -> Result<(), Violation> {
        let Some(splits) = self.settings.faults.splits.filter(|_| self.open) else { return Ok(()) };
        if self.faults.is_whole() {
            let outage = self.draw_pause(splits.mean_time_to_repair);
            self.repair_later(outage, Fault::Heal);
            let away = self.draw_side();
            self.fault(Fault::Split(away))?;
        }
        self.schedule_drawn_split();
        Ok(())
    }

    /// Some of the sites, neither none nor all: each number of them is as likely, and each choice of so many.
    fn draw_side(&mut self) -> SiteSet {
        let mut sites: Vec<SiteId> = SiteId::all(self.sites.len()).collect();
        let count = 1 + self.draw.below(sites.len() - 1);
        for place in 0..count {
            let other = place + self.draw.below(sites.len() - place);
            sites.swap(place, other);
        }
        sites[..count].iter().copied().collect()
    }

    /// An exponential time that is never nothing: however often things break, time goes on.
    pub(super) fn draw_pause(&mut self, mean: f64) -> Time {
        Time::units(self.draw.exponential(mean)).max(Time::from_ticks(1))
    }
}
