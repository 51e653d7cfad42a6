//! Sites that fail and recover, networks that split and heal. As in the papers, the sites know of them for certain.

use std::collections::BTreeMap;

use crate::{Algorithm, Effect, Outbox, SiteId, SiteSet};

use super::World;

/// The effects of each site that was told of a partition or of its end.
pub type Told<M> = Vec<(SiteId, Vec<Effect<M>>)>;

/// The faults so far, and which sites know of them.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct Faults {
    ever: bool,
    /// Whether the network has lost a message.
    lost: bool,
    down: SiteSet,
    /// For each failed or recovered site, the sites that have not been told yet.
    untold: BTreeMap<SiteId, SiteSet>,
    /// One side of a split network; empty while the network is whole.
    away: SiteSet,
}

impl Faults {
    pub(super) fn never_happened(&self) -> bool {
        !self.ever
    }

    pub(super) fn happened(&mut self) {
        self.ever = true;
    }

    pub(super) fn lost(&mut self) {
        self.ever = true;
        self.lost = true;
    }

    /// Whether a site is down now, the network is split now, or a message was lost.
    pub(super) fn is_amid_one(&self) -> bool {
        !self.down.is_empty() || !self.away.is_empty() || self.lost
    }
}

impl<A: Algorithm> World<A> {
    /// Whether `site` runs.
    pub fn is_up(&self, site: SiteId) -> bool {
        !self.faults.down.contains(site)
    }

    /// The sites that have failed and not recovered.
    pub fn down(&self) -> &SiteSet {
        &self.faults.down
    }

    /// Whether the network is split between the two sites.
    pub fn is_cut(&self, from: SiteId, to: SiteId) -> bool {
        self.faults.away.contains(from) != self.faults.away.contains(to)
    }

    /// One side of a split network; empty while the network is whole.
    pub fn away(&self) -> &SiteSet {
        &self.faults.away
    }

    /// The sites that have not been told yet that `about` has failed, or that it has recovered if it runs again.
    pub fn untold(&self, about: SiteId) -> SiteSet {
        self.faults.untold.get(&about).cloned().unwrap_or_default()
    }

    /// Lets `site` fail. Its process is gone; what it had sent still arrives, what is sent to it is lost.
    pub fn fail(&mut self, site: SiteId) {
        assert!(self.is_up(site), "{site} has failed already");
        self.faults.ever = true;
        self.faults.down.insert(site);
        self.inside.remove(site);
        self.asked[site.index()] = None;
        self.timers[site.index()] = 0;
        for told in self.faults.untold.values_mut() {
            told.remove(site);
        }
        self.faults.untold.insert(site, self.others_up(site));
        self.forget_told();
    }

    /// Whether `to` can be told now that `about` has failed or recovered. Of a failure it is told only after everything
    /// that `about` had sent to it has arrived.
    pub fn can_tell(&self, to: SiteId, about: SiteId) -> bool {
        self.untold(about).contains(to) && (self.is_up(about) || !self.channels.contains(about, to))
    }

    /// Tells `to` for certain that `about` has failed, or that it has recovered if it runs again.
    pub fn tell(&mut self, to: SiteId, about: SiteId) -> Vec<Effect<A::Message>> {
        assert!(self.can_tell(to, about), "{to} cannot be told about {about} now");
        if let Some(untold) = self.faults.untold.get_mut(&about) {
            untold.remove(to);
        }
        self.forget_told();
        if self.is_up(about) {
            self.step(to, |machine, out| machine.peer_recovered(about, out))
        } else {
            // Certain knowledge of a failure comes with a new view, whose fences are above all of the old one.
            let last = self.clocks[about.index()].stamp();
            self.clocks[to.index()].observe(last).expect("this host's own stamps are in range");
            self.step(to, |machine, out| machine.peer_failed(about, out))
        }
    }

    /// Whether `site` can recover now: it is down, and every other site knows.
    pub fn can_recover(&self, site: SiteId) -> bool {
        !self.is_up(site) && self.untold(site).is_empty()
    }

    /// Lets `site` run again.
    pub fn recover(&mut self, site: SiteId) -> Vec<Effect<A::Message>> {
        assert!(self.can_recover(site), "{site} cannot recover before all know that it failed");
        self.faults.down.remove(site);
        self.faults.untold.insert(site, self.others_up(site));
        self.channels.to_mut(site).for_each(|packet| packet.spent = true);
        self.forget_told();
        self.step(site, |machine, out| machine.restart(out))
    }

    /// Splits the network cleanly into `away` and the rest. What is in flight across the split is lost, and every running
    /// site is told at once. Returns what each of them does, in the order of the sites.
    pub fn split(&mut self, away: &SiteSet) -> Told<A::Message> {
        assert!(self.faults.away.is_empty(), "the network is split already");
        self.faults.ever = true;
        self.faults.away = away.clone();
        self.channels.retain(|(from, to)| away.contains(from) == away.contains(to));
        self.tell_both_sides_of(away, A::partitioned)
    }

    /// Makes the network whole again, and tells every running site at once. Returns what each of them does, in the order
    /// of the sites.
    pub fn heal(&mut self) -> Told<A::Message> {
        assert!(!self.faults.away.is_empty(), "the network is whole");
        let away = std::mem::take(&mut self.faults.away);
        self.tell_both_sides_of(&away, A::reunited)
    }

    fn tell_both_sides_of(
        &mut self,
        away: &SiteSet,
        call: fn(&mut A, &SiteSet, &mut Outbox<A::Message>),
    ) -> Told<A::Message> {
        let mut home = SiteSet::all(self.cluster.sites);
        home.subtract(away);
        let mut told = Vec::new();
        for site in SiteId::all(self.cluster.sites) {
            if self.is_up(site) {
                let other_side = if away.contains(site) { &home } else { away };
                told.push((site, self.step(site, |machine, out| call(machine, other_side, out))));
            }
        }
        told
    }

    fn others_up(&self, site: SiteId) -> SiteSet {
        let mut others = SiteSet::all_but(site, self.cluster.sites);
        others.subtract(&self.faults.down);
        others
    }

    fn forget_told(&mut self) {
        self.faults.untold.retain(|_, untold| !untold.is_empty());
    }
}
