//! The thin shell: a router on loopback, the page's files, and the questions that the page asks.

mod answer;
mod api;
mod assets;
mod cache;
mod gallery;
mod guard;
mod live;

use std::net::Ipv4Addr;
use std::sync::Arc;

use axum::Router;
use axum::extract::DefaultBodyLimit;
use axum::middleware;
use axum::routing::{get, post};
use tokio::net::TcpListener;

use cache::Cache;
pub use live::Shown;

/// The largest trace that is taken in, in bytes: some 300,000 lines with states.
const MOST_IMPORTED: usize = 256 << 20;

/// Opens the port on loopback; 0 takes any that is free.
pub async fn listen(port: u16) -> std::io::Result<TcpListener> {
    TcpListener::bind((Ipv4Addr::LOCALHOST, port)).await
}

/// Serves the page until the future is dropped.
pub async fn serve(listener: TcpListener, shown: Shown) -> std::io::Result<()> {
    axum::serve(listener, router(shown)).await
}

fn router(shown: Shown) -> Router {
    let attached = Router::new()
        .route("/api/live", get(live::live))
        .route("/api/live/trace", get(live::trace))
        .route("/api/opened", get(live::opened))
        .with_state(shown);
    Router::new()
        .route("/", get(assets::index))
        .route("/assets/{name}", get(assets::asset))
        .route("/api/algorithms", get(api::algorithms))
        .route("/api/run", get(api::run))
        .route("/api/moment", get(api::moment))
        .route("/api/trace", get(api::trace))
        .route("/api/csv", get(api::csv))
        .route("/api/gallery", get(gallery::list))
        .route("/api/gallery/{id}", get(gallery::entry))
        .route("/api/errata/{id}", get(gallery::erratum))
        .route("/api/compare", get(api::compare))
        .route("/api/experiments", get(api::experiments))
        .route("/api/experiments/{id}", get(api::experiment))
        .route("/api/quorum", get(api::quorum))
        .route("/api/import", post(api::import))
        .route("/api/fields", post(api::fields))
        .with_state(Arc::new(Cache::default()))
        .merge(attached)
        .fallback(assets::missing)
        .layer(DefaultBodyLimit::max(MOST_IMPORTED))
        .layer(middleware::from_fn(guard::check))
}
