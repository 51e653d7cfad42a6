//! Calls through all of the server but its sockets: who may make them.

mod consul;
mod hostile;
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
use meshlock_host::{Engine, Setup};
use meshlock_testing::in_time;
use serde_json::Value;
use tower_service::Service;

use super::connection::Peer;
use super::router;
use crate::sessions::Sessions;
use crate::sessions::registry::Limits;

const ALL: [Verb; 4] = [Verb::Acquire, Verb::Watch, Verb::Break, Verb::Admin];

/// A node and its API without a port. The token of a client is its name, thrice.
struct House {
    router: Router,
    gate: Arc<Gate>,
    sessions: Sessions,
    _engine: Engine,
}

/// What was answered.
#[derive(Debug)]
struct Said {
    status: StatusCode,
    headers: HeaderMap,
    body: Value,
}

fn token_of(name: &str) -> String {
    [name, name, name].concat()
}

impl House {
    fn new(rules: &[(&str, &str, &[Verb])], names: &[&str]) -> Self {
        House::with(rules, names, Each::default())
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
        let engine = Engine::start(Setup::new(Config::new(site.clone(), vec![site]))).unwrap();
        let sessions = Sessions::open(Front::new(engine.clone(), gate.clone()), Limits::default());
        House { router: router(&sessions), gate, sessions, _engine: engine }
    }

    /// A call of JSON, by whoever shows this token over a connection that shows nothing.
    async fn call(&self, who: Option<&str>, method: &str, path: &str, body: &str) -> Said {
        self.send(Peer::unknown(), who.map(token_of).as_deref(), method, path, ("application/json", body))
            .await
    }

    async fn send(
        &self,
        peer: Arc<Peer>,
        token: Option<&str>,
        method: &str,
        path: &str,
        (kind, body): (&str, &str),
    ) -> Said {
        let mut request = Request::builder().method(method).uri(path).header("content-type", kind);
        if let Some(token) = token {
            request = request.header("authorization", format!("Bearer {token}"));
        }
        let mut request = request.body(Body::from(body.to_owned())).unwrap();
        request.extensions_mut().insert(peer);
        let response = in_time("an answer", self.router.clone().call(request)).await.unwrap();
        let (parts, body) = response.into_parts();
        // A stream has no end, and whoever is refused is not streamed anything.
        let is_stream = parts.headers.get("content-type").is_some_and(|kind| kind == "application/x-ndjson");
        let bytes = if is_stream {
            Vec::new()
        } else {
            in_time("all of the answer", to_bytes(body, 1 << 20)).await.unwrap().to_vec()
        };
        let body = serde_json::from_slice(&bytes).unwrap_or(Value::Null);
        Said { status: parts.status, headers: parts.headers, body }
    }

    async fn post(&self, who: &str, path: &str, body: Value) -> Said {
        self.call(Some(who), "POST", path, &body.to_string()).await
    }
}
