//! etcd's lock service.

use meshlock_cluster::names::LockName;
use meshlock_cluster::table::Wait;
use meshlock_host::front::Admitted;
use tonic::{Request, Response, Status, async_trait};

use super::errors::{bad_name, too_long, without_code};
use super::names::{Form, key_of, label};
use super::{Etcd, leases};
use crate::caller::caller_of;
use crate::metrics::SessionEnd;
use crate::proto::v3lockpb::lock_server::Lock;
use crate::proto::v3lockpb::{LockRequest, LockResponse, UnlockRequest, UnlockResponse};
use crate::sessions::registry::{KeyGrant, LeaseId, NewKey};
use crate::sessions::{AcquireError, IfKnown, KeyRequest, SessionKey};

/// Time to live, in seconds, of the lease for a client that brings none.
const WITHOUT_A_LEASE: i64 = 60;

impl Etcd {
    /// Waits for a lock with the key `name/lease`.
    pub(super) async fn hold(
        &self,
        caller: &Admitted,
        name: &[u8],
        lease: i64,
        value: Vec<u8>,
    ) -> Result<(SessionKey, KeyGrant), Status> {
        let lock: LockName = std::str::from_utf8(name).map_err(bad_name)?.parse().map_err(bad_name)?;
        let (lease, mut temporary) = match lease {
            0 => {
                let id = self.sessions.grant(caller, leases::lasts(WITHOUT_A_LEASE), None);
                let id = id.map_err(|error| self.not_held(AcquireError::Registry(error)))?;
                (id, Some(TemporaryLease { etcd: self, lease: Some(id) }))
            }
            id => (LeaseId::new(id).ok_or_else(super::errors::lease_not_found)?, None),
        };
        let who = label(&caller.principal, lease, Form::Hex, &value).map_err(too_long)?;
        let wanted = NewKey { name: key_of(&lock, lease, Form::Hex), lock, lease, value };
        let request = KeyRequest { wanted, wait: Wait::Forever, permits: None, who, if_known: IfKnown::Join };
        let held = self.sessions.acquire(caller, request).await.map_err(|error| self.not_held(error))?;
        if let Some(temporary) = &mut temporary {
            temporary.lease = None;
        }
        Ok(held)
    }
}

/// A lease that was made for one lock. It ends if the client goes away while it waits.
struct TemporaryLease<'a> {
    etcd: &'a Etcd,
    lease: Option<LeaseId>,
}

impl Drop for TemporaryLease<'_> {
    fn drop(&mut self) {
        if let Some(lease) = self.lease {
            self.etcd.sessions.end_lease(lease, SessionEnd::CallEnded);
        }
    }
}

#[async_trait]
impl Lock for Etcd {
    async fn lock(&self, request: Request<LockRequest>) -> Result<Response<LockResponse>, Status> {
        self.check_leader(&request)?;
        let caller = caller_of(&request)?;
        let LockRequest { name, lease } = request.into_inner();
        let (key, grant) = self.hold(&caller, &name, lease, Vec::new()).await.map_err(without_code)?;
        Ok(Response::new(LockResponse { header: self.header(grant.fence), key: key.name }))
    }

    async fn unlock(&self, request: Request<UnlockRequest>) -> Result<Response<UnlockResponse>, Status> {
        self.check_leader(&request)?;
        let caller = caller_of(&request)?;
        let key = request.into_inner().key;
        if key.is_empty() {
            return Err(Status::unknown("etcdserver: key is not provided"));
        }
        self.remove(&caller, &key).await?;
        Ok(Response::new(UnlockResponse { header: self.plain_header() }))
    }
}
