//! The one way in: every door of a node, and the library, ask it through a [`Front`].
//!
//! A request takes the same path whichever door it came through:
//!
//! ```text
//!  admit (pace) ─▶ check rights ─▶ permits of the lock ─▶ the node, its lock taken once ─▶ audit ─▶ observer
//! ```
//!
//! So a rule, a limit or a mode that is added here holds everywhere. Nothing can be asked without an [`Admitted`] caller, and
//! nobody but [`Front::admit`] makes one of a caller that came over a network.

mod acquire;
mod permits;
mod questions;
mod readiness;
#[cfg(test)]
mod tests;

use std::ops::Deref;
use std::sync::Arc;

use meshlock_cluster::access::{Denied, Principal, Subject, Verb};
use meshlock_cluster::names::{ClientLabel, LockName, SiteName};
use meshlock_cluster::node::ClientCall;
use meshlock_cluster::table::Session;
use meshlock_cluster::time::Span;

use super::engine::{Handle, Listener};
use super::gate::{Caller, Gate, Kind, Origin, RequestId, TooFast};
pub use acquire::{
    AcquireEvent, AcquireState, Acquisition, Ended, Grant, LockRequest, NotGranted, Observer, Owner,
};
pub use permits::PermitsError;
pub use questions::{BrokenLock, NotAnswered};

/// The one way in to a node. Clones lead to the same node, by the same rules.
#[derive(Clone)]
pub struct Front(Arc<Inner>);

struct Inner {
    node: Handle,
    gate: Arc<Gate>,
    site: SiteName,
}

/// A caller whose request was counted and is not too fast. Only a [`Front`] makes one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Admitted(Caller);

impl Deref for Admitted {
    type Target = Caller;
    fn deref(&self) -> &Caller {
        &self.0
    }
}

impl Front {
    /// The way in to `node`, for callers that `gate` lets through.
    pub fn new(node: Handle, gate: Arc<Gate>) -> Self {
        let site = node.look(|node| node.me().site.clone());
        Front(Arc::new(Inner { node, gate, site }))
    }

    /// Counts a request of the caller, unless it asks too fast.
    pub fn admit(&self, caller: Caller, kind: Kind) -> Result<Admitted, TooFast> {
        self.0.gate.pace(&caller, kind)?;
        Ok(Admitted(caller))
    }

    /// Counts one more request of a caller that was admitted before: for streams that carry many.
    pub fn admit_again(&self, caller: &Admitted, kind: Kind) -> Result<(), TooFast> {
        self.0.gate.pace(caller, kind)
    }

    /// The program that runs the node in its own process: no rule binds it.
    pub fn in_process(&self) -> Admitted {
        Admitted(Caller { principal: Principal::Local, origin: Origin::Process, request: RequestId::new() })
    }

    /// Whether the caller may do something with this lock. A denial goes into the audit log.
    pub fn check(&self, caller: &Admitted, verb: Verb, lock: &LockName) -> Result<(), Denied> {
        self.0.gate.check(caller, verb, lock)
    }

    /// Whether the caller may do something with whatever `subject` is.
    pub fn check_subject(&self, caller: &Admitted, verb: Verb, subject: Subject<'_>) -> Result<(), Denied> {
        self.0.gate.check_subject(caller, verb, subject)
    }

    /// The rules and limits of this way in, and its audit log.
    pub fn gate(&self) -> &Arc<Gate> {
        &self.0.gate
    }

    /// The name of the node's site.
    pub fn site(&self) -> &SiteName {
        &self.0.site
    }

    /// The node itself, to be looked at.
    pub fn node(&self) -> &Handle {
        &self.0.node
    }

    /// Opens a session; `listener` is told how long what it holds is safe.
    pub fn open_session(&self, listener: Arc<dyn Listener>) -> Session {
        self.0.node.with(|node| node.open_session(listener))
    }

    /// Says who is behind a session, and after how long without a word it has certainly stopped using what it holds.
    pub fn introduce(&self, session: Session, who: ClientLabel, reacts_within: Span) {
        self.0.node.with(|node| node.call(ClientCall::Introduce { session, who, reacts_within }));
    }

    /// Ends a session: what it holds is free. Of `acquisitions`, which are its own, nothing more is told.
    pub fn close_session<O: Observer>(
        &self,
        session: Session,
        acquisitions: impl IntoIterator<Item = Arc<Acquisition<O>>>,
    ) {
        let acquisitions: Vec<_> = acquisitions.into_iter().collect();
        self.0.node.with(|node| {
            let requests = acquisitions.iter().filter_map(|acquisition| acquisition.close_quietly());
            node.close_session(session, requests);
        });
    }
}
