//! The listener: gRPC and HTTP/JSON on one port, in a thread of its own so that clients never slow down the node's
//! network.

mod connection;
mod cut_detector;
mod ends;
mod guard;
mod routes;
#[cfg(test)]
mod tests;
mod write_timeout;

use std::io;
use std::net::{SocketAddr, TcpListener};
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

use axum::Router;
use axum::extract::DefaultBodyLimit;
use axum::http::{HeaderMap, HeaderValue, Method, StatusCode, Uri, header};
use axum::response::{IntoResponse, Response};
use meshlock_host::Trust;
use meshlock_host::front::Front;
use meshlock_web::ServedAs;
use tokio::sync::Notify;
use tonic::service::Routes;

use crate::consul::{self, Consul};
use crate::correlation;
use crate::etcd::Etcd;
use crate::forward;
use crate::metrics;
use crate::own::{self, Own};
use crate::sessions::Sessions;
use crate::sessions::registry::ApiLimits;
use connection::ConnectionServer;
use ends::ConnectionEnds;
use guard::Guard;
pub(crate) use guard::{refuse, usable_token};

/// What is needed to serve the wire APIs. They are protected as the node is ([`Trust`]); without protection only programs on this machine
/// are served.
#[derive(Debug)]
pub struct ApiSetup {
    /// The port for clients.
    pub listener: TcpListener,
    pub limits: ApiLimits,
}

/// Why the wire APIs cannot be served.
#[derive(Debug, thiserror::Error)]
pub enum ServeError {
    /// Everyone who reaches the port could take any lock.
    #[error(
        "the API would be open to everyone who reaches {0}: give it an address of this machine only, such as 127.0.0.1:2379, or \
         give the node certificates (`meshlock ca`), which then protect the API too"
    )]
    Open(SocketAddr),
    /// The system refused a resource.
    #[error("cannot serve the API: {0}")]
    System(#[from] io::Error),
}

/// Serves the wire APIs until it is dropped.
pub struct Serving {
    address: SocketAddr,
    sessions: Sessions,
    stop: Arc<Stop>,
    thread: Option<JoinHandle<()>>,
}

/// Signals that stop the service, in two steps.
#[derive(Debug, Default)]
struct Stop {
    accepting: Notify,
    everything: Notify,
}

impl Serving {
    /// Starts serving a node's clients.
    pub fn start(front: &Front, setup: ApiSetup) -> Result<Self, ServeError> {
        let ApiSetup { listener, limits } = setup;
        let address = listener.local_addr()?;
        if front.node().trust().is_plain() && !address.ip().is_loopback() {
            return Err(ServeError::Open(address));
        }
        listener.set_nonblocking(true)?;
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let stop = Arc::new(Stop::default());
        let sessions = {
            // Its background tasks run on this runtime.
            let _within = runtime.enter();
            Sessions::open(front.clone(), limits)
        };
        let (served, stopped) = (sessions.clone(), stop.clone());
        let serve = move || {
            runtime.block_on(serve(served, listener, stopped));
            // Do not wait for calls that are still in progress.
            runtime.shutdown_timeout(Duration::ZERO);
        };
        let thread = std::thread::Builder::new().name("api".to_owned()).spawn(serve)?;
        Ok(Serving { address, sessions, stop, thread: Some(thread) })
    }

    /// Returns the metrics page.
    pub fn metrics(&self) -> String {
        metrics::text(self.sessions.front(), Some(&self.sessions)).unwrap_or_default()
    }

    /// Returns the address that clients connect to.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Stops accepting connections. Existing ones stay, so that clients can release what they hold.
    pub fn stop_accepting(&self) {
        self.stop.accepting.notify_one();
    }
}

impl std::fmt::Debug for Serving {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Serving").field("address", &self.address).finish_non_exhaustive()
    }
}

impl Drop for Serving {
    fn drop(&mut self) {
        self.stop.accepting.notify_one();
        self.stop.everything.notify_one();
        if let Some(thread) = self.thread.take() {
            // A panic has already been reported by that thread.
            let _ = thread.join();
        }
    }
}

async fn serve(sessions: Sessions, listener: TcpListener, stop: Arc<Stop>) {
    let limits = sessions.limits();
    let (told, front) = (sessions.clone(), sessions.front().clone());
    let ends = ConnectionEnds::new();
    let on_cut = Arc::new(move |who| told.on_cut(who));
    let router = router(&sessions);
    let forwarded = forward::serve(&sessions, router.clone());
    let connections = ConnectionServer::new(router, limits, front, on_cut, ends.clone());
    let listener = tokio::net::TcpListener::from_std(listener).expect("within a runtime");
    tokio::select! {
        () = connections.accept_connections(listener) => {}
        () = stop.accepting.notified() => {}
    }
    stop.everything.notified().await;
    drop(forwarded);
    // Clients are told first; what they hold stays taken until they cannot rely on it any more.
    sessions.close();
    ends.end_all().await;
}

/// Returns how browsers reach a port with this protection.
fn served_as(trust: &Trust) -> ServedAs {
    if trust.is_plain() { ServedAs::Loopback } else { ServedAs::Protected }
}

/// Returns the router of all APIs.
fn router(sessions: &Sessions) -> Router {
    let cluster = sessions.front().cluster_name();
    let (etcd, own) = (Etcd::new(sessions.clone(), &cluster), Own::new(sessions.clone()));
    let grpc = etcd.grpc(Routes::new(own.grpc())).into_axum_router();
    // gRPC has its own limit, for each message.
    let consul = Consul::new(sessions.clone(), &cluster);
    let http = etcd.gateway().merge(own.http()).merge(consul.routes());
    let http = http.layer(DefaultBodyLimit::max(sessions.limits().request_bytes));
    let request_bytes = sessions.limits().request_bytes;
    let front = sessions.front().clone();
    let served_as = served_as(front.node().trust());
    let guard = Guard { front, sessions: sessions.clone(), request_bytes, served_as };
    Router::new()
        .merge(grpc)
        .merge(http)
        .merge(metrics::routes(sessions))
        .fallback(not_found)
        .layer(axum::middleware::map_response(explain))
        .layer(axum::middleware::from_fn(correlation::follow))
        .layer(axum::middleware::from_fn_with_state(sessions.clone(), forward::route))
        .layer(axum::middleware::from_fn_with_state(guard, guard::admit))
        .layer(axum::middleware::from_fn_with_state(sessions.clone(), metrics::count))
}

/// The error for calls that are not served.
const NO_SUCH_CALL: &str = "Meshlock keeps locks, not data; it does not serve this call. See docs/etcd.md, docs/consul.md and docs/api.md";

/// The gRPC status for an unknown call.
const UNIMPLEMENTED: HeaderValue = HeaderValue::from_static("12");

pub(crate) fn is_grpc(headers: &HeaderMap) -> bool {
    let kind = headers.get(header::CONTENT_TYPE);
    kind.is_some_and(|kind| kind.as_bytes().starts_with(b"application/grpc"))
}

/// Answers requests that no route matches.
async fn not_found(method: Method, uri: Uri, headers: HeaderMap) -> Response {
    if consul::is_unsupported(uri.path()) {
        return consul::unsupported(&method, uri.path());
    }
    if !is_grpc(&headers) {
        return own::not_found(method.as_str(), uri.path());
    }
    let mut response = StatusCode::OK.into_response();
    response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static("application/grpc"));
    response.headers_mut().insert("grpc-status", UNIMPLEMENTED);
    response
}

/// Adds the explanation to answers about unknown calls, including unknown methods of a known service.
async fn explain(mut response: Response) -> Response {
    let headers = response.headers_mut();
    if headers.get("grpc-status") == Some(&UNIMPLEMENTED) && !headers.contains_key("grpc-message") {
        headers.insert("grpc-message", HeaderValue::from_static(NO_SUCH_CALL));
    }
    response
}
