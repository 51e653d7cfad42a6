//! Failures inside a run: who is down, what is cut off, who knows.

use meshlock_protocol::{Algorithm, Info, SiteId, SiteSet};
use rustc_hash::FxHashMap;

use super::{Event, Process, Simulation};
use crate::faults::{Fault, FaultPlan};
use crate::time::Time;
use crate::trace::{Kind, Trace};
use crate::violation::{Stopped, Violation};

/// What decides whether a message still arrives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Origin {
    life: u32,
    cut: u64,
}

/// What has failed.
#[derive(Clone, Debug)]
pub(super) struct State {
    /// One side of a split network; empty while it is whole.
    away: SiteSet,
    splits: u64,
    /// For each site a number that differs between two sites by something new with every split between them.
    cuts: Vec<u64>,
    /// The last life of a peer that a site knows to be over. Looked up, never iterated.
    over: FxHashMap<(SiteId, SiteId), u32>,
    down: SiteSet,
    /// How many repairs of what failed at random are still to come.
    repairs: usize,
}

impl State {
    pub(super) fn new(sites: usize) -> Self {
        State {
            away: SiteSet::new(),
            splits: 0,
            cuts: vec![0; sites],
            over: FxHashMap::default(),
            down: SiteSet::new(),
            repairs: 0,
        }
    }

    /// The origin of a message that is sent now, or nothing if the network is split between the two.
    pub(super) fn origin(&self, from: SiteId, to: SiteId, life: u32) -> Option<Origin> {
        let apart = !self.away.is_empty() && self.away.contains(from) != self.away.contains(to);
        (!apart).then(|| Origin { life, cut: self.cut(from, to) })
    }

    /// Whether a message from there cannot arrive here any more: the network was split between the two since, or the
    /// receiver knows already that the life it was sent in is over.
    pub(super) fn lost(&self, from: SiteId, to: SiteId, origin: Origin) -> bool {
        origin.cut != self.cut(from, to)
            || self.over.get(&(to, from)).is_some_and(|&life| life >= origin.life)
    }

    /// Whether the network is in one piece.
    pub(super) fn is_whole(&self) -> bool {
        self.away.is_empty()
    }

    fn cut(&self, from: SiteId, to: SiteId) -> u64 {
        self.cuts[from.index()] ^ self.cuts[to.index()]
    }

    fn split(&mut self, away: SiteSet) {
        self.splits += 1;
        // Odd multiples of a large odd constant: no few of them cancel each other out.
        let mark = (2 * self.splits + 1).wrapping_mul(0x9E37_79B9_7F4A_7C15);
        for site in away.iter() {
            self.cuts[site.index()] ^= mark;
        }
        self.away = away;
    }
}

/// Refuses a plan of failures that the algorithm leaves to its host, or that no algorithm can live with.
pub(super) fn can_handle(info: &Info, plan: &FaultPlan) -> Result<(), Stopped> {
    let handles = info.failures;
    let unhandled = |fault: &Fault| match fault {
        Fault::Fail(_) => !handles.crash && !handles.recovery,
        Fault::Recover(_) => !handles.recovery,
        Fault::Split(_) | Fault::Heal => !handles.partition,
        Fault::Cut(_) | Fault::Mend(_) => false,
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

impl<A: Algorithm, T: Trace> Simulation<'_, A, T> {
    pub(super) fn schedule_faults(&mut self) {
        for (time, fault) in &self.settings.faults.at {
            self.queue.push(*time, Event::Fault(fault.clone()));
        }
        self.schedule_drawn_fault();
        self.schedule_drawn_split();
        self.schedule_drawn_cut();
    }

    fn schedule_drawn_fault(&mut self) {
        if let Some(drawn) = self.settings.faults.drawn
            && self.open
        {
            let mean = drawn.mean_time_to_failure / self.sites.len() as f64;
            let pause = self.draw_pause(mean);
            self.queue.push(self.now + pause, Event::DrawFault);
        }
    }

    /// A random site fails and comes back later; one at a time, as the papers assume.
    pub(super) fn draw_fault(&mut self) -> Result<(), Violation> {
        let Some(drawn) = self.settings.faults.drawn else { return Ok(()) };
        if self.faults.down.is_empty() && self.open {
            let site = SiteId::new(self.draw.below(self.sites.len()));
            let outage = Time::units(self.draw.exponential(drawn.mean_time_to_recovery));
            let known = self.settings.faults.detection + Time::from_ticks(1);
            self.repair_later(outage.max(known), Fault::Recover(site));
            self.fault(Fault::Fail(site))?;
        }
        self.schedule_drawn_fault();
        Ok(())
    }

    pub(super) fn repair_later(&mut self, outage: Time, fault: Fault) {
        self.faults.repairs += 1;
        self.queue.push(self.now + outage, Event::Repair(fault));
    }

    pub(super) fn repair(&mut self, fault: Fault) -> Result<(), Violation> {
        self.faults.repairs -= 1;
        self.fault(fault)
    }

    pub(super) fn fault(&mut self, fault: Fault) -> Result<(), Violation> {
        match fault {
            Fault::Fail(site) => self.fail(site),
            Fault::Recover(site) => return self.recover(site),
            Fault::Split(away) => return self.split(away),
            Fault::Heal => return self.heal(),
            Fault::Cut(link) => self.cut(link),
            Fault::Mend(link) => self.mend(link),
        }
        Ok(())
    }

    fn fail(&mut self, site: SiteId) {
        let host = &mut self.hosts[site.index()];
        if !host.up {
            return;
        }
        host.up = false;
        host.life += 1;
        match std::mem::replace(&mut host.process, Process::Idle) {
            Process::Idle => {}
            Process::Waiting { request, .. } => {
                self.waiting -= 1;
                self.metrics.fairness.gone(request);
            }
            Process::Inside { .. } => self.inside -= 1,
        }
        self.tokens -= self.sites[site.index()].tokens();
        self.tokens -= self.links.drop_between(|ends| ends.contains(&site));
        self.faults.down.insert(site);
        self.note(Kind::Fail, site, None, None);
        self.spread(site, false);
    }

    fn recover(&mut self, site: SiteId) -> Result<(), Violation> {
        let host = &mut self.hosts[site.index()];
        if host.up {
            return Ok(());
        }
        host.up = true;
        self.faults.down.remove(site);
        // Sent to its former life by someone who did not know yet, and still waiting.
        self.tokens -= self.links.drop_between(|ends| ends.contains(&site));
        // What the site held when it failed was taken out of the count then; `step` takes out what is there now.
        self.tokens += self.sites[site.index()].tokens();
        self.cause(Kind::Recover, site, None, None);
        self.step(site, |machine, out| machine.restart(out))?;
        self.spread(site, true);
        self.next_arrival(site);
        Ok(())
    }

    /// Everyone who runs will know of it after the detection delay.
    fn spread(&mut self, about: SiteId, up: bool) {
        let at = self.now + self.settings.faults.detection;
        for to in SiteId::all(self.sites.len()).filter(|&to| to != about) {
            self.queue.push(at, Event::Tell { to, about, up });
        }
    }

    pub(super) fn tell(&mut self, to: SiteId, about: SiteId, up: bool) -> Result<(), Violation> {
        let life = self.hosts[about.index()].life;
        // News that is no longer true, or reaches nobody.
        if !self.hosts[to.index()].up || self.hosts[about.index()].up != up {
            return Ok(());
        }
        if up {
            return self.step(to, |machine, out| machine.peer_recovered(about, out));
        }
        self.faults.over.insert((to, about), life - 1);
        // Certain knowledge of a failure comes with a new view, whose fences are above all of the old one.
        let last = self.hosts[about.index()].fence.stamp();
        self.hosts[to.index()].fence.observe(last).expect("this host's own stamps are in range");
        self.step(to, |machine, out| machine.peer_failed(about, out))
    }

    fn split(&mut self, away: SiteSet) -> Result<(), Violation> {
        self.tokens -= self.links.drop_between(|[one, other]| away.contains(one) != away.contains(other));
        self.faults.split(away.clone());
        self.tell_sides(&away, |machine, others, out| machine.partitioned(others, out))
    }

    fn heal(&mut self) -> Result<(), Violation> {
        let away = std::mem::take(&mut self.faults.away);
        if away.is_empty() {
            return Ok(());
        }
        self.tell_sides(&away, |machine, others, out| machine.reunited(others, out))
    }

    fn tell_sides(
        &mut self,
        away: &SiteSet,
        call: impl Fn(&mut A, &SiteSet, &mut meshlock_protocol::Outbox<A::Message>),
    ) -> Result<(), Violation> {
        let mut home = SiteSet::all(self.sites.len());
        home.subtract(away);
        for site in
            SiteId::all(self.sites.len()).filter(|site| !self.faults.down.contains(*site)).collect::<Vec<_>>()
        {
            let others = if away.contains(site) { &home } else { away };
            self.step(site, |machine, out| call(machine, others, out))?;
        }
        Ok(())
    }

    /// Whether someone waits who can still be served.
    pub(super) fn somebody_waits_in_hope(&self) -> bool {
        let unhurt = self.faults.down.is_empty() && self.faults.away.is_empty();
        if unhurt || self.faults.repairs > 0 {
            return self.waiting > 0;
        }
        let waits = |site: &SiteId| matches!(self.hosts[site.index()].process, Process::Waiting { .. });
        let hopes = |site: &SiteId| self.sites[site.index()].survives(&self.faults.down);
        self.faults.away.is_empty() && SiteId::all(self.sites.len()).any(|site| waits(&site) && hopes(&site))
    }
}
