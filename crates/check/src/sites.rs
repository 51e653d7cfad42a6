//! The sites' code behind one object-safe boundary: the only part of the explorer that is compiled once for each
//! algorithm.
//!
//! The states of single sites and the messages between them are numbered here as they appear. Everything else (tables,
//! search, graph, liveness) sees the numbers only.

use meshlock_protocol::registry::info::{BypassClaim, Span};
use meshlock_protocol::registry::values::Values;
use meshlock_protocol::{
    Algorithm, Chooser, Demand, Effect, Info, Message, Mode, Numbers, Outbox, Phase, PlanError, SiteId,
    SiteSet, Timestamp,
};
use smallvec::SmallVec;

use crate::Bounds;
use crate::interner::Interner;
use crate::relative::{PerFamily, lower, subtract};
use crate::state::{GlobalState, Layout};
use crate::table::Labels;

/// One call of a site, with its message by number.
#[derive(Clone, Copy, Debug)]
pub(crate) enum NumberedCall {
    Request(Demand),
    Release,
    ReleaseAndRequest(Demand),
    ChangeMode(Mode),
    Wake,
    Restart,
    PeerFailed(SiteId),
    PeerRecovered(SiteId),
    Receive { from: SiteId, message: u32 },
}

/// Properties of a site's state that the search needs, computed once when the state is numbered.
#[derive(Clone, Copy, Debug)]
#[expect(clippy::struct_excessive_bools, reason = "each answers one question of the inner loop")]
pub(crate) struct SiteFacts {
    pub(crate) phase: Phase,
    pub(crate) mode: Mode,
    pub(crate) is_upgrading: bool,
    pub(crate) may_share: bool,
    pub(crate) is_quiet: bool,
    pub(crate) is_within_bounds: bool,
    pub(crate) tokens: usize,
    pub(crate) timestamp: Option<Timestamp>,
    /// The first numbered invariant that does not hold.
    pub(crate) broken: Option<&'static str>,
}

/// Memory for one value, in bytes, without what it points to.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Sizes {
    /// A site with what its host keeps for it.
    pub(crate) local_state: usize,
    /// A message with its ends.
    pub(crate) packet: usize,
}

/// The sites of one algorithm and one cluster, by the numbers of their states.
pub(crate) trait Sites: Send + Sync {
    /// The description of the algorithm.
    fn info(&self) -> &'static Info;

    /// The state of each site at the start, in the order of the sites.
    fn first(&self) -> &[u32];

    /// The state after `call`, with these answers to what it asks, and then the first alternatives. What the call does is added to
    /// `effects`, with messages by number.
    fn step(&mut self, site: u32, call: NumberedCall, answers: &[u32], effects: &mut Vec<Effect<u32>>)
    -> u32;

    fn facts(&self, site: u32) -> SiteFacts;

    /// Number of tokens in a message.
    fn tokens(&self, message: u32) -> usize;

    /// Whether the algorithm names numbers that only grow.
    fn name_numbers(&self) -> bool;

    /// The smallest number of each family that a site has.
    fn site_numbers(&self, site: u32) -> PerFamily;

    /// The largest number of a site that only grows.
    fn largest_number(&self, site: u32) -> u64;

    /// The site with its numbers made smaller.
    fn site_less(&mut self, site: u32, base: &PerFamily) -> u32;

    /// The smallest number of each family that a message between these sites has.
    fn message_numbers(&self, message: u32, between: (SiteId, SiteId)) -> PerFamily;

    /// The message with its numbers made smaller.
    fn message_less(&mut self, message: u32, between: (SiteId, SiteId), base: &PerFamily) -> u32;

    /// Prints a message as the algorithm does.
    fn print(&self, message: u32) -> String;

    /// Whether a request of the site can still be served once all know that `down` have failed.
    fn survives(&self, site: u32, down: &SiteSet) -> bool;

    fn quorum(&self, site: u32) -> Option<usize>;

    fn cost_span(&self, site: u32) -> Option<Span>;

    fn bypass_claim(&self, site: u32) -> Option<BypassClaim>;

    /// Checks the invariants that span sites.
    fn check_together(
        &self,
        labels: &Labels,
        layout: Layout,
        state: &GlobalState,
    ) -> Result<(), &'static str>;

    fn sizes(&self) -> Sizes;

    /// The sites with their type, for a visit.
    fn as_any(&self) -> &dyn std::any::Any;
}

/// The sites of the algorithm `A`.
pub(crate) struct Typed<A: Algorithm> {
    info: &'static Info,
    first: Vec<u32>,
    sites: Interner<A>,
    messages: Interner<A::Message>,
    outbox: Outbox<A::Message>,
}

impl<A: Algorithm> Typed<A> {
    /// All sites within `bounds`, as they start.
    pub(crate) fn start(bounds: &Bounds, values: &Values) -> Result<Box<dyn Sites>, PlanError> {
        let plan = meshlock_protocol::registry::plan::<A>(bounds.cluster, values)?;
        let held = bounds.holders.with_modes().map(|(_, mode)| Demand::of(mode));
        for demand in bounds.demands.iter().copied().chain(held) {
            meshlock_protocol::registry::check_demand(bounds.cluster, values, demand)?;
        }
        let mut sites = Interner::default();
        let first = SiteId::all(bounds.cluster.sites)
            .map(|me| sites.insert(A::start(&plan, me, &bounds.holders)).0)
            .collect();
        let (messages, outbox) = (Interner::default(), Outbox::new());
        Ok(Box::new(Typed { info: values.info(), first, sites, messages, outbox }))
    }
}

impl<A: Algorithm> Typed<A> {
    pub(crate) fn site(&self, number: u32) -> &A {
        self.sites.get(number)
    }

    pub(crate) fn message(&self, number: u32) -> &A::Message {
        self.messages.get(number)
    }
}

impl<A: Algorithm> Sites for Typed<A> {
    fn as_any(&self) -> &dyn std::any::Any {
        self
    }

    fn info(&self) -> &'static Info {
        self.info
    }

    fn first(&self) -> &[u32] {
        &self.first
    }

    fn step(
        &mut self,
        site: u32,
        call: NumberedCall,
        answers: &[u32],
        effects: &mut Vec<Effect<u32>>,
    ) -> u32 {
        let mut site = self.sites.get(site).clone();
        let out = &mut self.outbox;
        out.set_chooser(Chooser::First.after(answers));
        match call {
            NumberedCall::Request(demand) => site.request_as(demand, out),
            NumberedCall::Release => site.release(out),
            NumberedCall::ReleaseAndRequest(demand) => site.release_and_request_as(demand, out),
            NumberedCall::ChangeMode(to) => site.change_mode(to, out),
            NumberedCall::Wake => site.wake(out),
            NumberedCall::Restart => site.restart(out),
            NumberedCall::PeerFailed(peer) => site.peer_failed(peer, out),
            NumberedCall::PeerRecovered(peer) => site.peer_recovered(peer, out),
            NumberedCall::Receive { from, message } => {
                let message = self.messages.get(message).clone();
                site.receive(from, message, out);
            }
        }
        for effect in self.outbox.drain() {
            effects.push(effect.map(|message| self.messages.insert(message).0));
        }
        self.sites.insert(site).0
    }

    fn facts(&self, site: u32) -> SiteFacts {
        let site = self.sites.get(site);
        SiteFacts {
            phase: site.phase(),
            mode: site.mode(),
            is_upgrading: site.is_upgrading(),
            may_share: site.may_share(),
            is_quiet: site.is_quiet(),
            is_within_bounds: site.is_within_bounds(),
            tokens: site.tokens(),
            timestamp: site.timestamp(),
            broken: site.check_invariants().err(),
        }
    }

    fn tokens(&self, message: u32) -> usize {
        self.messages.get(message).tokens()
    }

    fn name_numbers(&self) -> bool {
        let mut named = false;
        let mut each = |_, _, _: &mut u64| named = true;
        let sites = self.first.iter().map(|&site| self.sites.get(site).clone());
        sites.for_each(|mut site| site.numbers(&mut Numbers::new(&mut each)));
        named
    }

    fn site_numbers(&self, site: u32) -> PerFamily {
        let mut lows = PerFamily::new();
        let mut each = |family, usage, number: &mut u64| lower(&mut lows, family, usage, *number);
        self.sites.get(site).clone().numbers(&mut Numbers::new(&mut each));
        lows
    }

    fn largest_number(&self, site: u32) -> u64 {
        let mut largest = 0;
        let mut each = |_, _, number: &mut u64| largest = largest.max(*number);
        self.sites.get(site).clone().numbers(&mut Numbers::new(&mut each));
        largest
    }

    fn site_less(&mut self, site: u32, base: &PerFamily) -> u32 {
        let mut site = self.sites.get(site).clone();
        site.numbers(&mut Numbers::new(&mut |family, _, number| subtract(base, family, number)));
        self.sites.insert(site).0
    }

    fn message_numbers(&self, message: u32, (from, to): (SiteId, SiteId)) -> PerFamily {
        let mut lows = PerFamily::new();
        let mut each = |family, usage, number: &mut u64| lower(&mut lows, family, usage, *number);
        self.messages.get(message).clone().numbers(from, to, &mut Numbers::new(&mut each));
        lows
    }

    fn message_less(&mut self, message: u32, (from, to): (SiteId, SiteId), base: &PerFamily) -> u32 {
        let mut message = self.messages.get(message).clone();
        message.numbers(from, to, &mut Numbers::new(&mut |family, _, number| subtract(base, family, number)));
        self.messages.insert(message).0
    }

    fn print(&self, message: u32) -> String {
        format!("{:?}", self.messages.get(message))
    }

    fn survives(&self, site: u32, down: &SiteSet) -> bool {
        self.sites.get(site).survives(down)
    }

    fn quorum(&self, site: u32) -> Option<usize> {
        self.sites.get(site).quorum()
    }

    fn cost_span(&self, site: u32) -> Option<Span> {
        self.sites.get(site).cost_span()
    }

    fn bypass_claim(&self, site: u32) -> Option<BypassClaim> {
        self.sites.get(site).bypass_claim()
    }

    fn check_together(
        &self,
        labels: &Labels,
        layout: Layout,
        state: &GlobalState,
    ) -> Result<(), &'static str> {
        let sites: SmallVec<[&A; 8]> =
            state.locals.iter().map(|&local| self.sites.get(labels.local(local).site)).collect();
        let packets = state.packets.iter().map(|&code| labels.packet(layout.split(code).0));
        let fresh = packets.filter(|packet| !packet.spent);
        let in_flight: SmallVec<[_; 16]> =
            fresh.map(|packet| (packet.from, packet.to, self.messages.get(packet.message))).collect();
        A::check_together(&sites, &in_flight)
    }

    fn sizes(&self) -> Sizes {
        Sizes {
            local_state: size_of::<(SiteId, A, Phase, u8, u8, bool)>(),
            packet: size_of::<(SiteId, SiteId, A::Message, bool)>(),
        }
    }
}
