//! The thin shell: a router on loopback, the page's files, and the requests of the page.

mod answer;
mod api;
mod assets;
mod cache;
mod gallery;
mod guard;
mod live;

use std::net::Ipv4Addr;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::extract::{DefaultBodyLimit, Path, Query, State};
use axum::middleware;
use axum::routing::{MethodRouter, get, post};
use hyper::server::conn::http1;
use hyper_util::rt::TokioIo;
use hyper_util::service::TowerToHyperService;
use tokio::net::TcpListener;

use crate::setup::Parts;
use answer::{Handler, Lab, PageRequest, answered};
pub use live::LabOptions;

/// The largest trace that can be imported, in bytes: some 300,000 lines with states.
const MAX_IMPORTED: usize = 256 << 20;

/// The pause after a connection could not be accepted, which mostly means that there are too many.
const ACCEPT_PAUSE: Duration = Duration::from_secs(1);

/// The requests without a body.
const REQUESTS: &[(&str, Handler)] = &[
    ("/api/algorithms", api::algorithms),
    ("/api/run", api::run),
    ("/api/moment", api::moment),
    ("/api/trace", api::trace),
    ("/api/csv", api::csv),
    ("/api/gallery", gallery::list),
    ("/api/gallery/{id}", gallery::entry),
    ("/api/gallery/{id}/facts", gallery::facts),
    ("/api/errata/{id}", gallery::erratum),
    ("/api/compare", api::compare),
    ("/api/experiments", api::experiments),
    ("/api/experiments/{id}", api::experiment),
    ("/api/quorum", api::quorum),
    ("/api/live/trace", live::trace),
    ("/api/opened", live::opened),
];

/// The requests with a body.
const POSTED: &[(&str, Handler)] = &[("/api/import", api::import), ("/api/fields", api::fields)];

/// Opens the port on loopback; 0 takes any that is free.
pub async fn listen(port: u16) -> std::io::Result<TcpListener> {
    TcpListener::bind((Ipv4Addr::LOCALHOST, port)).await
}

/// Serves the page until the future is dropped. Boxed, so that the server is compiled here and not by its caller.
pub fn serve(
    listener: TcpListener,
    options: LabOptions,
) -> Pin<Box<dyn Future<Output = std::io::Result<()>> + Send>> {
    Box::pin(accept(listener, options))
}

/// Accepts connections. The page is on this machine and needs no more than HTTP/1.
async fn accept(listener: TcpListener, options: LabOptions) -> std::io::Result<()> {
    let service = TowerToHyperService::new(router(options));
    loop {
        let Ok((stream, _)) = listener.accept().await else {
            tokio::time::sleep(ACCEPT_PAUSE).await;
            continue;
        };
        let connection = http1::Builder::new().serve_connection(TokioIo::new(stream), service.clone());
        // A connection that breaks is the page's own business: it asks again.
        tokio::spawn(async move {
            let _ = connection.await;
        });
    }
}

fn router(options: LabOptions) -> Router {
    let mut router = Router::new()
        .route("/", get(assets::index))
        .route("/assets/{name}", get(assets::asset))
        .route("/api/live", get(live::live));
    for &(path, handler) in REQUESTS {
        router = router.route(path, asked(handler));
    }
    for &(path, handler) in POSTED {
        router = router.route(path, posted(handler));
    }
    router
        .with_state(Arc::new(Lab::new(options)))
        .fallback(assets::missing)
        .layer(DefaultBodyLimit::max(MAX_IMPORTED))
        .layer(middleware::from_fn(guard::check))
}

/// A handler of one type for all requests, so that it is compiled once.
fn asked(handler: Handler) -> MethodRouter<Arc<Lab>> {
    get(move |State(lab): State<Arc<Lab>>, id: Option<Path<String>>, Query(parts): Query<Parts>| {
        let id = id.map(|Path(id)| id).unwrap_or_default();
        answered(lab, handler, PageRequest { parts, id, text: String::new() })
    })
}

/// The same for requests with a body.
fn posted(handler: Handler) -> MethodRouter<Arc<Lab>> {
    post(move |State(lab): State<Arc<Lab>>, text: String| {
        answered(lab, handler, PageRequest { parts: Parts::new(), id: String::new(), text })
    })
}
