//! The layer in front of all handlers: passes a call on to them, or forwards it.

use std::time::Duration;

use axum::body::{Body, Bytes};
use axum::extract::{Request, State};
use axum::http::request::Parts;
use axum::middleware::Next;
use axum::response::Response;
use meshlock_cluster::names::SiteName;
use meshlock_host::front::Admitted;
use meshlock_wire::sites::calls::CallSubject;
use tokio::time::timeout;
use tonic::{Code, Status};

use super::incoming::ForwardedBy;
use super::messages::{self, BodyError};
use super::outgoing::MAX_AUDITED;
use super::subject::{Forwardable, WholeRequest, forwardable, is_audited, subject};
use crate::own::api_error;
use crate::server::{is_grpc, refuse};
use crate::sessions::Sessions;
use crate::sessions::mirror::acknowledged;

/// How long the body of a request may take to arrive.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(10);

/// The bytes before a message of gRPC.
const GRPC_PREFIX: usize = 5;

impl From<BodyError> for Status {
    fn from(_: BodyError) -> Status {
        let message = "the request was cut off, or is too long; send a shorter one";
        api_error("too_large", Code::OutOfRange, message)
    }
}

/// Middleware that forwards a call to the site that has what it is about, unless that is this one.
pub(crate) async fn route(State(sessions): State<Sessions>, request: Request, next: Next) -> Response {
    let kind = forwardable(request.uri().path());
    let was_forwarded = request.extensions().get::<ForwardedBy>().is_some();
    let caller = request.extensions().get::<Admitted>().cloned();
    // A site without others forwards nothing, and has no mirror.
    if sessions.front().node().state().members <= 1 {
        return next.run(request).await;
    }
    let (Some(kind), Some(caller), false) = (kind, caller, was_forwarded) else {
        return acknowledged(&sessions, next.run(request)).await;
    };
    let (parts, body) = request.into_parts();
    let body = match read(&sessions, &caller, body).await {
        Ok(body) => body,
        Err(status) => return refuse(&parts, status),
    };
    let whole = WholeRequest {
        method: &parts.method,
        path: parts.uri.path(),
        query: parts.uri.query().unwrap_or_default(),
        is_grpc: is_grpc(&parts.headers),
        body: &body,
    };
    let answer = match subject(kind, &whole) {
        Some(about) => forward(&sessions, (&parts, &body), &caller, kind, about).await,
        None => Ok(None),
    };
    match answer {
        Ok(Some(response)) => response,
        Ok(None) => acknowledged(&sessions, next.run(Request::from_parts(parts, Body::from(body)))).await,
        Err(status) => refuse(&parts, status),
    }
}

/// Forwards a request. Returns `None` if this site has to execute it.
async fn forward(
    sessions: &Sessions,
    (parts, body): (&Parts, &Bytes),
    caller: &Admitted,
    kind: Forwardable,
    (subject, at): (CallSubject, Option<SiteName>),
) -> Result<Option<Response>, Status> {
    if at.as_ref() == Some(sessions.site()) {
        return Ok(None);
    }
    // A site that is no member is unknown to the handlers, too.
    if at.as_ref().is_some_and(|at| !sessions.front().members().contains(at)) {
        return Ok(None);
    }
    let call = is_audited(kind, &parts.method, parts.uri.path()).then(|| {
        let call = format!("{} {}", parts.method, parts.uri.path());
        call.chars().take(MAX_AUDITED).collect::<String>()
    });
    let request = messages::outgoing(parts, body);
    let answer = sessions.dispatch(caller, (&subject, at), &request, call.as_deref()).await?;
    let response = answer.map(|answer| {
        messages::response(answer).ok_or_else(|| {
            api_error("unavailable", Code::Unavailable, "meshlock: the other site's answer cannot be read")
        })
    });
    response.transpose()
}

/// Reads the whole body within its time limit. It counts towards what the site keeps for the caller.
async fn read(sessions: &Sessions, caller: &Admitted, body: Body) -> Result<Bytes, Status> {
    let buffered = sessions.front().buffer(caller);
    let counted = |length| {
        buffered.resize(length).map_err(|error| api_error("too_many", Code::ResourceExhausted, error))
    };
    let max = sessions.limits().request_bytes + GRPC_PREFIX;
    let reading = messages::read_body::<Status>(body, max, counted);
    let (body, _) = timeout(REQUEST_TIMEOUT, reading).await.map_err(|_| {
        let message = format!("the request did not arrive within {} s", REQUEST_TIMEOUT.as_secs());
        api_error("too_slow", Code::DeadlineExceeded, message)
    })??;
    Ok(body)
}
