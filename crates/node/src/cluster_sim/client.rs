//! Client processes: each wants a lock, counts something up under it, gives it back, rests, and wants again.

use meshlock_protocol::Fence;

use super::clock::Moment;
use crate::names::LockName;
use crate::table::{Request, Session};
use crate::time::Time;

/// One client process.
#[derive(Clone, Debug)]
pub(super) struct Client {
    /// Which site it talks to.
    pub(super) machine: usize,
    /// Its connection; none while the site is down or the process dead.
    pub(super) session: Option<Session>,
    pub(super) state: State,
    /// Timers of an earlier state do not count.
    pub(super) timer: u64,
    /// When the last thing that it was told arrives.
    pub(super) last_told: Moment,
    /// When the last thing that it asked arrives.
    pub(super) last_call: Moment,
    /// In the calm at the end every client gets in once more; then it is done.
    pub(super) finale: Finale,
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
    pub(super) fn new(machine: usize) -> Self {
        Client {
            machine,
            session: None,
            state: State::Resting,
            timer: 0,
            last_told: Moment::default(),
            last_call: Moment::default(),
            finale: Finale::NotYet,
        }
    }
}
