//! Links that are cut: what is sent over one waits in its sender's transport and goes out, in its order, when it is mended.
//!
//! Channels stay reliable, as the papers assume them, so no algorithm is told. What waits does not outlive its sender, nor
//! the connection to a receiver that fails or is split away.

use meshlock_protocol::{Algorithm, Message, SiteId, SiteSet};

use super::core::{Core, HostEvent, Schedule};
use super::observer::RunObserver;
use super::{Checked, Envelope, Simulation};
use crate::faults::{FaultEvent, Link};
use crate::time::Time;

/// The messages that wait for their links, in the order of sending.
#[derive(Clone, Debug)]
pub(super) struct HeldMessages<M>(Vec<(SiteId, SiteId, Envelope<M>)>);

impl<M> Default for HeldMessages<M> {
    fn default() -> Self {
        HeldMessages(Vec::new())
    }
}

impl<M: Message> HeldMessages<M> {
    pub(super) fn push(&mut self, from: SiteId, to: SiteId, packet: Envelope<M>) {
        self.0.push((from, to, packet));
    }

    /// Forgets what waits for the links that `is_broken` accepts, given their ends. Returns how many tokens are lost.
    pub(super) fn drop_between(&mut self, is_broken: &dyn Fn([SiteId; 2]) -> bool) -> usize {
        let mut tokens = 0;
        self.0.retain(|(from, to, packet)| {
            let is_lost = is_broken([*from, *to]);
            tokens += if is_lost { packet.message.tokens() } else { 0 };
            !is_lost
        });
        tokens
    }

    /// Takes out what waits for `link`.
    fn take(&mut self, link: Link) -> Vec<(SiteId, SiteId, Envelope<M>)> {
        let of_link = |from: SiteId, to: SiteId| Link::between(from, to) == Some(link);
        self.0.extract_if(.., |(from, to, _)| of_link(*from, *to)).collect()
    }
}

impl<A: Algorithm, W: RunObserver<A>> Simulation<'_, A, W> {
    /// Mends `link` and sends what has waited for it.
    pub(super) fn mend(&mut self, link: Link) {
        self.core.mend(link);
        for (from, to, packet) in self.held.take(link) {
            self.transmit(from, to, packet);
        }
    }

    /// Splits the network at random, if it is whole, and schedules its repair.
    pub(super) fn draw_split(&mut self) -> Checked {
        let Some(splits) = self.core.settings.faults.splits.filter(|_| self.core.open) else { return Ok(()) };
        if self.core.faults.is_whole() {
            let outage = self.core.draw_pause(splits.mean_time_to_repair);
            self.core.repair_later(outage, FaultEvent::Heal, &mut self.agenda);
            let away = self.core.draw_side();
            self.fault(FaultEvent::Split(away))?;
        }
        self.core.schedule_drawn_split(&mut self.agenda);
        Ok(())
    }
}

impl Core<'_> {
    /// Whether the link between the two sites is cut.
    pub(super) fn is_cut(&self, from: SiteId, to: SiteId) -> bool {
        // Almost always no link is cut, and a message pays nothing but this.
        !self.cut.is_empty() && Link::between(from, to).is_some_and(|link| self.cut.contains(&link))
    }

    fn mend(&mut self, link: Link) {
        // As with a cut, this event is no sign of messages that go on without an entry.
        self.last_entry += 1;
        self.cut.remove(&link);
    }

    pub(super) fn schedule_drawn_cut(&mut self, queue: &mut dyn Schedule) {
        if let Some(cuts) = self.settings.faults.cuts
            && self.open
            && self.hosts.len() > 1
        {
            let pause = self.draw_pause(cuts.mean_time_between);
            queue.at(self.now + pause, HostEvent::DrawCut);
        }
    }

    /// Cuts a random link, if it is not cut already, and schedules its repair.
    pub(super) fn draw_cut(&mut self, queue: &mut dyn Schedule) {
        let Some(cuts) = self.settings.faults.cuts.filter(|_| self.open) else { return };
        self.last_entry += 1;
        let one = self.draw.below(self.hosts.len());
        // Any of the others, each as likely.
        let other = (one + 1 + self.draw.below(self.hosts.len() - 1)) % self.hosts.len();
        let link = Link::between(SiteId::new(one), SiteId::new(other)).expect("they differ");
        if !self.cut.contains(&link) {
            let outage = self.draw_pause(cuts.mean_time_to_repair);
            queue.at(self.now + outage, HostEvent::Fault(FaultEvent::Mend(link)));
            self.cut.insert(link);
        }
        self.schedule_drawn_cut(queue);
    }

    pub(super) fn schedule_drawn_split(&mut self, queue: &mut dyn Schedule) {
        if let Some(splits) = self.settings.faults.splits
            && self.open
            && self.hosts.len() > 1
        {
            let pause = self.draw_pause(splits.mean_time_between);
            queue.at(self.now + pause, HostEvent::DrawSplit);
        }
    }

    /// Draws one side of a split, neither nobody nor everybody: each size is as likely, and each choice of that size.
    fn draw_side(&mut self) -> SiteSet {
        let mut sites: Vec<SiteId> = SiteId::all(self.hosts.len()).collect();
        let count = 1 + self.draw.below(sites.len() - 1);
        for place in 0..count {
            let other = place + self.draw.below(sites.len() - place);
            sites.swap(place, other);
        }
        sites[..count].iter().copied().collect()
    }

    /// Draws an exponential time that is never zero: however often things break, time goes on.
    pub(super) fn draw_pause(&mut self, mean: f64) -> Time {
        Time::units(self.draw.exponential(mean)).max(Time::from_ticks(1))
    }
}
