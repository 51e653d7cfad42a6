//! etcd's lease service.

use meshlock_cluster::time::Span;
use meshlock_host::front::Admitted;
use meshlock_system::now;
use tonic::{Request, Response, Status, Streaming, async_trait};

use super::errors::{lease_not_found, no_leader, stopped};
use super::keep_alive::KeepAlive;
use super::{Answers, Etcd, wants_leader};
use crate::caller::caller_of;
use crate::forward::ForwardedBy;
use crate::proto::etcdserverpb::lease_server::Lease;
use crate::proto::etcdserverpb::{
    LeaseGrantRequest, LeaseGrantResponse, LeaseKeepAliveRequest, LeaseKeepAliveResponse, LeaseLeasesRequest,
    LeaseLeasesResponse, LeaseRevokeRequest, LeaseRevokeResponse, LeaseTimeToLiveRequest,
    LeaseTimeToLiveResponse,
};
use crate::sessions::registry::{LeaseDuration, LeaseId};
use crate::sessions::{AcquireError, REACTION};

/// The shortest lease in seconds, as with an etcd of default settings; shorter ones are extended to it.
const MIN_TTL: i64 = 2;

/// The longest lease, as with etcd.
const MAX_TTL: i64 = 9_000_000_000;

/// Converts a time to live in seconds.
pub(super) fn lasts(seconds: i64) -> LeaseDuration {
    LeaseDuration::For(Span::from_millis(u64::try_from(seconds).unwrap_or(0).saturating_mul(1000)))
}

/// Converts to whole seconds, as etcd does.
fn seconds(span: Span) -> i64 {
    i64::try_from(span.micros() / 1_000_000).unwrap_or(MAX_TTL)
}

/// Returns what the client of a lease is told: the time that it asked for, or is left of it, but no more than the site promises. A lease
/// that lasts as long as its connection has no end of its own.
pub(super) fn told(lasts: Option<Span>, promise: Span) -> i64 {
    seconds(lasts.map_or(promise, |lasts| lasts.min(promise)))
}

impl Etcd {
    /// Restarts the time of the caller's lease, which is kept for as long as the caller has asked for. Returns that time; `None` if there
    /// is no such lease here any more.
    pub(super) fn renew(&self, caller: &Admitted, id: i64) -> Option<LeaseDuration> {
        self.sessions.renew(caller, LeaseId::new(id)?)
    }

    pub(super) fn renewed(&self, id: i64, ttl: i64) -> LeaseKeepAliveResponse {
        LeaseKeepAliveResponse { header: self.plain_header(), id, ttl }
    }

    /// Restarts the time of a lease, in a call of its own.
    pub(super) async fn keep_alive(
        &self,
        caller: &Admitted,
        id: i64,
    ) -> Result<LeaseKeepAliveResponse, Status> {
        let over = || if self.is_elsewhere(id) { Err(stopped()) } else { Ok(self.renewed(id, 0)) };
        let Some(lasts) = self.renew(caller, id) else { return over() };
        let promise = self.sessions.until_promised().await;
        // It may have been lost meanwhile.
        if !self.is_alive(caller, id) {
            return over();
        }
        let promise = promise.ok_or_else(no_leader)?.min(self.promise_for(id));
        match told(lasts.span(), promise) {
            // It is not over, but nothing can be promised now.
            0 => Err(no_leader()),
            ttl => Ok(self.renewed(id, ttl)),
        }
    }

    /// Returns for how long the client of a lease may rely on what it holds without another word.
    pub(super) fn promise_for(&self, id: i64) -> Span {
        LeaseId::new(id).map_or(Span::ZERO, |lease| self.sessions.promise_for(lease))
    }

    /// Returns whether the lease was here and goes on at another site.
    pub(super) fn is_elsewhere(&self, id: i64) -> bool {
        LeaseId::new(id).is_some_and(|lease| self.sessions.is_elsewhere(lease))
    }

    /// Returns whether the caller has this lease here, and can renew it.
    pub(super) fn is_alive(&self, caller: &Admitted, id: i64) -> bool {
        let is_known = |lease| self.sessions.registry().lease(lease, &caller.principal, now()).is_some();
        LeaseId::new(id).is_some_and(is_known)
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
        self.sessions
            .check_seconds()
            .map_err(|why| Status::failed_precondition(format!("meshlock: {why}")))?;
        let promise = self.sessions.until_promised().await.ok_or_else(no_leader)?;
        let lasts = lasts(ttl.max(MIN_TTL));
        let granted = match id {
            0 => self.sessions.grant(&caller, lasts, None),
            id => {
                let id = LeaseId::new(id).ok_or_else(|| {
                    Status::invalid_argument(
                        "meshlock: the number of a lease is positive; give 0 to have one chosen",
                    )
                })?;
                self.sessions.grant_as(&caller, id, lasts, None).map(|()| id)
            }
        };
        let id = granted.map_err(|error| self.not_held(AcquireError::Registry(error)))?;
        // Its locks stay taken until its client must have noticed that it could not renew it.
        self.sessions.set_delay(id, REACTION, None);
        let (id, ttl) = (id.number(), told(lasts.span(), promise));
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
            return Err(lease_not_found());
        }
        Ok(Response::new(LeaseRevokeResponse { header: self.plain_header() }))
    }

    type LeaseKeepAliveStream = Answers<LeaseKeepAliveResponse>;

    async fn lease_keep_alive(
        &self,
        request: Request<Streaming<LeaseKeepAliveRequest>>,
    ) -> Result<Response<Self::LeaseKeepAliveStream>, Status> {
        self.check_leader(&request)?;
        let (caller, needs_leader) = (caller_of(&request)?, wants_leader(&request));
        let answers = KeepAlive::new(self.clone(), caller, request.into_inner()).answers();
        // It says itself that leases are over when this site stops.
        Ok(Response::new(self.while_read_until(answers, None, needs_leader)))
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
        let (now, promise) = (now(), self.promise_for(id));
        if let Some(lease) = lease
            && let Some(found) = self.sessions.registry().lease(lease, &caller.principal, now)
        {
            answer.ttl = told(found.left(now), promise);
            answer.granted_ttl = told(found.lasts.span(), promise);
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
        let caller = caller_of(&request)?;
        if request.extensions().get::<ForwardedBy>().is_some() {
            return Ok(Response::new(self.leases_here(&caller)));
        }
        Ok(Response::new(self.leases_anywhere(&caller).await?))
    }
}
