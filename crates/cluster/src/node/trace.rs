//! A node's trace: how its steps become lines for those who watch.

use super::{ClientAnswer, Node, NodeOutput};
use crate::report::{TraceEvent, TraceLine};
use crate::table::{self, LockEvent, Request, RequestRefusal, StepKind, TableStep, TraceWatch};

/// Maximum number of concurrent watches of a node: each makes every step more expensive.
pub(super) const MAX_WATCHES: usize = 8;

/// Maximum number of lines, at the beginning of a watch, about waiters and holders that exist already.
const MAX_BEFORE: usize = 1000;

impl Node {
    /// Begins a watch.
    pub(super) fn on_watch(&mut self, watch: TraceWatch, out: &mut Vec<NodeOutput>) {
        let request = watch.request;
        if self.table.watches().len() >= MAX_WATCHES {
            return out.push(NodeOutput::Answer(ClientAnswer::Lock(LockEvent::Refused {
                request,
                why: RequestRefusal::TooManyWatches,
            })));
        }
        let mut told = Vec::new();
        let lost = self.table.watch(watch, MAX_BEFORE, &mut told);
        let before = told.into_iter().filter_map(|told| {
            if let table::TableOutput::Trace(step) = told { Some(self.line(*step)) } else { None }
        });
        let mut lines: Vec<TraceLine> = self.is_open().then(|| self.line_of_view()).into_iter().collect();
        lines.extend(before);
        out.push(NodeOutput::Answer(ClientAnswer::Traced { request, lines, lost }));
    }

    /// Ends the watch `request`. Returns whether there was one.
    pub(super) fn end_watch(&mut self, request: Request, out: &mut Vec<NodeOutput>) -> bool {
        let ended = self.table.unwatch(|watch| watch.request == request);
        if ended {
            out.push(NodeOutput::Answer(ClientAnswer::Lock(LockEvent::Cancelled { request })));
        }
        ended
    }

    /// Sends a line about a lock to those who watch it.
    pub(super) fn trace(&mut self, step: TableStep, out: &mut Vec<NodeOutput>) {
        let line = self.line(step);
        self.tell_watchers(&line, out);
    }

    /// Sends a line about the site as a whole to all watches.
    pub(super) fn trace_site(&mut self, event: TraceEvent, out: &mut Vec<NodeOutput>) {
        if !self.table.watches().is_empty() {
            let (time, epoch) = (self.now, self.view.epoch);
            let line = TraceLine { time, epoch, lock: None, machine: None, event, state: None };
            self.tell_watchers(&line, out);
        }
    }

    /// Sends a line that the machines of the view run.
    pub(super) fn trace_view(&mut self, out: &mut Vec<NodeOutput>) {
        if !self.table.watches().is_empty() {
            let line = self.line_of_view();
            self.tell_watchers(&line, out);
        }
    }

    fn tell_watchers(&self, line: &TraceLine, out: &mut Vec<NodeOutput>) {
        for watch in self.table.watches() {
            if line.lock.as_ref().is_none_or(|lock| watch.sees(lock)) {
                let mut line = line.clone();
                line.state.take_if(|_| !watch.states);
                let request = watch.request;
                out.push(NodeOutput::Answer(ClientAnswer::Traced { request, lines: vec![line], lost: 0 }));
            }
        }
    }

    fn line_of_view(&self) -> TraceLine {
        let members = self.view.members.iter().map(|member| member.site.clone()).collect();
        let event = TraceEvent::View { members };
        TraceLine { time: self.now, epoch: self.view.epoch, lock: None, machine: None, event, state: None }
    }

    fn line(&self, step: TableStep) -> TraceLine {
        let TableStep { lock, machine, kind, state, .. } = step;
        let who = |request| self.table.label_of(request).cloned();
        let site = |place: usize| self.view.members[place].site.clone();
        let event = match kind {
            StepKind::Waits(request) => TraceEvent::Waits { client: request.0, who: who(request) },
            StepKind::Holds(request, fence) => {
                TraceEvent::Holds { client: request.0, who: who(request), fence }
            }
            StepKind::Request(request) => TraceEvent::Request { client: request.0, who: who(request) },
            StepKind::Cancel(request) => TraceEvent::Cancel { client: request.0 },
            StepKind::Enter(request, fence) => {
                TraceEvent::Enter { client: request.0, who: who(request), fence }
            }
            StepKind::Release(request) => TraceEvent::Release { client: request.0 },
            StepKind::Send(place, message) => {
                let number = self.links.last_sent(&self.view.members[place]);
                TraceEvent::Send { to: site(place), number, message }
            }
            StepKind::Receive(place, message) => {
                TraceEvent::Receive { from: site(place), number: self.arrived, message }
            }
        };
        let machine = machine.and_then(|machine| u32::try_from(machine.index()).ok());
        TraceLine { time: self.now, epoch: self.view.epoch, lock: Some(lock), machine, event, state }
    }
}
