//! Calls through the whole server except its sockets: who may make them.

mod consul;
mod forwarded;
mod hostile;
mod node_lock;
mod pages;
mod rights;
mod routes;
mod sessions;

use std::sync::Arc;

use axum::Router;
use axum::body::{Body, to_bytes};
use axum::http::{HeaderMap, Request, StatusCode};
use meshlock_cluster::access::{Access, RuleText, TokenHash, Tokens, Verb};
use meshlock_cluster::node::Config;
use meshlock_host::front::Front;
use meshlock_host::gate::{Audit, Each, Gate, Policy};
use meshlock_host::{Engine, NodeSetup};
use meshlock_testing::{async_test, in_time};
use serde_json::Value;
use tower_service::Service;

use super::connection::RemoteClient;
use super::router;
use crate::sessions::Sessions;
use crate::sessions::registry::ApiLimits;

const ALL: [Verb; 4] = [Verb::Acquire, Verb::Watch, Verb::Break, Verb::Admin];

/// A node and its API without a port. The token of a client is its name, three times.
struct TestServer {
    router: Router,
    gate: Arc<Gate>,
    sessions: Sessions,
    _engine: Engine,
}

/// An answer.
#[derive(Debug)]
struct TestResponse {
    status: StatusCode,
    headers: HeaderMap,
    body: Value,
}

fn token_of(name: &str) -> String {
    [name, name, name].concat()
}

impl TestServer {
    fn new(rules: &[(&str, &str, &[Verb])], names: &[&str]) -> Self {
        TestServer::with(rules, names, Each::default())
    }

    fn with(rules: &[(&str, &str, &[Verb])], names: &[&str], each: Each) -> Self {
        let rule = |(principal, locks, verbs): &(&str, &str, &[Verb])| RuleText {
            principal: (*principal).to_owned(),
            locks: (*locks).to_owned(),
            verbs: verbs.to_vec(),
        };
        let access = Access::new(&rules.iter().map(rule).collect::<Vec<_>>()).unwrap();
        let token = |name: &&str| (name.parse().unwrap(), TokenHash::of(&token_of(name)));
        let tokens = Tokens::new(names.iter().map(token).collect()).unwrap();
        let gate = Arc::new(Gate::new(Policy { access, tokens }, each, Audit::default()));
        let site: meshlock_cluster::names::SiteName = "local".parse().unwrap();
        let engine = Engine::start(NodeSetup::new(Config::new(site.clone(), vec![site]))).unwrap();
        let sessions = Sessions::open(Front::new(engine.clone(), gate.clone()), ApiLimits::default());
        TestServer { router: router(&sessions), gate, sessions, _engine: engine }
    }

    /// Makes a JSON call with the token of `who`, over a connection without a certificate.
    async fn call(&self, who: Option<&str>, method: &str, path: &str, body: &str) -> TestResponse {
        self.send(
            RemoteClient::unknown(),
            who.map(token_of).as_deref(),
            method,
            path,
            ("application/json", body),
        )
        .await
    }

    async fn send(
        &self,
        peer: Arc<RemoteClient>,
        token: Option<&str>,
        method: &str,
        path: &str,
        (kind, body): (&str, &str),
    ) -> TestResponse {
        let mut request = Request::builder().method(method).uri(path).header("content-type", kind);
        if let Some(token) = token {
            request = request.header("authorization", format!("Bearer {token}"));
        }
        let mut request = request.body(Body::from(body.to_owned())).unwrap();
        request.extensions_mut().insert(peer);
        let response = in_time("an answer", self.router.clone().call(request)).await.unwrap();
        let (parts, body) = response.into_parts();
        // A stream does not end, and a refused call is not answered with a stream.
        let is_stream = parts.headers.get("content-type").is_some_and(|kind| kind == "application/x-ndjson");
        let bytes = if is_stream {
            Vec::new()
        } else {
            in_time("all of the answer", to_bytes(body, 1 << 20)).await.unwrap().to_vec()
        };
        let body = serde_json::from_slice(&bytes).unwrap_or(Value::Null);
        TestResponse { status: parts.status, headers: parts.headers, body }
    }

    async fn post(&self, who: &str, path: &str, body: Value) -> TestResponse {
        self.call(Some(who), "POST", path, &body.to_string()).await
    }
}
