//! What a node's messages mean for the requests of one session. Nothing here waits, reads a clock or does I/O.
//!
//! - Inputs: [`open`](OpenRequests::open) and [`forget`](OpenRequests::forget) when the client asks and releases,
//!   [`keep_until`](OpenRequests::keep_until) when the node has confirmed the session,
//!   [`on_message`](OpenRequests::on_message), [`lose_if_due`](OpenRequests::lose_if_due), [`on_end`](OpenRequests::on_end). The last three
//!   return which requests have changed.
//! - Getters: [`state`](OpenRequests::state), [`held_until`](OpenRequests::held_until), [`due`](OpenRequests::due).
//!
//! **Invariants.**
//! 1. A lock that is lost stays lost, for the first reason; a later message can only shorten the time that is left.
//! 2. A lock is held only after a grant, and no longer once the node says that the request has ended, for whatever reason.
//! 3. [`held_until`](OpenRequests::held_until) never decreases: a node takes back a lock, never a promise about its lease.

use std::collections::BTreeMap;

use meshlock_cluster::time::{Span, Time};
use meshlock_wire::clients::{LossKind, RefusalKind, Tag, ToClient};

use super::request_state::{Loss, NotGranted, RequestState};

/// The requests of one session that their client has not forgotten, and until when the session's lease lasts. All times are those of the
/// client's own clock.
#[derive(Debug, Default)]
pub struct OpenRequests {
    states: BTreeMap<Tag, RequestState>,
    lease_end: Time,
    /// Until when the node certainly keeps the session, if it ends those that are silent.
    session_end: Option<Time>,
    /// How long before the end of the lease a loss is reported: the longest margin that the node has sent.
    margin: Span,
}

impl OpenRequests {
    /// Adds a request that waits, before it is sent to the node.
    pub fn open(&mut self, tag: Tag) {
        self.states.insert(tag, RequestState::Waiting);
    }

    /// Removes a request: its client releases the lock, stops waiting, or has seen how the request ended.
    pub fn forget(&mut self, tag: Tag) {
        self.states.remove(&tag);
    }

    /// Returns the state of a request that is not forgotten.
    pub fn state(&self, tag: Tag) -> Option<&RequestState> {
        self.states.get(&tag)
    }

    /// Returns until when nobody else holds what is held here.
    pub fn held_until(&self) -> Time {
        self.session_end.map_or(self.lease_end, |end| end.min(self.lease_end))
    }

    /// Notes until when the node certainly keeps the session. What is held is not safe for longer.
    pub fn keep_until(&mut self, session_end: Time) {
        self.session_end = Some(self.session_end.map_or(session_end, |known| known.max(session_end)));
    }

    /// Returns when everything that is held is lost unless the node extends it before; `None` if nothing is held.
    pub fn due(&self) -> Option<Time> {
        let holds = self.states.values().any(|state| matches!(state, RequestState::Held { .. }));
        holds.then(|| self.held_until().before(self.margin))
    }

    /// Handles a message of the node. `local` converts a time of the node's clock to a time of our clock that is certainly not after it.
    /// Returns the request whose state has changed, if one has.
    pub fn on_message(&mut self, message: ToClient, local: impl Fn(Time) -> Time) -> Option<Tag> {
        match message {
            ToClient::Extended { lease_end } => {
                self.lease_end = self.lease_end.max(local(lease_end));
                None
            }
            ToClient::Granted { tag, fence, slot, lease_end, margin } => {
                self.lease_end = self.lease_end.max(local(lease_end));
                self.margin = self.margin.max(margin);
                let state = self.states.get_mut(&tag).filter(|state| **state == RequestState::Waiting)?;
                *state = RequestState::Held { fence, slot, margin };
                Some(tag)
            }
            ToClient::Lost { tag, act_by, why } => self.on_lost(tag, local(act_by), why),
            ToClient::LostV2 { tag, act_by } => self.on_lost(tag, local(act_by), LossKind::Unknown),
            ToClient::TimedOut(tag) => self.on_ended(tag, NotGranted::TimedOut),
            ToClient::Busy(tag) => self.on_ended(tag, NotGranted::Busy),
            ToClient::Refused { tag, kind, why } => self.on_ended(tag, NotGranted::Refused { kind, why }),
            ToClient::RefusedV2 { tag, why } => {
                self.on_ended(tag, NotGranted::Refused { kind: RefusalKind::Other, why })
            }
            ToClient::Released(tag) | ToClient::Cancelled(tag) => self.on_ended(tag, NotGranted::Cancelled),
            ToClient::Welcome { .. }
            | ToClient::Pong { .. }
            | ToClient::Queue { .. }
            | ToClient::Status { .. }
            | ToClient::StatusWithDisk { .. }
            | ToClient::Broken { .. }
            | ToClient::RulesSet { .. }
            | ToClient::Locks { .. }
            | ToClient::Leaves { .. }
            | ToClient::Left(_)
            | ToClient::Traced { .. }
            | ToClient::StatusWithVoters { .. }
            | ToClient::VotersChanged(_)
            | ToClient::VotersRefused { .. }
            | ToClient::Access { .. }
            | ToClient::AccessSet { .. }
            | ToClient::Diagnoses { .. }
            | ToClient::LockPage { .. }
            | ToClient::Changes { .. }
            | ToClient::Deadlocks { .. }
            | ToClient::Proof { .. }
            | ToClient::Claimed { .. }
            | ToClient::Settled { .. }
            | ToClient::Leaving => None,
        }
    }

    /// If the lease has not been extended in time, everything that is held is lost. Whoever calls this must have handled all messages that
    /// had arrived by `now`: they may have extended the lease. Returns the requests that have changed.
    pub fn lose_if_due(&mut self, now: Time) -> Vec<Tag> {
        if self.due().is_none_or(|due| now < due) {
            return Vec::new();
        }
        self.lose_all(Loss::NodeSilent)
    }

    /// Handles the end of the connection: held locks are lost, and waiting requests are not granted. Returns the requests that have
    /// changed.
    pub fn on_end(&mut self) -> Vec<Tag> {
        let mut changed = self.lose_all(Loss::Disconnected);
        for (tag, state) in &mut self.states {
            if *state == RequestState::Waiting {
                *state = RequestState::Ended(NotGranted::Disconnected);
                changed.push(*tag);
            }
        }
        changed
    }

    fn lose_all(&mut self, why: Loss) -> Vec<Tag> {
        let (mut lost, act_by) = (Vec::new(), self.held_until());
        for (tag, state) in &mut self.states {
            if let RequestState::Held { .. } = state {
                *state = RequestState::Lost { act_by, why };
                lost.push(*tag);
            }
        }
        lost
    }

    fn on_lost(&mut self, tag: Tag, act_by: Time, why: LossKind) -> Option<Tag> {
        let state = self.states.get_mut(&tag)?;
        match state {
            RequestState::Waiting | RequestState::Held { .. } => {
                *state = RequestState::Lost { act_by, why: Loss::Told(why) };
            }
            RequestState::Lost { act_by: known, .. } if act_by < *known => *known = act_by,
            RequestState::Lost { .. } | RequestState::Ended(_) => return None,
        }
        Some(tag)
    }

    /// The node says that a request has ended. Whoever releases a lock forgets the request first, so a lock that is held here was not
    /// released by us: somebody else may have it already.
    fn on_ended(&mut self, tag: Tag, why: NotGranted) -> Option<Tag> {
        if let RequestState::Held { .. } = self.states.get(&tag)? {
            return self.on_lost(tag, Time::ZERO, LossKind::Unknown);
        }
        let state = self.states.get_mut(&tag).filter(|state| **state == RequestState::Waiting)?;
        *state = RequestState::Ended(why);
        Some(tag)
    }
}

#[cfg(test)]
mod tests;
