//! The single admission path of a node: every API of a node, and the library, call it through a [`Front`].
//!
//! A request takes the same path whichever API it came through:
//!
//! ```text
//!  admit (pace) ─▶ check rights ─▶ the node, its lock taken once ─▶ audit ─▶ observer
//! ```
//!
//! So a rule, a limit or a mode that is added here applies everywhere. Every request needs an [`Admitted`] caller, and only
//! [`Front::admit`] and, for a connection, `Front::greet` create one for a caller that came over a network.

mod acquire;
mod calls;
mod listing;
mod permits;
mod questions;
mod readiness;
mod shown;
#[cfg(test)]
mod tests;
mod voters;

use std::ops::Deref;
use std::sync::Arc;

use meshlock_cluster::access::{Denied, KnownToken, Principal, Subject, Verb};
use meshlock_cluster::names::{ClientLabel, LockName, SiteName};
use meshlock_cluster::node::ClientCall;
use meshlock_cluster::table::Session;
use meshlock_cluster::time::{Span, Time};

use super::agreed_access;
use super::engine::Handle;
use super::gate::{
    Audit, AuditEvent, Buffered, Caller, CallerOrigin, Connected, Gate, Policy, RequestId, RequestKind,
    TooFast, TooMany, TooManyConnections, WatchUse,
};
pub use acquire::{
    AcquireEvent, AcquireParams, AcquireState, Acquisition, ClaimNews, Ended, LockGrant, NotGranted,
    Observer, Owner,
};
pub use calls::{ForwardPath, NotForwarded};
pub use listing::{ChangeWatch, Changes};
pub use permits::PermitsError;
pub use questions::{BrokenLock, NotAnswered, NotWatched, QueueReader, VotersNotChanged};
pub(crate) use shown::show_line;
pub use shown::shown;
pub use voters::ClusterHealth;

/// The single admission path of a node. Clones refer to the same node and the same rules.
#[derive(Clone)]
pub struct Front(Arc<Inner>);

struct Inner {
    node: Handle,
    gate: Arc<Gate>,
    site: SiteName,
    changes: listing::ChangeHub,
}

/// Why a client may not keep a connection.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum NotWelcome {
    #[error(transparent)]
    TooFast(#[from] TooFast),
    #[error(transparent)]
    Denied(#[from] Denied),
    #[error(transparent)]
    Connections(#[from] TooManyConnections),
}

/// A caller whose request was counted and is within its rate limit. Only a [`Front`] creates one. All acquisitions of a session share it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Admitted(Arc<Caller>);

impl Deref for Admitted {
    type Target = Caller;
    fn deref(&self) -> &Caller {
        &self.0
    }
}

impl Front {
    /// Creates the admission path of `node`, with the rules, limits and audit log of `gate`.
    pub fn new(node: Handle, gate: Arc<Gate>) -> Self {
        let site = node.look(|node| node.me().site.clone());
        let mut access = node.access();
        gate.replace_agreed(access.borrow_and_update().document.clone());
        node.tasks().spawn(agreed_access::keep_replacing(Arc::downgrade(&gate), access));
        node.serves_through(&gate);
        Front(Arc::new(Inner { node, gate, site, changes: listing::ChangeHub::default() }))
    }

    /// Admits a request of the caller, unless the caller exceeds its rate limit.
    pub fn admit(&self, caller: Caller, kind: RequestKind) -> Result<Admitted, TooFast> {
        self.0.gate.pace(&caller, kind)?;
        Ok(Admitted(Arc::new(caller)))
    }

    /// Counts another request of an admitted caller, for streams that carry many requests.
    pub fn admit_again(&self, caller: &Admitted, kind: RequestKind) -> Result<(), TooFast> {
        self.0.gate.pace(caller, kind)
    }

    /// Returns the client of a session that another member has told this site of. Its requests are counted where it makes them.
    pub fn on_behalf_of(&self, caller: Caller) -> Admitted {
        Admitted(Arc::new(caller))
    }

    /// Returns the program that runs the node in its own process, which no rule restricts.
    pub fn in_process(&self) -> Admitted {
        Admitted(Arc::new(Caller {
            principal: Principal::Local,
            origin: CallerOrigin::Process,
            certificate: None,
            request: RequestId::new(),
        }))
    }

    /// Checks whether the caller may use `verb` on this lock. A denial is written to the audit log.
    pub fn check(&self, caller: &Admitted, verb: Verb, lock: &LockName) -> Result<(), Denied> {
        self.0.gate.check(caller, verb, lock)
    }

    /// Checks whether the caller may use `verb` on `subject`. A denial is written to the audit log.
    pub fn check_subject(&self, caller: &Admitted, verb: Verb, subject: Subject<'_>) -> Result<(), Denied> {
        self.0.gate.check_subject(caller, verb, subject)
    }

    /// Checks whether the caller has any right at all. A denial names `verb`, and is written to the audit log.
    pub fn check_any_right(&self, caller: &Admitted, verb: Verb) -> Result<(), Denied> {
        let all = [Verb::Acquire, Verb::Watch, Verb::Break, Verb::Admin];
        if all.iter().any(|verb| self.may(caller, *verb, Subject::Some)) {
            return Ok(());
        }
        self.check_subject(caller, verb, Subject::Some)
    }

    /// Returns whether the caller may use `verb` on `subject`, for answers that leave out what it may not see. Nothing is audited.
    pub fn may(&self, caller: &Admitted, verb: Verb, subject: Subject<'_>) -> bool {
        self.0.gate.may(caller, verb, subject).is_ok()
    }

    /// Admits a client that keeps a connection: it is limited by the number of its connections, and each of its requests by
    /// [`admit_again`](Front::admit_again).
    ///
    /// A client that has no right at all is refused here, and not only when it asks for something: a connection costs something, too.
    pub(crate) fn greet(&self, caller: Caller) -> Result<(Admitted, Option<Connected>), NotWelcome> {
        let counts = matches!(caller.origin, CallerOrigin::Network(_));
        let caller = self.admit(caller, RequestKind::Ask)?;
        self.check_any_right(&caller, Verb::Acquire)?;
        let connected = counts.then(|| self.connect(&caller.principal)).transpose()?;
        Ok((caller, connected))
    }

    /// Counts a connection of `principal`, until what is returned is dropped.
    pub fn connect(&self, principal: &Principal) -> Result<Connected, TooManyConnections> {
        self.0.gate.connect(principal)
    }

    /// Returns a buffer for what the caller sends and is sent, which counts towards its limit.
    pub fn buffer(&self, caller: &Admitted) -> Buffered {
        self.0.gate.buffer(&caller.principal)
    }

    /// Returns the number of bytes that this site keeps for all of its clients.
    pub fn buffered_bytes(&self) -> usize {
        self.0.gate.buffered_bytes()
    }

    /// Counts an open watch of the caller, until what is returned is dropped; `None` if no limit applies to it.
    pub fn count_watch(&self, caller: &Admitted) -> Result<Option<WatchUse>, TooMany> {
        self.0.gate.use_watch(caller)
    }

    /// Returns what this site knows of a token. Whether the token is over, and its client revoked, is for the caller to check.
    pub fn token(&self, token: &str) -> Option<KnownToken> {
        self.0.gate.policy().tokens.find(token).cloned()
    }

    /// Returns whether this site knows any tokens.
    pub fn has_tokens(&self) -> bool {
        !self.0.gate.policy().tokens.is_empty()
    }

    /// Writes to the audit log that a caller could not be identified, which costs it more than a request that is served.
    pub fn note_unknown(&self, caller: &Admitted) {
        self.0.gate.note_unknown(caller);
    }

    /// Replaces the access rules and tokens. Locks that were granted before are kept.
    pub fn set_policy(&self, policy: Policy) {
        self.0.gate.replace(policy);
    }

    /// Returns the audit log.
    pub fn audit(&self) -> &Audit {
        self.0.gate.audit()
    }

    /// Returns the name of the node's site.
    pub fn site(&self) -> &SiteName {
        &self.0.site
    }

    /// Returns the node's handle, for reading its state.
    pub fn node(&self) -> &Handle {
        &self.0.node
    }

    /// Opens a session of the caller.
    pub fn open_session(&self, _: &Admitted) -> Session {
        self.0.node.with(|node| node.open_session())
    }

    /// Opens a session of a client in another process, which `who` describes to others. After `silence` without a message, by any clock,
    /// the client has certainly stopped using what it holds.
    pub(crate) fn open_client_session(&self, _: &Admitted, who: ClientLabel, silence: Span) -> Session {
        self.0.node.with(|node| {
            let session = node.open_session();
            let reacts_within = node.node().lease().terms().drift.stretch(silence);
            node.call(ClientCall::Introduce { session, who, reacts_within });
            session
        })
    }

    /// Ends a session of the caller and releases what it holds. The observers of `acquisitions`, which belong to it, are not called
    /// again.
    pub fn close_session<O: Observer>(
        &self,
        caller: &Admitted,
        session: Session,
        acquisitions: impl IntoIterator<Item = Arc<Acquisition<O>>>,
        why: &'static str,
    ) {
        let acquisitions: Vec<_> = acquisitions.into_iter().collect();
        self.0.node.with(|node| {
            let requests = acquisitions.iter().filter_map(|acquisition| acquisition.close_quietly());
            node.close_session(session, requests);
        });
        self.note_session_end(caller, None, why);
    }

    /// Leaves a session alone whose client's connection was cut, and which may still run: what the client can prove stays taken for the resume
    /// window, and the rest for as long as the client may rely on it. The observers of `acquisitions`, which belong to it, are not called
    /// again.
    pub(crate) fn cut_session<O: Observer>(
        &self,
        caller: &Admitted,
        session: Session,
        acquisitions: impl IntoIterator<Item = Arc<Acquisition<O>>>,
        (last_contact, relies_for): (Time, Span),
    ) {
        let acquisitions: Vec<_> = acquisitions.into_iter().collect();
        self.0.node.with(|node| {
            for request in acquisitions.iter().filter_map(|acquisition| acquisition.close_quietly()) {
                node.forget(request);
            }
            node.call(ClientCall::SessionCut { session, last_contact, relies_for });
        });
        self.note_session_end(caller, None, "its client was cut off");
    }

    /// Writes to the audit log that a session has ended. The sessions of the wire APIs consist of acquisitions that have a session each,
    /// and have an identifier that their clients know.
    pub fn note_session_end(&self, owner: &Caller, session: Option<String>, why: &'static str) {
        self.audit().note(owner, None, AuditEvent::Ended { session, why });
    }
}
