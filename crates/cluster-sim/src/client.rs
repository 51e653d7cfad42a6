//! State of the clients: each acquires a lock, increments a counter under it, releases it, rests, and starts again. The
//! clients of one process share its session, so that a session may wait for several locks and hold several.

use meshlock_protocol::{Fence, Mode};

use super::clock::Moment;
use meshlock_cluster::names::LockName;
use meshlock_cluster::table::{Request, Session};
use meshlock_cluster::time::Time;

/// A process with clients in it, and its connection to the site's node.
#[derive(Clone, Debug)]
pub(super) struct ClientProcess {
    /// The site that it is connected to.
    pub(super) machine: usize,
    /// Its connection; `None` while the site or the process is down.
    pub(super) session: Option<Session>,
    /// When the last answer arrives.
    pub(super) last_told: Moment,
    /// When the last call arrives.
    pub(super) last_call: Moment,
}

impl ClientProcess {
    pub(super) fn new(machine: usize) -> Self {
        let (last_told, last_call) = (Moment::default(), Moment::default());
        ClientProcess { machine, session: None, last_told, last_call }
    }
}

/// One client.
#[derive(Clone, Debug)]
pub(super) struct SimClient {
    pub(super) process: usize,
    pub(super) state: ClientState,
    /// The number of the current timer: timers of an earlier state are ignored.
    pub(super) timer: u64,
    /// In the calm every client enters once more; then it is done.
    pub(super) final_turn: FinalTurn,
}

/// The lock that a request is for, and who made it.
#[derive(Clone, Debug)]
pub(super) struct Asked {
    pub(super) lock: LockName,
    /// How many may hold it, as the client understands it.
    pub(super) permits: u32,
    /// In which mode it asks.
    pub(super) mode: Mode,
    pub(super) session: Session,
    pub(super) client: usize,
}

/// The state of a client.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum ClientState {
    Resting,
    Waiting { request: Request, lock: LockName, permits: u32 },
    Inside(Inside),
}

/// A client that assumes that it holds a lock.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Inside {
    pub(super) request: Request,
    pub(super) lock: LockName,
    /// How many may hold it, as the client understands it.
    pub(super) permits: u32,
    pub(super) fence: Fence,
    /// On the machine's clock.
    pub(super) lease_end: Time,
    /// The value of the counter that it read.
    pub(super) read: Option<u64>,
    /// As far as it knows.
    pub(super) mode: Mode,
    /// The mode to which it will change.
    pub(super) next: Option<Mode>,
    /// Whether it waits to be exclusive.
    pub(super) upgrades: bool,
    /// Whether it was told that it has lost the lock: then nothing is extended any more.
    pub(super) lost: bool,
    /// Whether it entered after faults had stopped.
    pub(super) in_calm: bool,
}

/// The progress of a client with its turn in the calm.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum FinalTurn {
    /// The calm has not begun.
    NotYet,
    /// It still has to enter once and do its work.
    Owed,
    /// It has had its turn, or its site has left.
    Done,
}

impl SimClient {
    pub(super) fn new(process: usize) -> Self {
        SimClient { process, state: ClientState::Resting, timer: 0, final_turn: FinalTurn::NotYet }
    }
}

impl ClientState {
    pub(super) fn request(&self) -> Option<Request> {
        match self {
            ClientState::Resting => None,
            ClientState::Waiting { request, .. } => Some(*request),
            ClientState::Inside(inside) => Some(inside.request),
        }
    }
}
