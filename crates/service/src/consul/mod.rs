//! Consul's API, as far as it is about locks: sessions, keys that are acquired and released, and the document by
//! which Consul's Go API counts the permits of a semaphore.
//!
//! ```text
//!  PUT /v1/session/create                          a lease of the registry
//!  PUT /v1/kv/jobs?acquire=SESSION                 try to acquire the lock `jobs`: true or false
//!  GET /v1/kv/jobs?index=N&wait=10s                who holds it, as soon as that changes
//!  PUT /v1/kv/pool/.lock?cas=N  {"Limit":2,…}      acquire or release a permit of the semaphore `pool`
//! ```
//!
//! Keys are virtual: each stands for one client's request for a lock, and is gone when the lock is released. What
//! Meshlock does not do is refused with a sentence that says so. `docs/consul.md` lists every difference.

mod agent;
mod anywhere;
mod blocking;
mod calls;
mod document;
mod duration;
mod errors;
mod http;
mod ids;
mod indexes;
mod kv;
mod mirrored;
mod names;
mod records;
mod sessions;
#[cfg(test)]
mod tests;
mod trees;
mod view;

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{SystemTime, UNIX_EPOCH};

use axum::Router;
use tokio::sync::watch;

use crate::sessions::Sessions;
pub(crate) use agent::{is_unsupported, unsupported};
pub(crate) use anywhere::{lease_of, percent_decoded, subject_of_key};
use indexes::Indexes;
use mirrored::ConsulCompanion;
use records::Records;

/// Consul's API. Clones share the same state.
#[derive(Clone)]
pub(crate) struct Consul(Arc<Inner>);

/// What all clones of [`Consul`] share.
pub(crate) struct Inner {
    sessions: Sessions,
    cluster: String,
    records: Mutex<Records>,
    indexes: Mutex<Indexes>,
    /// Incremented whenever a session is created or destroyed, or its keys change.
    touched: watch::Sender<u64>,
}

impl std::ops::Deref for Consul {
    type Target = Inner;
    fn deref(&self) -> &Inner {
        &self.0
    }
}

impl Consul {
    pub(crate) fn new(sessions: Sessions, cluster: &str) -> Self {
        // Indexes of an earlier incarnation of this site must not be mistaken for indexes of this one.
        let started = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_millis();
        let indexes = Indexes::new(sessions.site().as_str(), u64::try_from(started).unwrap_or(1));
        let inner = Arc::new(Inner {
            sessions,
            cluster: cluster.to_owned(),
            records: Mutex::default(),
            indexes: Mutex::new(indexes),
            touched: watch::Sender::new(0),
        });
        inner.sessions.accompany(Box::new(ConsulCompanion(Arc::downgrade(&inner))));
        Consul(inner)
    }

    /// Returns all routes.
    pub(crate) fn routes(&self) -> Router {
        http::routes(self.clone())
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
