//! One type over all algorithms, for hosts that learn at run time which one they run.
//!
//! [`AnySite`] is itself an [`Algorithm`](crate::Algorithm), so that a host which is generic over algorithms can run on it
//! and is compiled once. Each call costs a match, and each call with effects an allocation. A node makes millions of calls:
//! it keeps an [`AnyOutbox`] and uses [`AnySite::call`] and [`AnySite::deliver`], which do not allocate at steady state. Where even the match was
//! measured to matter, a host stays generic and turns the name into a type with a [`Visitor`](super::Visitor).

mod algorithm;
mod define;
mod site;

use super::{AnyMessage, AnyPlan, AnySite, Scratch};
use crate::{Chooser, Cluster, Demand, Effect, Holders, Mode, Outbox, PlanError, SiteId, SiteSet, Spec};

pub(super) use define::any;

/// Why a message is refused that belongs to another algorithm than the lock runs.
pub const OTHER_ALGORITHM: &str = "a message of another algorithm";

/// One call of a site but [`Site::receive`](crate::Site::receive), which [`AnySite::deliver`] is: a message is too large to be
/// copied with every call.
#[derive(Clone, Copy, Debug)]
pub enum SiteCall<'a> {
    /// [`Site::request_as`](crate::Site::request_as).
    Request(Demand),
    /// [`Site::release`](crate::Site::release).
    Release,
    /// [`Site::release_and_request_as`](crate::Site::release_and_request_as).
    ReleaseAndRequest(Demand),
    /// [`Site::change_mode`](crate::Site::change_mode).
    ChangeMode(Mode),
    /// [`Site::peer_failed`](crate::Site::peer_failed).
    PeerFailed(SiteId),
    /// [`Site::peer_recovered`](crate::Site::peer_recovered).
    PeerRecovered(SiteId),
    /// [`Site::restart`](crate::Site::restart).
    Restart,
    /// [`Site::partitioned`](crate::Site::partitioned).
    Partitioned(&'a SiteSet),
    /// [`Site::reunited`](crate::Site::reunited).
    Reunited(&'a SiteSet),
    /// [`Site::wake`](crate::Site::wake).
    Wake,
}

/// Collects the effects of [`AnySite::call`] and [`AnySite::deliver`]. One serves all sites of a host, so that a site that rests keeps no memory for
/// its next call.
#[derive(Clone, Debug, Default)]
pub struct AnyOutbox {
    effects: Outbox<AnyMessage>,
    scratch: Scratch,
}

impl AnyOutbox {
    /// An empty outbox, which asks `chooser` for what the papers leave open.
    pub fn choosing(chooser: Chooser) -> Self {
        AnyOutbox { effects: Outbox::choosing(chooser), scratch: Scratch::default() }
    }

    /// The effects so far, in order.
    pub fn effects(&self) -> &[Effect<AnyMessage>] {
        self.effects.effects()
    }

    /// Takes the effects out, in order, and leaves the outbox empty with its memory.
    pub fn drain(&mut self) -> impl Iterator<Item = Effect<AnyMessage>> + '_ {
        self.effects.drain()
    }
}

impl AnyPlan {
    /// Checks the algorithm that `spec` names against the cluster and lets it prepare itself.
    pub fn new(spec: &Spec, cluster: Cluster) -> Result<Self, PlanError> {
        super::plan::<AnySite>(cluster, &spec.values)
    }

    /// The site `me`, at the moment when exactly `holders` are inside and no message is in flight.
    pub fn start(&self, me: SiteId, holders: &Holders) -> AnySite {
        AnySite::start_planned(self, me, holders)
    }
}

impl AnySite {
    /// Makes one call; its effects are in `out`.
    pub fn call(&mut self, call: SiteCall<'_>, out: &mut AnyOutbox) {
        self.dispatch(call, &mut out.scratch, &mut out.effects);
    }

    /// [`Site::receive`](crate::Site::receive); its effects are in `out`. A message of another algorithm changes nothing and
    /// is reported.
    pub fn deliver(&mut self, from: SiteId, message: AnyMessage, out: &mut AnyOutbox) {
        self.dispatch_message(from, message, &mut out.scratch, &mut out.effects);
    }

    /// The state as the algorithm prints it, in the words of every trace.
    pub fn printed(&self) -> String {
        format!("{self:?}")
    }
}

impl AnyMessage {
    /// The message as the algorithm prints it, in the words of every trace.
    pub fn printed(&self) -> String {
        format!("{self:?}")
    }
}
