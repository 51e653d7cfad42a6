//! Clients: each wants a lock, counts something up under it, gives it back, rests, and wants again. Those of one process
//! share its session, so that a session may wait for several locks and hold several.

use meshlock_protocol::Fence;

use super::clock::Moment;
use meshlock_cluster::names::LockName;
use meshlock_cluster::table::{Request, Session};
use meshlock_cluster::time::Time;

/// A process with clients in it, and its connection to the site's node.
#[derive(Clone, Debug)]
pub(super) struct Process {
    /// Which site it talks to.
    pub(super) machine: usize,
    /// Its connection; none while the site is down or the process dead.
    pub(super) session: Option<Session>,
    /// When the last thing that it was told arrives.
    pub(super) last_told: Moment,
    /// When the last thing that it asked arrives.
    pub(super) last_call: Moment,
}

impl Process {
    pub(super) fn new(machine: usize) -> Self {
        let (last_told, last_call) = (Moment::default(), Moment::default());
        Process { machine, session: None, last_told, last_call }
    }
}

/// One client.
#[derive(Clone, Debug)]
pub(super) struct Client {
    /// In which process it is.
    pub(super) process: usize,
    pub(super) state: State,
    /// Timers of an earlier state do not count.
    pub(super) timer: u64,
    /// In the calm at the end every client gets in once more; then it is done.
    pub(super) finale: Finale,
}

/// What a request is for, and who made it.
#[derive(Clone, Debug)]
pub(super) struct Asked {
    pub(super) lock: LockName,
    pub(super) session: Session,
    pub(super) client: usize,
}

/// What a client is doing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum State {
    Resting,
    Waiting { request: Request, lock: LockName },
    Inside(Inside),
}

/// A client that believes to hold a lock.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Inside {
    pub(super) request: Request,
    pub(super) lock: LockName,
    pub(super) fence: Fence,
    /// On the machine's clock.
    pub(super) lease_end: Time,
    /// What the counter showed.
    pub(super) read: Option<u64>,
    /// Whether it was told that it has lost: nothing is extended any more.
    pub(super) lost: bool,
    /// Whether it got in after faults had stopped.
    pub(super) in_calm: bool,
}

/// How far a client is with its last turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Finale {
    /// The calm has not begun.
    NotYet,
    /// It still has to get in once and do its work there.
    Owed,
    /// It has, or its site has left.
    Done,
}

impl Client {
    pub(super) fn new(process: usize) -> Self {
        Client { process, state: State::Resting, timer: 0, finale: Finale::NotYet }
    }
}

impl State {
    pub(super) fn request(&self) -> Option<Request> {
        match self {
            State::Resting => None,
            State::Waiting { request, .. } => Some(*request),
            State::Inside(inside) => Some(inside.request),
        }
    }
}
