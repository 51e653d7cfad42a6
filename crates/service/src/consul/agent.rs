//! What clients ask before they begin, and what is refused.

use axum::http::Method;
use axum::response::{IntoResponse, Response};
use meshlock_cluster::names::fnv_1a;
use serde_json::json;

use super::errors::Fault;
use super::{Consul, ids};

impl Consul {
    /// Who answers here.
    pub(super) fn this_node(&self) -> Response {
        let site = self.sessions.site().as_str();
        let version = concat!(env!("CARGO_PKG_VERSION"), "+meshlock");
        let id = ids::other(i64::try_from(fnv_1a(site.bytes()) >> 1).unwrap_or(0));
        axum::Json(json!({
            "Config": {
                "Datacenter": self.cluster, "NodeName": site, "NodeID": id, "Server": true, "Revision": "", "Version": version,
            },
            "Member": { "Name": site, "Status": 1, "Tags": { "dc": self.cluster, "role": "meshlock" } },
            "Meta": {},
        }))
        .into_response()
    }

    /// Where the site is reached that leads the cluster; nothing if none does.
    pub(super) async fn leader(&self) -> Result<Response, Fault> {
        let overview =
            self.sessions.front().overview_for_checked().await.map_err(|error| Fault::unanswered(&error))?;
        let leader = overview.leader.map(|leader| {
            overview.view.addresses.get(&leader).map_or_else(|| leader.to_string(), ToString::to_string)
        });
        Ok(axum::Json(leader.unwrap_or_default()).into_response())
    }

    /// Where all members are reached.
    pub(super) async fn peers(&self) -> Result<Response, Fault> {
        let overview =
            self.sessions.front().overview_for_checked().await.map_err(|error| Fault::unanswered(&error))?;
        let address = |member: &meshlock_cluster::names::Member| {
            overview
                .view
                .addresses
                .get(&member.site)
                .map_or_else(|| member.site.to_string(), ToString::to_string)
        };
        let peers: Vec<String> = overview.view.members.iter().map(address).collect();
        Ok(axum::Json(peers).into_response())
    }
}

/// What Consul serves besides, and Meshlock does not.
const ELSEWHERE: [&str; 13] = [
    "acl",
    "agent",
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

/// Whether a path that nobody serves here is one of Consul's.
pub(crate) fn is_elsewhere(path: &str) -> bool {
    let family = path.strip_prefix("/v1/").and_then(|rest| rest.split('/').next());
    family.is_some_and(|family| ELSEWHERE.contains(&family))
}

/// What Consul has and Meshlock has not.
pub(crate) fn not_here(method: &Method, path: &str) -> Response {
    Fault::not_a_lock(&format!("{method} {path:.100} is none of its calls")).into_response()
}
