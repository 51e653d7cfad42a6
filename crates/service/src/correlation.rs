//! The cause of a request: an id that the client may choose, under which the request appears in the logs of all
//! sites.
//!
//! It is taken from the trace id of the header `traceparent` (W3C trace context), else from `X-Request-Id`, else it
//! is the number under which the audit log records the request. In gRPC the same headers are metadata. Every answer
//! repeats the cause in the header `meshlock-cause`.

use axum::extract::Request;
use axum::http::{HeaderMap, HeaderValue};
use axum::middleware::Next;
use axum::response::Response;
use meshlock_cluster::cause::Cause;
use meshlock_host::front::Admitted;

/// Log target of lines about acquisitions.
const LOCK: &str = "meshlock::lock";

/// Longer header values are ignored.
const MAX_BYTES: usize = 256;

tokio::task_local! {
    static CAUSE: Cause;
}

/// Returns the cause of the request that the current task serves.
pub(crate) fn current() -> Option<Cause> {
    CAUSE.try_with(|cause| *cause).ok()
}

/// Serves a request and makes its cause available to [`current`].
pub(crate) async fn follow(request: Request, next: Next) -> Response {
    let caller = request.extensions().get::<Admitted>();
    let cause = given(request.headers()).or_else(|| Cause::new(caller?.request.number()));
    let Some(cause) = cause else { return next.run(request).await };
    let mut response = CAUSE.scope(cause, next.run(request)).await;
    if let Ok(value) = HeaderValue::try_from(cause.to_string()) {
        response.headers_mut().insert("meshlock-cause", value);
    }
    response
}

/// Returns the cause that the client gave in a header, if any.
fn given(headers: &HeaderMap) -> Option<Cause> {
    let text = |name: &str| headers.get(name)?.to_str().ok().filter(|text| text.len() <= MAX_BYTES);
    let parent = text("traceparent").and_then(|parent| Some((parent, trace_id(parent)?)));
    if let Some((traceparent, trace)) = parent {
        let cause = Cause::named(trace);
        tracing::debug!(target: LOCK, traceparent, %cause, "the client set the cause of its request");
        return Some(cause);
    }
    let request_id = text("x-request-id").filter(|name| !name.is_empty())?;
    let cause = Cause::named(request_id);
    tracing::debug!(target: LOCK, request_id, %cause, "the client set the cause of its request");
    Some(cause)
}

/// Returns the trace id of a `traceparent` (`version-trace-parent-flags`) if it is valid. All zeros means that there
/// is no trace.
fn trace_id(parent: &str) -> Option<&str> {
    let trace = parent.split('-').nth(1)?;
    let is_hex = trace.len() == 32 && trace.bytes().all(|byte| byte.is_ascii_hexdigit());
    (is_hex && trace.bytes().any(|byte| byte != b'0')).then_some(trace)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cause(headers: &[(&'static str, &'static str)]) -> Option<String> {
        let headers = headers.iter().map(|(name, value)| (name.parse().unwrap(), value.parse().unwrap()));
        given(&headers.collect()).map(|cause| cause.to_string())
    }

    #[test]
    fn a_trace_counts_before_a_request_s_id_and_nonsense_does_not_count() {
        let trace = ("traceparent", "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01");
        let named = ("x-request-id", "00000000000000ff");
        assert_eq!(cause(&[trace, named]).as_deref(), Some("8448eb211c80319c"));
        assert_eq!(cause(&[named]).as_deref(), Some("00000000000000ff"));
        let none = ("traceparent", "00-00000000000000000000000000000000-b7ad6b7169203331-01");
        assert_eq!(cause(&[none, named]).as_deref(), Some("00000000000000ff"));
        assert_eq!(cause(&[("traceparent", "00-short-1-01")]), None);
        assert_eq!(cause(&[("x-request-id", "")]), None);
    }
}
