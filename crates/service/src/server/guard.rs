//! Identifies who makes a request and checks whether it is allowed, before its body is read.
//! [`routes`](super::routes) says which right each call requires.

use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use axum::extract::{MatchedPath, Request, State};
use axum::http::request::Parts;
use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use futures_util::StreamExt;
use meshlock_cluster::access::{ClientName, Denied, KnownToken, Principal, Subject, Verb};
use meshlock_host::front::{Admitted, Front};
use meshlock_host::gate::{Caller, CallerOrigin, RequestId, RequestKind, TooFast};
use meshlock_tls::Bearer;
use meshlock_web::{CrossSite, ServedAs};
use tokio::time::timeout;
use tonic::metadata::MetadataValue;
use tonic::{Code, Status};

use super::connection::RemoteClient;
use super::routes::{Need, is_known, need};
use super::{NO_SUCH_CALL, is_grpc};
use crate::forward::ForwardedBy;
use crate::own::{api_error, denied};
use crate::sessions::Sessions;
use crate::{etcd, own};

/// How long the body of an HTTP request may take to arrive.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(10);

/// How much of a refused request is read and discarded.
const MAX_DISCARDED: usize = 64 << 10;

/// Header of the answer with the number of the request in the audit log.
const REQUEST_ID: &str = "x-request-id";

/// State of the guard.
#[derive(Clone)]
pub(super) struct Guard {
    pub(super) front: Front,
    pub(super) sessions: Sessions,
    pub(super) request_bytes: usize,
    pub(super) served_as: ServedAs,
}

/// Why a token is refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum TokenRefusal {
    #[error(
        "this site does not know the token; check that it is complete, and that the site's [[tokens]] or the cluster's contain its hash"
    )]
    Unknown,
    #[error("the token of '{0}' has expired; make a new one with `meshlock token new {0}`")]
    Expired(ClientName),
    #[error("'{0}' is revoked: the list `revoked` of this site or of the cluster has the entry 'client/{0}'")]
    Revoked(ClientName),
}

/// Returns what is known of a token that can be used now.
pub(crate) fn usable_token(front: &Front, token: &str) -> Result<KnownToken, TokenRefusal> {
    let trust = front.node().trust();
    let known = front.token(token).ok_or(TokenRefusal::Unknown)?;
    if trust.revoked().has_client(&known.name) {
        return Err(TokenRefusal::Revoked(known.name));
    }
    if known.is_over(trust.now().as_secs()) {
        return Err(TokenRefusal::Expired(known.name));
    }
    Ok(known)
}

/// Middleware that passes a request on or refuses it.
pub(super) async fn admit(State(guard): State<Guard>, request: Request, next: Next) -> Response {
    let (mut parts, body) = request.into_parts();
    let forwarded = parts.extensions.get::<ForwardedBy>();
    let id = forwarded.map_or_else(RequestId::new, |forwarded| forwarded.caller.request);
    let grpc = is_grpc(&parts.headers);
    let authorized = guard.authorize(&parts, id);
    let mut response = match authorized {
        Ok(caller) => {
            // gRPC calls are read message by message, each with its own limit.
            let body = if grpc { Ok(body) } else { guard.read(&caller, &parts.headers, body).await };
            parts.extensions.insert(caller);
            match body {
                Ok(body) => next.run(Request::from_parts(parts, body)).await,
                Err(status) => refuse(&parts, status),
            }
        }
        Err(status) => {
            let response = refuse(&parts, status);
            // Its headers are not kept while the rest is read.
            drop(parts);
            discard(body).await;
            response
        }
    };
    if let Ok(id) = HeaderValue::from_str(&id.to_string()) {
        response.headers_mut().insert(REQUEST_ID, id);
    }
    response
}

impl Guard {
    fn authorize(&self, parts: &Parts, request: RequestId) -> Result<Admitted, Status> {
        if let Some(ForwardedBy { site, caller }) = parts.extensions.get() {
            // The site that its client called has checked who it is, and what it may do there. Here it may do what this site allows.
            tracing::debug!(%site, caller = %caller.principal, path = parts.uri.path(), "a forwarded call");
            return self.allow(required_right(parts)?, caller.clone());
        }
        self.served_as.check(&parts.uri, &parts.headers).map_err(|error| cross_site(&error))?;
        let peer = parts.extensions.get::<Arc<RemoteClient>>().ok_or_else(unidentified)?;
        let need = required_right(parts)?;
        let origin = CallerOrigin::Network(peer.address);
        // A token is shown by whoever has it, with any certificate or none.
        let certificate = if token(&parts.headers).is_none() { peer.certificate() } else { None };
        let shown = |principal| Caller { principal, origin, certificate: certificate.cloned(), request };
        if need.is_nothing() {
            let kind = if need == Need::Probe { RequestKind::Probe } else { RequestKind::Ask };
            let caller = shown(peer.principal().unwrap_or(Principal::Anyone));
            return self.front.admit(caller, kind).map_err(|error| too_fast(&error));
        }
        let caller = self.allow(need, shown(self.who(peer, parts, &shown)?))?;
        // Last, so that a client without rights does not keep its connection for long.
        peer.charge(&self.front, &caller.principal)
            .map_err(|error| api_error("too_many", Code::ResourceExhausted, error))?;
        Ok(caller)
    }

    /// Admits a caller that was identified, if it may make this call.
    fn allow(&self, need: Need, caller: Caller) -> Result<Admitted, Status> {
        // Who has lost its right may still release what it holds.
        let releases = need.may_release() && self.sessions.has_session_of(&caller.principal);
        let kind = match need {
            Need::Renewal => RequestKind::Renew,
            Need::Release => RequestKind::GiveBack,
            Need::Nothing
            | Need::Probe
            | Need::Something
            | Need::Right(_)
            | Need::AcquireOrRelease
            | Need::SomethingOrRelease => RequestKind::Ask,
        };
        let caller = self.front.admit(caller, kind).map_err(|error| too_fast(&error))?;
        let has_right = || self.front.may(&caller, Verb::Acquire, Subject::Some);
        if need == Need::Release && !releases && !has_right() {
            // It has nothing to give back, and is about to be denied.
            self.front.admit_again(&caller, RequestKind::Ask).map_err(|error| too_fast(&error))?;
        }
        let checked = match need {
            Need::Nothing | Need::Probe => Ok(()),
            _ if releases => Ok(()),
            Need::Renewal | Need::Release | Need::AcquireOrRelease => {
                self.front.check_subject(&caller, Verb::Acquire, Subject::Some)
            }
            Need::Something | Need::SomethingOrRelease => self.front.check_any_right(&caller, Verb::Acquire),
            Need::Right(verb) => self.front.check_subject(&caller, verb, Subject::Some),
        };
        checked.map_err(|error| denied_or_unknown(&caller, error))?;
        Ok(caller)
    }

    /// Returns the principal of a request: that of its token, or else that of its connection. A token that is unknown,
    /// has expired or belongs to a revoked client is an
    /// error even if the connection has a certificate.
    fn who(
        &self,
        peer: &RemoteClient,
        parts: &Parts,
        caller: &dyn Fn(Principal) -> Caller,
    ) -> Result<Principal, Status> {
        let by_connection = peer.principal().map_err(|site| not_a_client(&site))?;
        let Some(token) = token(&parts.headers) else { return Ok(by_connection) };
        let refused = match token.map(|token| usable_token(&self.front, token)) {
            Some(Ok(KnownToken { name, expires, .. })) => {
                peer.note_token(&name, expires);
                return Ok(Principal::Named(name));
            }
            Some(Err(refused)) => refused,
            None => TokenRefusal::Unknown,
        };
        // Guessing tokens is rate-limited like requests without credentials, and does not fill the log.
        let anyone = caller(Principal::Anyone);
        let anyone = self.front.admit(anyone, RequestKind::Ask).map_err(|error| too_fast(&error))?;
        self.front.note_unknown(&anyone);
        Err(api_error("unauthenticated", Code::Unauthenticated, refused))
    }

    /// Reads the whole body within its time limit, so that a slow sender occupies nothing but its connection. Together
    /// with the headers it counts towards what the site keeps for the caller.
    async fn read(&self, caller: &Admitted, headers: &HeaderMap, body: Body) -> Result<Body, Status> {
        let max = self.request_bytes;
        let too_large = || {
            let message =
                format!("the request was cut off, or is longer than {max} bytes; send a shorter one");
            api_error("too_large", Code::OutOfRange, message)
        };
        let length_of_headers: usize =
            headers.iter().map(|(name, value)| name.as_str().len() + value.len()).sum();
        let reading = async {
            let (buffered, mut read, mut data) =
                (self.front.buffer(caller), Vec::new(), body.into_data_stream());
            while let Some(chunk) = data.next().await {
                let chunk = chunk.map_err(|_| too_large())?;
                if read.len() + chunk.len() > max {
                    return Err(too_large());
                }
                read.extend_from_slice(&chunk);
                let counted = buffered.resize(length_of_headers + read.len());
                counted.map_err(|error| api_error("too_many", Code::ResourceExhausted, error))?;
            }
            Ok(Body::from(read))
        };
        timeout(REQUEST_TIMEOUT, reading).await.unwrap_or_else(|_| {
            let message = format!("the request did not arrive within {} s", REQUEST_TIMEOUT.as_secs());
            Err(api_error("too_slow", Code::DeadlineExceeded, message))
        })
    }
}

/// Reads and forgets what is left of a refused request: some clients do not read an answer before they have sent
/// everything.
async fn discard(body: Body) {
    let reading = async {
        let (mut data, mut left) = (body.into_data_stream(), MAX_DISCARDED);
        while let Some(Ok(chunk)) = data.next().await {
            let Some(less) = left.checked_sub(chunk.len()) else { return };
            left = less;
        }
    };
    let _ = timeout(REQUEST_TIMEOUT, reading).await;
}

/// Returns the right that a call requires. An unknown method of a known gRPC service is treated like an unknown
/// service.
fn required_right(parts: &Parts) -> Result<Need, Status> {
    let Some(matched) = parts.extensions.get::<MatchedPath>() else { return Ok(Need::Nothing) };
    // All methods of a gRPC service share one route. So do Consul's keys, but their route is in the list.
    let of_service = matched.as_str().contains("{*") && !is_known(matched.as_str());
    let path = if of_service { parts.uri.path() } else { matched.as_str() };
    match need(parts.method.as_str(), path) {
        Some(need) => Ok(need),
        // The router answers that the method is not allowed.
        None if is_known(path) => Ok(Need::Nothing),
        None if of_service => Err(Status::unimplemented(NO_SUCH_CALL)),
        None => Err(api_error(
            "unguarded",
            Code::Internal,
            "no access right is assigned to this call, so it is not served; please report this bug",
        )),
    }
}

/// Returns the token of a request: `None` without one, `Some(None)` if it cannot be read.
#[expect(clippy::option_option, reason = "no token and one that cannot be read are not the same")]
fn token(headers: &HeaderMap) -> Option<Option<&str>> {
    if let Some(value) = headers.get(header::AUTHORIZATION) {
        let text = value.to_str().ok();
        return Some(text.and_then(|text| match text.split_once(' ') {
            Some((scheme, token)) => scheme.eq_ignore_ascii_case("bearer").then(|| token.trim()),
            // As etcd's clients send it over HTTP.
            None => Some(text),
        }));
    }
    // As etcd's clients send it in gRPC, and Consul's over HTTP.
    let other = headers.get("token").or_else(|| headers.get("x-consul-token"))?;
    Some(other.to_str().ok())
}

fn unidentified() -> Status {
    api_error("unauthenticated", Code::Unauthenticated, "the connection does not identify its client")
}

fn cross_site(error: &CrossSite) -> Status {
    api_error("cross_site", Code::PermissionDenied, error)
}

fn not_a_client(site: &Bearer) -> Status {
    let message = format!(
        "this is the certificate of {site}, and sites are not clients; make one with: meshlock ca issue --client NAME"
    );
    api_error("not_a_client", Code::PermissionDenied, message)
}

fn too_fast(error: &TooFast) -> Status {
    let mut status = api_error("too_fast", Code::ResourceExhausted, error);
    let millis = error.wait.micros().div_ceil(1000);
    status.metadata_mut().insert(RETRY_AFTER_MS, MetadataValue::from(millis));
    status
}

/// Metadata key of the time to wait before a retry, as gRPC names it.
const RETRY_AFTER_MS: &str = "grpc-retry-pushback-ms";

/// Builds the error for a denied request: a caller without credentials is told to identify itself, not that it lacks
/// a right.
fn denied_or_unknown(caller: &Admitted, error: Denied) -> Status {
    if caller.principal == Principal::Anyone {
        return api_error("unauthenticated", Code::Unauthenticated, error);
    }
    denied(error)
}

/// Answers with an error in the format of the API that was called.
pub(crate) fn refuse(parts: &Parts, status: Status) -> Response {
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
