//! How a relay changes the messages of client and node: times of the node's clock become times of this machine's clock, and leases end
//! in time. Nothing here waits or reads a clock.
//!
//! **Moving.** If the client named several nodes, the relay asks for a proof of every lock that is granted. When its node is gone or
//! leaves, it greets another one, [claims](RelayedSession::on_welcome) there what it can prove and asks again for what the client waits
//! for. The client sees none of that: until all claims are answered nothing is extended, and what is not accepted is lost by the time
//! that the former node had promised.

mod moving;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};

use meshlock_cluster::claim::Proof;
use meshlock_cluster::time::Time;
use meshlock_wire::clients::{Contact, HAS_CLAIMS, LossKind, Tag, ToClient, ToNode};

use crate::estimate::LeaseEstimate;
pub(super) use moving::MoveState;
use moving::{FormerSite, Move};

/// The tag of the relay's first ping. Clients number their requests from one.
const FIRST_PING: Tag = 1 << 63;

/// A client's session with a node on another machine.
#[derive(Debug, Default)]
pub(super) struct RelayedSession {
    /// The client's greeting, and when it was said last to a node.
    hello: Option<ToNode>,
    hello_said: Time,
    /// The version that the node speaks.
    version: u16,
    estimate: Option<LeaseEstimate>,
    next_ping: Option<Time>,
    pings: u64,
    holds: BTreeMap<Tag, RelayedHold>,
    /// The requests that wait, and when each was made.
    waiting: BTreeMap<Tag, (ToNode, Time)>,
    /// Questions that are not answered.
    questions: BTreeSet<Tag>,
    has_asked: bool,
    /// When the client must have stopped, after a lock was lost.
    act_by: Option<Time>,
    /// Whether there are other nodes to which the session can move.
    can_move: bool,
    /// Messages that the relay itself has for the node.
    owed: Vec<ToNode>,
    /// Whether the node has said that it leaves.
    leaving: bool,
    moving: Option<Move>,
}

/// A lock that the client holds.
#[derive(Debug, Default)]
struct RelayedHold {
    proof: Option<Box<Proof>>,
    /// Set while the lock is claimed at another site than the one that granted it.
    former: Option<FormerSite>,
    /// The lock is not safe beyond this time, however long the lease lasts.
    until: Option<Time>,
    /// The client has given the lock back, or was told that it is lost: it is not claimed any more.
    is_given_up: bool,
    /// The lock is lost, and the node to which the session has moved does not know of it.
    is_unknown: bool,
}

/// What to do with a message of the client.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Said {
    /// Send it to the node.
    Pass(ToNode),
    /// Answer it here.
    Answer(ToClient),
    /// Kill this process and what is below it when the lock is lost and the client has gone.
    Guard(i32),
}

impl RelayedSession {
    /// Creates a session that can move to other nodes.
    pub(super) fn that_can_move() -> Self {
        RelayedSession { can_move: true, ..RelayedSession::default() }
    }

    /// Handles a message of the client.
    pub(super) fn on_client(&mut self, said: ToNode, now: Time) -> Said {
        if let ToNode::Guard { group } = said {
            return Said::Guard(group);
        }
        if let ToNode::Ping(tag) = said {
            return Said::Answer(ToClient::Pong { tag, time: now });
        }
        if let ToNode::Hello { .. } = said {
            (self.hello, self.hello_said) = (Some(said.clone()), now);
        } else if let ToNode::Acquire { tag, .. } = said {
            self.has_asked = true;
            self.waiting.insert(tag, (said.clone(), now));
        } else if let ToNode::Release(tag) | ToNode::Cancel(tag) = said {
            // What is given back is not claimed, whatever becomes of the message.
            self.waiting.remove(&tag);
            if self.holds.get(&tag).is_some_and(|hold| hold.is_unknown) {
                self.holds.remove(&tag);
                return Said::Answer(ToClient::Released(tag));
            }
            if let Some(hold) = self.holds.get_mut(&tag) {
                (hold.proof, hold.is_given_up) = (None, true);
            }
        } else if let ToNode::Queue { tag, .. } | ToNode::Status { tag } = said {
            self.questions.insert(tag);
        }
        Said::Pass(said)
    }

    /// Handles a message of the node. Returns the message for the client, if there is one.
    pub(super) fn on_node(&mut self, said: ToClient, now: Time) -> Option<ToClient> {
        if let ToClient::Welcome { version, site, time, contact } = said {
            self.greeted(version, self.hello_said, time, contact);
            return Some(ToClient::Welcome { version, site, time: now, contact: None });
        }
        if let Some(tag) = said.tag().filter(|tag| self.is_claim(*tag)) {
            return self.on_claim_answer(tag, said);
        }
        let Some(estimate) = &mut self.estimate else { return Some(said) };
        match said {
            ToClient::Pong { tag, time } => self.on_pong(tag, time),
            ToClient::Extended { lease_end } => {
                estimate.on_lease(lease_end);
                self.extended()
            }
            ToClient::Granted { tag, fence, slot, lease_end, margin } => {
                estimate.on_lease(lease_end);
                self.on_granted(tag);
                let lease_end = self.safe_until()?;
                Some(ToClient::Granted { tag, fence, slot, lease_end, margin })
            }
            ToClient::Lost { tag, act_by, why } => {
                let act_by = estimate.local(act_by).min(estimate.end());
                Some(self.lose(tag, act_by, why))
            }
            ToClient::Released(tag) => {
                self.holds.remove(&tag);
                Some(said)
            }
            ToClient::Proof { tag, proof } => {
                self.on_proof(tag, proof);
                None
            }
            ToClient::Settled { tag, lease_end } => {
                estimate.on_lease(lease_end);
                self.on_settled(tag)
            }
            ToClient::Leaving => {
                self.leaving = true;
                None
            }
            ToClient::Welcome { .. } | ToClient::Claimed { .. } => None,
            ToClient::Cancelled(tag)
            | ToClient::TimedOut(tag)
            | ToClient::Busy(tag)
            | ToClient::LostV2 { tag, .. }
            | ToClient::Refused { tag, .. }
            | ToClient::RefusedV2 { tag, .. }
            | ToClient::Queue { tag, .. }
            | ToClient::Status { tag, .. }
            | ToClient::StatusWithDisk { tag, .. }
            | ToClient::Broken { tag, .. }
            | ToClient::RulesSet { tag, .. }
            | ToClient::Locks { tag, .. }
            | ToClient::Leaves { tag, .. }
            | ToClient::Left(tag)
            | ToClient::Traced { tag, .. }
            | ToClient::StatusWithVoters { tag, .. }
            | ToClient::VotersChanged(tag)
            | ToClient::VotersRefused { tag, .. }
            | ToClient::Access { tag, .. }
            | ToClient::AccessSet { tag, .. }
            | ToClient::LockPage { tag, .. }
            | ToClient::Changes { tag, .. }
            | ToClient::Deadlocks { tag, .. }
            | ToClient::Diagnoses { tag, .. } => {
                self.waiting.remove(&tag);
                self.questions.remove(&tag);
                Some(said)
            }
        }
    }

    /// Handles the answer to a ping, which may extend what is held.
    fn on_pong(&mut self, tag: Tag, time: Time) -> Option<ToClient> {
        let estimate = self.estimate.as_mut()?;
        let before = estimate.end();
        estimate.on_pong(tag, time);
        if estimate.end() > before { self.extended() } else { None }
    }

    fn on_granted(&mut self, tag: Tag) {
        self.waiting.remove(&tag);
        self.holds.insert(tag, RelayedHold::default());
        if self.can_move && self.version >= HAS_CLAIMS {
            self.owed.push(ToNode::Prove { tag });
        }
    }

    /// Keeps a proof, unless the lock was given back or lost while it was on its way.
    fn on_proof(&mut self, tag: Tag, proof: Box<Proof>) {
        if let Some(hold) = self.holds.get_mut(&tag).filter(|hold| !hold.is_given_up) {
            hold.proof = Some(proof);
        }
    }

    /// Notes the answer to a greeting that was said at `said`, by a node whose clock showed `time`.
    fn greeted(&mut self, version: u16, said: Time, time: Time, contact: Option<Contact>) {
        let estimate = LeaseEstimate::new(contact, said, time);
        self.next_ping = estimate.ping_every().map(|every| said + every);
        (self.estimate, self.version) = (Some(estimate), version);
    }

    /// Notes that a lock is lost: the client must have stopped by `act_by`, and does not claim it elsewhere.
    fn lose(&mut self, tag: Tag, act_by: Time, why: LossKind) -> ToClient {
        self.act_by = Some(self.act_by.map_or(act_by, |known| known.min(act_by)));
        if let Some(hold) = self.holds.get_mut(&tag) {
            (hold.proof, hold.is_given_up) = (None, true);
        }
        ToClient::Lost { tag, act_by, why }
    }

    /// Notes that a lock which was claimed is held through this node: it can be claimed at others again.
    fn on_settled(&mut self, tag: Tag) -> Option<ToClient> {
        if let Some(hold) = self.holds.get_mut(&tag).filter(|hold| hold.proof.is_some()) {
            (hold.former, hold.until) = (None, None);
            self.owed.push(ToNode::Prove { tag });
        }
        self.extended()
    }

    /// Takes the messages that the relay itself has for the node.
    pub(super) fn take_owed(&mut self) -> Vec<ToNode> {
        std::mem::take(&mut self.owed)
    }

    /// Returns a ping, which tells the node that the client is still there, if one is due.
    pub(super) fn ping(&mut self, now: Time) -> Option<ToNode> {
        let (estimate, due) = (self.estimate.as_mut()?, self.next_ping.filter(|due| *due <= now)?);
        let tag = FIRST_PING + self.pings;
        self.pings += 1;
        estimate.on_ping(tag, now);
        // Skips pings that were missed while this machine was suspended.
        self.next_ping = estimate.ping_every().map(|every| (due + every).max(now + every.part(2)));
        Some(ToNode::Ping(tag))
    }

    /// Returns when the next ping is due.
    pub(super) fn next_ping(&self) -> Option<Time> {
        self.next_ping
    }

    /// Whether the client has ever asked for a lock.
    pub(super) fn has_asked(&self) -> bool {
        self.has_asked
    }

    /// Whether the node has welcomed the client.
    pub(super) fn is_welcome(&self) -> bool {
        self.estimate.is_some()
    }

    /// Returns a message with the time until when the client may rely on what it holds, if it holds anything.
    pub(super) fn extended(&self) -> Option<ToClient> {
        Some(ToClient::Extended { lease_end: self.safe_until()? })
    }

    /// Returns until when nobody else gets what the client holds, if it holds anything.
    fn safe_until(&self) -> Option<Time> {
        let estimate = self.estimate.as_ref().filter(|_| self.holds.values().any(|hold| !hold.is_unknown))?;
        let promised = self.moving.as_ref().map_or(estimate.end(), |moving| moving.end);
        let limits = self.holds.values().filter_map(|hold| hold.until);
        limits.chain([promised]).min()
    }

    /// Returns when another client may get what this one holds, if it holds anything. No process may use it after that.
    pub(super) fn end(&self) -> Option<Time> {
        let act_by = self.act_by.filter(|_| !self.holds.is_empty());
        self.safe_until().into_iter().chain(act_by).min()
    }
}
