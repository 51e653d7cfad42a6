//! Who makes a request. Until there is access control, whoever the connection lets in may do everything but one thing: sites are
//! peers, and never clients.

use axum::extract::Request;
use axum::http::StatusCode;
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use meshlock_node::shell::tls::Bearer;

/// Who is at the other end of a connection. Every request carries it, for whoever decides what it may do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Principal {
    /// A program of this machine, over an unprotected connection.
    ThisMachine,
    /// Whoever showed this certificate.
    Certificate(Bearer),
}

/// Lets a request through to what it asks for, or not.
pub(super) async fn admit(request: Request, next: Next) -> Response {
    let why = match request.extensions().get::<Principal>() {
        Some(Principal::ThisMachine | Principal::Certificate(Bearer::Client(_))) => {
            return next.run(request).await;
        }
        Some(Principal::Certificate(Bearer::Site(site))) => format!(
            "this is the certificate of the site '{site}', and sites are not clients; make one with: meshlock ca issue --client NAME"
        ),
        None => "nobody knows who asks".to_owned(),
    };
    // Some clients do not read an answer that comes before they have said everything.
    let _ = axum::body::to_bytes(request.into_body(), MOST_HEARD).await;
    refuse(&why)
}

/// How much is heard of a request that is refused.
const MOST_HEARD: usize = 64 << 10;

fn refuse(why: &str) -> Response {
    let body = serde_json::json!({ "code": "not_a_client", "message": why }).to_string();
    (StatusCode::FORBIDDEN, [("content-type", "application/json")], body).into_response()
}
