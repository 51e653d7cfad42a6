//! Traces of the table: every step of a client and of a machine, while somebody watches.
//!
//! While nobody watches, a hook only checks that a list is empty. A line's `state` is what the machine of its lane
//! prints of itself after the whole step that the line is part of, as in the simulator's traces.

use meshlock_protocol::{Fence, SiteId};

use super::lock::{Env, Lock, Machines};
use super::{LockKey, LockTable, Request, Session, TableOutput};
use crate::names::{ClientLabel, LockName};
use crate::rules::Pattern;
use crate::view::Placement;

/// A watch: which locks it traces, and whether with the machines' states.
#[derive(Clone, Debug)]
pub struct TraceWatch {
    /// The session that the watch ends with.
    pub session: Session,
    pub request: Request,
    /// The locks to trace; all if there is none.
    pub pattern: Option<Pattern>,
    /// Whether the lines contain the machines' states.
    pub states: bool,
}

impl TraceWatch {
    /// Returns whether the watch traces this lock.
    pub(crate) fn sees(&self, lock: &LockName) -> bool {
        self.pattern.as_ref().is_none_or(|pattern| pattern.matches(lock.as_str()))
    }
}

/// One step at a lock of this site.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct TableStep {
    pub(crate) lock: LockName,
    /// Which of the site's machines.
    pub(crate) lane: usize,
    /// The machine's number among all machines of the lock, if one runs.
    pub(crate) machine: Option<SiteId>,
    pub(crate) kind: StepKind,
    /// The machine's state after the step, if requested.
    pub(crate) state: Option<String>,
}

/// The kind of a step.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum StepKind {
    /// A client has been waiting since before the watch began.
    Waits(Request),
    /// A client has held the lock since before the watch began.
    Holds(Request, Fence),
    /// A client requests the lock.
    Request(Request),
    /// A client stops waiting.
    Cancel(Request),
    /// A client gets the lock.
    Enter(Request, Fence),
    /// A client no longer has the lock.
    Release(Request),
    /// A machine sends to the member at this place.
    Send(usize, String),
    /// A machine receives what the member at this place has sent.
    Receive(usize, String),
}

impl LockTable {
    /// Returns all watches.
    pub(crate) fn watches(&self) -> &[TraceWatch] {
        &self.watches
    }

    /// Adds a watch, and traces up to `most` existing waiters and holders. Returns how many were left out.
    pub(crate) fn watch(&mut self, watch: TraceWatch, most: usize, out: &mut Vec<TableOutput>) -> u64 {
        let seen = self.requests.iter().filter(|(_, (_, key))| watch.sees(&key.name));
        let told = seen.clone().take(most).filter_map(|(&request, (_, key))| {
            let lock = self.locks.get(key)?;
            let hold = lock.hold(request);
            let kind = hold.map_or(StepKind::Waits(request), |hold| StepKind::Holds(request, hold.fence));
            let lane = hold.map_or(0, |hold| hold.lane as usize);
            let state = watch.states.then(|| lock.printed(lane)).flatten();
            Some(TableOutput::Trace(Box::new(self.step(key, lane, kind, state))))
        });
        out.extend(told);
        let untold = seen.count().saturating_sub(most) as u64;
        self.watches.push(watch);
        untold
    }

    /// Removes the watches for which `is_over` returns true. Returns whether there were any.
    pub(crate) fn unwatch(&mut self, is_over: impl Fn(&TraceWatch) -> bool) -> bool {
        let before = self.watches.len();
        self.watches.retain(|watch| !is_over(watch));
        self.watches.len() < before
    }

    /// Returns the label of the client that made a request.
    pub(crate) fn label_of(&self, request: Request) -> Option<&ClientLabel> {
        let (session, _) = self.requests.get(&request)?;
        self.sessions.get(session)?.label.as_ref()
    }

    /// Traces something that happened outside of a machine's step, if somebody watches the lock.
    pub(super) fn trace(&self, key: &LockKey, kind: impl FnOnce() -> StepKind, out: &mut Vec<TableOutput>) {
        if let Some(states) = seen(&self.watches, &key.name) {
            let state = self.locks.get(key).filter(|_| states).and_then(|lock| lock.printed(0));
            out.push(TableOutput::Trace(Box::new(self.step(key, 0, kind(), state))));
        }
    }

    fn step(&self, key: &LockKey, lane: usize, kind: StepKind, state: Option<String>) -> TableStep {
        let running = self.locks.get(key).is_some_and(|lock| lock.machine(lane).is_some());
        let view = self.local_view.as_ref().filter(|_| running);
        let machine = view.map(|view| Placement::new(&key.name, view.members).site(view.me, lane));
        TableStep { lock: key.name.clone(), lane, machine, kind, state }
    }
}

/// Returns `None` if nobody watches the lock, otherwise whether with states.
fn seen(watches: &[TraceWatch], lock: &LockName) -> Option<bool> {
    let mut seeing = watches.iter().filter(|watch| watch.sees(lock)).peekable();
    seeing.peek()?;
    Some(seeing.any(|watch| watch.states))
}

impl Env<'_> {
    /// Returns whether somebody watches this lock.
    pub(super) fn is_watched(&self) -> bool {
        !self.watches.is_empty() && seen(self.watches, &self.key.name).is_some()
    }

    /// Traces something that happened at a lane, if somebody watches.
    pub(super) fn trace(&mut self, lane: usize, kind: impl FnOnce() -> StepKind) {
        if self.is_watched() {
            let (lock, state) = (self.key.name.clone(), None);
            let machine =
                self.local_view.map(|view| Placement::new(&self.key.name, view.members).site(view.me, lane));
            let kind = kind();
            self.out.push(TableOutput::Trace(Box::new(TableStep { lock, lane, machine, kind, state })));
        }
    }

    /// Ends a step: adds the states to its lines, which are those since `from`.
    pub(super) fn trace_states(&mut self, lock: &Lock, from: usize) {
        if self.watches.is_empty() || seen(self.watches, &self.key.name) != Some(true) {
            return;
        }
        for output in &mut self.out[from..] {
            if let TableOutput::Trace(step) = output
                && step.state.is_none()
                && step.lock == self.key.name
            {
                step.state = lock.printed(step.lane);
            }
        }
    }
}

impl Lock {
    fn machine(&self, lane: usize) -> Option<&meshlock_protocol::registry::AnySite> {
        let Machines::Running { lanes, .. } = &self.machines else { return None };
        lanes.get(lane).map(|lane| &lane.site)
    }

    /// Returns the state of a lane's machine as it prints itself, if it runs.
    fn printed(&self, lane: usize) -> Option<String> {
        self.machine(lane).map(meshlock_protocol::registry::AnySite::printed)
    }
}
