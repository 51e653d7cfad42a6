//! The boundary between an algorithm and its host.

use std::fmt::{Debug, Display};
use std::hash::Hash;

use crate::registry::info::{BypassClaim, Info, Span};
use crate::registry::values::Values;
use crate::{Cluster, Demand, Holders, Mode, Numbers, Outbox, PlanError, SiteId, SiteSet, Timestamp, View};

/// A message from one site to another. It displays in the paper's notation: its kind, and what it carries in brackets.
pub trait Message: Clone + Debug + Display + Eq + Hash + Send + Sync {
    /// The name of its kind: one of those that the algorithm's [`Info`] lists.
    fn kind(&self) -> &'static str;

    /// Its length in words as the K-mutual-exclusion report counts them: source, destination, type, and one for
    /// each number carried.
    fn words(&self) -> usize;

    /// The number of tokens that it carries.
    fn tokens(&self) -> usize {
        0
    }

    /// Visits the numbers of this message, which is on its way between these sites, that only grow. See
    /// [`relative`](crate::relative).
    fn numbers(&mut self, from: SiteId, to: SiteId, numbers: &mut Numbers<'_>) {
        let _ = (from, to, numbers);
    }
}

/// One site's part in one algorithm, for one lock.
///
/// One call is one atomic transition; its effects are in `out`. Calls are total: a message that no correct peer
/// could have sent changes nothing and is reported with [`Outbox::misbehaved`].
///
/// *Inputs that every host gives*: [`request`](Site::request), [`receive`](Site::receive),
/// [`release`](Site::release) or [`release_and_request`](Site::release_and_request), [`wake`](Site::wake). The host
/// calls `request` only while the process is idle and the two others only while it is in the critical section;
/// anything else is the host's own bug, and the site asserts it.
///
/// *Inputs of processes that share*, given only to algorithms that know them ([`Values::know`]): [`request_as`](Site::request_as) and
/// [`release_and_request_as`](Site::release_and_request_as) with a demand that is not plain, and
/// [`change_mode`](Site::change_mode).
///
/// *Inputs for the papers' failure handling*, given only to algorithms whose [`Info`] says that they handle
/// them: the rest. To all others they do nothing.
pub trait Site: Clone + Debug + Eq + Hash {
    /// The messages of this algorithm.
    type Message: Message;

    /// The process at this site requests.
    fn request(&mut self, out: &mut Outbox<Self::Message>);

    /// The process at this site requests what `demand` says. An algorithm that knows no other than the plain one is never asked for
    /// another.
    fn request_as(&mut self, demand: Demand, out: &mut Outbox<Self::Message>) {
        assert!(demand == Demand::PLAIN, "the host asks only for what the algorithm knows");
        self.request(out);
    }

    /// `message` has arrived from the site `from`.
    fn receive(&mut self, from: SiteId, message: Self::Message, out: &mut Outbox<Self::Message>);

    /// The process at this site leaves the critical section.
    fn release(&mut self, out: &mut Outbox<Self::Message>);

    /// The process at this site leaves and requests again, in one step: what `release` and then `request` would
    /// do. An algorithm overrides this if what it sends on leaving can carry the next request.
    fn release_and_request(&mut self, out: &mut Outbox<Self::Message>) {
        self.release(out);
        self.request(out);
    }

    /// What `release` and then `request_as` would do, in one step.
    fn release_and_request_as(&mut self, demand: Demand, out: &mut Outbox<Self::Message>) {
        if demand == Demand::PLAIN {
            return self.release_and_request(out);
        }
        self.release(out);
        self.request_as(demand, out);
    }

    /// The process at this site, which is inside, changes its mode without leaving ([`Mode::may_become`]).
    ///
    /// A downgrade is done when the call returns: whoever may be inside together with it now is let in, in the order in which
    /// they would have entered after it. An upgrade waits, in its old mode, until all others have left; nobody enters before
    /// it. When it is exclusive the site says so with [`Outbox::upgraded`]. The host may call `release` before that.
    fn change_mode(&mut self, to: Mode, out: &mut Outbox<Self::Message>) {
        let _ = (to, out);
        panic!("the host changes modes only of algorithms that know them");
    }

    /// `peer` has failed. This is certain, and no message of its former incarnation is still in flight to this site.
    fn peer_failed(&mut self, peer: SiteId, out: &mut Outbox<Self::Message>) {
        let _ = (peer, out);
    }

    /// `peer`, which had failed, runs again.
    fn peer_recovered(&mut self, peer: SiteId, out: &mut Outbox<Self::Message>) {
        let _ = (peer, out);
    }

    /// This site had failed and runs again. It has lost its state, except for what its file describes as kept on
    /// stable storage. Its process is idle. The peers are told by [`peer_recovered`](Site::peer_recovered).
    fn restart(&mut self, out: &mut Outbox<Self::Message>) {
        let _ = out;
    }

    /// The network has split: the sites in `away` are alive or not, but cannot be reached.
    fn partitioned(&mut self, away: &SiteSet, out: &mut Outbox<Self::Message>) {
        let _ = (away, out);
    }

    /// Two parts of a split network are one again: the sites in `back`, which were a part, can be reached. Every site of
    /// both parts is told. Other parts may still be away.
    fn reunited(&mut self, back: &SiteSet, out: &mut Outbox<Self::Message>) {
        let _ = (back, out);
    }

    /// A timer that this site set has run out.
    fn wake(&mut self, out: &mut Outbox<Self::Message>) {
        let _ = out;
    }
}

/// What the process at a site does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Phase {
    /// Neither in the critical section nor waiting for it.
    Idle,
    /// Has requested and not yet entered.
    Waiting,
    /// In the critical section.
    Executing,
}

/// A message in flight: (from, to, message).
pub type InFlight<'a, M> = (SiteId, SiteId, &'a M);

/// The description of an algorithm, known from its type alone.
///
/// Every algorithm has one. Only [`AnySite`](crate::registry::AnySite) has none: its values know their algorithm, its
/// type does not. Hosts therefore ask the options of a run ([`Values::info`]) or a site ([`Algorithm::info`]).
pub trait Described {
    /// Name, paper, options, costs.
    const INFO: Info;
}

/// What a host needs of an algorithm beyond [`Site`]: how it starts, what must hold, what is known about it.
pub trait Algorithm: Site + Send + Sync + 'static {
    /// Everything that is fixed before the first site starts: options, trees, quorums. Made once for a cluster,
    /// cheap to clone, shared by all sites.
    type Plan: Clone + Debug;

    /// Name, paper, options, costs.
    fn info(&self) -> &'static Info;

    /// Checks the options against the cluster and prepares what all sites share.
    fn plan(cluster: Cluster, values: &Values) -> Result<Self::Plan, PlanError>;

    /// The site `me`, at the moment when exactly `holders` are in the critical section and no message is in flight.
    fn start(plan: &Self::Plan, me: SiteId, holders: &Holders) -> Self;

    /// What the process at this site does.
    fn phase(&self) -> Phase;

    /// The mode in which the process at this site waits or is inside. While it waits to be exclusive, the one that it has.
    fn mode(&self) -> Mode {
        Mode::Exclusive
    }

    /// Whether the process is inside and waits to be exclusive.
    fn is_upgrading(&self) -> bool {
        false
    }

    /// Whether another process of this site may be inside in shared mode beside the one that is, without a word to anybody. The
    /// host then counts them as one, in the mode that admits fewest, and releases after the last. An algorithm says no as long as it
    /// knows of a request that must not be passed.
    fn may_share(&self) -> bool {
        false
    }

    /// Whether the site owes nothing to anyone: its process is idle, nothing is queued, deferred or locked.
    fn is_quiet(&self) -> bool;

    /// The timestamp of the request that waits or executes here, where the algorithm gives requests one.
    fn timestamp(&self) -> Option<Timestamp> {
        None
    }

    /// The number of sites whose permission a request of this site needs, itself included, where the algorithm has
    /// quorums.
    fn quorum(&self) -> Option<usize> {
        None
    }

    /// The cost of an entry under any load, with the options of this run.
    fn cost_span(&self) -> Option<Span> {
        self.info().costs.always
    }

    /// How often others may enter while a site waits, with the options of this run.
    fn bypass_claim(&self) -> Option<BypassClaim> {
        self.info().bypass.claim()
    }

    /// Whether a request of this site can still be served once all know that `down` have failed. Where the algorithm
    /// leaves failures to its host, none can be relied on.
    fn survives(&self, down: &SiteSet) -> bool {
        down.is_empty() || self.info().failures.crash
    }

    /// The number of tokens at this site.
    fn tokens(&self) -> usize {
        0
    }

    /// Visits the numbers of this site that only grow. First replaces those that do not matter any more by others that do not
    /// depend on the past, so that two sites that cannot be told apart become equal. See [`relative`](crate::relative).
    fn numbers(&mut self, numbers: &mut Numbers<'_>) {
        let _ = numbers;
    }

    /// What a picture of this site shows.
    fn view(&self) -> View {
        View::default()
    }

    /// Whether an exploration continues from states with this site in them. A model whose clocks never stop returns false
    /// where it is to end.
    fn is_within_bounds(&self) -> bool {
        true
    }

    /// Checks the numbered invariants of one site's state. The error quotes the number.
    fn check_invariants(&self) -> Result<(), &'static str>;

    /// Checks the numbered invariants that span sites and the messages between them, while every site runs and the network is
    /// whole.
    fn check_together(
        sites: &[&Self],
        in_flight: &[InFlight<'_, Self::Message>],
    ) -> Result<(), &'static str> {
        let _ = (sites, in_flight);
        Ok(())
    }
}

/// Returns with `why` unless `holds`: one line of a `check_invariants`.
#[macro_export]
macro_rules! invariant {
    ($holds:expr, $why:literal) => {
        if !$holds {
            return Err($why);
        }
    };
}
