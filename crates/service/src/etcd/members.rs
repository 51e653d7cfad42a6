//! What etcd's clients ask before they lock something: the version, whether the server is healthy, and who the members are.

use axum::http::StatusCode;
use axum::response::{IntoResponse, Response as HttpResponse};
use meshlock_cluster::names::fnv_1a;
use serde_json::json;
use tonic::{Request, Response, Status, async_trait};

use super::Etcd;
use super::errors::no_answer;
use crate::caller::{ServedAt, caller_of};
use crate::proto::etcdserverpb::cluster_server::Cluster;
use crate::proto::etcdserverpb::{Member, MemberListRequest, MemberListResponse};

/// The version of etcd whose clients are supported.
pub(super) const SERVER: &str = "3.5.0";

#[async_trait]
impl Cluster for Etcd {
    /// Lists the members. A client is told the address of the one that it has reached: sites do not know each other's addresses for
    /// clients.
    async fn member_list(
        &self,
        request: Request<MemberListRequest>,
    ) -> Result<Response<MemberListResponse>, Status> {
        self.check_leader(&request)?;
        let (caller, served_at) = (caller_of(&request)?, request.extensions().get::<ServedAt>());
        let overview = self.sessions.front().overview(&caller).await.map_err(no_answer)?;
        let here = self.sessions.site();
        let member = |member: &meshlock_cluster::names::Member| {
            let site = &member.site;
            let peer = overview.view.addresses.get(site).map(|address| format!("http://{address}"));
            let client = served_at.filter(|_| site == here).map(ServedAt::url);
            Member {
                id: fnv_1a(site.as_str().bytes()),
                name: site.as_str().to_owned(),
                peer_ur_ls: peer.into_iter().collect(),
                client_ur_ls: client.into_iter().collect(),
                is_learner: false,
            }
        };
        let members = overview.view.members.iter().map(member).collect();
        Ok(Response::new(MemberListResponse { header: self.plain_header(), members }))
    }
}

impl Etcd {
    /// Answers `/version`.
    pub(super) fn version() -> HttpResponse {
        axum::Json(json!({ "etcdserver": SERVER, "etcdcluster": SERVER })).into_response()
    }

    /// Answers `/health`: whether this site grants locks.
    pub(super) fn health(&self) -> HttpResponse {
        match self.sessions.front().why_not_ready() {
            None => axum::Json(json!({ "health": "true" })).into_response(),
            Some(reason) => {
                let unhealthy = json!({ "health": "false", "reason": reason });
                (StatusCode::SERVICE_UNAVAILABLE, axum::Json(unhealthy)).into_response()
            }
        }
    }
}
