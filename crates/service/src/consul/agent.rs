//! Calls that clients make before they lock something, and calls that are refused.

use std::net::SocketAddr;

use axum::http::Method;
use axum::response::{IntoResponse, Response};
use meshlock_cluster::names::fnv_1a;
use meshlock_cluster::node::Overview;
use meshlock_host::front::Admitted;
use serde_json::json;

use super::errors::ConsulError;
use super::{Consul, ids};

impl Consul {
    /// Describes this site as a Consul agent.
    pub(super) fn this_node(&self, served_at: Option<SocketAddr>) -> Response {
        let site = self.sessions.site().as_str();
        let version = concat!(env!("CARGO_PKG_VERSION"), "+meshlock");
        let id = ids::other(i64::try_from(fnv_1a(site.bytes()) >> 1).unwrap_or(0));
        let (address, port) = served_at.map_or((String::new(), 0), |at| (at.ip().to_string(), at.port()));
        axum::Json(json!({
            "Config": {
                "Datacenter": self.cluster, "NodeName": site, "NodeID": id, "Server": true, "Revision": "", "Version": version,
            },
            "Member": {
                "Name": site, "Addr": address, "Port": port, "Status": 1,
                "Tags": { "dc": self.cluster, "role": "meshlock" },
            },
            "Meta": {},
        }))
        .into_response()
    }

    async fn overview(&self, caller: &Admitted) -> Result<Box<Overview>, ConsulError> {
        let overview = self.sessions.front().overview(caller).await;
        overview.map_err(|error| ConsulError::unanswered(&error))
    }

    /// Returns the address of the leader; empty if there is none.
    pub(super) async fn leader(&self, caller: &Admitted) -> Result<Response, ConsulError> {
        let overview = self.overview(caller).await?;
        let leader = overview.leader.map(|leader| {
            overview.view.addresses.get(&leader).map_or_else(|| leader.to_string(), ToString::to_string)
        });
        Ok(axum::Json(leader.unwrap_or_default()).into_response())
    }

    /// Returns the addresses of all members.
    pub(super) async fn peers(&self, caller: &Admitted) -> Result<Response, ConsulError> {
        let overview = self.overview(caller).await?;
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

/// Families of Consul's calls that Meshlock does not serve.
const UNSUPPORTED: [&str; 13] = [
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

/// Returns whether a path that is not served is one of Consul's.
pub(crate) fn is_unsupported(path: &str) -> bool {
    let family = path.strip_prefix("/v1/").and_then(|rest| rest.split('/').next());
    family.is_some_and(|family| UNSUPPORTED.contains(&family))
}

/// Answers a call that Consul has and Meshlock does not serve.
pub(crate) fn unsupported(method: &Method, path: &str) -> Response {
    ConsulError::not_a_lock(&format!("{method} {path:.100} is not supported")).into_response()
}
