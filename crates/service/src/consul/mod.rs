//! What Consul's clients speak, as far as it is about locks: sessions, keys that are acquired and released, and the document by
//! which its Go API counts the permits of a semaphore.
//!
//! ```text
//!  PUT /v1/session/create                          a lease of the ledger
//!  PUT /v1/kv/jobs?acquire=SESSION                 try to get the lock `jobs`: true or false
//!  GET /v1/kv/jobs?index=N&wait=10s                who holds it, as soon as that is different
//!  PUT /v1/kv/pool/.lock?cas=N  {"Limit":2,…}      try to get a permit of the semaphore `pool`, or give it back
//! ```
//!
//! Keys are virtual: each is somebody's place at a lock, and gone when it is given back. What Meshlock does not do is refused with
//! a sentence that says so. `docs/consul.md` lists every difference.

mod agent;
mod blocking;
mod calls;
mod document;
mod duration;
mod errors;
mod ids;
mod indexes;
mod kv;
mod names;
mod records;
mod sessions;
#[cfg(test)]
mod tests;
mod view;

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{SystemTime, UNIX_EPOCH};

use axum::Router;
use axum::body::Bytes;
use axum::extract::{Path, Query, State};
use axum::http::Method;
use axum::response::{IntoResponse, Response};
use axum::routing::{any, get, put};
use tokio::sync::watch;

use crate::desk::Desk;
use calls::{KvCall, Parameters};
use errors::Fault;
use indexes::Indexes;
use records::Records;

/// Consul's API. Clones are the same.
#[derive(Clone)]
pub(crate) struct Consul(Arc<Inner>);

pub(crate) struct Inner {
    desk: Desk,
    cluster: String,
    records: Mutex<Records>,
    indexes: Mutex<Indexes>,
    /// Rises whenever a session is created or destroyed, or what it has here changes.
    touched: watch::Sender<u64>,
}

impl std::ops::Deref for Consul {
    type Target = Inner;
    fn deref(&self) -> &Inner {
        &self.0
    }
}

impl Consul {
    pub(crate) fn new(desk: Desk, cluster: &str) -> Self {
        // An index that a client has from an earlier life of this site is not taken for one of this life.
        let started = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_millis();
        Consul(Arc::new(Inner {
            desk,
            cluster: cluster.to_owned(),
            records: Mutex::default(),
            indexes: Mutex::new(Indexes::new(u64::try_from(started).unwrap_or(1))),
            touched: watch::Sender::new(0),
        }))
    }

    /// All that is served, and what is refused by name.
    pub(crate) fn routes(&self) -> Router {
        let mut router = Router::new()
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
            .route("/v1/agent/{*rest}", any(agent::not_here));
        for family in ELSEWHERE {
            router = router
                .route(&format!("/v1/{family}"), any(agent::not_here))
                .route(&format!("/v1/{family}/{{*rest}}"), any(agent::not_here));
        }
        router.with_state(self.clone())
    }

    fn records(&self) -> MutexGuard<'_, Records> {
        self.records.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn indexes(&self) -> MutexGuard<'_, Indexes> {
        self.indexes.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn touch(&self) {
        self.touched.send_modify(|count| *count += 1);
    }
}

/// What Consul serves besides, and Meshlock does not.
const ELSEWHERE: [&str; 12] = [
    "acl",
    "catalog",
    "config",
    "connect",
    "coordinate",
    "event",
    "health",
    "internal",
    "operator",
    "query",
    "snapshot",
    "txn",
];

/// What stands behind the question mark, in order.
type Given = Query<Vec<(String, String)>>;

async fn create(State(consul): State<Consul>, body: Bytes) -> Result<Response, Fault> {
    consul.create(&body)
}

async fn destroy(State(consul): State<Consul>, Path(session): Path<String>) -> Result<Response, Fault> {
    consul.destroy(&session)
}

async fn renew(State(consul): State<Consul>, Path(session): Path<String>) -> Result<Response, Fault> {
    consul.renew(&session)
}

async fn info(
    State(consul): State<Consul>,
    Path(session): Path<String>,
    Query(given): Given,
) -> Result<Response, Fault> {
    consul.info(&session, Parameters(given).waits()?).await
}

async fn list(State(consul): State<Consul>, Query(given): Given) -> Result<Response, Fault> {
    Ok(consul.list(Parameters(given).waits()?).await)
}

async fn list_of(
    State(consul): State<Consul>,
    Path(node): Path<String>,
    Query(given): Given,
) -> Result<Response, Fault> {
    consul.list_of(&node, Parameters(given).waits()?).await
}

async fn kv_root(
    State(consul): State<Consul>,
    method: Method,
    Query(given): Given,
    body: Bytes,
) -> Result<Response, Fault> {
    answer(&consul, &method, "", given, &body).await
}

async fn kv(
    State(consul): State<Consul>,
    method: Method,
    Path(key): Path<String>,
    Query(given): Given,
    body: Bytes,
) -> Result<Response, Fault> {
    answer(&consul, &method, &key, given, &body).await
}

/// Every call about keys: here is known which lock it is about, and what it does to it.
async fn answer(
    consul: &Consul,
    method: &Method,
    key: &str,
    given: Vec<(String, String)>,
    body: &[u8],
) -> Result<Response, Fault> {
    match KvCall::read(method, key, &Parameters(given))? {
        KvCall::Read { about, shown, waits } => Ok(consul.read(&about, &shown, waits).await?.into_response()),
        KvCall::Write { key, place, write } => {
            Ok(axum::Json(consul.write(key, place, write, body).await?).into_response())
        }
    }
}
