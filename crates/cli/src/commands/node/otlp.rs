//! Traces for OpenTelemetry: what the log says of each acquisition under the target `meshlock::lock`, as spans that are sent to a
//! collector (OTLP over HTTP, as JSON).
//!
//! Written here rather than taken from the official crates: the format is fixed and small, and they would make everyone who builds this
//! wait for an HTTP client. A thread of its own sends. If the collector does not keep up, spans are lost, never locks.

mod post;
mod span;
mod spans;

use std::str::FromStr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::thread::JoinHandle;
use std::time::Duration;

use span::Span;
pub(super) use spans::Spans;

/// How many spans wait for the collector; more are lost.
const MAX_WAITING: usize = 8192;

/// How many are sent at once, and how long the first of them waits for others.
const BATCH: usize = 512;
const GATHER: Duration = Duration::from_millis(500);

/// What tells a collector apart from a proxy in the environment.
pub(super) const VARIABLE: &str = "OTEL_EXPORTER_OTLP_ENDPOINT";

/// Where a collector is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Endpoint {
    /// `host:port`.
    authority: String,
    path: String,
}

impl FromStr for Endpoint {
    type Err = String;

    /// From its base address, to which `/v1/traces` is added, as the specification of OpenTelemetry wants it.
    fn from_str(text: &str) -> Result<Self, String> {
        let Some(rest) = text.strip_prefix("http://") else {
            return Err(format!(
                "'{text}': only http:// is spoken; name a collector of this machine, such as http://127.0.0.1:4318, which can send on with TLS"
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
        Ok(Endpoint { authority, path })
    }
}

/// What the thread that sends is told.
enum Order {
    Send(Box<Span>),
    Stop,
}

/// Sends spans for as long as this is there. Of what is left then one batch is sent, so that no collector holds up a site that stops.
pub(super) struct Exporter {
    orders: SyncSender<Order>,
    stops: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Exporter {
    /// Starts to send to a collector.
    pub(super) fn start(endpoint: Endpoint) -> std::io::Result<(Self, Spans)> {
        let (orders, taken) = sync_channel(MAX_WAITING);
        let stops = Arc::new(AtomicBool::new(false));
        let stopped = stops.clone();
        let send = move || send_all(&endpoint, &taken, &stopped);
        let thread = Some(std::thread::Builder::new().name("otlp".to_owned()).spawn(send)?);
        Ok((Exporter { orders: orders.clone(), stops, thread }, Spans::new(orders)))
    }
}

impl Drop for Exporter {
    fn drop(&mut self) {
        self.stops.store(true, Ordering::Relaxed);
        // The thread may wait for this; if there is no room, it does not, and goes after what it is sending.
        let _ = self.orders.try_send(Order::Stop);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

fn send_all(endpoint: &Endpoint, orders: &Receiver<Order>, stops: &AtomicBool) {
    let mut complained = false;
    loop {
        let (batch, goes_on) = gather(orders);
        if !batch.is_empty() {
            match post::post(endpoint, &span::document(&batch)) {
                Ok(()) => complained = false,
                Err(error) => {
                    if !std::mem::replace(&mut complained, true) {
                        let at = &endpoint.authority;
                        tracing::warn!(%at, %error, "traces are lost: the collector does not take them");
                    }
                }
            }
        }
        if !goes_on || stops.load(Ordering::Relaxed) {
            return;
        }
    }
}

/// Takes what there is, once there is something; and whether there will be more.
fn gather(orders: &Receiver<Order>) -> (Vec<Span>, bool) {
    let Ok(Order::Send(first)) = orders.recv() else { return (Vec::new(), false) };
    let mut batch = vec![*first];
    while batch.len() < BATCH {
        match orders.recv_timeout(GATHER) {
            Ok(Order::Send(span)) => batch.push(*span),
            Ok(Order::Stop) | Err(RecvTimeoutError::Disconnected) => return (batch, false),
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
        let read = |text: &str| text.parse().map(|Endpoint { authority, path }| (authority, path));
        let is = |authority: &str, path: &str| Ok((authority.to_owned(), path.to_owned()));
        assert_eq!(read("http://127.0.0.1:4318"), is("127.0.0.1:4318", "/v1/traces"));
        assert_eq!(read("http://otel/"), is("otel:4318", "/v1/traces"));
        assert_eq!(read("http://[::1]:9/base/"), is("[::1]:9", "/base/v1/traces"));
        for nonsense in ["https://a:4318", "a:4318", "http://", "http:///x", "http://me@host"] {
            assert!(read(nonsense).is_err(), "{nonsense}");
        }
    }
}
