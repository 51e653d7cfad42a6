//! HTTP handlers of Consul's API. Each request carries its caller, attached by the server's guard.

use axum::Router;
use axum::body::Bytes;
use axum::extract::{Extension, Path, Query, State};
use axum::http::{Method, Uri};
use axum::response::{IntoResponse, Response};
use axum::routing::{any, get, put};
use meshlock_host::front::Admitted;

use super::Consul;
use super::calls::{KvCall, Parameters};
use super::errors::ConsulError;
use crate::caller::ServedAt;
use crate::forward::ForwardedBy;

/// Returns all routes.
pub(super) fn routes(consul: Consul) -> Router {
    Router::new()
        .route("/v1/session/create", put(create))
        .route("/v1/session/destroy/{session}", put(destroy))
        .route("/v1/session/renew/{session}", put(renew))
        .route("/v1/session/info/{session}", get(info))
        .route("/v1/session/node/{node}", get(list_of))
        .route("/v1/session/list", get(list))
        .route("/v1/kv/", any(kv_root))
        .route("/v1/kv/{*key}", any(kv))
        .route("/v1/agent/self", get(agent))
        .route("/v1/status/leader", get(leader))
        .route("/v1/status/peers", get(peers))
        .with_state(consul)
}

async fn agent(State(consul): State<Consul>, served_at: Option<Extension<ServedAt>>) -> Response {
    consul.this_node(served_at.map(|Extension(at)| at.address))
}

/// The query parameters in order.
type Given = Query<Vec<(String, String)>>;

async fn create(
    State(consul): State<Consul>,
    Extension(caller): Extension<Admitted>,
    body: Bytes,
) -> Result<Response, ConsulError> {
    consul.create(&caller, &body)
}

async fn destroy(
    State(consul): State<Consul>,
    Extension(caller): Extension<Admitted>,
    Path(session): Path<String>,
) -> Result<Response, ConsulError> {
    consul.destroy(&caller, &session)
}

async fn renew(
    State(consul): State<Consul>,
    Extension(caller): Extension<Admitted>,
    Path(session): Path<String>,
) -> Result<Response, ConsulError> {
    consul.renew(&caller, &session).await
}

async fn info(
    State(consul): State<Consul>,
    Extension(caller): Extension<Admitted>,
    Path(session): Path<String>,
    Query(given): Given,
) -> Result<Response, ConsulError> {
    consul.info(&caller, &session, Parameters(given).waits()?).await
}

async fn list(
    State(consul): State<Consul>,
    Extension(caller): Extension<Admitted>,
    Query(given): Given,
) -> Result<Response, ConsulError> {
    consul.list(&caller, Parameters(given).waits()?).await
}

async fn leader(
    State(consul): State<Consul>,
    Extension(caller): Extension<Admitted>,
) -> Result<Response, ConsulError> {
    consul.leader(&caller).await
}

async fn peers(
    State(consul): State<Consul>,
    Extension(caller): Extension<Admitted>,
) -> Result<Response, ConsulError> {
    consul.peers(&caller).await
}

async fn list_of(
    State(consul): State<Consul>,
    Extension(caller): Extension<Admitted>,
    Path(node): Path<String>,
    Query(given): Given,
) -> Result<Response, ConsulError> {
    consul.list_of(&caller, &node, Parameters(given).waits()?).await
}

async fn kv_root(
    State(consul): State<Consul>,
    Extension(caller): Extension<Admitted>,
    method: Method,
    Query(given): Given,
    body: Bytes,
) -> Result<Response, ConsulError> {
    answer((&consul, &caller), &method, "", given, (&body, None)).await
}

async fn kv(
    State(consul): State<Consul>,
    Extension(caller): Extension<Admitted>,
    forwarded: Option<Extension<ForwardedBy>>,
    (method, uri): (Method, Uri),
    Path(key): Path<String>,
    Query(given): Given,
    body: Bytes,
) -> Result<Response, ConsulError> {
    // What was forwarded once is not forwarded again.
    let target = uri.path_and_query().map(|target| target.as_str()).filter(|_| forwarded.is_none());
    answer((&consul, &caller), &method, &key, given, (&body, target)).await
}

/// Answers all calls about keys: from here on the lock and the operation are known. `target` is how another site is asked to do the
/// same, if it may be.
async fn answer(
    (consul, caller): (&Consul, &Admitted),
    method: &Method,
    key: &str,
    given: Vec<(String, String)>,
    (body, target): (&[u8], Option<&str>),
) -> Result<Response, ConsulError> {
    match KvCall::read(method, key, &Parameters(given))? {
        KvCall::Read { target, format, waits } => {
            Ok(consul.read(caller, &target, &format, waits).await?.into_response())
        }
        KvCall::Write { key, path, write } => {
            Ok(axum::Json(consul.write(caller, key, path, write, (body, target)).await?).into_response())
        }
        KvCall::DeleteTree { prefix, lock } => {
            consul.delete_tree(caller, &prefix, &lock, target).await?;
            Ok(axum::Json(true).into_response())
        }
    }
}
