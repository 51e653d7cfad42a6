//! Spans, as OTLP writes them in JSON.

use std::collections::BTreeMap;
use std::time::{SystemTime, UNIX_EPOCH};

use serde_json::{Value, json};

/// What a span is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// Something that this site does.
    Internal = 1,
    /// A message of another site that it handles.
    Consumer = 5,
}

/// One span.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Span {
    /// The cause of all that is done for one acquisition: the lower half of the trace's id.
    pub(super) trace: u64,
    pub(super) id: u64,
    pub(super) parent: Option<u64>,
    pub(super) name: String,
    pub(super) kind: Kind,
    pub(super) start: SystemTime,
    pub(super) end: SystemTime,
    /// The site that it is of.
    pub(super) site: String,
    pub(super) attributes: Vec<(&'static str, String)>,
    /// Other traces that have to do with it: trace and span, in hexadecimal digits.
    pub(super) links: Vec<(String, String)>,
    /// What went wrong, if something did.
    pub(super) failed: Option<String>,
}

/// The id of a trace, as it is written.
pub(super) fn trace_id(cause: u64) -> String {
    format!("{cause:032x}")
}

/// The id of a span, as it is written.
pub(super) fn span_id(id: u64) -> String {
    format!("{id:016x}")
}

/// The span of an acquisition's wait: every site knows it by the cause alone.
pub(super) fn root(cause: u64) -> u64 {
    // Odd, so that causes have spans of their own, and none of them zero.
    (cause.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ 0x5bf0_3635) | 1
}

impl Span {
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

/// What is sent: spans by site.
pub(super) fn document(spans: &[Span]) -> String {
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
