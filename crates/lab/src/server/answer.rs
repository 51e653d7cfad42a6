//! Answers and failures, as JSON that the page shows.

use std::sync::Arc;

use axum::Json;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use serde::Serialize;
use serde_json::json;

use super::cache::Cache;
use super::live::LabOptions;
use crate::setup::Parts;

/// The state that all handlers share.
pub(super) struct Lab {
    /// The last runs.
    pub(super) cache: Cache,
    pub(super) options: LabOptions,
}

impl Lab {
    pub(super) fn new(options: LabOptions) -> Self {
        Lab { cache: Cache::default(), options }
    }
}

/// A request of the page.
pub(super) struct PageRequest {
    /// The query.
    pub(super) parts: Parts,
    /// The last part of the path, where it names something.
    pub(super) id: String,
    /// The body.
    pub(super) text: String,
}

/// Answers a request. It may take long, so that it does not run on the server's thread.
pub(super) type Handler = fn(&Lab, &PageRequest) -> Result<Response, Failure>;

/// Why there is no answer, as a sentence for the person who uses the page.
#[derive(Debug)]
pub(super) struct Failure {
    status: StatusCode,
    why: String,
}

impl Failure {
    pub(super) fn new(status: StatusCode, why: String) -> Self {
        Failure { status, why }
    }

    /// The request makes no sense.
    pub(super) fn usage(why: impl ToString) -> Self {
        Failure::new(StatusCode::BAD_REQUEST, why.to_string())
    }
}

impl IntoResponse for Failure {
    fn into_response(self) -> Response {
        (self.status, Json(json!({ "error": self.why }))).into_response()
    }
}

/// An answer as JSON.
pub(super) fn as_json(value: impl Serialize) -> Response {
    Json(value).into_response()
}

/// Answers a request off the server's thread. A panic there is our own bug: it is reported, and the server continues.
pub(super) async fn answered(lab: Arc<Lab>, handler: Handler, request: PageRequest) -> Response {
    let fault = match tokio::task::spawn_blocking(move || handler(&lab, &request)).await {
        Ok(answer) => return answer.into_response(),
        Err(fault) => fault.into_panic(),
    };
    let text = fault.downcast_ref::<String>().cloned();
    let text = text.or_else(|| fault.downcast_ref::<&str>().map(|&text| text.to_owned()));
    let why = text.unwrap_or_else(|| "no reason given".to_owned());
    let why = format!("the machine stopped itself: {}", why.lines().next().unwrap_or_default());
    Failure::new(StatusCode::INTERNAL_SERVER_ERROR, why).into_response()
}
