//! The listener: gRPC and HTTP/JSON on one port, in a thread of its own so that clients never slow the node's network down.

mod connection;
mod farewell;
mod guard;
mod patient;
mod routes;
#[cfg(test)]
mod tests;

use std::io;
use std::net::{SocketAddr, TcpListener};
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

use axum::Router;
use axum::extract::DefaultBodyLimit;
use axum::http::{HeaderMap, HeaderValue, Method, StatusCode, Uri, header};
use axum::response::{IntoResponse, Response};
use meshlock_host::front::Front;
use meshlock_tls::Security;
use tokio::sync::{Notify, Semaphore};
use tonic::service::Routes;

use crate::consul::{self, Consul};
use crate::correlation;
use crate::etcd::Etcd;
use crate::metrics;
use crate::own::{self, Own};
use crate::sessions::Sessions;
use crate::sessions::registry::Limits;
use connection::Door;
use guard::Guard;

/// How the wire APIs are served.
#[derive(Debug)]
pub struct Setup {
    /// Where clients connect ([`listen`]).
    pub listener: TcpListener,
    /// How their connections are protected. Without protection only programs of this machine are served.
    pub security: Security,
    /// How much they may have.
    pub limits: Limits,
}

/// Why the wire APIs cannot be served.
#[derive(Debug, thiserror::Error)]
pub enum ServeError {
    /// Whoever reaches the port could take any lock.
    #[error(
        "the API would be open to everyone who reaches {0}: give it an address of this machine only, such as 127.0.0.1:2379, or \
         give the node certificates (`meshlock ca`), which then protect the API too"
    )]
    Open(SocketAddr),
    /// The system does not give what is needed.
    #[error("cannot serve the API: {0}")]
    System(#[from] io::Error),
}

/// The wire APIs are being served, until this is dropped.
pub struct Serving {
    address: SocketAddr,
    sessions: Sessions,
    stop: Arc<Stop>,
    thread: Option<JoinHandle<()>>,
}

/// What ends the service, in two steps.
#[derive(Debug, Default)]
struct Stop {
    accepting: Notify,
    everything: Notify,
}

impl Serving {
    /// Serves a node's clients.
    pub fn start(front: &Front, setup: Setup) -> Result<Self, ServeError> {
        let Setup { listener, security, limits } = setup;
        let address = listener.local_addr()?;
        if matches!(security, Security::Plain) && !address.ip().is_loopback() {
            return Err(ServeError::Open(address));
        }
        listener.set_nonblocking(true)?;
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let stop = Arc::new(Stop::default());
        let sessions = {
            // Its tasks run there.
            let _within = runtime.enter();
            Sessions::open(front.clone(), limits)
        };
        let (served, stopped) = (sessions.clone(), stop.clone());
        let serve = move || {
            runtime.block_on(serve(served, listener, security, stopped));
            // What is still under way is not waited for.
            runtime.shutdown_timeout(Duration::ZERO);
        };
        let thread = std::thread::Builder::new().name("api".to_owned()).spawn(serve)?;
        Ok(Serving { address, sessions, stop, thread: Some(thread) })
    }

    /// The page `/metrics`: what the site says of itself to Prometheus.
    pub fn metrics(&self) -> String {
        metrics::text(&self.sessions).unwrap_or_default()
    }

    /// Where clients connect.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Takes no more connections; those that are there stay, so that clients can give back what they hold.
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
            // A panic there has been reported there.
            let _ = thread.join();
        }
    }
}

async fn serve(sessions: Sessions, listener: TcpListener, security: Security, stop: Arc<Stop>) {
    let limits = sessions.limits();
    let (told, gate) = (sessions.clone(), sessions.front().gate().clone());
    let door = Door::new(&security, router(&sessions), limits, gate, Arc::new(move |who| told.on_cut(who)));
    let places = Arc::new(Semaphore::new(limits.connections));
    let listener = tokio::net::TcpListener::from_std(listener).expect("within a runtime");
    tokio::select! {
        () = door.keep_accepting(listener, places) => {}
        () = stop.accepting.notified() => {}
    }
    stop.everything.notified().await;
    sessions.close();
}

/// Everything that is served.
fn router(sessions: &Sessions) -> Router {
    let cluster = sessions.front().node().look(|node| node.cluster_name().to_string());
    let (etcd, own) = (Etcd::new(sessions.clone(), &cluster), Own::new(sessions.clone()));
    let grpc = etcd.grpc(Routes::new(own.grpc())).into_axum_router();
    // gRPC has a limit of its own, for each message.
    let consul = Consul::new(sessions.clone(), &cluster);
    let http = etcd.gateway().merge(own.http()).merge(consul.routes());
    let http = http.layer(DefaultBodyLimit::max(sessions.limits().request_bytes));
    let guard = Guard { front: sessions.front().clone(), request_bytes: sessions.limits().request_bytes };
    Router::new()
        .merge(grpc)
        .merge(http)
        .merge(metrics::routes(sessions))
        .fallback(nowhere)
        .layer(axum::middleware::map_response(explain))
        .layer(axum::middleware::from_fn(correlation::follow))
        .layer(axum::middleware::from_fn_with_state(guard, guard::admit))
        .layer(axum::middleware::from_fn_with_state(sessions.clone(), metrics::count))
}

/// What is said of calls that are none of ours.
const NO_SUCH_CALL: &str = "Meshlock keeps locks, not data; this call is none of its services, which docs/etcd.md, docs/consul.md and docs/api.md list";

/// How gRPC says that there is no such call.
const UNIMPLEMENTED: HeaderValue = HeaderValue::from_static("12");

pub(crate) fn is_grpc(headers: &HeaderMap) -> bool {
    let kind = headers.get(header::CONTENT_TYPE);
    kind.is_some_and(|kind| kind.as_bytes().starts_with(b"application/grpc"))
}

/// What nobody serves.
async fn nowhere(method: Method, uri: Uri, headers: HeaderMap) -> Response {
    if consul::is_elsewhere(uri.path()) {
        return consul::not_here(&method, uri.path());
    }
    if !is_grpc(&headers) {
        return own::nowhere(method.as_str(), uri.path());
    }
    let mut response = StatusCode::OK.into_response();
    response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static("application/grpc"));
    response.headers_mut().insert("grpc-status", UNIMPLEMENTED);
    response
}

/// Says why there is no such call, also where a service that is here does not have it.
async fn explain(mut response: Response) -> Response {
    let headers = response.headers_mut();
    if headers.get("grpc-status") == Some(&UNIMPLEMENTED) && !headers.contains_key("grpc-message") {
        headers.insert("grpc-message", HeaderValue::from_static(NO_SUCH_CALL));
    }
    response
}

/// Opens a port for clients.
pub fn listen(address: &str) -> Result<TcpListener, meshlock_host::ListenError> {
    meshlock_host::listen(address)
}
