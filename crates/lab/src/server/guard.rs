//! Access control: only this machine's own page may ask.
//!
//! The socket is bound to loopback, but a page from elsewhere could still reach it from the user's browser, by a name that
//! resolves to 127.0.0.1 or by a form. So the `Host` must be a loopback name and an `Origin`, where one is sent, the same.

use axum::body::Body;
use axum::extract::Request;
use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};

use super::answer::Failure;

/// The content security policy: the browser may load only what this server sends.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self' 'unsafe-inline'; img-src 'self' data: blob:; \
                      connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

/// Accepts requests of this machine's own page only.
pub(super) async fn check(request: Request<Body>, next: Next) -> Response {
    if !is_ours(request.headers()) {
        let why =
            "this page answers only to itself: open it as http://127.0.0.1 or http://localhost".to_owned();
        return Failure::new(StatusCode::FORBIDDEN, why).into_response();
    }
    let mut response = next.run(request).await;
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_SECURITY_POLICY, HeaderValue::from_static(POLICY));
    headers.insert(header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    headers.insert(header::REFERRER_POLICY, HeaderValue::from_static("no-referrer"));
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    response
}

fn is_ours(headers: &HeaderMap) -> bool {
    let text = |name| headers.get(name).map(|value: &HeaderValue| value.to_str().unwrap_or_default());
    let host = text(header::HOST).unwrap_or_default();
    let origin = text(header::ORIGIN);
    is_loopback(host) && origin.is_none_or(|origin| origin.strip_prefix("http://") == Some(host))
}

/// Whether `host`, with or without a port, is a loopback name that nobody else can redirect.
fn is_loopback(host: &str) -> bool {
    let name = match host.rsplit_once(':') {
        Some((name, port)) if port.chars().all(|c| c.is_ascii_digit()) => name,
        _ => host,
    };
    matches!(name, "127.0.0.1" | "localhost" | "[::1]")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn asked(host: &str, origin: Option<&str>) -> bool {
        let mut headers = HeaderMap::new();
        headers.insert(header::HOST, HeaderValue::from_str(host).unwrap());
        if let Some(origin) = origin {
            headers.insert(header::ORIGIN, HeaderValue::from_str(origin).unwrap());
        }
        is_ours(&headers)
    }

    #[test]
    fn only_loopback_names_are_answered() {
        assert!(asked("127.0.0.1:7070", None) && asked("localhost:7070", None) && asked("[::1]:7070", None));
        for foreign in ["evil.example:7070", "127.0.0.1.evil.example", "localhost.evil.example:80", ""] {
            assert!(!asked(foreign, None), "{foreign}");
        }
    }

    #[test]
    fn a_page_from_elsewhere_is_refused() {
        assert!(asked("127.0.0.1:7070", Some("http://127.0.0.1:7070")));
        for foreign in ["http://evil.example", "http://127.0.0.1:7071", "null", "https://127.0.0.1:7070"] {
            assert!(!asked("127.0.0.1:7070", Some(foreign)), "{foreign}");
        }
    }
}
