//! The requests about a running cluster, and about a trace that the lab was started with.

use std::sync::Arc;
use std::time::Duration;

use axum::extract::{Query, State};
use axum::http::StatusCode;
use axum::response::Response;

use super::answer::{Failure, Lab, PageRequest, answered, as_json};
use super::api::download;
use crate::import;
use crate::live::Live;
use crate::setup::Parts;

/// The time that the page waits for news before it asks again.
const WAIT: Duration = Duration::from_secs(15);

/// The options that the lab was started with.
#[derive(Clone, Default)]
pub struct LabOptions {
    /// The cluster that it is attached to.
    pub live: Option<Arc<Live>>,
    /// A trace to show, as text.
    pub trace: Option<Arc<String>>,
}

fn none(what: &str) -> Failure {
    Failure::new(StatusCode::NOT_FOUND, what.to_owned())
}

/// The news since `from` and `version`; waits for it, but not for ever.
pub(super) async fn live(State(lab): State<Arc<Lab>>, Query(parts): Query<Parts>) -> Response {
    let request = PageRequest { parts, id: String::new(), text: String::new() };
    if let (Some(live), Ok(version)) = (&lab.options.live, number(&request, "version"))
        && version > 0
    {
        // Whether there is news or not, the page is told how things are.
        let _ = tokio::time::timeout(WAIT, live.until_news(version)).await;
    }
    answered(lab, news, request).await
}

fn news(lab: &Lab, request: &PageRequest) -> Result<Response, Failure> {
    let why = "this lab is attached to no cluster; start it with `meshlock lab --attach`";
    let live = lab.options.live.as_ref().ok_or_else(|| none(why))?;
    number(request, "version")?;
    Ok(as_json(live.answer(number(request, "from")?)))
}

fn number(request: &PageRequest, name: &str) -> Result<u64, Failure> {
    let given = request.parts.get(name).map_or("0", String::as_str);
    given.parse().map_err(|_| Failure::usage(format!("{name}: '{given}' is no number")))
}

/// Answers with the lines seen of the cluster, as a trace.
pub(super) fn trace(lab: &Lab, _: &PageRequest) -> Result<Response, Failure> {
    let live = lab.options.live.as_ref().ok_or_else(|| none("this lab is attached to no cluster"))?;
    Ok(download("application/x-ndjson", "cluster.jsonl", live.trace()))
}

/// The trace that the lab was started with.
pub(super) fn opened(lab: &Lab, _: &PageRequest) -> Result<Response, Failure> {
    let text = lab.options.trace.as_ref().ok_or_else(|| none("this lab was started without a trace"))?;
    import::import(text).map(as_json).map_err(Failure::usage)
}
