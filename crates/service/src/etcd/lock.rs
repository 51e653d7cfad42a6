//! etcd's lock service.

use meshlock_cluster::names::LockName;
use meshlock_cluster::table::Wait;
use meshlock_host::front::Admitted;
use tonic::{Request, Response, Status, async_trait};

use super::errors::{as_its_services_say, bad_name, too_long};
use super::names::{Form, key_of, label};
use super::{Etcd, leases};
use crate::caller::caller_of;
use crate::metrics::SessionEnd;
use crate::proto::v3lockpb::lock_server::Lock;
use crate::proto::v3lockpb::{LockRequest, LockResponse, UnlockRequest, UnlockResponse};
use crate::sessions::registry::{Grant, LeaseId, NewKey};
use crate::sessions::{IfKnown, KeyRequest, NotHeld, SessionKey};

/// How long whoever brings no lease may keep a lock, in seconds.
const WITHOUT_A_LEASE: i64 = 60;

impl Etcd {
    /// Waits for a lock under `name/lease`.
    pub(super) async fn hold(
        &self,
        caller: &Admitted,
        name: &[u8],
        lease: i64,
        value: Vec<u8>,
    ) -> Result<(SessionKey, Grant), Status> {
        let lock: LockName = std::str::from_utf8(name).map_err(bad_name)?.parse().map_err(bad_name)?;
        let (lease, mut lent) = match lease {
            0 => {
                let id = self.sessions.grant(caller, leases::lasts(WITHOUT_A_LEASE), None);
                let id = id.map_err(|error| self.not_held(NotHeld::Registry(error)))?;
                (id, Some(Lent { etcd: self, lease: Some(id) }))
            }
            id => (LeaseId::new(id).ok_or_else(super::errors::lease_not_found)?, None),
        };
        let who = label(lease, Form::Hex, &value).map_err(too_long)?;
        let wanted = NewKey { name: key_of(&lock, lease, Form::Hex), lock, lease, value };
        let order = KeyRequest { wanted, wait: Wait::Forever, who, if_known: IfKnown::Join };
        let held = self.sessions.acquire(caller, order, None).await.map_err(|error| self.not_held(error))?;
        if let Some(lent) = &mut lent {
            lent.lease = None;
        }
        Ok(held)
    }
}

/// A lease that was made for one lock: if whoever waits goes away, nobody else has it.
struct Lent<'a> {
    etcd: &'a Etcd,
    lease: Option<LeaseId>,
}

impl Drop for Lent<'_> {
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
        let (key, grant) = self.hold(&caller, &name, lease, Vec::new()).await.map_err(as_its_services_say)?;
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
