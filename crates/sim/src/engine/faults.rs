//! Failures inside a run: who is down, what is cut off, who knows.

use meshlock_protocol::{Algorithm, Info, LookupMap, Outbox, SiteId, SiteSet};

use super::core::{Core, HostEvent, ProcessState, Schedule};
use super::observer::RunObserver;
use super::{Checked, Simulation};
use crate::faults::{FaultEvent, FaultPlan};
use crate::time::Time;
use crate::trace::TraceKind;
use crate::violation::Stopped;

/// The sender's incarnation and the cut when a message was sent: they decide whether it still arrives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct PacketOrigin {
    incarnation: u32,
    /// The cut between the two sites when the message was sent.
    cut: u64,
}

/// What has failed.
#[derive(Clone, Debug)]
pub(super) struct FaultState {
    /// One side of a split network; empty while it is whole.
    away: SiteSet,
    splits: u64,
    /// For each site a number; the difference between those of two sites changes with every split between them.
    cuts: Vec<u64>,
    /// The last incarnation of a peer that a site knows to be over.
    over: LookupMap<(SiteId, SiteId), u32>,
    down: SiteSet,
    /// Whether nothing has failed yet, so that no message can be lost.
    unhurt: bool,
    /// The number of repairs, of what failed at random, that are still to come.
    pub(super) repairs: usize,
}

impl FaultState {
    pub(super) fn new(sites: usize) -> Self {
        FaultState {
            away: SiteSet::new(),
            splits: 0,
            cuts: vec![0; sites],
            over: LookupMap::default(),
            down: SiteSet::new(),
            unhurt: true,
            repairs: 0,
        }
    }

    /// Whether nothing has failed yet, so that no message can be lost.
    #[inline]
    pub(super) fn is_unhurt(&self) -> bool {
        self.unhurt
    }

    /// The origin of a message that is sent now; `None` if the network is split between the two sites.
    #[inline]
    pub(super) fn origin(&self, from: SiteId, to: SiteId, incarnation: u32) -> Option<PacketOrigin> {
        if self.unhurt {
            return Some(PacketOrigin { incarnation, cut: 0 });
        }
        let apart = !self.away.is_empty() && self.away.contains(from) != self.away.contains(to);
        (!apart).then(|| PacketOrigin { incarnation, cut: self.cut(from, to) })
    }

    /// Whether a message with this origin cannot arrive any more: the network was split between the two sites since, or the
    /// receiver knows already that the sender's incarnation is over.
    #[inline]
    pub(super) fn is_lost(&self, from: SiteId, to: SiteId, origin: PacketOrigin) -> bool {
        !self.unhurt && self.has_lost(from, to, origin)
    }

    #[cold]
    fn has_lost(&self, from: SiteId, to: SiteId, origin: PacketOrigin) -> bool {
        origin.cut != self.cut(from, to)
            || self.over.get(&(to, from)).is_some_and(|&over| over >= origin.incarnation)
    }

    /// Whether the network is in one piece.
    pub(super) fn is_whole(&self) -> bool {
        self.away.is_empty()
    }

    fn cut(&self, from: SiteId, to: SiteId) -> u64 {
        self.cuts[from.index()] ^ self.cuts[to.index()]
    }

    fn split(&mut self, away: SiteSet) {
        self.unhurt = false;
        self.splits += 1;
        // Odd multiples of a large odd constant: no few of them cancel each other out.
        let mark = (2 * self.splits + 1).wrapping_mul(0x9E37_79B9_7F4A_7C15);
        for site in away.iter() {
            self.cuts[site.index()] ^= mark;
        }
        self.away = away;
    }
}

/// Refuses faults that the algorithm leaves to its host, or that no algorithm can handle.
pub(super) fn can_handle(info: &Info, plan: &FaultPlan) -> Result<(), Stopped> {
    let handles = info.failures;
    let unhandled = |fault: &FaultEvent| match fault {
        FaultEvent::Fail(_) => !handles.crash && !handles.recovery,
        FaultEvent::Recover(_) => !handles.recovery,
        FaultEvent::Split(_) | FaultEvent::Heal => !handles.partition,
        FaultEvent::Cut(_) | FaultEvent::Mend(_) => false,
    };
    if let Some(link) = plan.never_mended() {
        return Err(Stopped::NeverMended { link });
    }
    let named = plan.at.iter().any(|(_, fault)| unhandled(fault));
    let drawn = plan.drawn.is_some() && !handles.recovery;
    let split = plan.splits.is_some() && !handles.partition;
    if named || drawn || split {
        return Err(Stopped::CannotFail { algorithm: info.name });
    }
    Ok(())
}

impl<A: Algorithm, W: RunObserver<A>> Simulation<'_, A, W> {
    /// Lets a random site fail, and schedules its recovery; one at a time, as the papers assume.
    pub(super) fn draw_fault(&mut self) -> Checked {
        if let Some(site) = self.core.draw_failure(&mut self.agenda) {
            self.fault(FaultEvent::Fail(site))?;
        }
        self.core.schedule_drawn_fault(&mut self.agenda);
        Ok(())
    }

    pub(super) fn fault(&mut self, fault: FaultEvent) -> Checked {
        match fault {
            FaultEvent::Fail(site) => self.fail(site),
            FaultEvent::Recover(site) => return self.recover(site),
            FaultEvent::Split(away) => return self.split(away),
            FaultEvent::Heal => return self.heal(),
            FaultEvent::Cut(link) => {
                self.core.cut.insert(link);
            }
            FaultEvent::Mend(link) => self.mend(link),
        }
        Ok(())
    }

    fn fail(&mut self, site: SiteId) {
        if !self.core.fail(site) {
            return;
        }
        self.core.remove_tokens(|| self.sites[site.index()].tokens());
        let lost = self.held.drop_between(&|ends| ends.contains(&site));
        self.core.remove_tokens(|| lost);
        self.note(TraceKind::Fail, site, None, None);
        self.core.spread(site, false, &mut self.agenda);
    }

    fn recover(&mut self, site: SiteId) -> Checked {
        if !self.core.recover(site) {
            return Ok(());
        }
        // Sent to its former incarnation by someone who did not know yet, and still waiting.
        let lost = self.held.drop_between(&|ends| ends.contains(&site));
        self.core.remove_tokens(|| lost);
        // What the site held when it failed was taken out of the count then; `step` takes out what is there now.
        self.core.add_tokens(|| self.sites[site.index()].tokens());
        self.cause(TraceKind::Recover, site, None, None);
        self.step(site, |machine, out| machine.restart(out))?;
        self.core.spread(site, true, &mut self.agenda);
        self.core.next_arrival(site, &mut self.agenda);
        Ok(())
    }

    /// Tells `to` that `about` runs again or has failed, if that is still so and `to` runs.
    pub(super) fn tell(&mut self, to: SiteId, about: SiteId, up: bool) -> Checked {
        if !self.core.learn(to, about, up) {
            return Ok(());
        }
        if up {
            self.step(to, |machine, out| machine.peer_recovered(about, out))
        } else {
            self.step(to, |machine, out| machine.peer_failed(about, out))
        }
    }

    fn split(&mut self, away: SiteSet) -> Checked {
        let is_cut = |[one, other]: [SiteId; 2]| away.contains(one) != away.contains(other);
        let lost = self.held.drop_between(&is_cut);
        self.core.remove_tokens(|| lost);
        self.core.faults.split(away.clone());
        self.tell_sides(&away, A::partitioned)
    }

    fn heal(&mut self) -> Checked {
        let away = std::mem::take(&mut self.core.faults.away);
        if away.is_empty() {
            return Ok(());
        }
        self.tell_sides(&away, A::reunited)
    }

    /// Tells every site that runs which sites are on the other side.
    fn tell_sides(&mut self, away: &SiteSet, call: fn(&mut A, &SiteSet, &mut Outbox<A::Message>)) -> Checked {
        let mut home = SiteSet::all(self.sites.len());
        home.subtract(away);
        for site in SiteId::all(self.sites.len()) {
            if !self.core.faults.down.contains(site) {
                let others = if away.contains(site) { &home } else { away };
                self.step(site, |machine, out| call(machine, others, out))?;
            }
        }
        Ok(())
    }

    /// Whether someone waits who can still be served.
    pub(super) fn does_anyone_wait(&self) -> bool {
        let faults = &self.core.faults;
        let unhurt = faults.down.is_empty() && faults.away.is_empty();
        if unhurt || faults.repairs > 0 {
            return self.core.waiting > 0;
        }
        let can_be_served =
            |site: SiteId| self.core.is_waiting(site) && self.sites[site.index()].survives(&faults.down);
        faults.away.is_empty() && SiteId::all(self.sites.len()).any(can_be_served)
    }
}

impl Core<'_> {
    pub(super) fn schedule_faults(&mut self, queue: &mut dyn Schedule) {
        for (time, fault) in &self.settings.faults.at {
            queue.at(*time, HostEvent::Fault(fault.clone()));
        }
        self.schedule_drawn_fault(queue);
        self.schedule_drawn_split(queue);
        self.schedule_drawn_cut(queue);
    }

    fn schedule_drawn_fault(&mut self, queue: &mut dyn Schedule) {
        if let Some(drawn) = self.settings.faults.drawn
            && self.open
        {
            let mean = drawn.mean_time_to_failure / self.hosts.len() as f64;
            let pause = self.draw_pause(mean);
            queue.at(self.now + pause, HostEvent::DrawFault);
        }
    }

    /// Draws a site that fails now, if none is down, and schedules its recovery.
    fn draw_failure(&mut self, queue: &mut dyn Schedule) -> Option<SiteId> {
        let drawn = self.settings.faults.drawn?;
        if !self.faults.down.is_empty() || !self.open {
            return None;
        }
        let site = SiteId::new(self.draw.below(self.hosts.len()));
        let outage = Time::units(self.draw.exponential(drawn.mean_time_to_recovery));
        let known = self.settings.faults.detection + Time::from_ticks(1);
        self.repair_later(outage.max(known), FaultEvent::Recover(site), queue);
        Some(site)
    }

    pub(super) fn repair_later(&mut self, outage: Time, fault: FaultEvent, queue: &mut dyn Schedule) {
        self.faults.repairs += 1;
        queue.at(self.now + outage, HostEvent::Repair(fault));
    }

    /// The host of `site` fails. Returns whether it ran.
    fn fail(&mut self, site: SiteId) -> bool {
        let host = &mut self.hosts[site.index()];
        if !host.up {
            return false;
        }
        self.faults.unhurt = false;
        host.up = false;
        host.incarnation += 1;
        match std::mem::replace(&mut host.process, ProcessState::Idle) {
            ProcessState::Idle => {}
            ProcessState::Waiting { request, .. } => {
                self.waiting -= 1;
                self.metrics.fairness.gone(request);
            }
            ProcessState::Inside { .. } => self.end_inside(site),
        }
        self.faults.down.insert(site);
        true
    }

    /// The host of `site` runs again. Returns whether it was down.
    fn recover(&mut self, site: SiteId) -> bool {
        let host = &mut self.hosts[site.index()];
        let was_down = !host.up;
        host.up = true;
        self.faults.down.remove(site);
        was_down
    }

    /// Schedules that every other site learns of a failure or a recovery.
    fn spread(&mut self, about: SiteId, up: bool, queue: &mut dyn Schedule) {
        let at = self.now + self.settings.faults.detection;
        for to in SiteId::all(self.hosts.len()).filter(|&to| to != about) {
            queue.at(at, HostEvent::Tell { to, about, up });
        }
    }

    /// Whether `to` runs and the news about `about` is still true. Notes a failure that `to` learns of.
    fn learn(&mut self, to: SiteId, about: SiteId, up: bool) -> bool {
        let incarnation = self.hosts[about.index()].incarnation;
        if !self.hosts[to.index()].up || self.hosts[about.index()].up != up {
            return false;
        }
        if !up {
            self.faults.over.insert((to, about), incarnation - 1);
            // Certain knowledge of a failure comes with a new view, whose fences are above all of the old one.
            let last = self.hosts[about.index()].fence.stamp();
            self.hosts[to.index()].fence.observe(last).expect("this host's own stamps are in range");
        }
        true
    }

    fn is_waiting(&self, site: SiteId) -> bool {
        matches!(self.hosts[site.index()].process, ProcessState::Waiting { .. })
    }
}
