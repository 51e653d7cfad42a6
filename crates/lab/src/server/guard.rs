//! Access control: only this machine's own page may ask.
//!
//! The socket is bound to loopback, but a page from elsewhere could still reach it from the user's browser;
//! [`meshlock_web`] tells such requests. A page from elsewhere may link to the page itself, which is a file.

use axum::body::Body;
use axum::extract::Request;
use axum::http::{HeaderValue, Method, StatusCode, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};

use meshlock_web::{CrossSite, ServedAs};

use super::answer::Failure;

/// The content security policy: the browser may load only what this server sends.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self' 'unsafe-inline'; img-src 'self' data: blob:; \
                      connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

/// Accepts requests of this machine's own page only.
pub(super) async fn check(request: Request<Body>, next: Next) -> Response {
    if let Err(foreign) = check_page(&request) {
        let why = format!(
            "this page answers only to itself: open it as http://127.0.0.1 or http://localhost ({foreign})"
        );
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

/// Checks that no page of another site has made the request. Such a page may link to ours: what the link says is asked for by our page.
fn check_page(request: &Request<Body>) -> Result<(), CrossSite> {
    let (uri, headers) = (request.uri(), request.headers());
    // A link opens the page in a window of its own; what a page of another site would show or run within itself is refused.
    let is_link = headers.get("sec-fetch-dest").is_none_or(|dest| dest == "document");
    if request.method() == Method::GET && uri.path() == "/" && is_link {
        return ServedAs::Loopback.check_host(uri, headers);
    }
    ServedAs::Loopback.check(uri, headers)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn is_answered(path: &str, headers: &[(&str, &str)]) -> bool {
        let mut request = Request::get(path);
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        check_page(&request.body(Body::empty()).unwrap()).is_ok()
    }

    #[test]
    fn only_our_own_page_is_answered() {
        let host = ("host", "127.0.0.1:7070");
        assert!(is_answered("/api/run", &[host]));
        assert!(is_answered("/api/run", &[host, ("origin", "http://127.0.0.1:7070")]));
        assert!(is_answered("/api/run", &[host, ("sec-fetch-site", "same-origin")]));
        assert!(!is_answered("/api/run", &[("host", "evil.example:7070")]));
        assert!(!is_answered("/api/run", &[host, ("origin", "http://evil.example")]));
        // An image or a script of another page has no origin.
        assert!(!is_answered("/api/run", &[host, ("sec-fetch-site", "cross-site")]));
    }

    #[test]
    fn other_pages_may_link_to_ours() {
        assert!(is_answered(
            "/?algorithm=maekawa",
            &[("host", "localhost:7070"), ("sec-fetch-site", "cross-site")]
        ));
        assert!(!is_answered("/", &[("host", "evil.example:7070"), ("sec-fetch-site", "none")]));
        let cross = [("host", "localhost:7070"), ("sec-fetch-site", "cross-site")];
        assert!(is_answered("/", &[cross[0], cross[1], ("sec-fetch-dest", "document")]));
        for within in ["iframe", "empty", "script", "image", "style", "object"] {
            assert!(!is_answered("/", &[cross[0], cross[1], ("sec-fetch-dest", within)]), "{within}");
        }
    }
}
