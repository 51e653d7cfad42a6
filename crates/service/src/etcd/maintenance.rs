//! The status of this site in etcd's format.

use meshlock_cluster::names::fnv_1a;
use tonic::{Request, Response, Status, async_trait};

use super::Etcd;
use super::errors::no_answer;
use crate::caller::caller_of;
use crate::proto::etcdserverpb::maintenance_server::Maintenance;
use crate::proto::etcdserverpb::{StatusRequest, StatusResponse};

/// The version of etcd whose clients are supported, and ours.
const VERSION: &str = concat!("3.5.0+meshlock.", env!("CARGO_PKG_VERSION"));

#[async_trait]
impl Maintenance for Etcd {
    async fn status(&self, request: Request<StatusRequest>) -> Result<Response<StatusResponse>, Status> {
        self.check_leader(&request)?;
        let caller = caller_of(&request)?;
        let overview = self.sessions.front().overview(&caller).await.map_err(no_answer)?;
        let epoch = u64::from(overview.view.epoch.number());
        let front = self.sessions.front();
        let no_leader = (!front.is_ready()).then(|| "etcdserver: no leader".to_owned());
        let errors = no_leader.into_iter().chain(front.disk_failure()).collect();
        Ok(Response::new(StatusResponse {
            header: self.plain_header(),
            version: VERSION.to_owned(),
            // There is no database.
            db_size: 0,
            leader: overview.leader.map_or(0, |leader| fnv_1a(leader.as_str().bytes())),
            // The agreed state consists of views.
            raft_index: epoch,
            raft_term: epoch,
            raft_applied_index: epoch,
            errors,
            db_size_in_use: 0,
            is_learner: false,
        }))
    }
}
