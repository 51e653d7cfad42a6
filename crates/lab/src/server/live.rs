//! What the page asks about a running cluster, and about a trace that the lab was started with.

use std::sync::Arc;
use std::time::Duration;

use axum::Json;
use axum::extract::{Query, State};
use axum::http::StatusCode;
use axum::response::Response;
use serde_json::Value;

use super::answer::{Failure, work};
use super::api::download;
use crate::live::Live;
use crate::setup::Parts;

/// For how long the page waits for news before it asks again.
const WAIT: Duration = Duration::from_secs(15);

/// What the lab was started with, beyond itself.
#[derive(Clone, Default)]
pub struct Shown {
    /// A cluster that it is attached to.
    pub live: Option<Arc<Live>>,
    /// A trace, as text.
    pub trace: Option<Arc<String>>,
}

fn none(what: &str) -> Failure {
    Failure::new(StatusCode::NOT_FOUND, what.to_owned())
}

/// What is new since `from` and `version`; waits for it, but not for ever.
pub(super) async fn live(
    State(shown): State<Shown>,
    Query(parts): Query<Parts>,
) -> Result<Json<Value>, Failure> {
    let why = "this lab is attached to no cluster; start it with `meshlock lab --attach`";
    let live = shown.live.ok_or_else(|| none(why))?;
    let number = |name: &str| -> Result<u64, Failure> {
        let given = parts.get(name).map_or("0", String::as_str);
        given.parse().map_err(|_| Failure::usage(format!("{name}: '{given}' is no number")))
    };
    let (from, version) = (number("from")?, number("version")?);
    if version > 0 {
        // News or not, the page hears how things are.
        let _ = tokio::time::timeout(WAIT, live.until_news(version)).await;
    }
    work(move || Ok(Json(live.answer(from)))).await
}

/// What was seen of the cluster, as a trace.
pub(super) async fn trace(State(shown): State<Shown>) -> Result<Response, Failure> {
    let live = shown.live.ok_or_else(|| none("this lab is attached to no cluster"))?;
    let text = work(move || Ok(live.trace())).await?;
    Ok(download("application/x-ndjson", "cluster.jsonl", text))
}

/// The trace that the lab was started with.
pub(super) async fn opened(State(shown): State<Shown>) -> Result<Json<Value>, Failure> {
    let text = shown.trace.ok_or_else(|| none("this lab was started without a trace"))?;
    work(move || crate::import::import(&text).map(Json).map_err(Failure::usage)).await
}
