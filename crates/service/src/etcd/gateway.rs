//! etcd's calls as JSON over HTTP, on etcd's paths: bytes are base64, 64-bit numbers are strings, and zeros are
//! omitted.

use std::future::Future;

use axum::Router;
use axum::body::{Body, Bytes};
use axum::extract::Extension;
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use futures_util::{Stream, StreamExt, stream};
use meshlock_host::front::Admitted;
use serde::Serialize;
use serde::de::DeserializeOwned;
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;
use tonic::metadata::{MetadataMap, MetadataValue};
use tonic::{Code, Request, Status};

use super::watch::Watches;
use super::{Answers, Etcd, wants_leader};
use crate::caller::{ServedAt, request_of};
use crate::proto::etcdserverpb::WatchRequest;
use crate::proto::etcdserverpb::auth_server::Auth;
use crate::proto::etcdserverpb::cluster_server::Cluster;
use crate::proto::etcdserverpb::kv_server::Kv;
use crate::proto::etcdserverpb::lease_server::Lease;
use crate::proto::etcdserverpb::maintenance_server::Maintenance;
use crate::proto::etcdserverpb::{LeaseKeepAliveRequest, WatchResponse};
use crate::proto::v3electionpb::election_server::Election;
use crate::proto::v3lockpb::lock_server::Lock;

/// Adds a route for each call that has one answer.
macro_rules! unary {
    ($router:expr, $etcd:expr, $($path:literal => $call:ident),* $(,)?) => {{
        let router = $router;
        $(
            let etcd = $etcd.clone();
            let router = router.route($path, post(move |caller: Extension<Admitted>, headers: HeaderMap, body: Bytes| {
                let etcd = etcd.clone();
                unary(caller, headers, body, |request| async move { etcd.$call(request).await })
            }));
        )*
        router
    }};
}

pub(super) fn routes(etcd: Etcd) -> Router {
    let router = unary!(Router::new(), etcd,
        "/v3/lock/lock" => lock,
        "/v3/lock/unlock" => unlock,
        "/v3/lease/grant" => lease_grant,
        "/v3/lease/revoke" => lease_revoke,
        "/v3/kv/lease/revoke" => lease_revoke,
        "/v3/lease/timetolive" => lease_time_to_live,
        "/v3/kv/lease/timetolive" => lease_time_to_live,
        "/v3/lease/leases" => lease_leases,
        "/v3/kv/lease/leases" => lease_leases,
        "/v3/election/campaign" => campaign,
        "/v3/election/proclaim" => proclaim,
        "/v3/election/leader" => leader,
        "/v3/election/resign" => resign,
        "/v3/kv/range" => range,
        "/v3/kv/put" => put,
        "/v3/kv/deleterange" => delete_range,
        "/v3/kv/txn" => txn,
        "/v3/maintenance/status" => status,
        "/v3/auth/authenticate" => authenticate,
    );
    let (observed, alive, watched) = (etcd.clone(), etcd.clone(), etcd.clone());
    let router = router.merge(first_questions(etcd));
    router
        .route(
            "/v3/election/observe",
            post(move |caller: Extension<Admitted>, headers: HeaderMap, body: Bytes| async move {
                match read(&caller, &headers, &body) {
                    Ok(request) => observed
                        .observe(request)
                        .await
                        .map_or_else(refuse, |said| streamed(said.into_inner())),
                    Err(status) => refuse(status),
                }
            }),
        )
        .route(
            "/v3/lease/keepalive",
            post(move |caller: Extension<Admitted>, headers: HeaderMap, body: Bytes| async move {
                let request = match read::<LeaseKeepAliveRequest>(&caller, &headers, &body) {
                    Ok(request) => request.into_inner(),
                    Err(status) => return refuse(status),
                };
                let renewed = alive.keep_alive(&caller, request.id).await;
                renewed.map_or_else(refuse, |renewed| streamed(stream::iter([Ok(renewed)])))
            }),
        )
        .route(
            "/v3/watch",
            post(move |caller: Extension<Admitted>, headers: HeaderMap, body: Bytes| async move {
                read(&caller, &headers, &body)
                    .map_or_else(refuse, |request| streamed(watch(watched, caller.0, request)))
            }),
        )
}

/// Returns the routes of what clients ask before they lock something.
fn first_questions(etcd: Etcd) -> Router {
    let healthy = etcd.clone();
    Router::new()
        .route("/version", get(|| async { Etcd::version() }))
        .route("/health", get(move || async move { healthy.health() }))
        .route(
            "/v3/cluster/member/list",
            post(
                move |caller: Extension<Admitted>,
                      served_at: Option<Extension<ServedAt>>,
                      headers: HeaderMap,
                      body: Bytes| {
                    unary(caller, headers, body, move |mut request| async move {
                        if let Some(Extension(at)) = served_at {
                            request.extensions_mut().insert(at);
                        }
                        etcd.member_list(request).await
                    })
                },
            ),
        )
}

async fn unary<Q, A, F>(
    caller: Extension<Admitted>,
    headers: HeaderMap,
    body: Bytes,
    call: impl FnOnce(Request<Q>) -> F,
) -> Response
where
    Q: DeserializeOwned,
    A: Serialize,
    F: Future<Output = Result<tonic::Response<A>, Status>>,
{
    let request = match read(&caller, &headers, &body) {
        Ok(request) => request,
        Err(status) => return refuse(status),
    };
    match call(request).await {
        Ok(answer) => json(StatusCode::OK, &answer.into_inner()),
        Err(status) => refuse(status),
    }
}

fn read<Q: DeserializeOwned>(
    caller: &Admitted,
    headers: &HeaderMap,
    body: &Bytes,
) -> Result<Request<Q>, Status> {
    let text: &[u8] = if body.is_empty() { b"{}" } else { body };
    let message =
        serde_json::from_slice(text).map_err(|error| Status::invalid_argument(error.to_string()))?;
    let mut request = request_of(caller, message);
    // The gateway's name for the metadata `hasleader`.
    if headers.get("grpc-metadata-hasleader").is_some_and(|value| value == "true") {
        let mut metadata = MetadataMap::new();
        metadata.insert("hasleader", MetadataValue::from_static("true"));
        *request.metadata_mut() = metadata;
    }
    Ok(request)
}

/// Starts the one watch that a request can contain.
fn watch(etcd: Etcd, caller: Admitted, request: Request<WatchRequest>) -> Answers<WatchResponse> {
    let (out, answers) = mpsc::channel(1);
    let (watched, needs_leader) = (etcd.clone(), wants_leader(&request));
    let request = request.into_inner();
    tokio::spawn(async move {
        let mut watches = Watches::new(watched, caller, out.clone());
        if let Some(request) = request.request_union
            && watches.on_request(request).await.is_ok()
        {
            out.closed().await;
        }
    });
    etcd.while_read(Box::pin(ReceiverStream::new(answers)), needs_leader)
}

fn streamed<T: Serialize>(answers: impl Stream<Item = Result<T, Status>> + Send + 'static) -> Response {
    let lines = answers.map(|answer| {
        let line = match answer {
            Ok(result) => serde_json::json!({ "result": result }),
            Err(status) => serde_json::json!({ "error": gateway_error(&status) }),
        };
        Ok::<_, std::convert::Infallible>(format!("{line}\n"))
    });
    ([(header::CONTENT_TYPE, "application/json")], Body::from_stream(lines)).into_response()
}

/// The JSON body of an error.
#[derive(Serialize)]
struct GatewayError<'a> {
    error: &'a str,
    message: &'a str,
    code: i32,
}

fn gateway_error(status: &Status) -> GatewayError<'_> {
    GatewayError { error: status.message(), message: status.message(), code: status.code() as i32 }
}

#[expect(clippy::needless_pass_by_value, reason = "it is passed to `map_or_else`")]
pub(crate) fn refuse(status: Status) -> Response {
    json(http_code(status.code()), &gateway_error(&status))
}

fn json(code: StatusCode, body: &impl Serialize) -> Response {
    match serde_json::to_vec(body) {
        Ok(body) => (code, [(header::CONTENT_TYPE, "application/json")], body).into_response(),
        Err(error) => (StatusCode::INTERNAL_SERVER_ERROR, error.to_string()).into_response(),
    }
}

/// Translates codes as etcd's gateway does.
pub(crate) fn http_code(code: Code) -> StatusCode {
    match code {
        Code::Ok => StatusCode::OK,
        Code::InvalidArgument | Code::OutOfRange => StatusCode::BAD_REQUEST,
        Code::Cancelled | Code::DeadlineExceeded => StatusCode::REQUEST_TIMEOUT,
        Code::NotFound => StatusCode::NOT_FOUND,
        Code::AlreadyExists | Code::Aborted => StatusCode::CONFLICT,
        Code::PermissionDenied => StatusCode::FORBIDDEN,
        Code::Unauthenticated => StatusCode::UNAUTHORIZED,
        Code::ResourceExhausted => StatusCode::TOO_MANY_REQUESTS,
        Code::FailedPrecondition => StatusCode::PRECONDITION_FAILED,
        Code::Unimplemented => StatusCode::NOT_IMPLEMENTED,
        Code::Unavailable => StatusCode::SERVICE_UNAVAILABLE,
        Code::Unknown | Code::Internal | Code::DataLoss => StatusCode::INTERNAL_SERVER_ERROR,
    }
}
