//! etcd's API, as far as it is about locks: leases, the lock and election services, and those keys, transactions and
//! watches that lock recipes use.
//!
//! Keys are virtual: each stands for one client's request for a lock. A waiting client sees one key in front of its
//! own. The deletion of that key is the grant, whoever held the lock before and at whatever site:
//!
//! ```text
//!  jobs/4d.before   created at 6        deleted when the node grants `jobs` to the lease 4d
//!  jobs/4d          created at 7
//! ```
//!
//! What Meshlock does not do is refused with a sentence that says so. `docs/etcd.md` lists every difference.

mod anywhere;
mod auth;
mod election;
mod errors;
mod gateway;
mod keep_alive;
mod kv;
mod lease_list;
mod leases;
mod lock;
mod maintenance;
mod members;
mod names;
mod ranges;
mod shapes;
#[cfg(test)]
mod tests;
mod view;
mod watch;

use meshlock_cluster::names::fnv_1a;
use meshlock_host::front::Admitted;
use meshlock_host::gate::RequestKind;
use tonic::service::Routes;
use tonic::{Request, Status};

use crate::proto::etcdserverpb::ResponseHeader;
use crate::proto::etcdserverpb::auth_server::AuthServer;
use crate::proto::etcdserverpb::cluster_server::ClusterServer;
use crate::proto::etcdserverpb::kv_server::KvServer;
use crate::proto::etcdserverpb::lease_server::LeaseServer;
use crate::proto::etcdserverpb::maintenance_server::MaintenanceServer;
use crate::proto::etcdserverpb::watch_server::WatchServer;
use crate::proto::v3electionpb::election_server::ElectionServer;
use crate::proto::v3lockpb::lock_server::LockServer;
use crate::sessions::{Sessions, StreamEnd, until_end};
use crate::slow_reader::{Answers, while_read};
pub(crate) use anywhere::{subject_of_range, subject_of_txn};
pub(crate) use gateway::{http_code, refuse as refused};
pub(crate) use lease_list::LEASES;
pub(crate) use names::{BEFORE, leases_of_key};

/// etcd's services. Clones share the same state.
#[derive(Clone)]
pub(crate) struct Etcd {
    sessions: Sessions,
    cluster_id: u64,
    member_id: u64,
}

impl Etcd {
    pub(crate) fn new(sessions: Sessions, cluster: &str) -> Self {
        let member_id = fnv_1a(sessions.site().as_str().bytes());
        Etcd { sessions, cluster_id: fnv_1a(cluster.bytes()), member_id }
    }

    /// Adds the gRPC services.
    pub(crate) fn grpc(&self, routes: Routes) -> Routes {
        let max = self.sessions.limits().request_bytes;
        routes
            .add_service(AuthServer::new(self.clone()).max_decoding_message_size(max))
            .add_service(ClusterServer::new(self.clone()).max_decoding_message_size(max))
            .add_service(LockServer::new(self.clone()).max_decoding_message_size(max))
            .add_service(LeaseServer::new(self.clone()).max_decoding_message_size(max))
            .add_service(ElectionServer::new(self.clone()).max_decoding_message_size(max))
            .add_service(KvServer::new(self.clone()).max_decoding_message_size(max))
            .add_service(WatchServer::new(self.clone()).max_decoding_message_size(max))
            .add_service(MaintenanceServer::new(self.clone()).max_decoding_message_size(max))
    }

    /// Returns the same calls as JSON over HTTP.
    pub(crate) fn gateway(&self) -> axum::Router {
        gateway::routes(self.clone())
    }

    /// Builds the header of an answer with this revision.
    #[expect(clippy::unnecessary_wraps, reason = "the field of the messages is optional")]
    fn header(&self, revision: i64) -> Option<ResponseHeader> {
        let raft_term = u64::from(self.sessions.front().epoch());
        Some(ResponseHeader { cluster_id: self.cluster_id, member_id: self.member_id, revision, raft_term })
    }

    /// Builds the header of an answer that is not about a grant.
    fn plain_header(&self) -> Option<ResponseHeader> {
        let revision = self.sessions.revision();
        self.header(revision)
    }

    /// Streams `answers` for as long as the client reads them, this site serves and, if the client wants that, has a leader.
    fn while_read<T: Send + 'static>(&self, answers: Answers<T>, needs_leader: bool) -> Answers<T> {
        self.while_read_until(answers, Some(errors::stopped()), needs_leader)
    }

    /// The same, with what the stream is told when this site stops; `None` if it says so itself.
    fn while_read_until<T: Send + 'static>(
        &self,
        answers: Answers<T>,
        closing: Option<Status>,
        needs_leader: bool,
    ) -> Answers<T> {
        let no_leader = needs_leader.then(errors::no_leader);
        let answers = until_end(&self.sessions, answers, StreamEnd { closing, no_leader });
        while_read(answers, self.sessions.limits().slow_reader, || {})
    }

    /// Applies the rate limit to a request within a long call, as if it were a call of its own.
    fn pace(&self, caller: &Admitted, kind: RequestKind) -> Result<(), Status> {
        let counted = self.sessions.front().admit_again(caller, kind);
        counted.map_err(|error| Status::resource_exhausted(format!("meshlock: {error}")))
    }

    /// Fails if the client requires a leader and this site is not ready.
    fn check_leader<T>(&self, request: &Request<T>) -> Result<(), Status> {
        if wants_leader(request) && !self.sessions.has_leader() { Err(errors::no_leader()) } else { Ok(()) }
    }
}

fn wants_leader<T>(request: &Request<T>) -> bool {
    request.metadata().get("hasleader").is_some_and(|value| value == "true")
}
