//! etcd's lease service.

use futures_util::StreamExt;
use futures_util::future::ready;
use meshlock_cluster::time::Span;
use meshlock_host::front::Admitted;
use meshlock_host::gate::RequestKind;
use meshlock_system::now;
use tonic::{Request, Response, Status, Streaming, async_trait};

use super::{Answers, Etcd};
use crate::caller::caller_of;
use crate::proto::etcdserverpb::lease_server::Lease;
use crate::proto::etcdserverpb::{
    LeaseGrantRequest, LeaseGrantResponse, LeaseKeepAliveRequest, LeaseKeepAliveResponse, LeaseLeasesRequest,
    LeaseLeasesResponse, LeaseRevokeRequest, LeaseRevokeResponse, LeaseStatus, LeaseTimeToLiveRequest,
    LeaseTimeToLiveResponse,
};
use crate::sessions::AcquireError;
use crate::sessions::registry::{LeaseDuration, LeaseId};

/// The shortest lease in seconds, as with an etcd of default settings; shorter ones are extended to it.
const MIN_TTL: i64 = 2;

/// Maximum number of leases that one stream renews at the same time.
const MAX_RENEWALS: usize = 64;

/// The longest lease, as with etcd.
const MAX_TTL: i64 = 9_000_000_000;

/// Converts a time to live in seconds.
pub(super) fn lasts(seconds: i64) -> LeaseDuration {
    LeaseDuration::For(Span::from_millis(u64::try_from(seconds).unwrap_or(0).saturating_mul(1000)))
}

/// Converts to whole seconds, as etcd does.
fn seconds(span: Option<Span>) -> i64 {
    // A lease that lasts as long as its connection has no end.
    span.map_or(MAX_TTL, |span| i64::try_from(span.micros() / 1_000_000).unwrap_or(MAX_TTL))
}

impl Etcd {
    pub(super) fn keep_alive(&self, caller: &Admitted, id: i64) -> Result<LeaseKeepAliveResponse, Status> {
        let renewed = LeaseId::new(id).map(|lease| (lease, self.sessions.renew(caller, lease)));
        let ttl = match renewed {
            Some((_, Some(lasts))) => seconds(lasts.span()),
            Some((_, None)) | None => 0,
        };
        Ok(LeaseKeepAliveResponse { header: self.plain_header(), id, ttl })
    }
}

#[async_trait]
impl Lease for Etcd {
    async fn lease_grant(
        &self,
        request: Request<LeaseGrantRequest>,
    ) -> Result<Response<LeaseGrantResponse>, Status> {
        self.check_leader(&request)?;
        let caller = caller_of(&request)?;
        let LeaseGrantRequest { ttl, id } = request.into_inner();
        if ttl > MAX_TTL {
            return Err(Status::out_of_range("etcdserver: too large lease TTL"));
        }
        let ttl = ttl.max(MIN_TTL);
        let granted = match id {
            0 => self.sessions.grant(&caller, lasts(ttl), None),
            id => {
                let id = LeaseId::new(id).ok_or_else(|| {
                    Status::invalid_argument(
                        "meshlock: the number of a lease is positive; give 0 to have one chosen",
                    )
                })?;
                self.sessions.grant_as(&caller, id, lasts(ttl), None).map(|()| id)
            }
        };
        let id = granted.map_err(|error| self.not_held(AcquireError::Registry(error)))?.number();
        Ok(Response::new(LeaseGrantResponse { header: self.plain_header(), id, ttl, error: String::new() }))
    }

    async fn lease_revoke(
        &self,
        request: Request<LeaseRevokeRequest>,
    ) -> Result<Response<LeaseRevokeResponse>, Status> {
        self.check_leader(&request)?;
        let caller = caller_of(&request)?;
        let id = request.into_inner().id;
        let lease = LeaseId::new(id);
        if !lease.is_some_and(|lease| self.sessions.revoke(&caller, lease)) {
            return Err(super::errors::lease_not_found());
        }
        Ok(Response::new(LeaseRevokeResponse { header: self.plain_header() }))
    }

    type LeaseKeepAliveStream = Answers<LeaseKeepAliveResponse>;

    async fn lease_keep_alive(
        &self,
        request: Request<Streaming<LeaseKeepAliveRequest>>,
    ) -> Result<Response<Self::LeaseKeepAliveStream>, Status> {
        self.check_leader(&request)?;
        let (etcd, caller) = (self.clone(), caller_of(&request)?);
        let answers = request.into_inner().map(move |asked| {
            let (etcd, caller) = (etcd.clone(), caller.clone());
            async move {
                let asked = etcd.pace(&caller, RequestKind::Renew).and(asked);
                match asked {
                    Ok(asked) => etcd.keep_alive_anywhere(&caller, asked.id).await,
                    Err(status) => Some(Err(status)),
                }
            }
        });
        // A site that does not answer delays the leases of the others by nothing.
        let answers = answers.buffer_unordered(MAX_RENEWALS).filter_map(ready);
        Ok(Response::new(self.while_read(Box::pin(answers))))
    }

    async fn lease_time_to_live(
        &self,
        request: Request<LeaseTimeToLiveRequest>,
    ) -> Result<Response<LeaseTimeToLiveResponse>, Status> {
        self.check_leader(&request)?;
        let caller = caller_of(&request)?;
        let LeaseTimeToLiveRequest { id, keys } = request.into_inner();
        let lease = LeaseId::new(id);
        let mut answer = LeaseTimeToLiveResponse { id, ttl: -1, ..LeaseTimeToLiveResponse::default() };
        let now = now();
        if let Some(lease) = lease
            && let Some(found) = self.sessions.registry().lease(lease, &caller.principal, now)
        {
            (answer.ttl, answer.granted_ttl) = (seconds(found.left(now)), seconds(found.lasts.span()));
            if keys {
                answer.keys = found.keys.iter().cloned().collect();
            }
        }
        answer.header = self.plain_header();
        Ok(Response::new(answer))
    }

    async fn lease_leases(
        &self,
        request: Request<LeaseLeasesRequest>,
    ) -> Result<Response<LeaseLeasesResponse>, Status> {
        self.check_leader(&request)?;
        let leases = self.sessions.registry().leases_of(&caller_of(&request)?.principal, now());
        let leases = leases.into_iter().map(|id| LeaseStatus { id: id.number() }).collect();
        Ok(Response::new(LeaseLeasesResponse { header: self.plain_header(), leases }))
    }
}
