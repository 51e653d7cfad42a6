//! Spans and their JSON form in OTLP.

use std::collections::BTreeMap;
use std::time::{SystemTime, UNIX_EPOCH};

use serde_json::{Value, json};

/// The kind of a span, with its number in OTLP.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum SpanKind {
    /// Work of this site: waiting for a lock, or holding it.
    Internal = 1,
    /// A message of another site that this site handled.
    Consumer = 5,
}

/// A span of a trace.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct TraceSpan {
    /// The cause that identifies one acquisition at all sites: the lower half of the trace's id.
    pub(super) trace: u64,
    pub(super) id: u64,
    pub(super) parent: Option<u64>,
    pub(super) name: String,
    pub(super) kind: SpanKind,
    pub(super) start: SystemTime,
    pub(super) end: SystemTime,
    pub(super) site: String,
    pub(super) attributes: Vec<(&'static str, String)>,
    /// Related spans of other traces: trace id and span id, in hexadecimal.
    pub(super) links: Vec<(String, String)>,
    /// The error, if the acquisition failed.
    pub(super) failed: Option<String>,
}

/// Returns the id of a trace in hexadecimal.
pub(super) fn trace_id(cause: u64) -> String {
    format!("{cause:032x}")
}

/// Returns the id of a span in hexadecimal.
pub(super) fn span_id(id: u64) -> String {
    format!("{id:016x}")
}

/// Returns the id of the span in which an acquisition waits. It derives from the cause, so that every site knows it.
pub(super) fn root(cause: u64) -> u64 {
    // The multiplication spreads the causes over all ids; the last bit is set so that no id is zero.
    (cause.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ 0x5bf0_3635) | 1
}

impl TraceSpan {
    fn json(&self) -> Value {
        let nanos = |time: SystemTime| {
            time.duration_since(UNIX_EPOCH).map_or(0, |since| since.as_nanos()).to_string()
        };
        let links = self.links.iter().map(|(trace, span)| json!({ "traceId": trace, "spanId": span }));
        json!({
            "traceId": trace_id(self.trace),
            "spanId": span_id(self.id),
            "parentSpanId": self.parent.map(span_id).unwrap_or_default(),
            "name": self.name,
            "kind": self.kind as u8,
            "startTimeUnixNano": nanos(self.start),
            "endTimeUnixNano": nanos(self.end),
            "attributes": self.attributes.iter().map(|(key, value)| attribute(key, value)).collect::<Vec<_>>(),
            "links": links.collect::<Vec<_>>(),
            "status": self.failed.as_ref().map_or(json!({}), |why| json!({ "code": 2, "message": why })),
        })
    }
}

fn attribute(key: &str, value: &str) -> Value {
    json!({ "key": key, "value": { "stringValue": value } })
}

/// Returns the document to send: the spans, grouped by site.
pub(super) fn document(spans: &[TraceSpan]) -> String {
    let mut sites: BTreeMap<&str, Vec<Value>> = BTreeMap::new();
    for span in spans {
        sites.entry(&span.site).or_default().push(span.json());
    }
    let resources = sites.into_iter().map(|(site, spans)| {
        let attributes = [
            attribute("service.name", "meshlock"),
            attribute("service.version", env!("CARGO_PKG_VERSION")),
            attribute("service.instance.id", site),
        ];
        let scope = json!({ "name": "meshlock::lock", "version": env!("CARGO_PKG_VERSION") });
        json!({ "resource": { "attributes": attributes }, "scopeSpans": [{ "scope": scope, "spans": spans }] })
    });
    json!({ "resourceSpans": resources.collect::<Vec<_>>() }).to_string()
}
