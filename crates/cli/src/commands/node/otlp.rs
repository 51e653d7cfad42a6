//! Traces for OpenTelemetry: the log events of each acquisition (target `meshlock::lock`) become spans that are sent to a collector
//! (OTLP over HTTP, as JSON).
//!
//! This does not use the official crates: the format is fixed and small, and they would add an HTTP client to every build. A thread of
//! its own sends the spans. If the collector is too slow, spans are dropped; locks are never delayed.

mod layer;
mod post;
mod span;

use std::str::FromStr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::thread::JoinHandle;
use std::time::Duration;

pub(super) use layer::SpanLayer;
use span::TraceSpan;

/// How many spans may wait for the collector; more are dropped.
const MAX_WAITING: usize = 8192;

/// How many spans are sent at once. [`GATHER`] is how long a batch waits for the next span.
const BATCH: usize = 512;
const GATHER: Duration = Duration::from_millis(500);

/// Environment variable with the address of the collector.
pub(super) const VARIABLE: &str = "OTEL_EXPORTER_OTLP_ENDPOINT";

/// The address of a collector.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Collector {
    /// `host:port`.
    authority: String,
    path: String,
}

impl FromStr for Collector {
    type Err = String;

    /// Parses the base address, to which `/v1/traces` is added, as the OpenTelemetry specification demands.
    fn from_str(text: &str) -> Result<Self, String> {
        let Some(rest) = text.strip_prefix("http://") else {
            return Err(format!(
                "'{text}': only http:// is supported; name a collector on this machine, such as http://127.0.0.1:4318, which can forward over TLS"
            ));
        };
        let (authority, base) = rest.split_once('/').unwrap_or((rest, ""));
        if authority.is_empty() || authority.contains(['@', ' ']) {
            return Err(format!("'{text}' names no host; give it as http://HOST:PORT"));
        }
        let has_port = authority.rsplit_once(':').is_some_and(|(_, port)| port.parse::<u16>().is_ok());
        let authority = if has_port { authority.to_owned() } else { format!("{authority}:4318") };
        let base = base.trim_end_matches('/');
        let path = if base.is_empty() { "/v1/traces".to_owned() } else { format!("/{base}/v1/traces") };
        Ok(Collector { authority, path })
    }
}

/// A message to the thread that sends spans.
enum ExportMessage {
    Send(Box<TraceSpan>),
    Stop,
}

/// Sends spans until it is dropped. Then it sends at most one more batch, so that no collector delays a site that stops.
pub(super) struct Exporter {
    queue: SyncSender<ExportMessage>,
    stops: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Exporter {
    /// Starts the thread that sends to a collector.
    pub(super) fn start(collector: Collector) -> std::io::Result<(Self, SpanLayer)> {
        let (queue, taken) = sync_channel(MAX_WAITING);
        let stops = Arc::new(AtomicBool::new(false));
        let stopped = stops.clone();
        let send = move || send_all(&collector, &taken, &stopped);
        let thread = Some(std::thread::Builder::new().name("otlp".to_owned()).spawn(send)?);
        Ok((Exporter { queue: queue.clone(), stops, thread }, SpanLayer::new(queue)))
    }
}

impl Drop for Exporter {
    fn drop(&mut self) {
        self.stops.store(true, Ordering::Relaxed);
        // Wakes the thread if it waits. If the queue is full, the thread does not wait, and ends after its current batch.
        let _ = self.queue.try_send(ExportMessage::Stop);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

fn send_all(collector: &Collector, queue: &Receiver<ExportMessage>, stops: &AtomicBool) {
    let mut complained = false;
    loop {
        let (batch, goes_on) = gather(queue);
        if !batch.is_empty() {
            match post::post(collector, &span::document(&batch)) {
                Ok(()) => complained = false,
                Err(error) => {
                    if !std::mem::replace(&mut complained, true) {
                        let at = &collector.authority;
                        tracing::warn!(%at, %error, "the collector does not accept traces: they are dropped");
                    }
                }
            }
        }
        if !goes_on || stops.load(Ordering::Relaxed) {
            return;
        }
    }
}

/// Waits for spans and returns a batch, and whether more can come.
fn gather(queue: &Receiver<ExportMessage>) -> (Vec<TraceSpan>, bool) {
    let Ok(ExportMessage::Send(first)) = queue.recv() else { return (Vec::new(), false) };
    let mut batch = vec![*first];
    while batch.len() < BATCH {
        match queue.recv_timeout(GATHER) {
            Ok(ExportMessage::Send(span)) => batch.push(*span),
            Ok(ExportMessage::Stop) | Err(RecvTimeoutError::Disconnected) => return (batch, false),
            Err(RecvTimeoutError::Timeout) => break,
        }
    }
    (batch, true)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_collector_is_named_by_its_base_address() {
        let read = |text: &str| text.parse().map(|Collector { authority, path }| (authority, path));
        let is = |authority: &str, path: &str| Ok((authority.to_owned(), path.to_owned()));
        assert_eq!(read("http://127.0.0.1:4318"), is("127.0.0.1:4318", "/v1/traces"));
        assert_eq!(read("http://otel/"), is("otel:4318", "/v1/traces"));
        assert_eq!(read("http://[::1]:9/base/"), is("[::1]:9", "/base/v1/traces"));
        for nonsense in ["https://a:4318", "a:4318", "http://", "http:///x", "http://me@host"] {
            assert!(read(nonsense).is_err(), "{nonsense}");
        }
    }
}
