//! The sites' code behind one object-safe boundary: the only part of the explorer that is compiled once for each
//! algorithm.
//!
//! The states of single sites and the messages between them are numbered here as they appear. Everything else (tables,
//! search, graph, liveness) sees the numbers only.

use meshlock_protocol::registry::info::Span;
use meshlock_protocol::registry::values::Values;
use meshlock_protocol::{
    Algorithm, Effect, Info, Message, Outbox, Phase, PlanError, SiteId, SiteSet, Timestamp,
};
use smallvec::SmallVec;

use crate::Bounds;
use crate::interner::Interner;
use crate::state::{GlobalState, Layout};
use crate::table::Labels;

/// One call of a site, with its message by number.
#[derive(Clone, Copy, Debug)]
pub(crate) enum NumberedCall {
    Request,
    Release,
    ReleaseAndRequest,
    Wake,
    Restart,
    PeerFailed(SiteId),
    PeerRecovered(SiteId),
    Receive { from: SiteId, message: u32 },
}

/// Properties of a site's state that the search needs, computed once when the state is numbered.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SiteFacts {
    pub(crate) phase: Phase,
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

    /// The state after `call`. What the call does is added to `effects`, with messages by number.
    fn step(&mut self, site: u32, call: NumberedCall, effects: &mut Vec<Effect<u32>>) -> u32;

    fn facts(&self, site: u32) -> SiteFacts;

    /// Number of tokens in a message.
    fn tokens(&self, message: u32) -> usize;

    /// Prints a message as the algorithm does.
    fn print(&self, message: u32) -> String;

    /// Whether a request of the site can still be served once all know that `down` have failed.
    fn survives(&self, site: u32, down: &SiteSet) -> bool;

    fn quorum(&self, site: u32) -> Option<usize>;

    fn cost_span(&self, site: u32) -> Option<Span>;

    /// Checks the invariants that span sites.
    fn check_together(
        &self,
        labels: &Labels,
        layout: Layout,
        state: &GlobalState,
    ) -> Result<(), &'static str>;

    fn sizes(&self) -> Sizes;
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
        let mut sites = Interner::default();
        let first = SiteId::all(bounds.cluster.sites)
            .map(|me| sites.insert(A::start(&plan, me, &bounds.holders)).0)
            .collect();
        let (messages, outbox) = (Interner::default(), Outbox::new());
        Ok(Box::new(Typed { info: values.info(), first, sites, messages, outbox }))
    }
}

impl<A: Algorithm> Sites for Typed<A> {
    fn info(&self) -> &'static Info {
        self.info
    }

    fn first(&self) -> &[u32] {
        &self.first
    }

    fn step(&mut self, site: u32, call: NumberedCall, effects: &mut Vec<Effect<u32>>) -> u32 {
        let mut site = self.sites.get(site).clone();
        let out = &mut self.outbox;
        match call {
            NumberedCall::Request => site.request(out),
            NumberedCall::Release => site.release(out),
            NumberedCall::ReleaseAndRequest => site.release_and_request(out),
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
