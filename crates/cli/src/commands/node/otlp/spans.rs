//! Spans from what the log says of acquisitions.
//!
//! ```text
//!  asked ───────── wait ─────────▶ granted ───────── hold ─────────▶ gives back, ends, lost
//!              heard (a message for it, at any site)
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

use super::Order;
use super::span::{Kind, Span, root, span_id, trace_id};

/// How many acquisitions are followed at once; of others there are no spans.
const MAX_OPEN: usize = 100_000;

/// How many traces of clients are remembered, of which not all will ask for a lock.
const MAX_PARENTS: usize = 1024;

/// Makes spans of events. What it cannot send on at once is lost.
pub(in super::super) struct Spans {
    orders: SyncSender<Order>,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    /// By the site and the number of the wish.
    open: BTreeMap<(String, String), Open>,
    /// The causes that clients have given lately, and trace and span of each client.
    parents: VecDeque<(u64, Parent)>,
}

/// Trace and span of a client, in hexadecimal digits.
type Parent = (String, String);

/// An acquisition that waits or holds.
struct Open {
    cause: u64,
    lock: String,
    /// Since when it waits, or holds.
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

    /// By what a wish is known at its site.
    fn wish(&self) -> (String, String) {
        (self.text("site"), self.text("request"))
    }
}

impl Spans {
    pub(super) fn new(orders: SyncSender<Order>) -> Self {
        Spans { orders, state: Mutex::default() }
    }

    fn take(&self, fields: &Fields, now: SystemTime) {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let span = match fields.text("message").as_str() {
            "named" => return state.named(fields),
            "asked" => return state.asked(fields, now),
            "granted" => state.granted(fields, now),
            "heard" => heard(fields, now),
            "sends" => None,
            how => state.over(fields, how, now),
        };
        drop(state);
        if let Some(span) = span {
            let _ = self.orders.try_send(Order::Send(Box::new(span)));
        }
    }
}

impl State {
    /// A client has given a trace: the wait will be linked with it, because the wire carries only half of its id.
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
            let open = Open { cause, lock: fields.text("lock"), since: now, fence: None };
            self.open.insert(fields.wish(), open);
        }
    }

    fn granted(&mut self, fields: &Fields, now: SystemTime) -> Option<Span> {
        let parent = self.parent(fields.cause("cause")?);
        let open = self.open.get_mut(&fields.wish())?;
        let mut span = open.span(fields, now, parent);
        (open.since, open.fence) = (now, Some(fields.text("fence")));
        // Whoever handed the lock over.
        let by = fields.cause("by").filter(|by| *by != open.cause);
        span.links.extend(by.map(|by| (trace_id(by), span_id(root(by)))));
        Some(span)
    }

    /// It waits or holds no more.
    fn over(&mut self, fields: &Fields, how: &str, now: SystemTime) -> Option<Span> {
        // What is lost is over when its client is told; what that says later finds nothing.
        let open = self.open.remove(&fields.wish())?;
        let parent = self.parent(open.cause);
        let mut span = open.span(fields, now, parent);
        let is_well = matches!(how, "gives back" | "ends") && open.fence.is_some();
        span.failed = (!is_well).then(|| how.to_owned());
        Some(span)
    }
}

impl Open {
    /// The span that is over now: of waiting, or of holding.
    fn span(&self, fields: &Fields, now: SystemTime, parent: Option<Parent>) -> Span {
        let wait = root(self.cause);
        let mut attributes = vec![("meshlock.lock", self.lock.clone())];
        attributes.extend(self.fence.clone().map(|fence| ("meshlock.fence", fence)));
        let holds = self.fence.is_some();
        Span {
            trace: self.cause,
            id: if holds { fastrand::u64(1..) } else { wait },
            parent: holds.then_some(wait),
            name: if holds { "meshlock.hold" } else { "meshlock.wait" }.to_owned(),
            kind: Kind::Internal,
            start: self.since,
            end: now,
            site: fields.text("site"),
            attributes,
            links: parent.into_iter().collect(),
            failed: None,
        }
    }
}

/// A message was handled for an acquisition, which may be one of another site.
fn heard(fields: &Fields, now: SystemTime) -> Option<Span> {
    let trace = fields.cause("cause")?;
    Some(Span {
        trace,
        id: fastrand::u64(1..),
        parent: Some(root(trace)),
        name: format!("meshlock.message {}", fields.text("kind")),
        kind: Kind::Consumer,
        start: now,
        end: now,
        site: fields.text("site"),
        attributes: vec![("meshlock.lock", fields.text("lock")), ("meshlock.from", fields.text("from"))],
        links: Vec::new(),
        failed: None,
    })
}

impl<S: Subscriber> Layer<S> for Spans {
    fn on_event(&self, event: &Event<'_>, _: Context<'_, S>) {
        let mut fields = Fields::default();
        event.record(&mut fields);
        self.take(&fields, SystemTime::now());
    }
}
