//! The waiters and holders of a lock at one site.

use std::collections::{BTreeMap, VecDeque};
use std::ops::{Deref, DerefMut};

use meshlock_protocol::{Demand, Fence, Mode};

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
    pub(super) demand: Demand,
    /// How many that came later were let in front of it, because they are more urgent.
    pub(super) overtaken: u8,
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
    /// Set when the client was told that it has lost the lock: the time at which the hold ends, which is the one by which the client
    /// must have stopped, or later (`resuming.rs`). Boxed, because few holders of many have one.
    pub(super) stop_by: Option<Box<Time>>,
    /// The lane, of the machines that run or, during a view change, of those that will.
    pub(super) lane: u32,
    pub(super) mode: Mode,
    /// Whether it waits to be exclusive.
    pub(super) upgrades: bool,
    pub(super) cause: Cause,
}

/// The waiters, in order, and the holders.
#[derive(Clone, Debug, Default)]
pub(super) struct Queues {
    pub(super) waiters: Sparse<WaitingClient>,
    pub(super) holds: Vec<Hold>,
    /// When the home of the lock's name was asked on behalf of waiters and has not answered yet, in order.
    pub(super) asked: Sparse<Time>,
}

impl Queues {
    /// Returns whether nobody holds the lock or waits for it, and no answer about it is awaited.
    pub(super) fn is_idle(&self) -> bool {
        self.waiters.is_empty() && self.holds.is_empty() && self.asked.is_empty()
    }

    /// Returns whether some client wants what a machine has to ask for.
    pub(super) fn need_asking(&self) -> bool {
        !self.waiters.is_empty() || self.holds.iter().any(|hold| hold.upgrades)
    }
}

static NOBODY: Queues = Queues { waiters: Sparse(None), holds: Vec::new(), asked: Sparse(None) };

/// A queue of a lock that is held: mostly empty, and then it takes no memory of its own.
#[derive(Clone, Debug)]
#[allow(clippy::box_collection, reason = "an empty queue of its own would take 32 bytes of every held lock")]
pub(super) struct Sparse<T>(Option<Box<VecDeque<T>>>);

impl<T: 'static> Sparse<T> {
    const EMPTY: &'static VecDeque<T> = &VecDeque::new();

    /// Removes everything, and the memory.
    pub(super) fn reset(&mut self) {
        self.0 = None;
    }
}

impl<T> Default for Sparse<T> {
    fn default() -> Self {
        Sparse(None)
    }
}

impl<T: 'static> Deref for Sparse<T> {
    type Target = VecDeque<T>;
    fn deref(&self) -> &VecDeque<T> {
        self.0.as_deref().unwrap_or(Self::EMPTY)
    }
}

impl<T: 'static> DerefMut for Sparse<T> {
    fn deref_mut(&mut self) -> &mut VecDeque<T> {
        self.0.get_or_insert_default()
    }
}

/// The clients of one lock. Of a million locks few are in use at a time: an idle lock has no memory allocated here.
#[derive(Clone, Debug, Default)]
pub(super) struct Clients(Option<Box<Queues>>);

/// Maximum number of spare allocations that are kept, and the maximum capacity of their queues.
const MAX_SPARE: usize = 16;

/// Spare allocations of locks that became idle, and of locks without waiters.
#[derive(Clone, Debug, Default)]
#[allow(clippy::vec_box, reason = "the boxes are what is kept, and what a lock takes")]
pub(super) struct Spare {
    queues: Vec<Box<Queues>>,
    waiters: Vec<Box<VecDeque<WaitingClient>>>,
}

impl Deref for Clients {
    type Target = Queues;
    fn deref(&self) -> &Queues {
        #[cfg(test)]
        visits::note();
        self.0.as_deref().unwrap_or(&NOBODY)
    }
}

impl DerefMut for Clients {
    fn deref_mut(&mut self) -> &mut Queues {
        #[cfg(test)]
        visits::note();
        self.0.get_or_insert_default()
    }
}

impl Clients {
    /// Allocates the queues, if there are none, before a client is added.
    pub(super) fn wake(&mut self, spare: &mut Spare) -> &mut Queues {
        let queues = self.0.get_or_insert_with(|| spare.queues.pop().unwrap_or_default());
        if queues.waiters.0.is_none() {
            queues.waiters.0 = spare.waiters.pop();
        }
        queues
    }

    /// Returns what is not needed to `spare`: a lock that is held takes no memory for waiters that it does not have.
    pub(super) fn rest(&mut self, spare: &mut Spare) {
        let Some(queues) = &mut self.0 else { return };
        if let Some(waiters) = queues.waiters.0.take_if(|waiters| waiters.is_empty())
            && waiters.capacity() <= MAX_SPARE
            && spare.waiters.len() < MAX_SPARE
        {
            spare.waiters.push(waiters);
        }
        queues.asked.0.take_if(|asked| asked.is_empty());
        let Some(queues) = self.0.take_if(|queues| queues.is_idle()) else { return };
        if queues.holds.capacity() <= MAX_SPARE && spare.queues.len() < MAX_SPARE {
            spare.queues.push(queues);
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

/// Counts how often the clients of a lock are looked at, for tests of what a step costs.
#[cfg(test)]
pub(super) mod visits {
    use std::cell::Cell;

    std::thread_local! {
        static VISITS: Cell<u64> = const { Cell::new(0) };
    }

    pub(super) fn note() {
        VISITS.set(VISITS.get() + 1);
    }

    /// Returns the number of looks on this thread so far.
    pub(crate) fn count() -> u64 {
        VISITS.get()
    }
}
