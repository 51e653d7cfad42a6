//! etcd's election service: a lock whose holder publishes a value.

use futures_util::stream;
use meshlock_cluster::access::Verb;
use meshlock_cluster::names::LockName;
use meshlock_host::front::Admitted;
use tonic::{Request, Response, Status, async_trait};

use super::errors::{bad_name, not_watched, too_long, without_code};
use super::names::{label, place_of};
use super::{Answers, Etcd, wants_leader};
use crate::caller::caller_of;
use crate::proto::mvccpb::KeyValue;
use crate::proto::v3electionpb::election_server::Election;
use crate::proto::v3electionpb::{
    CampaignRequest, CampaignResponse, LeaderKey, LeaderRequest, LeaderResponse, ProclaimRequest,
    ProclaimResponse, ResignRequest, ResignResponse,
};
use crate::sessions::{HolderWatch, SessionKey};

/// Returns the lock of an election.
fn lock(name: &[u8]) -> Result<LockName, Status> {
    std::str::from_utf8(name).map_err(bad_name)?.parse().map_err(bad_name)
}

fn given(leader: Option<LeaderKey>) -> Result<LeaderKey, Status> {
    leader.ok_or_else(|| Status::unknown("\"leader\" field must be provided"))
}

impl Etcd {
    /// Returns the caller's key with this creation revision: the revision that it was told, or its fence.
    pub(super) fn key_created(&self, caller: &Admitted, name: &[u8], created: i64) -> Option<SessionKey> {
        self.sessions.key(caller, name).filter(|key| was_created(key, created))
    }

    /// Replaces the value of a key of this site.
    pub(super) fn proclaim_value(
        &self,
        caller: &Admitted,
        key: &SessionKey,
        value: Vec<u8>,
    ) -> Result<Option<SessionKey>, Status> {
        let (_, form) = place_of(&key.name, key.lease).map_err(bad_name)?;
        let who = label(&caller.principal, key.lease, form, &value).map_err(too_long)?;
        Ok(self.sessions.set_value(caller, &key.name, value, who))
    }

    fn leader_response(&self, kv: KeyValue) -> LeaderResponse {
        let revision = self.sessions.revision().max(kv.mod_revision);
        LeaderResponse { header: self.header(revision), kv: Some(kv) }
    }
}

#[async_trait]
impl Election for Etcd {
    async fn campaign(
        &self,
        request: Request<CampaignRequest>,
    ) -> Result<Response<CampaignResponse>, Status> {
        self.check_leader(&request)?;
        let caller = caller_of(&request)?;
        let CampaignRequest { name, lease, value } = request.into_inner();
        let known = self.sessions.key(&caller, &[&name, format!("/{lease:x}").as_bytes()].concat());
        if let Some(key) = known.filter(|key| key.value != value) {
            self.proclaim_value(&caller, &key, value.clone())?;
        }
        let (key, grant) = self.hold(&caller, &name, lease, value).await.map_err(without_code)?;
        let leader = LeaderKey { name, key: key.name, rev: key.revisions.created, lease: key.lease.number() };
        Ok(Response::new(CampaignResponse { header: self.header(grant.fence), leader: Some(leader) }))
    }

    async fn proclaim(
        &self,
        request: Request<ProclaimRequest>,
    ) -> Result<Response<ProclaimResponse>, Status> {
        self.check_leader(&request)?;
        let caller = caller_of(&request)?;
        let ProclaimRequest { leader, value } = request.into_inner();
        let leader = given(leader)?;
        let proclaimed = match self.key_created(&caller, &leader.key, leader.rev) {
            Some(key) => self.proclaim_value(&caller, &key, value)?,
            None => None,
        };
        proclaimed.ok_or_else(|| Status::unknown("election: not leader"))?;
        Ok(Response::new(ProclaimResponse { header: self.plain_header() }))
    }

    async fn leader(&self, request: Request<LeaderRequest>) -> Result<Response<LeaderResponse>, Status> {
        self.check_leader(&request)?;
        let caller = caller_of(&request)?;
        let holders = self.holders(&caller, Verb::Watch, &lock(&request.into_inner().name)?).await?;
        let leader = holders.into_iter().next().ok_or_else(|| Status::unknown("election: no leader"))?;
        Ok(Response::new(self.leader_response(leader)))
    }

    type ObserveStream = Answers<LeaderResponse>;

    async fn observe(
        &self,
        request: Request<LeaderRequest>,
    ) -> Result<Response<Self::ObserveStream>, Status> {
        self.check_leader(&request)?;
        let (caller, needs_leader) = (caller_of(&request)?, wants_leader(&request));
        let lock = lock(&request.into_inner().name)?;
        let watching = self.sessions.watch(&caller, Verb::Watch, &lock).map_err(not_watched)?;
        let observer = Observer { etcd: self.clone(), lock, watching, last: None, first: true };
        let answers = stream::unfold(observer, |mut observer| async move {
            let leader = observer.next().await?;
            Some((Ok(observer.etcd.leader_response(leader)), observer))
        });
        Ok(Response::new(self.while_read(Box::pin(answers), needs_leader)))
    }

    async fn resign(&self, request: Request<ResignRequest>) -> Result<Response<ResignResponse>, Status> {
        self.check_leader(&request)?;
        let caller = caller_of(&request)?;
        let leader = given(request.into_inner().leader)?;
        if self.key_created(&caller, &leader.key, leader.rev).is_some() {
            self.sessions.release(&caller, &leader.key);
        }
        Ok(Response::new(ResignResponse { header: self.plain_header() }))
    }
}

/// Returns whether the key has this creation revision.
pub(super) fn was_created(key: &SessionKey, created: i64) -> bool {
    key.revisions.created == created || key.grant().is_some_and(|grant| grant.fence == created)
}

/// A client that observes an election.
struct Observer {
    etcd: Etcd,
    lock: LockName,
    watching: HolderWatch,
    last: Option<KeyValue>,
    first: bool,
}

impl Observer {
    /// Waits for the next leader, or the next value of the same leader.
    async fn next(&mut self) -> Option<KeyValue> {
        loop {
            let holders = if std::mem::take(&mut self.first) {
                self.watching.first().await
            } else {
                self.watching.next().await?
            };
            let leader = self.etcd.as_keys(&self.lock, &holders).into_iter().next();
            if leader.is_some() && leader != self.last {
                self.last.clone_from(&leader);
                return leader;
            }
        }
    }
}
