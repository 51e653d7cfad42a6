//! Our own API as JSON over HTTP. The body of a request is the message of the gRPC call without the fields that the
//! path contains.

use std::collections::BTreeMap;
use std::future::Future;

use axum::Router;
use axum::body::{Body, Bytes};
use axum::extract::{Extension, FromRequest, FromRequestParts, Path, Query, RawQuery};
use axum::http::{HeaderMap, StatusCode, Uri, header};
use axum::response::{IntoResponse, Response};
use axum::routing::{delete, get, post};
use futures_util::StreamExt;
use meshlock_host::front::Admitted;
use serde::Serialize;
use serde::de::DeserializeOwned;
use tonic::{Code, Request, Status};

use super::errors::{api_error, bad, code_of};
use super::{Answers, Own};
use crate::caller::request_of;
use crate::proto::meshlock::locks_server::Locks;
use crate::proto::meshlock::{
    AcquireRequest, ChangeVotersRequest, GetRulesRequest, HoldRequest, ListDeadlocksRequest,
    ListLocksRequest, LockRequest, OpenSessionRequest, ReleaseRequest, Rules, SessionRequest, StatusRequest,
    WatchLocksRequest,
};

/// The OpenAPI description of this API.
pub(super) const OPENAPI: &str = include_str!("openapi.json");

/// Adds routes: method, path and handler.
macro_rules! paths {
    ($own:expr, $($method:ident $path:literal => |$api:ident, $given:ident| $run:expr;)*) => {{
        let router = Router::new();
        $(
            let own = $own.clone();
            let router = router.route($path, $method(move |given: HttpRequest| {
                let $api = own.clone();
                async move {
                    let $given = given;
                    $run.await
                }
            }));
        )*
        router
    }};
}

/// A request with its caller.
struct HttpRequest {
    caller: Admitted,
    /// The name of the lock or session in the path.
    path: String,
    uri: Uri,
    headers: HeaderMap,
    body: Bytes,
}

impl<S: Send + Sync> FromRequest<S> for HttpRequest {
    type Rejection = Response;

    async fn from_request(request: axum::extract::Request, state: &S) -> Result<Self, Response> {
        let (mut parts, body) = request.into_parts();
        let refused = |error: &dyn std::fmt::Display| refused(&bad(error));
        let Extension(caller) =
            Extension::from_request_parts(&mut parts, state).await.map_err(|error| refused(&error))?;
        let path: Result<Path<String>, _> = Path::from_request_parts(&mut parts, state).await;
        let (headers, uri) = (parts.headers.clone(), parts.uri.clone());
        let body = Bytes::from_request(axum::extract::Request::from_parts(parts, body), state).await;
        let body = body.map_err(|error| refused(&error))?;
        Ok(HttpRequest { caller, path: path.map(|Path(path)| path).unwrap_or_default(), uri, headers, body })
    }
}

impl HttpRequest {
    /// Parses the body as a message; `with` adds what the path says.
    fn read<T: DeserializeOwned + Default>(&self, with: impl FnOnce(T) -> T) -> Result<Request<T>, Status> {
        let message = if self.body.is_empty() {
            T::default()
        } else {
            serde_json::from_slice(&self.body)
                .map_err(|error| bad(format!("the request's JSON cannot be read: {error}")))?
        };
        Ok(self.request(with(message)))
    }

    fn request<T>(&self, message: T) -> Request<T> {
        request_of(&self.caller, message)
    }

    /// Parses the query as a message.
    fn ask<T: DeserializeOwned>(&self) -> Result<Request<T>, Status> {
        let cannot_be_read =
            |error: &dyn std::fmt::Display| bad(format!("the query cannot be read: {error}"));
        let Query(given) = Query::<BTreeMap<String, String>>::try_from_uri(&self.uri)
            .map_err(|error| cannot_be_read(&error))?;
        let given = given.into_iter().map(|(name, value)| (name, serde_json::Value::String(value)));
        let message = serde_json::from_value(serde_json::Value::Object(given.collect()));
        Ok(self.request(message.map_err(|error| cannot_be_read(&error))?))
    }

    fn lock(&self) -> Request<LockRequest> {
        self.request(LockRequest { lock: self.path.clone() })
    }

    fn session(&self) -> Request<SessionRequest> {
        self.request(SessionRequest { session: self.path.clone() })
    }
}

pub(super) fn routes(own: Own) -> Router {
    let router = paths!(own,
        post "/v1/sessions" => |own, given| answer(given.read(|request: OpenSessionRequest| request), |request| own.open_session(request));
        get "/v1/sessions/{session}" => |own, given| done(own.get_session(given.session()));
        delete "/v1/sessions/{session}" => |own, given| done(own.end_session(given.session()));
        post "/v1/sessions/{session}/keep-alive" => |own, given| done(own.keep_alive(given.session()));
        post "/v1/locks/{lock}/acquire" => |own, given| {
            let request = given.read(|request| AcquireRequest { lock: given.path.clone(), ..request });
            answer(request, |request| own.acquire(request))
        };
        post "/v1/locks/{lock}/release" => |own, given| {
            let request = given.read(|request| ReleaseRequest { lock: given.path.clone(), ..request });
            answer(request, |request| own.release(request))
        };
        post "/v1/locks/{lock}/hold" => |own, given| {
            let request = given.read(|request| HoldRequest { lock: given.path.clone(), ..request });
            lines(&given.headers, request, |request| own.hold(request))
        };
        get "/v1/locks/{lock}/watch" => |own, given| {
            lines(&given.headers, Ok(given.lock()), |request| own.watch(request))
        };
        get "/v1/locks/{lock}" => |own, given| done(own.queue(given.lock()));
        get "/v1/locks" => |own, given| {
            let request = given.ask::<ListLocksRequest>();
            answer(request, |request| own.list_locks(request))
        };
        get "/v1/deadlocks" => |own, given| done(own.list_deadlocks(given.request(ListDeadlocksRequest {})));
        get "/v1/changes" => |own, given| {
            let request = given.ask::<WatchLocksRequest>();
            lines(&given.headers, request, |request| own.watch_locks(request))
        };
        post "/v1/locks/{lock}/break" => |own, given| done(own.r#break(given.lock()));
    );
    let status = own.clone();
    let rules = own.clone();
    let voting = own.clone();
    let changed = own.clone();
    with_probes(router, own)
        .route(
            "/v1/status",
            get(|given: HttpRequest| async move { done(status.status(given.request(StatusRequest {}))).await }),
        )
        .route(
            "/v1/rules",
            get(|given: HttpRequest| async move { done(rules.get_rules(given.request(GetRulesRequest {}))).await })
                .put(|given: HttpRequest| async move {
                    answer(given.read(|rules: Rules| rules), |request| changed.set_rules(request)).await
                }),
        )
        .route("/openapi.json", get(|| async { ([(header::CONTENT_TYPE, "application/json")], OPENAPI) }))
        .route(
            "/v1/voters",
            post(|given: HttpRequest| async move {
                let request = given.read(|request: ChangeVotersRequest| request);
                answer(request, |request| voting.change_voters(request)).await
            }),
        )
}

/// Adds the questions of probes, which need no credentials.
fn with_probes(router: Router, own: Own) -> Router {
    let (healthy, ready) = (own.clone(), own);
    router
        .route(
            "/healthz",
            get(move |RawQuery(query): RawQuery, caller: Option<Extension<Admitted>>| async move {
                let caller = caller.as_ref().map(|Extension(caller)| caller);
                match query.as_deref().and_then(Probe::of) {
                    None => health(&healthy, None, None),
                    Some(probe) => cluster_health(&healthy, probe, caller),
                }
            }),
        )
        .route(
            "/readyz",
            get(move |caller: Option<Extension<Admitted>>| async move {
                let caller = caller.as_ref().map(|Extension(caller)| caller);
                let (_, cluster) = ready.cluster_document(caller);
                health(&ready, ready.sessions.front().why_not_ready(), Some(cluster))
            }),
        )
}

/// A question about the whole cluster.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Probe {
    /// Are locks granted?
    Grants,
    /// Does the cluster go on if this site stops?
    MayStop,
}

impl Probe {
    /// Reads the query of `/healthz`.
    fn of(query: &str) -> Option<Probe> {
        query.split('&').find_map(|part| match part.split_once('=') {
            None if part == "cluster" => Some(Probe::Grants),
            Some(("cluster", "may-stop")) => Some(Probe::MayStop),
            Some(("cluster", _)) => Some(Probe::Grants),
            None | Some(_) => None,
        })
    }
}

/// Answers a probe about the whole cluster.
fn cluster_health(own: &Own, probe: Probe, caller: Option<&Admitted>) -> Response {
    let (state, cluster) = own.cluster_document(caller);
    let may_stop = state.may_stop.contains(own.sessions.front().site());
    let why = if !state.grants {
        Some(
            "this site grants no locks: it is not a member of the cluster, or too few voters are up; see GET /v1/status",
        )
    } else if probe == Probe::MayStop && !may_stop {
        Some("if this site stops, too few voters are left, and no lock is granted")
    } else {
        None
    };
    health(own, why.map(str::to_owned), Some(cluster))
}

/// Answers a probe; `why` is what is wrong.
fn health(own: &Own, why: Option<String>, cluster: Option<serde_json::Value>) -> Response {
    let good = why.is_none();
    let code = if good { StatusCode::OK } else { StatusCode::SERVICE_UNAVAILABLE };
    let why = why.unwrap_or_default();
    let disk = own.sessions.front().disk_complaint().unwrap_or_default();
    let mut body = serde_json::json!({ "site": own.sessions.site(), "ok": good, "why": why, "disk": disk });
    if let Some(cluster) = cluster {
        body["cluster"] = cluster;
    }
    json(code, &body)
}

/// Makes a call with a parsed request.
async fn answer<Q, A, F>(request: Result<Request<Q>, Status>, call: impl FnOnce(Request<Q>) -> F) -> Response
where
    A: Serialize,
    F: Future<Output = Result<tonic::Response<A>, Status>>,
{
    match request {
        Ok(request) => done(call(request)).await,
        Err(status) => refused(&status),
    }
}

async fn done<A: Serialize>(call: impl Future<Output = Result<tonic::Response<A>, Status>>) -> Response {
    match call.await {
        Ok(answer) => json(StatusCode::OK, &answer.into_inner()),
        Err(status) => refused(&status),
    }
}

/// Answers with a stream: one JSON object per line, or server-sent events if the client accepts them.
async fn lines<Q, A, F>(
    headers: &HeaderMap,
    request: Result<Request<Q>, Status>,
    call: impl FnOnce(Request<Q>) -> F,
) -> Response
where
    A: Serialize + 'static,
    F: Future<Output = Result<tonic::Response<Answers<A>>, Status>>,
{
    let events = headers
        .get(header::ACCEPT)
        .and_then(|accept| accept.to_str().ok())
        .is_some_and(|accept| accept.contains("text/event-stream"));
    let answers = match request {
        Ok(request) => call(request).await,
        Err(status) => Err(status),
    };
    let answers = match answers {
        Ok(answers) => answers.into_inner(),
        Err(status) => return refused(&status),
    };
    let (kind, start, end) =
        if events { ("text/event-stream", "data: ", "\n\n") } else { ("application/x-ndjson", "", "\n") };
    let lines = answers.map(move |answer| {
        let line = match answer {
            Ok(answer) => serde_json::to_string(&answer),
            Err(status) => serde_json::to_string(&ErrorBody::of(&status)),
        };
        line.map(|line| format!("{start}{line}{end}"))
    });
    ([(header::CONTENT_TYPE, kind)], Body::from_stream(lines)).into_response()
}

/// The JSON body of an error.
#[derive(Serialize)]
struct ErrorBody<'a> {
    code: &'a str,
    message: &'a str,
}

impl<'a> ErrorBody<'a> {
    fn of(status: &'a Status) -> Self {
        ErrorBody { code: code_of(status), message: status.message() }
    }
}

/// Answers with an error.
pub(crate) fn refused(status: &Status) -> Response {
    let code = match (code_of(status), status.code()) {
        ("busy", _) => StatusCode::CONFLICT,
        ("too_large", _) => StatusCode::PAYLOAD_TOO_LARGE,
        (_, code) => crate::etcd::http_code(code),
    };
    json(code, &ErrorBody::of(status))
}

/// Answers that there is no such path.
pub(crate) fn not_found(method: &str, path: &str) -> Response {
    let path: String = path.chars().take(100).collect();
    refused(&api_error(
        "no_such_path",
        Code::NotFound,
        format!("there is no {method} {path} here; see /openapi.json"),
    ))
}

fn json(code: StatusCode, body: &impl Serialize) -> Response {
    match serde_json::to_vec(body) {
        Ok(body) => (code, [(header::CONTENT_TYPE, "application/json")], body).into_response(),
        Err(error) => (StatusCode::INTERNAL_SERVER_ERROR, error.to_string()).into_response(),
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use serde_json::Value;

    use super::{OPENAPI, Probe};

    /// Returns the text from each `before` to the next quotation mark.
    fn quoted<'a>(text: &'a str, before: &'a str) -> impl Iterator<Item = &'a str> {
        text.split(before).skip(1).filter_map(|rest| rest.split('"').next())
    }

    #[test]
    fn the_description_has_the_paths_that_are_served_and_no_others() {
        let source = include_str!("http.rs").split("mod tests").next().unwrap();
        let before = ["post \"", "get \"", "delete \"", "route(\"", "route(\n            \""];
        let served: BTreeSet<&str> = before
            .iter()
            .flat_map(|before| quoted(source, before))
            .filter(|path| path.starts_with('/'))
            .collect();
        let description: Value = serde_json::from_str(OPENAPI).unwrap();
        let paths = description["paths"].as_object().unwrap();
        assert_eq!(served, paths.keys().map(String::as_str).collect());
    }

    #[test]
    fn a_probe_asks_about_the_cluster_only_where_its_query_says_so() {
        for (query, probe) in [
            ("", None),
            ("verbose", None),
            ("clusters", None),
            ("cluster", Some(Probe::Grants)),
            ("x=1&cluster=", Some(Probe::Grants)),
            ("cluster=may-stop", Some(Probe::MayStop)),
        ] {
            assert_eq!(Probe::of(query), probe, "{query}");
        }
    }

    #[test]
    fn the_description_refers_only_to_what_it_has() {
        let description: Value = serde_json::from_str(OPENAPI).unwrap();
        let schemas = description["components"]["schemas"].as_object().unwrap();
        let mut named = 0;
        for name in quoted(OPENAPI, "#/components/schemas/") {
            assert!(schemas.contains_key(name), "{name}");
            named += 1;
        }
        assert!(named > schemas.len());
    }
}
