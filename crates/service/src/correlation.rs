//! The cause of what a request asks for: its client may name it, and finds it again in the logs of all sites.
//!
//! It is the trace of the header `traceparent` (W3C's trace context), else what `X-Request-Id` says, else the number by which the audit log
//! knows the request. The same headers are gRPC's metadata. Every answer says which it was, in `meshlock-cause`.

use axum::extract::Request;
use axum::http::{HeaderMap, HeaderValue};
use axum::middleware::Next;
use axum::response::Response;
use meshlock_cluster::cause::Cause;
use meshlock_host::front::Admitted;

/// What lines of the log about acquisitions are asked for by.
const LOCK: &str = "meshlock::lock";

/// The longest name that is looked at.
const MAX_BYTES: usize = 256;

tokio::task_local! {
    static CAUSE: Cause;
}

/// The cause of the request that is being served by this task.
pub(crate) fn current() -> Option<Cause> {
    CAUSE.try_with(|cause| *cause).ok()
}

/// Serves a request under its cause.
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

/// What the client calls it, if it says so.
fn given(headers: &HeaderMap) -> Option<Cause> {
    let text = |name: &str| headers.get(name)?.to_str().ok().filter(|text| text.len() <= MAX_BYTES);
    let parent = text("traceparent").and_then(|parent| Some((parent, trace_id(parent)?)));
    if let Some((traceparent, trace)) = parent {
        let cause = Cause::named(trace);
        tracing::debug!(target: LOCK, traceparent, %cause, "named");
        return Some(cause);
    }
    let request_id = text("x-request-id").filter(|name| !name.is_empty())?;
    let cause = Cause::named(request_id);
    tracing::debug!(target: LOCK, request_id, %cause, "named");
    Some(cause)
}

/// The trace id of `version-trace-parent-flags`, if it is one and not all zeros, which means none.
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
