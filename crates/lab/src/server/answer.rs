//! Answers and failures, as JSON that the page shows.

use axum::Json;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use serde_json::json;

/// Why there is no answer, in words for whoever sits before the page.
#[derive(Debug)]
pub(super) struct Failure {
    status: StatusCode,
    why: String,
}

impl Failure {
    pub(super) fn new(status: StatusCode, why: String) -> Self {
        Failure { status, why }
    }

    /// The question makes no sense.
    pub(super) fn usage(why: impl ToString) -> Self {
        Failure::new(StatusCode::BAD_REQUEST, why.to_string())
    }
}

impl IntoResponse for Failure {
    fn into_response(self) -> Response {
        (self.status, Json(json!({ "error": self.why }))).into_response()
    }
}

/// Does work that takes longer than a moment off the server's thread. A panic there is our own bug: it is said, and the
/// server goes on.
pub(super) async fn work<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, Failure> + Send + 'static,
) -> Result<T, Failure> {
    match tokio::task::spawn_blocking(work).await {
        Ok(answer) => answer,
        Err(fault) => {
            let message = fault.into_panic();
            let text = message.downcast_ref::<String>().cloned();
            let text = text.or_else(|| message.downcast_ref::<&str>().map(|&text| text.to_owned()));
            let why = text.unwrap_or_else(|| "no reason given".to_owned());
            let why = why.lines().next().unwrap_or_default().to_owned();
            Err(Failure::new(StatusCode::INTERNAL_SERVER_ERROR, format!("the machine stopped itself: {why}")))
        }
    }
}
