//! A small in-memory host: sites and the messages between them. Nothing happens by itself.
//!
//! The caller decides what happens next: this site requests, that message arrives. Each step returns exactly
//! the effects that the site asked for, and after each step the world checks what must always hold: never more
//! inside than permits, fences increase, tokens are conserved, every numbered invariant. Scenario tests, property
//! tests, the checker's stories, the lab and `meshlock demo` all use it.

mod action;
mod channels;
mod checks;
mod faults;
mod saturated;
mod sharing;

pub use action::{Action, Delivery};
pub use channels::Packet;
pub use checks::Violation;
pub use faults::{News, Told};
pub use saturated::Saturated;

use std::collections::BTreeMap;

use channels::Channels;

use crate::registry::info::Tokens;
use crate::registry::values::Values;
use crate::{
    Algorithm, Chooser, Cluster, Demand, Described, Effect, Epoch, Fence, FenceClock, Holders, Info, Message,
    Outbox, Phase, PlanError, SiteId, SiteSet, Slot, Timestamp,
};

/// One entry into the critical section.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Entry {
    /// The site that entered.
    pub site: SiteId,
    /// The permit that it uses.
    pub slot: Slot,
    pub fence: Fence,
    /// The number of earlier requests that were still waiting.
    pub overtook: usize,
}

/// Sites of one algorithm and the network between them.
#[derive(Clone, Debug)]
pub struct World<A: Algorithm> {
    info: &'static Info,
    cluster: Cluster,
    sites: Vec<A>,
    channels: Channels<A::Message>,
    clocks: Vec<FenceClock>,
    /// By site: the step at which the waiting request was made. This is the host's own order of requests.
    asked: Vec<Option<u64>>,
    inside: SiteSet,
    sharing: sharing::ProcessModes,
    /// By site: the number of timers that are set.
    timers: Vec<u32>,
    faults: faults::Faults,
    /// With K permits the last fence of each line that must increase.
    fences: Vec<Option<Fence>>,
    entries: Vec<Entry>,
    /// By site: the timestamp of its last entry.
    last_timestamps: Vec<Option<Timestamp>>,
    sent: BTreeMap<&'static str, u64>,
    steps: u64,
    /// The first violation of each kind, in the order in which they were found.
    violations: Vec<Violation>,
    tolerant: bool,
    /// Whether everything that arrived was sent: no message was injected.
    honest: bool,
    outbox: Outbox<A::Message>,
}

/// The timestamps of the sites that are inside at the start.
fn holders_timestamps<A: Algorithm>(sites: &[A], holders: &Holders) -> Vec<Option<Timestamp>> {
    let inside = |(me, site): (SiteId, &A)| if holders.contains(me) { site.timestamp() } else { None };
    SiteId::all(sites.len()).zip(sites).map(inside).collect()
}

impl<A: Algorithm> World<A> {
    /// Starts all sites of a cluster, with these options and with `holders` inside.
    pub fn new(cluster: Cluster, values: &Values, holders: &Holders) -> Result<Self, PlanError> {
        let plan = crate::registry::plan::<A>(cluster, values)?;
        let sites: Vec<A> = SiteId::all(cluster.sites).map(|me| A::start(&plan, me, holders)).collect();
        let mut world = World {
            info: values.info(),
            cluster,
            channels: Channels::default(),
            clocks: vec![FenceClock::new(Epoch::default()); cluster.sites],
            asked: vec![None; cluster.sites],
            inside: holders.iter().collect(),
            sharing: sharing::ProcessModes::new(cluster.sites, holders),
            timers: vec![0; cluster.sites],
            faults: faults::Faults::default(),
            fences: vec![None; cluster.sites.max(cluster.permits)],
            entries: Vec::new(),
            last_timestamps: holders_timestamps(&sites, holders),
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

    /// Records violations from now on instead of panicking: for showing that something *is* wrong.
    #[must_use]
    pub fn tolerant(mut self) -> Self {
        self.tolerant = true;
        self
    }

    /// Asks `chooser` from now on for what the papers leave open. Without one the first alternative is taken.
    #[must_use]
    pub fn choosing(mut self, chooser: Chooser) -> Self {
        self.outbox.set_chooser(chooser);
        self
    }

    /// Fixes the answers to what the next steps ask; what they ask beyond that is chosen as ever.
    pub fn answer(&mut self, answers: &[u32]) {
        let then = std::mem::take(self.outbox.chooser_mut());
        self.outbox.set_chooser(then.after(answers));
    }

    /// Ends what [`answer`](World::answer) has begun. Returns whether all its answers were asked for, and each was an alternative.
    #[must_use]
    pub fn end_answers(&mut self) -> bool {
        self.outbox.chooser_mut().end_script()
    }

    /// Lets the process at `site` request.
    pub fn request(&mut self, site: SiteId) -> Vec<Effect<A::Message>> {
        self.request_as(site, Demand::PLAIN)
    }

    /// Lets the process at `site` leave.
    pub fn release(&mut self, site: SiteId) -> Vec<Effect<A::Message>> {
        assert!(self.inside.remove(site), "{site} releases only while inside");
        self.sharing.end(site);
        self.step(site, |machine, out| machine.release(out))
    }

    /// Lets the process at `site` leave and request again in the same step.
    pub fn release_and_request(&mut self, site: SiteId) -> Vec<Effect<A::Message>> {
        self.release_and_request_as(site, Demand::PLAIN)
    }

    /// Delivers the oldest message from `from` to `to`.
    pub fn deliver(&mut self, from: SiteId, to: SiteId) -> Vec<Effect<A::Message>> {
        self.deliver_nth(from, to, 0)
    }

    /// Delivers the message from `from` to `to` with `nth` older ones before it, which it overtakes.
    pub fn deliver_nth(&mut self, from: SiteId, to: SiteId, nth: usize) -> Vec<Effect<A::Message>> {
        let packet = self.take(from, to, nth);
        self.arrive(from, to, packet)
    }

    /// Delivers that message, and keeps a copy in flight that will arrive again.
    pub fn duplicate_nth(&mut self, from: SiteId, to: SiteId, nth: usize) -> Vec<Effect<A::Message>> {
        self.faults.happened();
        let copy = self.channels.get_mut(from, to, nth);
        let copy = copy.unwrap_or_else(|| panic!("no message {nth} from {from} to {to}"));
        let packet = copy.clone();
        copy.spent = true;
        self.arrive(from, to, packet)
    }

    /// Loses that message.
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

    /// Delivers a message that nobody sent: for showing that it changes nothing.
    pub fn inject(&mut self, from: SiteId, to: SiteId, message: A::Message) -> Vec<Effect<A::Message>> {
        self.honest = false;
        self.step(to, |machine, out| machine.receive(from, message, out))
    }

    /// Lets a timer of `site` run out.
    pub fn wake(&mut self, site: SiteId) -> Vec<Effect<A::Message>> {
        assert!(self.timers[site.index()] > 0, "{site} has set no timer");
        self.timers[site.index()] -= 1;
        self.step(site, |machine, out| machine.wake(out))
    }

    /// Delivers everything in flight, channel by channel, until nothing is in flight. Processes that enter stay inside.
    pub fn settle(&mut self) {
        for _ in 0..1_000_000 {
            let Some((from, to)) = self.channels.first() else { return };
            let _ = self.deliver(from, to);
        }
        panic!("the messages never end");
    }

    fn step(
        &mut self,
        site: SiteId,
        call: impl FnOnce(&mut A, &mut Outbox<A::Message>),
    ) -> Vec<Effect<A::Message>> {
        call(&mut self.sites[site.index()], &mut self.outbox);
        self.finish_step(site)
    }

    /// Does what `site` has asked for in the call that it has just made, and checks the world.
    fn finish_step(&mut self, site: SiteId) -> Vec<Effect<A::Message>> {
        self.steps += 1;
        let effects: Vec<_> = self.outbox.drain().collect();
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
            Effect::Upgraded => self.upgrade(site),
            Effect::Timer { .. } => self.timers[site.index()] += 1,
            Effect::Chose { .. } | Effect::Misbehaved { .. } => {}
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
        self.channels.push(from, to, Packet { message, stamp, spent: false });
    }

    fn take(&mut self, from: SiteId, to: SiteId, nth: usize) -> Packet<A::Message> {
        let packet = self.channels.take(from, to, nth);
        packet.unwrap_or_else(|| panic!("no message {nth} from {from} to {to}"))
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
        if !self.note_fence(site, slot, fence) {
            self.report(Violation::FenceFellBack { site, slot });
        }
        self.check_order(site);
        self.entries.push(Entry { site, slot, fence, overtook });
    }

    /// Returns whether this fence is larger than those of the grants before it: with one permit, of all that may not be inside together
    /// with this one; with K, of those with the same slot, or of the same site where permits are not numbered.
    fn note_fence(&mut self, site: SiteId, slot: Slot, fence: Fence) -> bool {
        if self.cluster.permits == 1 {
            return self.sharing.note_fence(self.mode(site), fence);
        }
        let numbered = self.info.tokens == Tokens::PerPermit;
        let line = if numbered { slot.0 as usize } else { site.index() };
        self.fences[line].replace(fence).is_none_or(|last| last < fence)
    }

    /// The description of the algorithm.
    pub fn info(&self) -> &'static Info {
        self.info
    }

    /// The site's state.
    pub fn site(&self, site: SiteId) -> &A {
        &self.sites[site.index()]
    }

    /// The site's state, for a scenario that its paper begins in the middle.
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

    /// The sites in the critical section.
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

    /// The number of steps that were taken and checked.
    pub fn steps(&self) -> u64 {
        self.steps
    }

    /// The number of messages sent, by kind.
    pub fn sent(&self) -> &BTreeMap<&'static str, u64> {
        &self.sent
    }

    /// The number of all messages sent.
    pub fn messages(&self) -> u64 {
        self.sent.values().sum()
    }

    /// The messages in flight, channel by channel, oldest first.
    pub fn in_flight(&self) -> impl Iterator<Item = (SiteId, SiteId, &A::Message)> {
        self.channels
            .iter()
            .flat_map(|((from, to), packets)| packets.iter().map(move |packet| (from, to, &packet.message)))
    }

    /// The messages in flight from `from` to `to`, oldest first.
    pub fn packets(&self, from: SiteId, to: SiteId) -> impl Iterator<Item = &Packet<A::Message>> {
        self.channels.between(from, to)
    }

    /// The messages in flight whose contents are not spent.
    fn fresh(&self) -> impl Iterator<Item = (SiteId, SiteId, &A::Message)> {
        self.channels.iter().flat_map(|((from, to), packets)| {
            let fresh = packets.iter().filter(|packet| !packet.spent);
            fresh.map(move |packet| (from, to, &packet.message))
        })
    }

    /// The first violation, in a tolerant world.
    pub fn violation(&self) -> Option<&Violation> {
        self.violations.first()
    }

    /// The violations in a tolerant world: the first of each kind, in the order in which they were found.
    pub fn violations(&self) -> &[Violation] {
        &self.violations
    }

    /// Whether no message is in flight and every running site owes nothing.
    pub fn is_quiet(&self) -> bool {
        let up = |site: &SiteId| self.is_up(*site);
        self.channels.is_empty()
            && SiteId::all(self.cluster.sites).filter(up).all(|site| self.site(site).is_quiet())
    }

    /// What the process at `site` does, as the host knows it.
    fn phase(&self, site: SiteId) -> Phase {
        match (self.is_waiting(site), self.inside.contains(site)) {
            (true, _) => Phase::Waiting,
            (false, true) => Phase::Executing,
            (false, false) => Phase::Idle,
        }
    }
}

impl<A: Algorithm + Described> World<A> {
    /// Starts N sites that share one permit, with all options at their defaults and nobody inside, as most scenarios do.
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

/// A send, for stating the expected effects of a step.
pub fn send<M>(to: SiteId, message: M) -> Effect<M> {
    Effect::Send { to, message }
}

/// An entry, for stating the expected effects of a step.
pub fn enter<M>() -> Effect<M> {
    Effect::Enter { slot: Slot::default() }
}

/// A report, for stating the expected effects of a step.
pub fn misbehaved<M>(peer: SiteId, why: &'static str) -> Effect<M> {
    Effect::Misbehaved { peer, why }
}
