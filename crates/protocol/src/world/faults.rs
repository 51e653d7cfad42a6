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
    /// For each site that has failed, the sites that have not been told of it yet.
    untold: BTreeMap<SiteId, SiteSet>,
    /// For each site that has recovered, the sites that have not been told of it yet.
    untold_return: BTreeMap<SiteId, SiteSet>,
    /// What the news of failures do not wait for.
    news: News,
    /// The parts of a split network; empty while the network is whole.
    parts: Vec<SiteSet>,
}

/// What the news of failures do not wait for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct News {
    /// They overtake messages that the failed site had sent.
    pub overtake: bool,
    /// A failed site may recover before all know that it has failed.
    pub late: bool,
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
        !self.down.is_empty() || !self.untold.is_empty() || !self.parts.is_empty() || self.lost
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
        self.faults.parts.iter().any(|part| part.contains(from) != part.contains(to))
    }

    /// The sites that were split off from the rest of the network; empty while it is whole.
    pub fn away(&self) -> SiteSet {
        self.faults.parts.iter().skip(1).flat_map(SiteSet::iter).collect()
    }

    /// The parts of the network: one while it is whole.
    pub fn parts(&self) -> Vec<SiteSet> {
        if self.faults.parts.is_empty() {
            return vec![SiteSet::all(self.cluster.sites)];
        }
        self.faults.parts.clone()
    }

    /// The same world, in which the news of failures do not wait for everything that they usually wait for.
    #[must_use]
    pub fn with_news(mut self, news: News) -> Self {
        self.faults.news = news;
        self
    }

    /// The sites that have not been told yet that `about` has failed or has recovered.
    pub fn untold(&self, about: SiteId) -> SiteSet {
        let mut untold = self.faults.untold.get(&about).cloned().unwrap_or_default();
        untold.union_with(&self.faults.untold_return.get(&about).cloned().unwrap_or_default());
        untold
    }

    /// Whether `to` has not been told yet that `about` has failed.
    pub fn has_missed_failure(&self, to: SiteId, about: SiteId) -> bool {
        self.faults.untold.get(&about).is_some_and(|untold| untold.contains(to))
    }

    /// Lets `site` fail. Its process is gone; what it had sent still arrives, what is sent to it is lost.
    pub fn fail(&mut self, site: SiteId) {
        assert!(self.is_up(site), "{site} has failed already");
        self.faults.ever = true;
        self.faults.down.insert(site);
        self.inside.remove(site);
        self.sharing.end(site);
        self.asked[site.index()] = None;
        self.timers[site.index()] = 0;
        let faults = &mut self.faults;
        for told in faults.untold.values_mut().chain(faults.untold_return.values_mut()) {
            told.remove(site);
        }
        self.faults.untold_return.remove(&site);
        self.faults.untold.insert(site, self.others_up(site));
        self.forget_told();
    }

    /// Whether `to` can be told now that `about` has failed or recovered. Of a failure it is told only after everything
    /// that `about` had sent to it has arrived, unless such news overtake.
    pub fn can_tell(&self, to: SiteId, about: SiteId) -> bool {
        let may_overtake = self.faults.news.overtake || self.is_up(about);
        self.untold(about).contains(to) && (may_overtake || !self.channels.contains(about, to))
    }

    /// Tells `to` for certain that `about` has failed, or, if it knows that, that it has recovered.
    pub fn tell(&mut self, to: SiteId, about: SiteId) -> Vec<Effect<A::Message>> {
        assert!(self.can_tell(to, about), "{to} cannot be told about {about} now");
        let of_return = !self.has_missed_failure(to, about);
        let faults = &mut self.faults;
        let untold = if of_return { &mut faults.untold_return } else { &mut faults.untold };
        if let Some(untold) = untold.get_mut(&about) {
            untold.remove(to);
        }
        self.forget_told();
        if of_return {
            self.step(to, |machine, out| machine.peer_recovered(about, out))
        } else {
            // Certain knowledge of a failure comes with a new view, whose fences are above all of the old one.
            let last = self.clocks[about.index()].stamp();
            self.clocks[to.index()].observe(last).expect("this host's own stamps are in range");
            self.step(to, |machine, out| machine.peer_failed(about, out))
        }
    }

    /// Whether `site` can recover now: it is down, and every other site knows. Where news are late, it is enough that nobody who does
    /// not know still gets messages of it, unless the news overtake those, too.
    pub fn can_recover(&self, site: SiteId) -> bool {
        let News { overtake, late } = self.faults.news;
        let has_left = |to: SiteId| late && (overtake || !self.channels.contains(site, to));
        !self.is_up(site) && self.untold(site).iter().all(has_left)
    }

    /// Lets `site` run again.
    pub fn recover(&mut self, site: SiteId) -> Vec<Effect<A::Message>> {
        assert!(self.can_recover(site), "{site} cannot recover now");
        self.faults.down.remove(site);
        self.faults.untold_return.insert(site, self.others_up(site));
        self.channels.to_mut(site).for_each(|packet| packet.spent = true);
        self.forget_told();
        self.step(site, |machine, out| machine.restart(out))
    }

    /// Splits `away` off cleanly: every part of the network that has sites in it and others becomes two. What is in flight
    /// across the split is lost, and every running site that loses others is told at once. Returns what each of them does,
    /// in the order of the sites.
    pub fn split(&mut self, away: &SiteSet) -> Told<A::Message> {
        self.faults.ever = true;
        let before = self.parts();
        let left = before.iter().map(|part| without(part, away));
        let split_off = before.iter().map(|part| part.intersection(away));
        let after: Vec<SiteSet> = left.chain(split_off).filter(|part| !part.is_empty()).collect();
        self.channels.retain(|(from, to)| away.contains(from) == away.contains(to));
        self.change_parts(&before, after, without, A::partitioned)
    }

    /// Makes one part of those of the two sites, and tells every running site of both at once. Returns what each of them
    /// does, in the order of the sites.
    pub fn merge(&mut self, one: SiteId, other: SiteId) -> Told<A::Message> {
        assert!(self.is_cut(one, other), "{one} and {other} reach each other");
        let before = self.parts();
        let (merged, mut after): (Vec<SiteSet>, Vec<SiteSet>) =
            before.iter().cloned().partition(|part| part.contains(one) || part.contains(other));
        after.insert(0, merged.iter().flat_map(SiteSet::iter).collect());
        self.change_parts(&before, after, |old, new| without(new, old), A::reunited)
    }

    /// Makes a network of two parts whole again, and tells every running site at once. Returns what each of them does, in
    /// the order of the sites.
    pub fn heal(&mut self) -> Told<A::Message> {
        let parts = self.parts();
        let [home, away] = &parts[..] else {
            panic!("a network is healed that has {} parts", parts.len());
        };
        let (one, other) = (home.first(), away.first());
        self.merge(one.expect("a part has a site"), other.expect("a part has a site"))
    }

    /// Replaces the parts `before` by those `after`, and makes `call` at each running site whose part has changed, with the sites that
    /// make the difference of its old and its new part.
    fn change_parts(
        &mut self,
        before: &[SiteSet],
        after: Vec<SiteSet>,
        difference: fn(&SiteSet, &SiteSet) -> SiteSet,
        call: fn(&mut A, &SiteSet, &mut Outbox<A::Message>),
    ) -> Told<A::Message> {
        self.faults.parts = if after.len() > 1 { after.clone() } else { Vec::new() };
        let part_of = |parts: &[SiteSet], site: SiteId| {
            parts.iter().find(|part| part.contains(site)).cloned().unwrap_or_default()
        };
        let mut told = Vec::new();
        for site in SiteId::all(self.cluster.sites).filter(|&site| self.is_up(site)).collect::<Vec<_>>() {
            let changed = difference(&part_of(before, site), &part_of(&after, site));
            if !changed.is_empty() {
                told.push((site, self.step(site, |machine, out| call(machine, &changed, out))));
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
        self.faults.untold_return.retain(|_, untold| !untold.is_empty());
    }
}

/// The sites of `part` that are not in `others`.
fn without(part: &SiteSet, others: &SiteSet) -> SiteSet {
    let mut rest = part.clone();
    rest.subtract(others);
    rest
}
