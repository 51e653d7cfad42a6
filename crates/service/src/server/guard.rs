//! Who makes a request, and whether it may: asked before anything of it is read. [`routes`](super::routes) says what each call takes.

use std::sync::Arc;
use std::time::Duration;

use axum::body::{Body, to_bytes};
use axum::extract::{MatchedPath, Request, State};
use axum::http::request::Parts;
use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use meshlock_cluster::access::{Denied, Principal, Subject, Verb};
use meshlock_host::front::{Admitted, Front};
use meshlock_host::gate::{Caller, CallerOrigin, RequestId, RequestKind, TooFast};
use meshlock_tls::Bearer;
use tokio::time::timeout;
use tonic::metadata::MetadataValue;
use tonic::{Code, Status};

use super::connection::Peer;
use super::routes::{Need, is_known, need};
use super::{NO_SUCH_CALL, is_grpc};
use crate::own::{denied, fault};
use crate::{etcd, own};

/// How long a request of HTTP may take to arrive.
const ARRIVE_WITHIN: Duration = Duration::from_secs(10);

/// How much is heard of a request that is refused: some clients do not read an answer that comes before they have said everything.
const MAX_HEARD: usize = 64 << 10;

/// Where the answer says under which number the audit log has the request.
const REQUEST_ID: &str = "x-request-id";

/// What the guard knows.
#[derive(Clone)]
pub(super) struct Guard {
    pub(super) front: Front,
    pub(super) request_bytes: usize,
}

/// Lets a request through to what it asks for, or not.
pub(super) async fn admit(State(guard): State<Guard>, request: Request, next: Next) -> Response {
    let id = RequestId::new();
    let (mut parts, body) = request.into_parts();
    let grpc = is_grpc(&parts.headers);
    let judged = guard.judge(&parts, id);
    let mut response = match judged {
        Ok(caller) => {
            parts.extensions.insert(caller);
            // Calls of gRPC are read one message after the other, each within its limit.
            let body = if grpc { Ok(body) } else { guard.read(body).await };
            match body {
                Ok(body) => next.run(Request::from_parts(parts, body)).await,
                Err(status) => refuse(&parts, status),
            }
        }
        Err(status) => {
            let _ = timeout(ARRIVE_WITHIN, to_bytes(body, MAX_HEARD)).await;
            refuse(&parts, status)
        }
    };
    if let Ok(id) = HeaderValue::from_str(&id.to_string()) {
        response.headers_mut().insert(REQUEST_ID, id);
    }
    response
}

impl Guard {
    fn judge(&self, parts: &Parts, request: RequestId) -> Result<Admitted, Status> {
        let peer = parts.extensions.get::<Arc<Peer>>().ok_or_else(nobody)?;
        let need = what_it_takes(parts)?;
        let origin = CallerOrigin::Network(peer.address);
        let shown = |principal| Caller { principal, origin, request };
        if need == Need::Nothing {
            let caller = shown(peer.principal().unwrap_or(Principal::Anyone));
            return self.front.admit(caller, RequestKind::Ask).map_err(|error| too_fast(&error));
        }
        let caller = shown(self.who(peer, parts, &shown)?);
        let kind = if need == Need::Renewal { RequestKind::Renew } else { RequestKind::Ask };
        let caller = self.front.admit(caller, kind).map_err(|error| too_fast(&error))?;
        let checked = match need {
            Need::Nothing => Ok(()),
            Need::Renewal => self.front.check_subject(&caller, Verb::Acquire, Subject::Some),
            Need::Something => self.knows(&caller),
            Need::Right(verb) => self.front.check_subject(&caller, verb, Subject::Some),
        };
        checked.map_err(|error| if_anyone(&caller, error))?;
        // Last: whoever may do nothing does not keep its connection for long.
        peer.charge(self.front.gate(), &caller.principal)
            .map_err(|error| fault("too_many", Code::ResourceExhausted, error))?;
        Ok(caller)
    }

    /// Who asks: by its token, or else by what its connection has shown. A token that nobody knows is worse than none.
    fn who(
        &self,
        peer: &Peer,
        parts: &Parts,
        caller: &dyn Fn(Principal) -> Caller,
    ) -> Result<Principal, Status> {
        let by_connection = peer.principal().map_err(|site| not_a_client(&site))?;
        let Some(token) = token(&parts.headers) else { return Ok(by_connection) };
        let policy = self.front.gate().policy();
        if let Some(name) = token.and_then(|token| policy.tokens.bearer(token)) {
            return Ok(Principal::Named(name.clone()));
        }
        // Whoever guesses tokens is slowed down as one who shows nothing, and does not fill the log.
        let anyone = caller(Principal::Anyone);
        let anyone = self.front.admit(anyone, RequestKind::Ask).map_err(|error| too_fast(&error))?;
        self.front.gate().note_unknown(&anyone);
        Err(fault(
            "unauthenticated",
            Code::Unauthenticated,
            "this site does not know the token; look whether it is whole, and whether the site's [[tokens]] have its hash",
        ))
    }

    /// Whether the caller may do anything at all.
    fn knows(&self, caller: &Admitted) -> Result<(), Denied> {
        let access = &self.front.gate().policy().access;
        let may = |verb: &Verb| access.check(&caller.principal, *verb, Subject::Some).is_ok();
        if [Verb::Watch, Verb::Break, Verb::Admin].iter().any(may) {
            return Ok(());
        }
        self.front.check_subject(caller, Verb::Acquire, Subject::Some)
    }

    /// Reads what was sent, all of it and within its time, so that whoever sends slowly keeps nothing but its connection.
    async fn read(&self, body: Body) -> Result<Body, Status> {
        let most = self.request_bytes;
        match timeout(ARRIVE_WITHIN, to_bytes(body, most)).await {
            Ok(Ok(bytes)) => Ok(Body::from(bytes)),
            Ok(Err(_)) => {
                let message = format!("the request broke off, or is longer than {most} bytes; send less");
                Err(fault("too_large", Code::OutOfRange, message))
            }
            Err(_) => {
                let message = format!("the request did not arrive within {} s", ARRIVE_WITHIN.as_secs());
                Err(fault("too_slow", Code::DeadlineExceeded, message))
            }
        }
    }
}

/// What the call takes. A call of a service that is here and does not have it is as good as one of none.
fn what_it_takes(parts: &Parts) -> Result<Need, Status> {
    let Some(matched) = parts.extensions.get::<MatchedPath>() else { return Ok(Need::Nothing) };
    // All methods of a service of gRPC are one route; keys of Consul's are, too, and that is in the list.
    let of_service = matched.as_str().contains("{*") && !is_known(matched.as_str());
    let path = if of_service { parts.uri.path() } else { matched.as_str() };
    match need(parts.method.as_str(), path) {
        Some(need) => Ok(need),
        // Answered that there is no such method.
        None if is_known(path) => Ok(Need::Nothing),
        None if of_service => Err(Status::unimplemented(NO_SUCH_CALL)),
        None => Err(fault(
            "unguarded",
            Code::Internal,
            "nobody has said who may call this, so nobody may; report it",
        )),
    }
}

/// The token that a request shows, if it does: nothing at all, or something that is none.
#[expect(clippy::option_option, reason = "no token and one that cannot be read are not the same")]
fn token(headers: &HeaderMap) -> Option<Option<&str>> {
    if let Some(value) = headers.get(header::AUTHORIZATION) {
        let text = value.to_str().ok();
        return Some(text.and_then(|text| match text.split_once(' ') {
            Some((scheme, token)) => scheme.eq_ignore_ascii_case("bearer").then(|| token.trim()),
            // As etcd's clients write it over HTTP.
            None => Some(text),
        }));
    }
    // As etcd's clients write it in gRPC, and Consul's over HTTP.
    let other = headers.get("token").or_else(|| headers.get("x-consul-token"))?;
    Some(other.to_str().ok())
}

fn nobody() -> Status {
    fault("unauthenticated", Code::Unauthenticated, "nobody knows who asks")
}

fn not_a_client(site: &Bearer) -> Status {
    let message = format!(
        "this is the certificate of {site}, and sites are not clients; make one with: meshlock ca issue --client NAME"
    );
    fault("not_a_client", Code::PermissionDenied, message)
}

fn too_fast(error: &TooFast) -> Status {
    let mut status = fault("too_fast", Code::ResourceExhausted, error);
    let millis = error.wait.micros().div_ceil(1000);
    status.metadata_mut().insert(RETRY_AFTER_MS, MetadataValue::from(millis));
    status
}

/// When to ask again: gRPC has a name of its own for it.
const RETRY_AFTER_MS: &str = "grpc-retry-pushback-ms";

/// Of somebody who has shown nothing it is not said that it may not, but that nobody knows who it is.
fn if_anyone(caller: &Admitted, error: Denied) -> Status {
    if caller.principal == Principal::Anyone {
        return fault("unauthenticated", Code::Unauthenticated, error);
    }
    denied(error)
}

/// In the words of whoever asked.
fn refuse(parts: &Parts, status: Status) -> Response {
    let after = status.metadata().get(RETRY_AFTER_MS).and_then(|millis| millis.to_str().ok()?.parse().ok());
    if is_grpc(&parts.headers) {
        return status.into_http();
    }
    let mut response =
        if parts.uri.path().starts_with("/v3/") { etcd::refused(status) } else { own::refused(&status) };
    if let Some(after) = after.map(|millis: u64| millis.div_ceil(1000)) {
        response.headers_mut().insert(header::RETRY_AFTER, HeaderValue::from(after));
    }
    if response.status() == StatusCode::UNAUTHORIZED {
        response.headers_mut().insert(header::WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
    }
    response.into_response()
}
