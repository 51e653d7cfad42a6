//! The waiters and holders of a lock at one site.

use std::collections::{BTreeMap, VecDeque};
use std::ops::{Deref, DerefMut};

use meshlock_protocol::Fence;

use super::inquiry::{Deadline, Inquiry};
use super::{LockKey, Request, Session, SessionState};
use crate::cause::Cause;
use crate::time::Time;

/// A client that waits.
#[derive(Clone, Debug)]
pub(super) struct WaitingClient {
    pub(super) request: Request,
    pub(super) since: Time,
    pub(super) deadline: Option<Deadline>,
    pub(super) is_try: bool,
    /// What the members have replied, once they were asked.
    pub(super) inquiry: Option<Box<Inquiry>>,
    pub(super) cause: Cause,
}

/// A client that holds the lock.
#[derive(Clone, Debug)]
pub(super) struct Hold {
    pub(super) request: Request,
    pub(super) fence: Fence,
    /// The public number of the permit, which never changes, where permits are numbered.
    pub(super) slot: Option<u32>,
    pub(super) since: Time,
    /// Set when the client was told that it has lost the lock: the time by which it must have stopped.
    pub(super) stop_by: Option<Time>,
    /// The lane, of the machines that run or, during a view change, of those that will.
    pub(super) lane: usize,
    pub(super) cause: Cause,
}

/// The waiters, in order, and the holders.
#[derive(Clone, Debug, Default)]
pub(super) struct Queues {
    pub(super) waiters: VecDeque<WaitingClient>,
    pub(super) holds: Vec<Hold>,
    /// When the home of the lock's name was asked on behalf of waiters and has not answered yet, in order.
    pub(super) asked: VecDeque<Time>,
}

impl Queues {
    /// Returns whether nobody holds the lock or waits for it, and no answer about it is awaited.
    pub(super) fn is_idle(&self) -> bool {
        self.waiters.is_empty() && self.holds.is_empty() && self.asked.is_empty()
    }
}

static NOBODY: Queues = Queues { waiters: VecDeque::new(), holds: Vec::new(), asked: VecDeque::new() };

/// The clients of one lock. Of a million locks few are in use at a time: an idle lock has no memory allocated here.
#[derive(Clone, Debug, Default)]
pub(super) struct Clients(Option<Box<Queues>>);

/// Maximum number of spare allocations that are kept, and the maximum capacity of their queues.
const MAX_SPARE: usize = 16;

/// Spare allocations of locks that became idle.
#[derive(Clone, Debug, Default)]
#[allow(clippy::vec_box, reason = "the boxes are what is kept, and what a lock takes")]
pub(super) struct Spare(Vec<Box<Queues>>);

impl Deref for Clients {
    type Target = Queues;
    fn deref(&self) -> &Queues {
        self.0.as_deref().unwrap_or(&NOBODY)
    }
}

impl DerefMut for Clients {
    fn deref_mut(&mut self) -> &mut Queues {
        self.0.get_or_insert_default()
    }
}

impl Clients {
    /// Allocates the queues, if there are none, before a client is added.
    pub(super) fn wake(&mut self, spare: &mut Spare) -> &mut Queues {
        self.0.get_or_insert_with(|| spare.0.pop().unwrap_or_default())
    }

    /// Returns the allocation to `spare` if there are no clients.
    pub(super) fn rest(&mut self, spare: &mut Spare) {
        let Some(queues) = self.0.take_if(|queues| queues.is_idle()) else { return };
        let is_short = queues.waiters.capacity().max(queues.holds.capacity()) <= MAX_SPARE;
        if is_short && spare.0.len() < MAX_SPARE {
            spare.0.push(queues);
        }
    }
}

/// Removes a finished acquisition; with its last one, a session without a label is forgotten.
pub(super) fn forget(
    requests: &mut BTreeMap<Request, (Session, LockKey)>,
    sessions: &mut BTreeMap<Session, SessionState>,
    request: Request,
) {
    let Some((session, _)) = requests.remove(&request) else { return };
    if let Some(client) = sessions.get_mut(&session) {
        client.requests.remove(&request);
        if client.requests.is_empty() && client.label.is_none() {
            sessions.remove(&session);
        }
    }
}
