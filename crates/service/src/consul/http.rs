//! Requests, taken apart for what answers them. Each carries its caller, put there by the server's guard.

use axum::Router;
use axum::body::Bytes;
use axum::extract::{Extension, Path, Query, State};
use axum::http::Method;
use axum::response::{IntoResponse, Response};
use axum::routing::{any, get, put};
use meshlock_host::front::Admitted;

use super::Consul;
use super::calls::{KvCall, Parameters};
use super::errors::Fault;

/// All that is served.
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
        .route("/v1/agent/self", get(async |State(consul): State<Consul>| consul.this_node()))
        .route("/v1/status/leader", get(async |State(consul): State<Consul>| consul.leader().await))
        .route("/v1/status/peers", get(async |State(consul): State<Consul>| consul.peers().await))
        .with_state(consul)
}

/// What stands behind the question mark, in order.
type Given = Query<Vec<(String, String)>>;

async fn create(
    State(consul): State<Consul>,
    Extension(caller): Extension<Admitted>,
    body: Bytes,
) -> Result<Response, Fault> {
    consul.create(&caller, &body)
}

async fn destroy(
    State(consul): State<Consul>,
    Extension(caller): Extension<Admitted>,
    Path(session): Path<String>,
) -> Result<Response, Fault> {
    consul.destroy(&caller, &session)
}

async fn renew(
    State(consul): State<Consul>,
    Extension(caller): Extension<Admitted>,
    Path(session): Path<String>,
) -> Result<Response, Fault> {
    consul.renew(&caller, &session)
}

async fn info(
    State(consul): State<Consul>,
    Extension(caller): Extension<Admitted>,
    Path(session): Path<String>,
    Query(given): Given,
) -> Result<Response, Fault> {
    consul.info(&caller, &session, Parameters(given).waits()?).await
}

async fn list(
    State(consul): State<Consul>,
    Extension(caller): Extension<Admitted>,
    Query(given): Given,
) -> Result<Response, Fault> {
    Ok(consul.list(&caller, Parameters(given).waits()?).await)
}

async fn list_of(
    State(consul): State<Consul>,
    Extension(caller): Extension<Admitted>,
    Path(node): Path<String>,
    Query(given): Given,
) -> Result<Response, Fault> {
    consul.list_of(&caller, &node, Parameters(given).waits()?).await
}

async fn kv_root(
    State(consul): State<Consul>,
    Extension(caller): Extension<Admitted>,
    method: Method,
    Query(given): Given,
    body: Bytes,
) -> Result<Response, Fault> {
    answer((&consul, &caller), &method, "", given, &body).await
}

async fn kv(
    State(consul): State<Consul>,
    Extension(caller): Extension<Admitted>,
    method: Method,
    Path(key): Path<String>,
    Query(given): Given,
    body: Bytes,
) -> Result<Response, Fault> {
    answer((&consul, &caller), &method, &key, given, &body).await
}

/// Every call about keys: here is known which lock it is about, and what it does to it.
async fn answer(
    (consul, caller): (&Consul, &Admitted),
    method: &Method,
    key: &str,
    given: Vec<(String, String)>,
    body: &[u8],
) -> Result<Response, Fault> {
    match KvCall::read(method, key, &Parameters(given))? {
        KvCall::Read { about, shown, waits } => {
            Ok(consul.read(caller, &about, &shown, waits).await?.into_response())
        }
        KvCall::Write { key, place, write } => {
            Ok(axum::Json(consul.write(caller, key, place, write, body).await?).into_response())
        }
    }
}
