//! Who waits for a lock and who holds it, at one site.

use std::collections::{BTreeMap, VecDeque};
use std::ops::{Deref, DerefMut};

use meshlock_protocol::Fence;

use super::{Client, Request, Session};
use crate::cause::Cause;
use crate::names::LockName;
use crate::time::Time;

/// A client that waits.
#[derive(Clone, Debug)]
pub(super) struct Waiter {
    pub(super) request: Request,
    pub(super) since: Time,
    pub(super) deadline: Option<Time>,
    pub(super) is_try: bool,
    pub(super) cause: Cause,
}

/// A client that holds.
#[derive(Clone, Debug)]
pub(super) struct Hold {
    pub(super) request: Request,
    pub(super) fence: Fence,
    /// The permit's number for ever, where permits are numbered.
    pub(super) slot: Option<u32>,
    pub(super) since: Time,
    /// It was told that it has lost, and must have stopped by then.
    pub(super) doomed: Option<Time>,
    /// Which lane, of the machines that run or, in a view change, of those that will.
    pub(super) lane: usize,
    pub(super) cause: Cause,
}

/// Those who wait, in order, and those who hold.
#[derive(Clone, Debug, Default)]
pub(super) struct Queues {
    pub(super) waiters: VecDeque<Waiter>,
    pub(super) holds: Vec<Hold>,
}

static NOBODY: Queues = Queues { waiters: VecDeque::new(), holds: Vec::new() };

/// The clients of one lock. Of a million locks few are in use at a time: those that rest keep no memory for them.
#[derive(Clone, Debug, Default)]
pub(super) struct Clients(Option<Box<Queues>>);

/// How much memory of locks that rest is kept for the next, and how long its queues may be.
const MAX_SPARE: usize = 16;

/// Memory of locks that rest.
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
    /// Takes memory for clients, if there is none: somebody comes.
    pub(super) fn wake(&mut self, spare: &mut Spare) -> &mut Queues {
        self.0.get_or_insert_with(|| spare.0.pop().unwrap_or_default())
    }

    /// Gives the memory back if nobody is there.
    pub(super) fn rest(&mut self, spare: &mut Spare) {
        let is_nobody = |queues: &mut Box<Queues>| queues.waiters.is_empty() && queues.holds.is_empty();
        let Some(queues) = self.0.take_if(is_nobody) else { return };
        let is_short = queues.waiters.capacity().max(queues.holds.capacity()) <= MAX_SPARE;
        if is_short && spare.0.len() < MAX_SPARE {
            spare.0.push(queues);
        }
    }
}

/// A wish is over; with its last one a session without a name is forgotten.
pub(super) fn forget(
    requests: &mut BTreeMap<Request, (Session, LockName)>,
    sessions: &mut BTreeMap<Session, Client>,
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
