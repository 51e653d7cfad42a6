//! A node's trace, for those who watch it: the steps of its clients and machines, and of its views.
//!
//! Messages are named by the link that carries them: two lives of two sites, and the number on the link. So whoever has the
//! traces of both can put a receipt behind its sending, whatever their clocks show.

use meshlock_protocol::numbered;
use meshlock_protocol::{Epoch, Fence};
use serde::{Deserialize, Serialize};

use super::{Answer, Node, Output};
use crate::names::{ClientLabel, LockName, SiteName};
use crate::table::{self, Happening, LockEvent, Refusal, Request, Watch, What};
use crate::time::Time;

/// How many may watch a node at once: each costs the node something for every step.
pub const MAX_WATCHES: usize = 8;

/// How much is told, when somebody begins to watch, of what clients have and want already.
const MAX_BEFORE: usize = 1000;

/// One line of a node's trace.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TraceLine {
    /// When, on the clock that leases are counted on.
    pub time: Time,
    /// The view that is installed.
    pub epoch: Epoch,
    /// Which lock it is about, if it is about one.
    pub lock: Option<LockName>,
    /// What the machine is called in messages and states: its number among the lock's machines.
    pub machine: Option<u32>,
    /// What happened.
    pub event: TraceEvent,
    /// The machine's state after the step, where asked for.
    pub state: Option<String>,
}

/// What a line tells. Clients go by a number that no other wish at this incarnation of the site has.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TraceEvent {
    /// A client waits since before the watch began.
    Waits {
        /// Which.
        client: u64,
        /// Its name.
        who: Option<ClientLabel>,
    },
    /// A client holds the lock since before the watch began.
    Holds {
        /// Which.
        client: u64,
        /// Its name.
        who: Option<ClientLabel>,
        /// The number of its grant.
        fence: Fence,
    },
    /// A client asks.
    Request {
        /// Which.
        client: u64,
        /// Its name.
        who: Option<ClientLabel>,
    },
    /// A client does not wait any more.
    Cancel {
        /// Which.
        client: u64,
    },
    /// A client has the lock.
    Enter {
        /// Which.
        client: u64,
        /// Its name.
        who: Option<ClientLabel>,
        /// The number of its grant.
        fence: Fence,
    },
    /// A client has it no more.
    Release {
        /// Which.
        client: u64,
    },
    /// A message leaves.
    Send {
        /// For whom.
        to: SiteName,
        /// Its number on the link.
        number: u64,
        /// As the algorithm prints it.
        message: String,
    },
    /// A message is taken in.
    Receive {
        /// From whom.
        from: SiteName,
        /// Its number on the link.
        number: u64,
        /// As the algorithm prints it.
        message: String,
    },
    /// The machines of a view run.
    View {
        /// Its members.
        members: Vec<SiteName>,
    },
    /// This incarnation of the site is over: it was left out of a view, and has lost everything.
    Fail,
    /// A new incarnation of the site is a member.
    Recover,
}

numbered! { TraceEvent {
    0 => Waits { client, who },
    1 => Holds { client, who, fence },
    2 => Request { client, who },
    3 => Cancel { client },
    4 => Enter { client, who, fence },
    5 => Release { client },
    6 => Send { to, number, message },
    7 => Receive { from, number, message },
    8 => View { members },
    9 => Fail,
    10 => Recover,
} }

impl Node {
    /// Somebody wants to know all that happens.
    pub(super) fn on_watch(&mut self, watch: Watch, out: &mut Vec<Output>) {
        let request = watch.request;
        if self.table.watches().len() >= MAX_WATCHES {
            return out.push(Output::Answer(Answer::Lock(LockEvent::Refused {
                request,
                why: Refusal::TooManyWatches,
            })));
        }
        let mut told = Vec::new();
        let lost = self.table.watch(watch, MAX_BEFORE, &mut told);
        let before = told.into_iter().filter_map(|told| {
            if let table::Output::Trace(happening) = told { Some(self.line(*happening)) } else { None }
        });
        let mut lines: Vec<TraceLine> = self.is_open().then(|| self.line_of_view()).into_iter().collect();
        lines.extend(before);
        out.push(Output::Answer(Answer::Traced { request, lines, lost }));
    }

    /// Whether `request` was a watch, which is over now.
    pub(super) fn end_watch(&mut self, request: Request, out: &mut Vec<Output>) -> bool {
        let ended = self.table.unwatch(|watch| watch.request == request);
        if ended {
            out.push(Output::Answer(Answer::Lock(LockEvent::Cancelled { request })));
        }
        ended
    }

    /// Tells of a lock, to those who watch it.
    pub(super) fn trace(&mut self, happening: Happening, out: &mut Vec<Output>) {
        let line = self.line(happening);
        self.tell_watchers(&line, out);
    }

    /// Tells of the site as a whole, to all who watch.
    pub(super) fn trace_site(&mut self, event: TraceEvent, out: &mut Vec<Output>) {
        if !self.table.watches().is_empty() {
            let (time, epoch) = (self.now, self.view.epoch);
            let line = TraceLine { time, epoch, lock: None, machine: None, event, state: None };
            self.tell_watchers(&line, out);
        }
    }

    /// The machines of the view run.
    pub(super) fn trace_view(&mut self, out: &mut Vec<Output>) {
        if !self.table.watches().is_empty() {
            let line = self.line_of_view();
            self.tell_watchers(&line, out);
        }
    }

    fn tell_watchers(&self, line: &TraceLine, out: &mut Vec<Output>) {
        for watch in self.table.watches() {
            if line.lock.as_ref().is_none_or(|lock| watch.sees(lock)) {
                let mut line = line.clone();
                line.state.take_if(|_| !watch.states);
                let request = watch.request;
                out.push(Output::Answer(Answer::Traced { request, lines: vec![line], lost: 0 }));
            }
        }
    }

    fn line_of_view(&self) -> TraceLine {
        let members = self.view.members.iter().map(|member| member.site.clone()).collect();
        let event = TraceEvent::View { members };
        TraceLine { time: self.now, epoch: self.view.epoch, lock: None, machine: None, event, state: None }
    }

    fn line(&self, happening: Happening) -> TraceLine {
        let Happening { lock, machine, what, state, .. } = happening;
        let who = |request| self.table.label_of(request).cloned();
        let site = |place: usize| self.view.members[place].site.clone();
        let event = match what {
            What::Waits(request) => TraceEvent::Waits { client: request.0, who: who(request) },
            What::Holds(request, fence) => TraceEvent::Holds { client: request.0, who: who(request), fence },
            What::Request(request) => TraceEvent::Request { client: request.0, who: who(request) },
            What::Cancel(request) => TraceEvent::Cancel { client: request.0 },
            What::Enter(request, fence) => TraceEvent::Enter { client: request.0, who: who(request), fence },
            What::Release(request) => TraceEvent::Release { client: request.0 },
            What::Send(place, message) => {
                let number = self.links.last_sent(&self.view.members[place]);
                TraceEvent::Send { to: site(place), number, message }
            }
            What::Receive(place, message) => {
                TraceEvent::Receive { from: site(place), number: self.arrived, message }
            }
        };
        let machine = machine.and_then(|machine| u32::try_from(machine.index()).ok());
        TraceLine { time: self.now, epoch: self.view.epoch, lock: Some(lock), machine, event, state }
    }
}
