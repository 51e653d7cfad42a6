//! A small in-memory host: sites, the messages between them, and nothing that happens by itself.
//!
//! Whoever drives it says what happens next: this site requests, that message arrives. Each step gives back exactly
//! the effects that the site asked for, and after each step the world checks what must always hold: never more
//! inside than permits, fences increase, tokens are conserved, every numbered invariant. Scenario tests, property
//! tests, the checker and `meshlock demo` all drive this one.

mod action;
mod checks;
mod faults;
mod saturated;

pub use action::{Action, Delivery};
pub use checks::Violation;
pub use faults::Told;
pub use saturated::Saturated;

use std::collections::{BTreeMap, VecDeque};
use std::hash::{Hash, Hasher};

use crate::fence::Stamp;
use crate::registry::values::Values;
use crate::{
    Algorithm, Cluster, Described, Effect, Epoch, Fence, FenceClock, Holders, Info, Message, Outbox, Phase,
    PlanError, SiteId, SiteSet, Slot,
};

/// A message on its way, with the host's stamp.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Packet<M> {
    /// What the algorithm sent.
    pub message: M,
    /// What the host added.
    pub stamp: Stamp,
    /// Whether what it carried is gone already: it was meant for the receiver's life before a failure, or it has arrived
    /// once and comes again.
    pub spent: bool,
}

impl<M: Hash> Packet<M> {
    /// What the future depends on: not the stamp, which only judges fences.
    fn hash_future(&self, state: &mut impl Hasher) {
        self.message.hash(state);
        self.spent.hash(state);
    }
}

/// One entry into the critical section.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Entry {
    /// Who entered.
    pub site: SiteId,
    /// On which permit.
    pub slot: Slot,
    /// With which fence.
    pub fence: Fence,
    /// How many requests that were made earlier were still waiting.
    pub overtook: usize,
}

/// Sites of one algorithm and the network between them.
#[derive(Clone, Debug)]
pub struct World<A: Algorithm> {
    info: &'static Info,
    cluster: Cluster,
    sites: Vec<A>,
    channels: BTreeMap<(SiteId, SiteId), VecDeque<Packet<A::Message>>>,
    clocks: Vec<FenceClock>,
    /// When the request that waits at a site was made, counted in steps; the host's own idea of order.
    asked: Vec<Option<u64>>,
    inside: SiteSet,
    /// How many timers are set at each site.
    timers: Vec<u32>,
    faults: faults::Faults,
    /// The largest fence so far of each slot.
    fences: BTreeMap<Slot, Fence>,
    entries: Vec<Entry>,
    sent: BTreeMap<&'static str, u64>,
    steps: u64,
    /// The first of each kind, in the order in which they were found.
    violations: Vec<Violation>,
    tolerant: bool,
    /// Whether all that arrived was sent: no message was injected.
    honest: bool,
    outbox: Outbox<A::Message>,
}

impl<A: Algorithm> World<A> {
    /// All sites of a cluster, with these options and with `holders` inside.
    pub fn new(cluster: Cluster, values: &Values, holders: &Holders) -> Result<Self, PlanError> {
        let plan = crate::registry::plan::<A>(cluster, values)?;
        let sites: Vec<A> = SiteId::all(cluster.sites).map(|me| A::start(&plan, me, holders)).collect();
        let mut world = World {
            info: values.info(),
            cluster,
            channels: BTreeMap::new(),
            clocks: vec![FenceClock::new(Epoch::default()); cluster.sites],
            asked: vec![None; cluster.sites],
            inside: holders.iter().collect(),
            timers: vec![0; cluster.sites],
            faults: faults::Faults::default(),
            fences: BTreeMap::new(),
            entries: Vec::new(),
            sent: BTreeMap::new(),
            steps: 0,
            violations: Vec::new(),
            tolerant: false,
            honest: true,
            outbox: Outbox::new(),
            sites,
        };
        world.check();
        Ok(world)
    }

    /// From now on a violation is recorded instead of ending the test: for showing that something *is* wrong.
    #[must_use]
    pub fn tolerant(mut self) -> Self {
        self.tolerant = true;
        self
    }

    /// The process at `site` asks to enter.
    pub fn request(&mut self, site: SiteId) -> Vec<Effect<A::Message>> {
        assert!(self.is_idle(site), "{site} requests only while idle");
        self.asked[site.index()] = Some(self.steps);
        self.step(site, |machine, out| machine.request(out))
    }

    /// The process at `site` leaves.
    pub fn release(&mut self, site: SiteId) -> Vec<Effect<A::Message>> {
        assert!(self.inside.remove(site), "{site} releases only while inside");
        self.step(site, |machine, out| machine.release(out))
    }

    /// The process at `site` leaves and asks to enter again in the same step.
    pub fn release_and_request(&mut self, site: SiteId) -> Vec<Effect<A::Message>> {
        assert!(self.inside.remove(site), "{site} releases only while inside");
        self.asked[site.index()] = Some(self.steps);
        self.step(site, |machine, out| machine.release_and_request(out))
    }

    /// The oldest message from `from` to `to` arrives.
    pub fn deliver(&mut self, from: SiteId, to: SiteId) -> Vec<Effect<A::Message>> {
        self.deliver_nth(from, to, 0)
    }

    /// The message from `from` to `to` that has `nth` older ones before it overtakes them and arrives.
    pub fn deliver_nth(&mut self, from: SiteId, to: SiteId, nth: usize) -> Vec<Effect<A::Message>> {
        let packet = self.take(from, to, nth);
        self.arrive(from, to, packet)
    }

    /// That message arrives, and the network keeps a copy that will arrive again.
    pub fn duplicate_nth(&mut self, from: SiteId, to: SiteId, nth: usize) -> Vec<Effect<A::Message>> {
        self.faults.happened();
        let channel = self.channels.get_mut(&(from, to)).and_then(|channel| channel.get_mut(nth));
        let copy = channel.unwrap_or_else(|| panic!("no message {nth} from {from} to {to}"));
        let packet = copy.clone();
        copy.spent = true;
        self.arrive(from, to, packet)
    }

    /// That message never arrives.
    pub fn lose_nth(&mut self, from: SiteId, to: SiteId, nth: usize) {
        self.faults.lost();
        let _ = self.take(from, to, nth);
        self.steps += 1;
    }

    fn arrive(&mut self, from: SiteId, to: SiteId, packet: Packet<A::Message>) -> Vec<Effect<A::Message>> {
        if !self.is_up(to) {
            return Vec::new();
        }
        self.clocks[to.index()].observe(packet.stamp).expect("this host's own stamps are in range");
        let effects = self.step(to, |machine, out| machine.receive(from, packet.message, out));
        self.check_refusals(to, &effects);
        effects
    }

    /// A message that nobody sent arrives: for showing that it changes nothing.
    pub fn inject(&mut self, from: SiteId, to: SiteId, message: A::Message) -> Vec<Effect<A::Message>> {
        self.honest = false;
        self.step(to, |machine, out| machine.receive(from, message, out))
    }

    /// A timer of `site` runs out.
    pub fn wake(&mut self, site: SiteId) -> Vec<Effect<A::Message>> {
        assert!(self.timers[site.index()] > 0, "{site} has set no timer");
        self.timers[site.index()] -= 1;
        self.step(site, |machine, out| machine.wake(out))
    }

    /// Delivers everything in flight, oldest channel first, until nothing is; processes that enter stay inside.
    pub fn settle(&mut self) {
        for _ in 0..1_000_000 {
            let Some((&(from, to), _)) = self.channels.first_key_value() else { return };
            let _ = self.deliver(from, to);
        }
        panic!("the messages never end");
    }

    fn step(
        &mut self,
        site: SiteId,
        call: impl FnOnce(&mut A, &mut Outbox<A::Message>),
    ) -> Vec<Effect<A::Message>> {
        self.steps += 1;
        let mut outbox = std::mem::take(&mut self.outbox);
        call(&mut self.sites[site.index()], &mut outbox);
        let effects: Vec<_> = outbox.drain().collect();
        self.outbox = outbox;
        for effect in &effects {
            self.perform(site, effect);
        }
        self.check();
        effects
    }

    fn perform(&mut self, site: SiteId, effect: &Effect<A::Message>) {
        match effect {
            Effect::Send { to, message } => self.send(site, *to, message.clone()),
            Effect::Enter { slot } => self.enter(site, *slot),
            Effect::Timer { .. } => self.timers[site.index()] += 1,
            Effect::Misbehaved { .. } => {}
        }
    }

    fn send(&mut self, from: SiteId, to: SiteId, message: A::Message) {
        assert!(from != to, "{from} sends {message:?} to itself");
        assert!(to.index() < self.cluster.sites, "{from} sends {message:?} to {to}, which does not exist");
        *self.sent.entry(message.kind()).or_default() += 1;
        if self.is_cut(from, to) {
            return;
        }
        let stamp = self.clocks[from.index()].stamp();
        self.channels.entry((from, to)).or_default().push_back(Packet { message, stamp, spent: false });
    }

    fn take(&mut self, from: SiteId, to: SiteId, nth: usize) -> Packet<A::Message> {
        let channel = self.channels.get_mut(&(from, to));
        let channel = channel.unwrap_or_else(|| panic!("nothing is on its way from {from} to {to}"));
        let packet = channel.remove(nth).unwrap_or_else(|| panic!("no message {nth} from {from} to {to}"));
        if channel.is_empty() {
            self.channels.remove(&(from, to));
        }
        packet
    }

    fn enter(&mut self, site: SiteId, slot: Slot) {
        let fence = self.clocks[site.index()].enter();
        let asked = self.asked[site.index()].take();
        let earlier =
            |other: &Option<u64>| matches!((other, asked), (Some(theirs), Some(mine)) if *theirs < mine);
        let overtook = self.asked.iter().filter(|other| earlier(other)).count();
        if asked.is_none() {
            self.report(Violation::EnteredUnasked { site });
        }
        if !self.inside.insert(site) {
            self.report(Violation::EnteredTwice { site });
        }
        let last = self.fences.insert(self.fence_line(site, slot), fence);
        if last.is_some_and(|last| last >= fence) {
            self.report(Violation::FenceFellBack { site, slot });
        }
        self.check_order(site);
        self.entries.push(Entry { site, slot, fence, overtook });
    }

    /// Which fences must increase together: those of one slot, or where K permits are not numbered those of one
    /// site.
    fn fence_line(&self, site: SiteId, slot: Slot) -> Slot {
        let numbered = self.info.tokens == crate::registry::info::Tokens::PerPermit;
        if self.cluster.permits == 1 || numbered {
            slot
        } else {
            Slot(u32::try_from(site.index()).expect("a site id"))
        }
    }

    /// Name, paper, options, costs of the algorithm.
    pub fn info(&self) -> &'static Info {
        self.info
    }

    /// The site's state.
    pub fn site(&self, site: SiteId) -> &A {
        &self.sites[site.index()]
    }

    /// The site's state, for setting up a scenario that its paper begins in the middle.
    #[cfg(test)]
    pub(crate) fn site_mut(&mut self, site: SiteId) -> &mut A {
        &mut self.sites[site.index()]
    }

    /// All sites, in order.
    pub fn sites(&self) -> &[A] {
        &self.sites
    }

    /// The size of the run.
    pub fn cluster(&self) -> Cluster {
        self.cluster
    }

    /// Who is in the critical section.
    pub fn inside(&self) -> &SiteSet {
        &self.inside
    }

    /// Whether the process at `site` waits.
    pub fn is_waiting(&self, site: SiteId) -> bool {
        self.asked[site.index()].is_some()
    }

    /// Whether the process at `site` neither waits nor is inside, and the site runs.
    pub fn is_idle(&self, site: SiteId) -> bool {
        self.is_up(site) && !self.is_waiting(site) && !self.inside.contains(site)
    }

    /// All entries so far, in order.
    pub fn entries(&self) -> &[Entry] {
        &self.entries
    }

    /// How many steps were taken and checked.
    pub fn steps(&self) -> u64 {
        self.steps
    }

    /// How many messages of each kind have been sent.
    pub fn sent(&self) -> &BTreeMap<&'static str, u64> {
        &self.sent
    }

    /// How many messages have been sent in all.
    pub fn messages(&self) -> u64 {
        self.sent.values().sum()
    }

    /// The messages on their way, channel by channel, oldest first.
    pub fn in_flight(&self) -> impl Iterator<Item = (SiteId, SiteId, &A::Message)> {
        self.channels
            .iter()
            .flat_map(|(&(from, to), packets)| packets.iter().map(move |packet| (from, to, &packet.message)))
    }

    /// What is on its way from `from` to `to`, oldest first.
    pub fn packets(&self, from: SiteId, to: SiteId) -> impl Iterator<Item = &Packet<A::Message>> {
        self.channels.get(&(from, to)).into_iter().flatten()
    }

    /// The messages on their way whose contents still count.
    fn fresh(&self) -> impl Iterator<Item = (SiteId, SiteId, &A::Message)> {
        self.channels.iter().flat_map(|(&(from, to), packets)| {
            let fresh = packets.iter().filter(|packet| !packet.spent);
            fresh.map(move |packet| (from, to, &packet.message))
        })
    }

    /// What went wrong first, in a tolerant world.
    pub fn violation(&self) -> Option<&Violation> {
        self.violations.first()
    }

    /// What went wrong in a tolerant world: the first of each kind, in the order in which they were found.
    pub fn violations(&self) -> &[Violation] {
        &self.violations
    }

    /// Whether nothing is on its way and every running site owes nothing.
    pub fn is_quiet(&self) -> bool {
        let up = |site: &SiteId| self.is_up(*site);
        self.channels.is_empty()
            && SiteId::all(self.cluster.sites).filter(up).all(|site| self.site(site).is_quiet())
    }

    /// What the site itself says that its process does, checked against the host's own knowledge.
    fn phase(&self, site: SiteId) -> Phase {
        match (self.is_waiting(site), self.inside.contains(site)) {
            (true, _) => Phase::Waiting,
            (false, true) => Phase::Executing,
            (false, false) => Phase::Idle,
        }
    }
}

impl<A: Algorithm + Described> World<A> {
    /// N sites that share one permit, all options at their defaults, nobody inside: how most scenarios start.
    pub fn of(sites: usize) -> Self {
        World::with(sites, &[])
    }

    /// Like [`of`](World::of), with these options.
    pub fn with(sites: usize, options: &[(&str, &str)]) -> Self {
        let mut values = Values::defaults(&A::INFO);
        for (name, value) in options {
            values.set(name, value).expect("a scenario's options are right");
        }
        World::new(Cluster::of(sites), &values, &Holders::none()).expect("a scenario's cluster is right")
    }

    /// Like [`of`](World::of), with as many permits as holders, and all of those inside.
    pub fn held_by(sites: usize, holders: &[SiteId]) -> Self {
        let cluster = Cluster::of(sites).with_permits(holders.len().max(1));
        let holders = Holders::new(cluster, holders.iter().copied()).expect("a scenario's holders are right");
        World::new(cluster, &Values::defaults(&A::INFO), &holders).expect("a scenario's cluster is right")
    }
}

/// A send, for writing down what a step should do.
pub fn send<M>(to: SiteId, message: M) -> Effect<M> {
    Effect::Send { to, message }
}

/// An entry, for writing down what a step should do.
pub fn enter<M>() -> Effect<M> {
    Effect::Enter { slot: Slot::default() }
}

/// A report, for writing down what a step should do.
pub fn misbehaved<M>(peer: SiteId, why: &'static str) -> Effect<M> {
    Effect::Misbehaved { peer, why }
}
