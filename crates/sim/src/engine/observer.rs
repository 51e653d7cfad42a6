//! The observers of a run: only a progress bar, or a trace.

use meshlock_protocol::registry::{AnyMessage, AnySite};
use meshlock_protocol::{Algorithm, SiteId};

use crate::time::Time;
use crate::trace::{Trace, TraceKind, TracedEvent};

/// Follows a run of `A`.
pub(super) trait RunObserver<A: Algorithm> {
    /// The next step is caused by this.
    fn on_cause(&mut self, kind: TraceKind, peer: Option<SiteId>, message: Option<&A::Message>);

    /// The step that the causes so far have led to is done.
    fn on_step(&mut self, time: Time, site: SiteId, state: &A);

    /// Something happened by itself or as the effect of a step.
    fn on_event(
        &mut self,
        time: Time,
        kind: TraceKind,
        site: SiteId,
        peer: Option<SiteId>,
        message: Option<&A::Message>,
        state: &A,
    );

    /// Takes the number of entries measured so far.
    fn on_entry(&mut self, entries: u64);
}

/// Reports only the number of entries.
pub(super) struct Untraced<'a>(pub(super) &'a mut dyn FnMut(u64));

impl<A: Algorithm> RunObserver<A> for Untraced<'_> {
    fn on_cause(&mut self, _: TraceKind, _: Option<SiteId>, _: Option<&A::Message>) {}

    fn on_step(&mut self, _: Time, _: SiteId, _: &A) {}

    fn on_event(
        &mut self,
        _: Time,
        _: TraceKind,
        _: SiteId,
        _: Option<SiteId>,
        _: Option<&A::Message>,
        _: &A,
    ) {
    }

    fn on_entry(&mut self, entries: u64) {
        (self.0)(entries);
    }
}

/// Everything is told to a trace.
pub(super) struct Traced<'a> {
    trace: &'a mut dyn Trace,
    /// The causes of the step under way: they are told with the state after it.
    causes: Vec<(TraceKind, Option<SiteId>, Option<AnyMessage>)>,
}

impl<'a> Traced<'a> {
    pub(super) fn new(trace: &'a mut dyn Trace) -> Self {
        Traced { trace, causes: Vec::new() }
    }
}

impl RunObserver<AnySite> for Traced<'_> {
    fn on_cause(&mut self, kind: TraceKind, peer: Option<SiteId>, message: Option<&AnyMessage>) {
        self.causes.push((kind, peer, message.cloned()));
    }

    fn on_step(&mut self, time: Time, site: SiteId, state: &AnySite) {
        for (kind, peer, message) in self.causes.drain(..) {
            self.trace.line(TracedEvent { time, kind, site, peer, message: message.as_ref(), state });
        }
    }

    fn on_event(
        &mut self,
        time: Time,
        kind: TraceKind,
        site: SiteId,
        peer: Option<SiteId>,
        message: Option<&AnyMessage>,
        state: &AnySite,
    ) {
        self.trace.line(TracedEvent { time, kind, site, peer, message, state });
    }

    fn on_entry(&mut self, entries: u64) {
        self.trace.entered(entries);
    }
}
