//! How a session moves to another node: what it claims there, and how long what it holds is safe meanwhile.

use std::collections::BTreeSet;

use meshlock_cluster::table::Wait;
use meshlock_cluster::time::Time;
use meshlock_wire::clients::{HAS_CLAIMS, LossKind, RefusalKind, Tag, ToClient, ToNode};

use super::{RelayedHold, RelayedSession};
use crate::estimate::LeaseEstimate;

/// What is known of the site that granted a lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum FormerSite {
    /// It has said that it leaves, and gives the lock to nobody.
    Leaves,
    /// It may run: the last message that it has answered was sent at this time.
    LastHeard(Time),
}

/// A move to another node, until all claims are answered.
#[derive(Debug)]
pub(super) struct Move {
    /// What is held is safe until then, by the word of the former node.
    pub(super) end: Time,
    /// What was known of the former node: the estimate of its clock, its version, and when it was greeted.
    former: (LeaseEstimate, u16, Time),
    unanswered: BTreeSet<Tag>,
    /// When the claims were said to the new node.
    claimed_at: Time,
    /// Whether the new node has refused a claim that another one may accept.
    rejected: bool,
}

/// How a move stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::relay) enum MoveState {
    /// Some claims are not answered.
    Waiting,
    /// Another node has to be tried.
    Rejected,
    /// All claims are answered.
    Done,
}

impl RelayedSession {
    /// Returns whether the node has said that it leaves while the session has something to claim elsewhere. Says so once.
    pub(in crate::relay) fn takes_leave(&mut self) -> bool {
        std::mem::take(&mut self.leaving) && self.has_something_to_claim()
    }

    /// Returns whether the session has something that it can claim at another node.
    pub(in crate::relay) fn has_something_to_claim(&self) -> bool {
        self.can_move && self.holds.values().any(|hold| hold.proof.is_some())
    }

    /// Begins to move: the node is gone, or, if `leaves`, has said that it leaves. Returns the greeting for other nodes.
    pub(in crate::relay) fn begin_move(&mut self, leaves: bool) -> Option<ToNode> {
        let (end, estimate) = (self.safe_until()?, self.estimate.clone()?);
        let last_heard = estimate.last_heard();
        for hold in self.holds.values_mut() {
            // Of a claim that is not settled it counts what is known of the site that granted the lock.
            let here = if leaves { FormerSite::Leaves } else { FormerSite::LastHeard(last_heard) };
            hold.former.get_or_insert(here);
        }
        let former = (estimate, self.version, self.hello_said);
        let (unanswered, claimed_at) = (BTreeSet::new(), Time::ZERO);
        self.moving = Some(Move { end, former, unanswered, claimed_at, rejected: false });
        self.next_ping = None;
        self.hello.clone()
    }

    /// Gives up moving: the session stays with its node, if that is still there.
    pub(in crate::relay) fn stay(&mut self) {
        let Some(Move { former: (estimate, version, hello_said), .. }) = self.moving.take() else { return };
        for hold in self.holds.values_mut().filter(|hold| hold.until.is_none()) {
            hold.former = None;
        }
        self.next_ping = estimate.ping_every().map(|every| estimate.last_heard() + every);
        (self.estimate, self.version, self.hello_said) = (Some(estimate), version, hello_said);
    }

    /// Handles the welcome of another node to a greeting that was said at `said`. Returns what is to be said to that node; `None` if it
    /// cannot take the session over.
    pub(in crate::relay) fn on_welcome(
        &mut self,
        welcome: &ToClient,
        said: Time,
        now: Time,
    ) -> Option<Vec<ToNode>> {
        let ToClient::Welcome { version, time, contact, .. } = welcome else { return None };
        let moving = self.moving.as_mut().filter(|_| *version >= HAS_CLAIMS)?;
        (moving.rejected, moving.unanswered, moving.claimed_at) = (false, BTreeSet::new(), now);
        let mut says = Vec::new();
        for (tag, hold) in &self.holds {
            if let (Some(proof), Some(former)) = (&hold.proof, hold.former) {
                let contact = match former {
                    FormerSite::Leaves => None,
                    FormerSite::LastHeard(at) => Some(now.since(at)),
                };
                moving.unanswered.insert(*tag);
                says.push(ToNode::Claim { tag: *tag, proof: proof.clone(), contact });
            }
        }
        for (acquire, since) in self.waiting.values() {
            says.push(after(acquire, now, *since));
        }
        self.hello_said = said;
        self.greeted(*version, said, *time, *contact);
        Some(says)
    }

    /// Ends a move after which all claims are answered. Returns what the client is told.
    pub(in crate::relay) fn finish_move(&mut self) -> Vec<ToClient> {
        let Some(Move { end, .. }) = self.moving.take() else { return Vec::new() };
        let lost = self.holds.iter().filter(|(_, hold)| hold.proof.is_none() && !hold.is_unknown);
        let lost: Vec<Tag> = lost.map(|(tag, _)| *tag).collect();
        let mut tells: Vec<ToClient> = lost.into_iter().map(|tag| self.lose_in_move(tag, end)).collect();
        for tag in std::mem::take(&mut self.questions) {
            let why = "the session has moved to another node; ask again".to_owned();
            tells.push(ToClient::Refused { tag, kind: RefusalKind::Unavailable, why });
        }
        tells.extend(self.extended());
        tells
    }

    /// Notes that a lock did not come along to another node: it was safe until `end`.
    fn lose_in_move(&mut self, tag: Tag, end: Time) -> ToClient {
        if let Some(hold) = self.holds.get_mut(&tag) {
            *hold = RelayedHold { is_unknown: true, ..RelayedHold::default() };
        }
        self.lose(tag, end, LossKind::Unknown)
    }

    /// Returns how the move stands.
    pub(in crate::relay) fn move_state(&self) -> MoveState {
        match &self.moving {
            Some(moving) if moving.rejected => MoveState::Rejected,
            Some(moving) if !moving.unanswered.is_empty() => MoveState::Waiting,
            Some(_) | None => MoveState::Done,
        }
    }

    pub(super) fn is_claim(&self, tag: Tag) -> bool {
        self.moving.as_ref().is_some_and(|moving| moving.unanswered.contains(&tag))
    }

    /// Handles the answer to a claim.
    pub(super) fn on_claim_answer(&mut self, tag: Tag, said: ToClient) -> Option<ToClient> {
        let (estimate, moving) = (self.estimate.as_mut()?, self.moving.as_mut()?);
        if let ToClient::Refused { kind, .. } = said
            && may_be_accepted_elsewhere(kind)
        {
            moving.rejected = true;
            return None;
        }
        moving.unanswered.remove(&tag);
        if let ToClient::Claimed { lease_end, left, .. } = said {
            estimate.on_lease(lease_end);
            // Counted from when the claim was said: however long it was on its way, the former site keeps the lock for no longer.
            let until = left.map(|left| moving.claimed_at + estimate.drift().shrink(left));
            if let Some(hold) = self.holds.get_mut(&tag) {
                hold.until = until;
            }
            None
        } else if let ToClient::Settled { lease_end, .. } = said {
            // The session came back to the site that granted the lock.
            estimate.on_lease(lease_end);
            self.on_settled(tag);
            None
        } else {
            let end = moving.end;
            Some(self.lose_in_move(tag, end))
        }
    }
}

/// Returns whether a claim that was refused for this reason may be accepted by another node.
fn may_be_accepted_elsewhere(kind: RefusalKind) -> bool {
    matches!(
        kind,
        RefusalKind::Unavailable | RefusalKind::Leaving | RefusalKind::TooManyOpen | RefusalKind::TooFast
    )
}

/// Returns a request that was made at `since` as it is made again now: with what is left of its time to wait.
fn after(acquire: &ToNode, now: Time, since: Time) -> ToNode {
    let mut again = acquire.clone();
    if let ToNode::Acquire { wait, .. } = &mut again {
        *wait = Wait::after(*wait, now.since(since));
    }
    again
}
