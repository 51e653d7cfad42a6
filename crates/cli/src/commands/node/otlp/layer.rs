//! Makes spans from the log events of acquisitions.
//!
//! ```text
//!  lock requested ── wait ──▶ granted ── hold ──▶ lock released, acquisition ended with its session, lost
//!              message received (a message for the acquisition was handled, at any site)
//! ```

use std::collections::{BTreeMap, VecDeque};
use std::fmt::Debug;
use std::sync::mpsc::SyncSender;
use std::sync::{Mutex, PoisonError};
use std::time::SystemTime;

use tracing::field::{Field, Visit};
use tracing::{Event, Subscriber};
use tracing_subscriber::Layer;
use tracing_subscriber::layer::Context;

use super::ExportMessage;
use super::span::{SpanKind, TraceSpan, root, span_id, trace_id};

/// How many acquisitions are followed at once; more get no spans.
const MAX_OPEN: usize = 100_000;

/// How many traces of clients are remembered. The limit is needed because not every client requests a lock after all.
const MAX_PARENTS: usize = 1024;

/// A log layer that makes spans of events. A span that cannot be queued at once is dropped.
pub(in super::super) struct SpanLayer {
    queue: SyncSender<ExportMessage>,
    state: Mutex<AcquisitionTracker>,
}

/// The acquisitions that are followed.
#[derive(Default)]
struct AcquisitionTracker {
    /// The acquisitions by site and request number.
    open: BTreeMap<(String, String), OpenAcquisition>,
    /// The latest causes that clients have given, with the client's trace and span.
    parents: VecDeque<(u64, Parent)>,
}

/// Trace id and span id of a client, in hexadecimal.
type Parent = (String, String);

/// An acquisition that waits for a lock or holds it.
struct OpenAcquisition {
    cause: u64,
    lock: String,
    /// When it began to wait, or to hold.
    since: SystemTime,
    fence: Option<String>,
}

/// The fields of an event.
#[derive(Default)]
struct Fields(BTreeMap<&'static str, String>);

impl Visit for Fields {
    fn record_str(&mut self, field: &Field, value: &str) {
        self.0.insert(field.name(), value.to_owned());
    }

    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        self.0.insert(field.name(), format!("{value:?}"));
    }
}

impl Fields {
    fn text(&self, name: &str) -> String {
        self.0.get(name).cloned().unwrap_or_default()
    }

    fn cause(&self, name: &str) -> Option<u64> {
        u64::from_str_radix(self.0.get(name)?, 16).ok()
    }

    /// Returns the site and the number of the request, which identify an acquisition.
    fn request_key(&self) -> (String, String) {
        (self.text("site"), self.text("request"))
    }
}

impl SpanLayer {
    pub(super) fn new(queue: SyncSender<ExportMessage>) -> Self {
        SpanLayer { queue, state: Mutex::default() }
    }

    fn take(&self, fields: &Fields, now: SystemTime) {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let span = match fields.text("message").as_str() {
            "the client set the cause of its request" => return state.named(fields),
            "lock requested" => return state.asked(fields, now),
            "granted" => state.granted(fields, now),
            "message received" => message_span(fields, now),
            "message sent" => None,
            how => state.over(fields, how, now),
        };
        drop(state);
        if let Some(span) = span {
            let _ = self.queue.try_send(ExportMessage::Send(Box::new(span)));
        }
    }
}

impl AcquisitionTracker {
    /// Remembers the trace that a client has given. The wait is linked with it, because messages carry only half of its id.
    fn named(&mut self, fields: &Fields) {
        let parent = fields.text("traceparent");
        let mut parts = parent.split('-').skip(1).map(str::to_owned);
        if let (Some(cause), Some(trace), Some(span)) = (fields.cause("cause"), parts.next(), parts.next()) {
            self.parents.truncate(MAX_PARENTS - 1);
            self.parents.push_front((cause, (trace, span)));
        }
    }

    fn parent(&mut self, cause: u64) -> Option<Parent> {
        let at = self.parents.iter().position(|(known, _)| *known == cause)?;
        self.parents.remove(at).map(|(_, parent)| parent)
    }

    fn asked(&mut self, fields: &Fields, now: SystemTime) {
        if let Some(cause) = fields.cause("cause").filter(|_| self.open.len() < MAX_OPEN) {
            let open = OpenAcquisition { cause, lock: fields.text("lock"), since: now, fence: None };
            self.open.insert(fields.request_key(), open);
        }
    }

    fn granted(&mut self, fields: &Fields, now: SystemTime) -> Option<TraceSpan> {
        let parent = self.parent(fields.cause("cause")?);
        let open = self.open.get_mut(&fields.request_key())?;
        let mut span = open.span(fields, now, parent);
        (open.since, open.fence) = (now, Some(fields.text("fence")));
        // The acquisition that handed over the lock.
        let by = fields.cause("by").filter(|by| *by != open.cause);
        span.links.extend(by.map(|by| (trace_id(by), span_id(root(by)))));
        Some(span)
    }

    /// Ends an acquisition that no longer waits or holds.
    fn over(&mut self, fields: &Fields, how: &str, now: SystemTime) -> Option<TraceSpan> {
        // A lost lock ends when its client is told; a later release of it finds no acquisition.
        let open = self.open.remove(&fields.request_key())?;
        let parent = self.parent(open.cause);
        let mut span = open.span(fields, now, parent);
        let is_well =
            matches!(how, "lock released" | "acquisition ended with its session") && open.fence.is_some();
        span.failed = (!is_well).then(|| how.to_owned());
        Some(span)
    }
}

impl OpenAcquisition {
    /// Returns the span that ends now: of waiting, or of holding.
    fn span(&self, fields: &Fields, now: SystemTime, parent: Option<Parent>) -> TraceSpan {
        let wait = root(self.cause);
        let mut attributes = vec![("meshlock.lock", self.lock.clone())];
        attributes.extend(self.fence.clone().map(|fence| ("meshlock.fence", fence)));
        let holds = self.fence.is_some();
        TraceSpan {
            trace: self.cause,
            id: if holds { fastrand::u64(1..) } else { wait },
            parent: holds.then_some(wait),
            name: if holds { "meshlock.hold" } else { "meshlock.wait" }.to_owned(),
            kind: SpanKind::Internal,
            start: self.since,
            end: now,
            site: fields.text("site"),
            attributes,
            links: parent.into_iter().collect(),
            failed: None,
        }
    }
}

/// Returns the span of a message that was handled for an acquisition, perhaps one of another site.
fn message_span(fields: &Fields, now: SystemTime) -> Option<TraceSpan> {
    let trace = fields.cause("cause")?;
    Some(TraceSpan {
        trace,
        id: fastrand::u64(1..),
        parent: Some(root(trace)),
        name: format!("meshlock.message {}", fields.text("kind")),
        kind: SpanKind::Consumer,
        start: now,
        end: now,
        site: fields.text("site"),
        attributes: vec![("meshlock.lock", fields.text("lock")), ("meshlock.from", fields.text("from"))],
        links: Vec::new(),
        failed: None,
    })
}

impl<S: Subscriber> Layer<S> for SpanLayer {
    fn on_event(&self, event: &Event<'_>, _: Context<'_, S>) {
        let mut fields = Fields::default();
        event.record(&mut fields);
        self.take(&fields, SystemTime::now());
    }
}
