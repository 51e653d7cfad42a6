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
    match request.extensions().get::<Principal>() {
        Some(Principal::ThisMachine | Principal::Certificate(Bearer::Client(_))) => next.run(request).await,
        Some(Principal::Certificate(Bearer::Site(site))) => refuse(&format!(
            "this is the certificate of the site '{site}', and sites are not clients; make one with: meshlock ca issue --client NAME"
        )),
        None => refuse("nobody knows who asks"),
    }
}

fn refuse(why: &str) -> Response {
    let body = serde_json::json!({ "code": "not_a_client", "message": why }).to_string();
    (StatusCode::FORBIDDEN, [("content-type", "application/json")], body).into_response()
}
