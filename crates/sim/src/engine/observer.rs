//! The observers of a run: only a progress bar, or a trace.

use meshlock_protocol::registry::{AnyMessage, AnySite};
use meshlock_protocol::{Algorithm, SiteId};

use crate::time::Time;
use crate::trace::{Trace, TraceKind, TracedEvent};

/// Follows a run of `A`.
pub(super) trait RunObserver<A: Algorithm> {
    /// Whether it must be told everything.
    const IS_TRACE: bool;

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

    /// In its last step the site has chosen what its paper leaves open: an alternative, from 0, of so many.
    fn on_choice(&mut self, time: Time, site: SiteId, choice: (u32, u32), state: &A);

    /// Takes the number of entries measured so far.
    fn on_entry(&mut self, entries: u64);

    /// Reports nothing from now on: what follows has been reported before.
    fn mute(&mut self);
}

/// Reports only the number of entries.
pub(super) struct Untraced<'a>(Option<&'a mut dyn FnMut(u64)>);

impl<'a> Untraced<'a> {
    pub(super) fn new(progress: &'a mut dyn FnMut(u64)) -> Self {
        Untraced(Some(progress))
    }
}

impl<A: Algorithm> RunObserver<A> for Untraced<'_> {
    const IS_TRACE: bool = false;

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

    fn on_choice(&mut self, _: Time, _: SiteId, _: (u32, u32), _: &A) {}

    fn on_entry(&mut self, entries: u64) {
        if let Some(progress) = &mut self.0 {
            progress(entries);
        }
    }

    fn mute(&mut self) {
        self.0 = None;
    }
}

/// Everything is told to a trace.
pub(super) struct Traced<'a> {
    trace: Option<&'a mut dyn Trace>,
    /// The causes of the step under way: they are told with the state after it.
    causes: Vec<(TraceKind, Option<SiteId>, Option<AnyMessage>)>,
}

impl<'a> Traced<'a> {
    pub(super) fn new(trace: &'a mut dyn Trace) -> Self {
        Traced { trace: Some(trace), causes: Vec::new() }
    }
}

impl RunObserver<AnySite> for Traced<'_> {
    const IS_TRACE: bool = true;

    fn on_cause(&mut self, kind: TraceKind, peer: Option<SiteId>, message: Option<&AnyMessage>) {
        self.causes.push((kind, peer, message.cloned()));
    }

    fn on_step(&mut self, time: Time, site: SiteId, state: &AnySite) {
        for (kind, peer, message) in self.causes.drain(..) {
            if let Some(trace) = &mut self.trace {
                let (message, choice) = (message.as_ref(), None);
                trace.line(TracedEvent { time, kind, site, peer, message, choice, state });
            }
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
        if let Some(trace) = &mut self.trace {
            trace.line(TracedEvent { time, kind, site, peer, message, choice: None, state });
        }
    }

    fn on_choice(&mut self, time: Time, site: SiteId, choice: (u32, u32), state: &AnySite) {
        if let Some(trace) = &mut self.trace {
            let (kind, choice) = (TraceKind::Choose, Some(choice));
            trace.line(TracedEvent { time, kind, site, peer: None, message: None, choice, state });
        }
    }

    fn on_entry(&mut self, entries: u64) {
        if let Some(trace) = &mut self.trace {
            trace.entered(entries);
        }
    }

    fn mute(&mut self) {
        self.trace = None;
    }
}
