//! What the table tells those who watch it: every step of a client and of a machine, while somebody does.
//!
//! While nobody watches, a hook is one look at an empty list. A line's `state` is what the machine of its lane prints of itself
//! after the whole step that the line is part of, as in the simulator's traces.

use meshlock_protocol::{Fence, SiteId};

use super::lock::{Env, Lock, Machines};
use super::{LockTable, Output, Request, Session};
use crate::names::{ClientLabel, LockName};
use crate::rules::Pattern;
use crate::view::Placement;

/// Somebody who watches: which locks, and whether with the machines' states.
#[derive(Clone, Debug)]
pub struct Watch {
    /// Whose it is: it ends with the session.
    pub session: Session,
    /// Its number.
    pub request: Request,
    /// Which locks; all if there is none.
    pub pattern: Option<Pattern>,
    /// Whether the lines say what the machines' states are.
    pub states: bool,
}

impl Watch {
    /// Whether it is about this lock.
    pub fn sees(&self, lock: &LockName) -> bool {
        self.pattern.as_ref().is_none_or(|pattern| pattern.matches(lock.as_str()))
    }
}

/// One thing that happened at a lock of this site.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Happening {
    /// Which lock.
    pub lock: LockName,
    /// Which of the site's machines.
    pub lane: usize,
    /// What that machine is called among all machines of the lock, if one runs.
    pub machine: Option<SiteId>,
    /// What happened.
    pub what: What,
    /// The machine's state after it, where asked for.
    pub state: Option<String>,
}

/// What happened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum What {
    /// A client waits since before anybody watched.
    Waits(Request),
    /// A client holds the lock since before anybody watched.
    Holds(Request, Fence),
    /// A client asks.
    Request(Request),
    /// A client does not wait any more.
    Cancel(Request),
    /// A client has the lock.
    Enter(Request, Fence),
    /// A client has it no more.
    Release(Request),
    /// A machine sends to the member at this place.
    Send(usize, String),
    /// A machine takes in what the member at this place has sent.
    Receive(usize, String),
}

impl LockTable {
    /// Everybody who watches.
    pub fn watches(&self) -> &[Watch] {
        &self.watches
    }

    /// Lets somebody watch, and tells what clients have and want already, at most so much. Gives back how much was not told.
    pub(crate) fn watch(&mut self, watch: Watch, most: usize, out: &mut Vec<Output>) -> u64 {
        let seen = self.requests.iter().filter(|(_, (_, lock))| watch.sees(lock));
        let told = seen.clone().take(most).filter_map(|(&request, (_, name))| {
            let lock = self.locks.get(name)?;
            let hold = lock.hold(request);
            let what = hold.map_or(What::Waits(request), |hold| What::Holds(request, hold.fence));
            let lane = hold.map_or(0, |hold| hold.lane);
            let state = watch.states.then(|| lock.printed(lane)).flatten();
            Some(Output::Trace(Box::new(self.happening(name, lane, what, state))))
        });
        out.extend(told);
        let untold = seen.count().saturating_sub(most) as u64;
        self.watches.push(watch);
        untold
    }

    /// Somebody does not watch any more. Says whether somebody did.
    pub(crate) fn unwatch(&mut self, is_over: impl Fn(&Watch) -> bool) -> bool {
        let before = self.watches.len();
        self.watches.retain(|watch| !is_over(watch));
        self.watches.len() < before
    }

    /// Who is behind a wish.
    pub(crate) fn label_of(&self, request: Request) -> Option<&ClientLabel> {
        let (session, _) = self.requests.get(&request)?;
        self.sessions.get(session)?.label.as_ref()
    }

    /// Tells what happened outside of a machine's step, if somebody watches the lock.
    pub(super) fn trace(&self, name: &LockName, what: impl FnOnce() -> What, out: &mut Vec<Output>) {
        if let Some(states) = seen(&self.watches, name) {
            let state = self.locks.get(name).filter(|_| states).and_then(|lock| lock.printed(0));
            out.push(Output::Trace(Box::new(self.happening(name, 0, what(), state))));
        }
    }

    fn happening(&self, name: &LockName, lane: usize, what: What, state: Option<String>) -> Happening {
        let running = self.locks.get(name).is_some_and(|lock| lock.machine(lane).is_some());
        let view = self.local_view.as_ref().filter(|_| running);
        let machine = view.map(|view| Placement::new(name, view.members).site(view.me, lane));
        Happening { lock: name.clone(), lane, machine, what, state }
    }
}

/// Whether somebody watches the lock; if so, whether with states.
fn seen(watches: &[Watch], lock: &LockName) -> Option<bool> {
    let mut seeing = watches.iter().filter(|watch| watch.sees(lock)).peekable();
    seeing.peek()?;
    Some(seeing.any(|watch| watch.states))
}

impl Env<'_> {
    /// Whether somebody watches this lock.
    pub(super) fn is_watched(&self) -> bool {
        !self.watches.is_empty() && seen(self.watches, self.name).is_some()
    }

    /// Tells what happened at a lane, if somebody watches.
    pub(super) fn trace(&mut self, lane: usize, what: impl FnOnce() -> What) {
        if self.is_watched() {
            let (lock, state) = (self.name.clone(), None);
            let machine =
                self.local_view.map(|view| Placement::new(self.name, view.members).site(view.me, lane));
            let what = what();
            self.out.push(Output::Trace(Box::new(Happening { lock, lane, machine, what, state })));
        }
    }

    /// A step is over: adds the states to what was told of it since `from`.
    pub(super) fn trace_states(&mut self, lock: &Lock, from: usize) {
        if self.watches.is_empty() || seen(self.watches, self.name) != Some(true) {
            return;
        }
        for output in &mut self.out[from..] {
            if let Output::Trace(happening) = output
                && happening.state.is_none()
                && happening.lock == *self.name
            {
                happening.state = lock.printed(happening.lane);
            }
        }
    }
}

impl Lock {
    fn machine(&self, lane: usize) -> Option<&meshlock_protocol::registry::AnySite> {
        let Machines::Running { lanes, .. } = &self.machines else { return None };
        lanes.get(lane).map(|lane| &lane.site)
    }

    /// The state of a lane's machine as it prints itself, if it runs.
    fn printed(&self, lane: usize) -> Option<String> {
        self.machine(lane).map(meshlock_protocol::registry::AnySite::printed)
    }
}
